"""Paths of our programs where a shell finds others of the same name, as Debian's ``hbal``."""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path


def hidden_programs() -> dict[str, str]:
    """Return the paths, by name, of those programs beside htoolsd or htoolsctl that a shell does not find."""
    program = Path(sys.argv[0]).resolve()
    return {
        file.name: str(file)
        for file in (program.parent.iterdir() if program.name in ("htoolsd", "htoolsctl") else ())
        if (found := shutil.which(file.name)) is None or Path(found).resolve() != file.resolve()
    }


def typed(command: str, paths: Mapping[str, str]) -> str:
    """Return a command as it works in a shell: with the path of a program that is hidden there."""
    name, blank, rest = command.partition(" ")
    return f"{paths.get(name, name)}{blank}{rest}"
