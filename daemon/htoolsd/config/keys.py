"""Checks of the keys of the configuration file, besides those that the reader of records has."""

import os
from collections.abc import Callable, Sequence

from ganeti_htools.model.errors import DataError
from ganeti_htools.records import CONDITIONS, Reader, RecordError, RecordReader, Valid

FIXED = object()  # a note: a change of the key needs a restart of the daemon

_BEYOND = 1_000_000_000  # numbers are smaller: 31 years, 953 TiB


def _positive(number: str) -> Sequence[Valid]:
    expected = f"{number} greater than 0"
    below = Valid(f"{expected} and less than {_BEYOND}", lambda value: value < _BEYOND)
    return [Valid(expected, lambda value: value > 0), below]


FILE = RecordReader(
    {**CONDITIONS, int: _positive("a whole number"), float: _positive("a number")},
    objects="a table, [{}]",
    strict=True,
)


class ConfigError(RecordError):
    """Errors of a configuration."""

    def __str__(self) -> str:
        count = len(self.lines)
        more = f"; errors in all: {count} (--check-config lists them)" if count > 1 else ""
        return self.lines[0] + more


def checked(check: Callable[[str], object]) -> Reader:
    """Return a reader of strings; ``check`` raises DataError for a bad one. The empty string is accepted."""

    def read(where: str, value: object) -> str:
        text: str = FILE.read(str, where, value)
        try:
            if text:
                check(text)
        except DataError as error:
            raise DataError(f"{where}: {error}") from None
        return text

    return read


def check_program(path: str) -> None:
    """Check the form of a program's path. Raises DataError."""
    if not (os.path.isabs(path) and path.isprintable()):
        raise DataError("expected the absolute path of a program, without arguments")


def program_problem(path: str) -> str | None:
    """Return why a program cannot be run; None if it can, and for an empty path."""
    if path and not (os.path.isfile(path) and os.access(path, os.X_OK, effective_ids=True)):
        return f"{path}: expected a program that can be executed"
    return None


def one_of(*choices: str) -> Reader:
    """Return a reader that accepts these strings."""

    def read(where: str, value: object) -> str:
        text: str = FILE.read(str, where, value)
        if text not in choices:
            raise DataError(f"{where}: expected one of {', '.join(choices)}, not '{text}'")
        return text

    return read
