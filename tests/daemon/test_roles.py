"""Real clients of other users, and what the daemon lets them do. Numbers are of users that do not exist."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest

from ganeti_htools.client.calls import CallRefusedError, ask
from tests.daemon.planning import DRAINED, OFTEN, following
from tests.support.programs import (
    EXECUTABLE,
    FALLBACK,
    INTERPRETER,
    PATIENCE,
    PROGRAMS,
    ROOT,
    Daemon,
    Finished,
    forked,
    request_file,
    run,
    running,
    wait_until,
)
from tests.support.rows import generated

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become other users")

ROLES = """
[roles]
read = ["daemon", "@60001"]
decide = [60002]
act = ["@60003"]
"""


class User(NamedTuple):
    """A user with a group and supplementary groups."""

    uid: int
    gid: int = 60000
    groups: tuple[int, ...] = ()


STRANGER = User(60000, 0, (0, 60002))  # the groups of root, and a group with the number of another user
READER = User(60001, 60000, (5, 60001))
DECIDER = User(60002)
ACTOR = User(60003, 60003)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A directory that everybody may enter."""
    with TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def daemon(place: Path) -> Iterator[Daemon]:
    with following(place, generated(3, DRAINED), config=OFTEN + ROLES) as (daemon, _):
        yield daemon


def as_user(user: User, program: str, *arguments: object) -> Finished:
    who = user.uid, user.gid, ",".join(map(str, user.groups))
    return forked(ROOT / "tests" / "support" / "as_user.py", *who, PROGRAMS / program, *arguments)


def ctl(user: User, daemon: Daemon, *arguments: object) -> Finished:
    return as_user(user, "htoolsctl", "--socket", daemon.socket, *arguments)


def refusal(user: User, method: str, role: str, only: str = "") -> str:
    who = f"{method}: user {user.uid} does not have the role {role}{f', only {only}' if only else ''}"
    return f"{who}; [roles] {role} of the configuration gives it\n"


def assert_refused(finished: Finished, line: str) -> None:
    assert (finished.returncode, finished.stdout) == (1, "")
    assert finished.stderr.endswith(line)
    assert finished.stderr.count("\n") == 1


