"""Roles of callers: a rule over numbers of users and groups, and the numbers of configured names."""

import grp
import pwd
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from enum import IntEnum
from pathlib import Path

from htoolsd.config.roles import GANETI, RoleSettings, number_of
from htoolsd.socket.peer import Credentials

_USERS = "/etc/passwd"


class Role(IntEnum):
    """A role. It includes the roles before it."""

    NONE = 0
    READ = 1  # see everything
    DECIDE = 2  # decide, claim, make plans
    ACT = 3  # change the cluster, or what the daemon does to it

    def __str__(self) -> str:
        return self.name.lower()


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
                number = number_of(name)
                if number is None:
                    number = grp.getgrnam(name).gr_gid if is_group else pwd.getpwnam(name).pw_uid
                    if not is_group:
                        names[number] = name
            except (KeyError, ValueError):
                if entry not in GANETI:
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
            number = number_of(rest.split(":")[1]) if rest.count(":") >= 1 else None
            if number is not None:
                yield number, name
