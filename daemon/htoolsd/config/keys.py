"""Checks of the keys of the configuration file, besides those that the reader of records has."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ganeti_htools.model.errors import DataError
from ganeti_htools.records import CONDITIONS, Reader, RecordReader, Valid

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


class ConfigError(DataError):
    """Errors of a configuration, a line each. The text has the first, ``valid`` the right values."""

    def __init__(self, lines: Sequence[str], valid: Mapping[str, Any]) -> None:
        more = f"; errors in all: {len(lines)} (--check-config lists them)" if len(lines) > 1 else ""
        super().__init__(lines[0] + more)
        self.lines = lines
        self.valid = valid


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


def one_of(*choices: str) -> Reader:
    """Return a reader that accepts these strings."""

    def check(text: str) -> None:
        if text not in choices:
            raise DataError(f"expected one of {', '.join(choices)}, not '{text}'")

    return checked(check)
