"""What the tools load when they start."""

import subprocess
import sys
from collections.abc import Set

import pytest

from ganeti_htools.commandline.programs import PROGRAMS

SLOW = {"httpx", "importlib.metadata", "structlog", "trio"}
SLOW_OURS = {"ganeti_htools.version", "ganeti_htools.execution.execute", "ganeti_htools.client"}


def modules(script: str) -> set[str]:
    """The modules that are loaded after a script."""
    text = f"{script}\nimport sys; print('loaded:', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("loaded:")[2].split())


@pytest.mark.parametrize("option", ["--help", "--version", "--help-completion"])
def test_help_and_version_load_neither_numpy_nor_engine(option: str) -> None:
    loaded = modules(
        f"""
import contextlib, sys
from ganeti_htools.cli import htools
for tool in {list(PROGRAMS)}:
    sys.argv = [tool, "{option}"]
    with contextlib.suppress(SystemExit):
        getattr(htools, tool)()
"""
    )
    assert "ganeti_htools.commandline.programs" in loaded
    assert not {"numpy", "orjson", "trio", "ganeti_htools.engine"} & loaded


@pytest.mark.parametrize("tools", [{"hail"}, PROGRAMS.keys() - {"hail", "harep", "hscan"}])
def test_slow_modules_are_not_loaded(tools: Set[str]) -> None:
    loaded = modules("\n".join(f"import ganeti_htools.cli.{tool}" for tool in tools))
    assert not (SLOW | SLOW_OURS) & loaded
    assert ("orjson" in loaded) == ("hail" in tools)


def test_htoolsctl_asks_without_numpy_and_engine() -> None:
    loaded = modules("import ganeti_htools.cli.htoolsctl")
    assert "ganeti_htools.client.calls" in loaded
    assert not {"numpy", "trio", "httpx", "ganeti_htools.engine"} & loaded
