"""The rule of roles, and the numbers of configured names."""

import grp
import os
import pwd
from pathlib import Path

import pytest

from ganeti_htools.model.errors import DataError
from htoolsd.config.config import load
from htoolsd.config.roles import RoleSettings
from htoolsd.socket.peer import Credentials
from htoolsd.socket.roles import Role, Roles, resolve

ROOT, DAEMON, JANE, JOE = 0, 50, 1000, 1001


def caller(uid: int, gid: int = 9, *groups: int) -> Credentials:
    return Credentials(pid=1, uid=uid, gid=gid, groups=groups)


def test_roles_include_the_lower_ones() -> None:
    assert Role.NONE < Role.READ < Role.DECIDE < Role.ACT
    assert [str(role) for role in Role] == ["none", "read", "decide", "act"]


def test_highest_role_of_user_and_groups_counts() -> None:
    roles = Roles({JANE: Role.READ}, {7: Role.ACT, 8: Role.DECIDE})
    assert roles.of(caller(JANE)) is Role.READ
    assert roles.of(caller(JANE, 8)) is Role.DECIDE
    assert roles.of(caller(JANE, 8, 3, 7)) is Role.ACT
    assert roles.of(caller(JOE, 9, 8)) is Role.DECIDE
    assert roles.of(caller(JOE)) is Role.NONE


def test_roots_group_is_not_root() -> None:
    roles, _ = resolve(RoleSettings(), DAEMON)
    assert roles.of(caller(JOE, 0, 0)) is Role.NONE


def test_root_and_the_daemon_may_always_do_everything() -> None:
    settings = RoleSettings(read=(str(ROOT), str(DAEMON)), decide=(), act=())
    roles, errors = resolve(settings, DAEMON)
    assert errors == []
    assert roles.of(caller(ROOT)) is roles.of(caller(DAEMON)) is Role.ACT
    assert roles.of(caller(JANE)) is Role.NONE


def test_names_and_numbers_of_users_and_groups() -> None:
    user, group = pwd.getpwnam("daemon"), grp.getgrnam("mail")
    settings = RoleSettings(read=("daemon", str(JANE)), decide=("@mail",), act=(f"@{JOE}", str(JANE)))
    roles, errors = resolve(settings, ROOT)
    assert errors == []
    assert roles.of(caller(user.pw_uid)) is Role.READ
    assert roles.of(caller(JOE, 9, group.gr_gid)) is Role.DECIDE
    assert roles.of(caller(JOE, JOE)) is Role.ACT
    assert roles.of(caller(JOE)) is Role.NONE
    assert roles.of(caller(JANE)) is Role.ACT  # the highest of both


def test_unknown_names_give_nothing_and_are_all_named() -> None:
    settings = RoleSettings(
        read=("gnt-masterd",), decide=("nobody-at-all", "daemon"), act=("@no-group", "a\0b")
    )
    roles, errors = resolve(settings, ROOT)
    assert errors == [
        "roles: decide: there is no user 'nobody-at-all'",
        "roles: act: there is no group 'no-group'",
        r"roles: act: there is no user 'a\x00b'",
    ]
    assert roles.of(caller(pwd.getpwnam("daemon").pw_uid)) is Role.DECIDE


def test_names_local_users_without_a_role() -> None:
    roles, _ = resolve(RoleSettings(), ROOT)
    assert roles.describe(0) == "user root (0)"
    assert roles.describe(4_000_000_000) == "user 4000000000"
    assert roles.describe(os.getuid()) == f"user {pwd.getpwuid(os.getuid()).pw_name} ({os.getuid()})"


def test_reads_names_and_numbers_from_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "htoolsd.toml"
    file.write_text('[roles]\nread = []\nact = ["jane", "@admin", 1000, "@1001"]')
    assert load(str(file), {}).roles == RoleSettings(read=(), act=("jane", "@admin", "1000", "@1001"))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ('"jane"', ""),
        ('[""]', ", not ''"),
        ('["@"]', ", not '@'"),
        ("[-1]", ", not -1"),
        ("[true]", ", not True"),
        ("[1.0]", ", not 1.0"),
        ("[4294967295]", ", not 4294967295"),
        ('["@4294967295"]', ", not '@4294967295'"),
        (f'["{"1" * 5000}"]', ", not '1{39}"),
        ('[["jane"]]', r", not \['jane'\]"),
    ],
)
def test_refuses_what_is_no_list_of_users(tmp_path: Path, value: str, problem: str) -> None:
    file = tmp_path / "htoolsd.toml"
    file.write_text(f"[roles]\nact = {value}")
    expected = f"roles: act: expected a list of users, @groups and their numbers{problem}$"
    with pytest.raises(DataError, match=expected):
        load(str(file), {})
