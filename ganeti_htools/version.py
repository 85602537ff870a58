"""The installed version. Looking it up is slow, so programs import this module only to print it."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("htoolsd")
except PackageNotFoundError:  # run from a copy of the source
    VERSION = ""


def title(program: str) -> str:
    """A program and its version, like "hbal (htoolsd) version 1.2"."""
    return f"{program} (htoolsd) version {VERSION}" if VERSION else f"{program} (htoolsd), not installed"
