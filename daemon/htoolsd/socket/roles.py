"""Roles of callers: a rule over numbers of users and groups, and the numbers of configured names."""

import grp
import pwd
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from enum import IntEnum
from pathlib import Path

from ganeti_htools.model.errors import DataError
from htoolsd.config_keys import key
from htoolsd.socket.peer import Credentials

_USERS = "/etc/passwd"
_LARGEST = (1 << 32) - 2  # the largest id of a user or group
_GANETI = ("gnt-masterd",)  # its jobs run the tools; a cluster without this user is no error


class Role(IntEnum):
    """A role. It includes the roles before it."""

    NONE = 0
    READ = 1  # see everything
    DECIDE = 2  # decide, claim, make plans
    ACT = 3  # change the cluster, or what the daemon does to it

    def __str__(self) -> str:
        return self.name.lower()


def _entries(name: str, value: object) -> tuple[str, ...]:
    """Check a list of users and groups. Raises DataError."""
    expected = f"{name}: expected a list of users, @groups and their numbers"
    if not isinstance(value, list):
        raise DataError(expected)
    for entry in value:
        number = _number(entry.removeprefix("@")) if isinstance(entry, str) else entry
        if type(entry) not in (str, int) or entry in ("", "@") or not 0 <= (number or 0) <= _LARGEST:
            raise DataError(f"{expected}, not {entry!r:.40}")
    return tuple(map(str, value))


def _number(entry: str) -> int | None:
    return int(entry[:11]) if entry.isascii() and entry.isdigit() else None  # one digit too many for any id


@dataclass(frozen=True, slots=True)
class RoleSettings:
    """The table ``[roles]``. A field for each role, with users and groups (``@GROUP``), by name or number."""

    read: tuple[str, ...] = key(_GANETI, "users and @groups that may see everything", read=_entries)
    decide: tuple[str, ...] = key(
        (), "users and @groups that may read, decide requests, claim and make plans", read=_entries
    )
    act: tuple[str, ...] = key(
        (), "users and @groups that may do everything; root and the daemon's user always may", read=_entries
    )


@dataclass(frozen=True, slots=True)
class Roles:
    """The roles by number of users and of groups. ``names`` are known names of users, by number."""

    users: Mapping[int, Role]
    groups: Mapping[int, Role] = field(default_factory=dict)
    names: Mapping[int, str] = field(default_factory=dict)

    def of(self, caller: Credentials) -> Role:
        """Return the highest role of the caller's user and groups."""
        by_group = (self.groups.get(gid, Role.NONE) for gid in (caller.gid, *caller.groups))
        return max(self.users.get(caller.uid, Role.NONE), *by_group)

    def describe(self, uid: int) -> str:
        """Name a user."""
        name = self.names.get(uid)
        return f"user {uid}" if name is None else f"user {name} ({uid})"


def resolve(settings: RoleSettings, always: int) -> tuple[Roles, list[str]]:
    """Return the roles, and an error for each unknown name, which gives no role.

    Root and the user ``always`` may do everything. Asks the name service, so it may take long.
    """
    users, groups, errors = dict[int, Role](), dict[int, Role](), list[str]()
    names = dict(_local_users())
    for each in fields(settings):
        role = Role[each.name.upper()]
        for entry in getattr(settings, each.name):
            name, is_group = entry.removeprefix("@"), entry.startswith("@")
            try:
                number = _number(name)
                if number is None:
                    number = grp.getgrnam(name).gr_gid if is_group else pwd.getpwnam(name).pw_uid
                    if not is_group:
                        names[number] = name
            except (KeyError, ValueError):
                if entry not in _GANETI:
                    kind = "group" if is_group else "user"
                    errors.append(f"roles: {each.name}: there is no {kind} {name!r}")
                continue
            numbers = groups if is_group else users
            numbers[number] = max(role, numbers.get(number, Role.NONE))
    users |= {0: Role.ACT, always: Role.ACT}
    return Roles(users, groups, names), errors


def _local_users() -> Iterator[tuple[int, str]]:
    """Yield numbers and names of local users, for messages, without a network service."""
    with suppress(OSError, ValueError):
        for line in reversed(Path(_USERS).read_text().splitlines()):  # of several names the first one wins
            name, _, rest = line.partition(":")
            number = _number(rest.split(":")[1]) if rest.count(":") >= 1 else None
            if number is not None:
                yield number, name
