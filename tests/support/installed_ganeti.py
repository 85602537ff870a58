"""The Ganeti that is installed on this machine: its version must not decide the outcome of a test."""

from pathlib import Path

from ganeti_htools.sources import installed


def ignore() -> None:
    """Let this process and its forks find no installed Ganeti."""
    installed.CONSTANTS = Path("/nonexistent")
