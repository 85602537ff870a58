"""Values as people write them: whole numbers, fractions, sizes with units, one of several words.

The notation is Haskell's (leading blanks, ``-``, ``1.5e3``) without hexadecimal and parenthesised forms.
All figures are bounded, so that damaged files cause no overflow.
"""

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TypeVar

from ganeti_htools.model.cluster import MAX_MIB
from ganeti_htools.model.errors import DataError

T = TypeVar("T")
Kind = TypeVar("Kind", bound=Enum)

_WHOLE = re.compile(r"\s*(-?[0-9]+)")
_NUMBER = re.compile(r"\s*(-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)")
_SIZE = re.compile(r"\s*([0-9]+) *([A-Za-z]*)")
_DURATION = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?) *([a-z]*)")
_SECONDS = {"": 1, "s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400}

_MEGABYTE = (1000 * 1000, 1024 * 1024)
_FACTORS = {
    "": (1, 1),
    "m": (1, 1),
    "g": (1024, 1),
    "t": (1024 * 1024, 1),
    "M": _MEGABYTE,
    "G": (1000 * _MEGABYTE[0], _MEGABYTE[1]),
    "T": (1000 * 1000 * _MEGABYTE[0], _MEGABYTE[1]),
}
_LONG = {"mib": "m", "gib": "g", "tib": "t", "mb": "M", "gb": "G", "tb": "T"}


def quote(text: str) -> str:
    """Quote foreign text for an error message, on one line and not too long."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def read(reader: Callable[[str], T], text: str, *place: str) -> T:
    """Convert ``text`` by ``reader``; an error that it raises is prefixed with the place."""
    try:
        return reader(text)
    except DataError as error:
        raise DataError(": ".join((*place, str(error)))) from error


def several(text: str, separator: str) -> tuple[str, ...]:
    """Split a text; an empty text has no parts."""
    return tuple(text.split(separator)) if text else ()


def choice(text: str, choices: Mapping[str, T]) -> T:
    """Return the value in ``choices`` for ``text``. Raises DataError."""
    if text not in choices:
        raise DataError(f"expected one of {', '.join(choices)}, not {quote(text)}")
    return choices[text]


def member(text: str, kind: type[Kind]) -> Kind:
    """Return the member of an enumeration of words. Raises DataError."""
    try:
        return kind(text)
    except ValueError:
        words = ", ".join(each.value for each in kind)
        raise DataError(f"expected one of {words}, not {quote(text)}") from None


def whole(text: str, low: int = 0, high: int = MAX_MIB) -> int:
    """A whole number within bounds. Raises DataError."""
    match = _WHOLE.fullmatch(text)
    # Python refuses to convert thousands of digits, and such a number is out of bounds anyway.
    if match and len(match[1]) < 40 and low <= (value := int(match[1])) <= high:
        return value
    raise DataError(f"cannot parse string {quote(text)}, expected a whole number from {low} to {high}")


def number(text: str) -> float:
    """A number from 0 to MAX_MIB. Raises DataError."""
    match = _NUMBER.fullmatch(text)
    if match and 0 <= (value := float(match[1])) <= MAX_MIB:
        return value
    raise DataError(f"cannot parse string {quote(text)}, expected a number from 0 to {MAX_MIB}")


def size(text: str) -> int:
    """MiB from a whole number and a unit (``htools(1)``, "Units"), rounded down. Raises DataError.

    ``m g t`` and, in any case, ``mib gib tib`` are binary, ``M G T`` and ``mb gb tb`` decimal; no
    unit is MiB.
    """
    match = _SIZE.fullmatch(text)
    if match and len(match[1]) < 40:
        factor = _FACTORS.get(_LONG.get(match[2].lower(), match[2]))
        if factor is None:
            raise DataError(f"unknown unit {quote(match[2])} in {quote(text)}, expected m, g, t, M, G or T")
        value = int(match[1]) * factor[0] // factor[1]
        if value <= MAX_MIB:
            return value
    raise DataError(f"cannot parse string {quote(text)}, expected a size such as 8g, at most {MAX_MIB} MiB")


def binary_size(text: str) -> int:
    """MiB as :func:`size` reads them, but ``M G T`` are binary as well. For options that Debian's lack."""
    return size(text.lower() if re.fullmatch(r"[\s0-9]*[MGT]", text) else text)


def duration(text: str) -> float:
    """Read seconds from a number and a unit: s, min (or m), h or d; no unit is seconds. Raises DataError."""
    match = _DURATION.fullmatch(text)
    if match and match[2] in _SECONDS and (value := float(match[1]) * _SECONDS[match[2]]) <= MAX_MIB:
        return value
    raise DataError(f"cannot parse string {quote(text)}, expected a time such as 90s, 10min, 2h or 1d")
