"""Roles in force: resolved by a task, checked for each call."""

import pwd

import pytest
import structlog
import trio
from trio.testing import MockClock

from ganeti_htools.client.protocol import Refusal, RefusalError
from htoolsd.config.roles import RoleSettings
from htoolsd.socket.access import Access
from htoolsd.socket.peer import Credentials
from htoolsd.socket.roles import Role, Roles
from tests.support.settings import change, settings

JANE = Credentials(pid=1, uid=54321, gid=54321)
ROOT = Credentials(pid=1, uid=0, gid=0)


def message(access: Access, caller: Credentials, role: Role) -> str:
    with pytest.raises(RefusalError) as caught:
        access.check(caller, role, "execute")
    assert caught.value.kind is Refusal.ROLE
    return str(caught.value)


async def test_refusal_names_action_user_role_and_key() -> None:
    access = Access(settings())
    access.roles = Roles({54321: Role.READ}, names={54321: "jane"})
    access.check(JANE, Role.READ, "status")
    assert message(access, JANE, Role.ACT) == (
        "execute: user jane (54321) does not have the role act, only read;"
        " [roles] act of the configuration gives it"
    )
    access.roles = Roles({})
    assert message(access, JANE, Role.DECIDE) == (
        "execute: user 54321 does not have the role decide; [roles] decide of the configuration gives it"
    )


async def test_only_root_before_names_are_resolved() -> None:
    access = Access(settings(roles=RoleSettings(act=("54321",))))
    access.check(ROOT, Role.ACT, "execute")
    message(access, JANE, Role.READ)


async def test_follows_changes_of_the_configuration() -> None:
    known = settings(roles=RoleSettings(act=("54321",)))
    access = Access(known)
    async with trio.open_nursery() as nursery:
        await nursery.start(access.run)
        access.check(JANE, Role.ACT, "execute")
        change(known, roles=RoleSettings(read=("54321",)))
        with trio.fail_after(20):
            while access.roles.of(JANE) is not Role.READ:
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()


async def test_looks_for_unknown_names_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = list[str]()

    def look_up(name: str) -> pwd.struct_passwd:
        if name not in known:
            raise KeyError(name)
        return pwd.struct_passwd((name, "x", 54321, 54321, "", "/", "/bin/sh"))

    monkeypatch.setattr("pwd.getpwnam", look_up)
    access = Access(settings(roles=RoleSettings(act=("jane",))))
    with structlog.testing.capture_logs() as log:
        async with trio.open_nursery() as nursery:
            await nursery.start(access.run)
            message(access, JANE, Role.READ)
            known.append("jane")
            while access.roles.of(JANE) is not Role.ACT:
                await trio.sleep(1)
            nursery.cancel_scope.cancel()
    warnings = [line["errors"] for line in log if line["event"] == "unknown users or groups in [roles]"]
    assert warnings == [["roles: act: there is no user 'jane'"]]


async def test_logs_refusals_once_a_minute_for_each_user(autojump_clock: MockClock) -> None:
    access = Access(settings())
    access.roles = Roles({})
    with structlog.testing.capture_logs() as log:
        for _ in range(3):
            message(access, JANE, Role.READ)
            message(access, Credentials(1, 1001, 1001), Role.READ)
        await trio.sleep(61)
        message(access, JANE, Role.READ)
    assert [(line["event"], line["log_level"], line["uid"]) for line in log] == [
        ("refused", "warning", 54321),
        ("refused", "warning", 1001),
        ("refused", "warning", 54321),
    ]
