"""The version, as installed. It takes long to find out, so programs import this only where they tell it."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("htoolsd")
except PackageNotFoundError:  # run from a copy of the source
    VERSION = ""


def title(program: str) -> str:
    """A program and its version, like "hbal (htoolsd) version 1.2"."""
    return f"{program} (htoolsd) version {VERSION}" if VERSION else f"{program} (htoolsd), not installed"