def refusals(user: User, daemon: Daemon, calls: Iterable[tuple[str, Mapping[str, object]]]) -> list[str]:
    """Return the refusal of each call for want of a role, an empty text for other results."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        results = []
        try:
            os.setgroups(user.groups)
            os.setresgid(user.gid, user.gid, user.gid)
            os.setresuid(user.uid, user.uid, user.uid)
            for method, args in calls:
                try:
                    ask(str(daemon.socket), method, args)
                    results.append("")
                except CallRefusedError as error:
                    results.append(str(error) if error.kind == "not-allowed" else "")
            os.write(write, json.dumps(results).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        texts: list[str] = json.load(answer)
    os.waitpid(child, 0)
    return texts


def test_stranger_may_do_nothing(daemon: Daemon) -> None:
    for command in ("status", "methods", "plans", "history"):
        assert_refused(ctl(STRANGER, daemon, command), refusal(STRANGER, command, "read"))
    for tool in ("hcheck", "hbal"):
        refused = as_user(STRANGER, tool, f"-D{daemon.socket}")
        assert_refused(refused, refusal(STRANGER, "cluster", "read"))
    assert any(line["uid"] == STRANGER.uid for line in daemon.told("refused"))


def test_long_message_of_a_stranger_is_refused_as_well(daemon: Daemon) -> None:
    calls = [("decide", {"request": "x" * size}) for size in (10_000, 10_000_000)]
    assert refusals(STRANGER, daemon, calls) == [refusal(STRANGER, "connection", "read").rstrip()] * 2


def test_reader_sees_everything_and_changes_nothing(daemon: Daemon) -> None:
    for command in ("status", "methods", "plans", "history", "policies", "providers", "storage"):
        assert ctl(READER, daemon, command).returncode == 0
    assert as_user(READER, "hcheck", f"-D{daemon.socket}").stderr == ""
    for tool in ("hbal", "hsqueeze"):
        refused = as_user(READER, tool, f"-D{daemon.socket}")
        assert refused.returncode == 1
        assert refused.stderr.endswith(refusal(READER, "plan", "decide", "read"))
        assert refused.stderr.count("\n") == 1
    assert_refused(ctl(READER, daemon, "run", "rebalance"), refusal(READER, "run", "act", "read"))
    assert_refused(ctl(READER, daemon, "refresh"), refusal(READER, "refresh", "decide", "read"))


def test_users_of_the_configuration_have_names(daemon: Daemon) -> None:
    line = refusal(User(1), "run", "act", "read").replace("user 1", "user daemon (1)")
    refused = ctl(User(1), daemon, "run", "rebalance")
    assert refused.stderr == f"htoolsctl: refused (not-allowed): {line}"


def test_decider_makes_plans_and_executes_none(daemon: Daemon) -> None:
    made = as_user(DECIDER, "hbal", f"-D{daemon.socket}", "-l1")
    assert (made.returncode, made.stderr) == (0, "")
    refused = as_user(DECIDER, "hbal", f"-D{daemon.socket}", "-l1", "-X")
    assert refused.returncode == 1
    assert refused.stderr.endswith(refusal(DECIDER, "execute", "act", "decide"))
    assert ctl(DECIDER, daemon, "refresh").returncode == 0


def plans(daemon: Daemon) -> Any:
    return ask(str(daemon.socket), "plans", {})


def test_plans_and_history_name_who_acted(daemon: Daemon) -> None:
    as_user(DECIDER, "hbal", f"-D{daemon.socket}", "-l1")
    name = plans(daemon)[-1]["id"]
    assert as_user(ACTOR, "htoolsctl", "--socket", daemon.socket, "execute", name).returncode == 0
    plan = plans(daemon)[-1]
    assert (plan["by"]["uid"], plan["executed_by"]["uid"]) == (60002, 60003)
    by = "user 60002, executed by user 60003"
    assert f" {by} " in ctl(READER, daemon, "plans", "--wide").stdout
    history = ctl(READER, daemon, "history").stdout
    assert f"plan {name} of hbal by {by} in " in history
    assert f"execute plan={name}; called by user 60003\n" in history
    ctl(ACTOR, daemon, "forget", name)
    assert f"forget plan={name}; called by user 60003\n" in ctl(READER, daemon, "history").stdout


def test_executed_and_cancelled_plans_name_users_after_a_restart(place: Path) -> None:
    directory = place / "restarted"
    directory.mkdir()
    with following(directory, generated(3, DRAINED), "--job-seconds=1000", OFTEN + ROLES) as (daemon, _):
        as_user(DECIDER, "hbal", f"-D{daemon.socket}", "-l1")
        name = plans(daemon)[0]["id"]
        as_user(ACTOR, "hbal", f"-D{daemon.socket}", "-l1")
        ask(str(daemon.socket), "execute", {"plan": name})
        wait_until(lambda: plans(daemon)[0]["jobs"]["going"])
        assert ctl(ACTOR, daemon, "cancel", "--now", name).returncode == 0
        wait_until(lambda: plans(daemon)[0]["ended"])
        daemon.kill()
        with running(directory / "daemon", config=OFTEN + ROLES) as again:
            plan = plans(again)[0]
            users = [plan[key]["uid"] for key in ("by", "executed_by", "cancelled_by")]
            assert users == [60002, 0, 60003]


def decided(user: User, daemon: Daemon, directory: Path) -> Finished:
    """The output of the executable, which an unprivileged user starts; ``hail`` is another program then."""
    programs = directory / "programs"
    programs.mkdir(exist_ok=True)
    for file in (EXECUTABLE, FALLBACK):
        shutil.copy(file, programs)
    request = request_file(directory)
    request.chmod(0o644)
    environment = {"HTOOLSD_SOCKET": str(daemon.socket), "HTOOLSD_HAIL": "/bin/true", "LC_ALL": "C"}
    return subprocess.run(
        [INTERPRETER, "-IS", str(programs / EXECUTABLE.name), str(request)],
        env=environment,
        user=user.uid,
        group=user.gid,
        extra_groups=user.groups,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def test_executable_says_why_it_decides_without_the_daemon(daemon: Daemon, place: Path) -> None:
    for user, only in ((STRANGER, ""), (READER, "read")):
        line = refusal(user, "decide", "decide", only).rstrip("\n")
        expected = f"htoolsd: refused (not-allowed): {line}; deciding without the daemon and its claims\n"
        finished = decided(user, daemon, place)
        assert (finished.returncode, finished.stderr) == (0, expected)


def test_history_names_who_decided(daemon: Daemon, place: Path) -> None:
    finished = decided(DECIDER, daemon, place)
    assert json.loads(finished.stdout)["success"]
    assert "; decided by user 60002\n" in ctl(READER, daemon, "history").stdout
    assert decided(User(0, 0), daemon, place).returncode == 0
    assert "; decided by " not in ctl(READER, daemon, "history", "--most", 1).stdout
    request = request_file(place)
    assert as_user(ACTOR, "htoolsctl", "--socket", daemon.socket, "decide", request).returncode == 0
    last = ctl(READER, daemon, "history", "--most", 1).stdout
    assert ": test of allocate " in last
    assert last.endswith("; decided by user 60003\n")


def test_each_method_needs_its_role(daemon: Daemon) -> None:
    """Calls without arguments change nothing."""
    methods: Any = ask(str(daemon.socket), "methods", {})
    assert {method["role"] for method in methods} == {"read", "decide", "act"}
    order = ["none", "read", "decide", "act"]
    for user, role in ((STRANGER, "none"), (READER, "read"), (DECIDER, "decide"), (ACTOR, "act")):
        refused = refusals(user, daemon, [(method["name"], {}) for method in methods])
        assert [bool(each) for each in refused] == [
            order.index(method["role"]) > order.index(role) for method in methods
        ]


def test_reload_changes_roles(place: Path) -> None:
    with running(place / "reloaded", config=ROLES) as daemon:
        assert ctl(ACTOR, daemon, "status").returncode == 0
        daemon.configure('[roles]\nread = ["nobody-at-all", "60000"]\nact = ["@no-group"]')
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: ctl(STRANGER, daemon, "status").returncode == 0)
        assert_refused(ctl(ACTOR, daemon, "status"), refusal(ACTOR, "status", "read"))
        (warning,) = daemon.told("unknown users or groups in [roles]")
        errors = ["roles: read: there is no user 'nobody-at-all'", "roles: act: there is no group 'no-group'"]
        assert warning["errors"] == errors
        config = place / "reloaded" / "config"
        checked = run(PROGRAMS / "htoolsd", "--config", config, "--check-config")
        assert checked.returncode == 1
        assert checked.stderr.splitlines() == [f"htoolsd: {config}: {error}" for error in errors]


def test_key_group_limits_who_may_connect(place: Path) -> None:
    with running(place / "limited", config=f'group = "mail"{ROLES}') as daemon:
        assert "Permission denied; members of the group mail may" in ctl(READER, daemon, "status").stderr
        assert ctl(READER._replace(groups=(8, 60001)), daemon, "status").returncode == 0
