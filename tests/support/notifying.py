"""Notifications in tests."""

from pathlib import Path


def recording_program(directory: Path, more: str = "") -> Path:
    """A program that appends its standard input to the file ``messages`` beside it, as a line, and more."""
    program = directory / "alarm"
    program.write_text(
        f"#!/bin/sh\nread -r message; printf '%s\\n' \"$message\" >>{directory}/messages\n{more}"
    )
    program.chmod(0o755)
    return program
