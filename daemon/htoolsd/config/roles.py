"""The table ``[roles]`` of the configuration file."""

from dataclasses import dataclass
from typing import Annotated

from ganeti_htools.model.errors import DataError

_LARGEST = (1 << 32) - 2  # the largest id of a user or group
GANETI = ("gnt-masterd",)  # its jobs run the tools; a cluster without this user is no error


def _entries(name: str, value: object) -> tuple[str, ...]:
    """Check a list of users and groups. Raises DataError."""
    expected = f"{name}: expected a list of users, @groups and their numbers"
    if not isinstance(value, list):
        raise DataError(expected)
    for entry in value:
        number = number_of(entry.removeprefix("@")) if isinstance(entry, str) else entry
        if type(entry) not in (str, int) or entry in ("", "@") or not 0 <= (number or 0) <= _LARGEST:
            raise DataError(f"{expected}, not {entry!r:.40}")
    return tuple(map(str, value))


def number_of(entry: str) -> int | None:
    return int(entry[:11]) if entry.isascii() and entry.isdigit() else None  # one digit too many for any id


@dataclass(frozen=True, slots=True)
class RoleSettings:
    """The table ``[roles]``. A field for each role, with users and groups (``@GROUP``), by name or number."""

    read: Annotated[tuple[str, ...], _entries, "users and @groups that may see everything"] = GANETI
    decide: Annotated[
        tuple[str, ...], _entries, "users and @groups that may read, decide requests, claim and make plans"
    ] = ()
    act: Annotated[
        tuple[str, ...],
        _entries,
        "users and @groups that may do everything; root and the daemon's user always may",
    ] = ()
