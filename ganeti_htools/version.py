"""The installed version. Looking it up is slow, so programs import this module only to print it."""

import subprocess
import time
from argparse import Action
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, metadata, version
from pathlib import Path
from typing import Any

try:
    VERSION = version("htoolsd")
except PackageNotFoundError:  # run from a copy of the source
    VERSION = ""


def title(program: str) -> str:
    """A program and its version, like "hbal (htoolsd) version 1.2"."""
    return f"{program} (htoolsd) version {VERSION}" if VERSION else f"{program} (htoolsd), not installed"


def build() -> str:
    """Return what tells builds of a version apart: the commit with its date, or the date of the files.

    ``packaging/`` writes the commit into the file BUILD; in a checkout git is asked.
    """
    here = Path(__file__).parent
    with suppress(OSError):
        return (here / "BUILD").read_text("utf-8").strip()
    if (here.parent / ".git").exists():
        with suppress(OSError):
            command = ["git", "-C", str(here.parent), "log", "-1", "--format=commit %h of %cs"]
            asked = subprocess.run(command, capture_output=True, text=True, check=False)
            if asked.returncode == 0:
                return asked.stdout.strip()
    newest = max(file.stat().st_mtime for file in here.rglob("*.py"))
    return f"files of {time.strftime('%Y-%m-%d', time.gmtime(newest))}"


def issues() -> str:
    """Return the address to which faults are reported (``[project.urls]`` of pyproject.toml)."""
    urls = metadata("htoolsd").get_all("Project-URL", []) if VERSION else []
    return next((url.partition(", ")[2] for url in urls if url.startswith("Issues, ")), "")


class ShowVersion(Action):
    """The option ``--version`` of a program whose options argparse reads."""

    def __call__(self, parser: Any, *_: object) -> None:
        """Print the version, and exit."""
        print(f"{parser.prog} {VERSION}, {build()}")
        parser.exit()
