"""The unit under a real systemd: luxid with its permissions, and PostgreSQL with peer authentication."""

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from ganeti_htools.client.calls import ask
from tests.support import postgresql
from tests.support.booted import Booted, booted
from tests.support.programs import (
    PROGRAMS,
    ROOT,
    Finished,
    connect,
    executable,
    request_file,
    script,
    small_cluster,
    wait_until,
)
from tests.support.simulators import simulator

CONFIG = """\
luxi = "/mnt/ganeti/luxi"
[[pool]]
type = "ext"
key = "san"
probe = ["/bin/sh", "-c", "cat /mnt/probed"]
"""
CLIENTS, RESTARTS = 5, 2


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Booted]:
    """A machine whose daemon has once run as root, and runs as its own user now."""
    directory = tmp_path_factory.mktemp("booted")
    ganeti = directory / "ganeti"
    ganeti.mkdir()
    (directory / "probed").write_text("1g 2g")
    request_file(directory).chmod(0o600)
    with booted(directory, CONFIG) as machine, simulator(ganeti, small_cluster()) as luxid:
        assert machine.run("systemd-sysusers", ROOT / "systemd/sysusers.d/htoolsd.conf").returncode == 0
        if (group := machine.run("getent", "group", "gnt-daemons")).returncode:
            machine.run("groupadd", "--system", "gnt-daemons")
            group = machine.run("getent", "group", "gnt-daemons")
        for path, mode in (ganeti, 0o770), (luxid.socket, 0o660):
            os.chown(path, 0, int(group.stdout.split(":")[2]))
            path.chmod(mode)
        for old in "var/lib/htoolsd/plans", "run/htoolsd":
            (machine.root / old).mkdir(mode=0o700, parents=True)
        for old in "var/lib/htoolsd/lock", "run/htoolsd/htoolsd.sock.lock":
            (machine.root / old).touch(0o600)
        machine.systemctl("start", "htoolsd")
        yield machine


def wait_until_synchronised(machine: Booted) -> None:
    """Until the daemon knows the cluster."""
    wait_until(lambda: machine.status()["cluster"]["nodes"] == 5)


def decision(machine: Booted) -> Finished:
    """Ask for a decision with root's own request file."""
    request = machine.directory / "request"
    return executable(machine.socket, request, "--htoolsd-timeout=100", fallback="/bin/false")


def test_runs_as_its_own_user_with_one_more_group(machine: Booted) -> None:
    status = dict(
        line.split(":\t", 1)
        for line in (machine.root / "proc" / machine.main_pid() / "status").read_text().splitlines()
    )
    user, group = machine.run("id", "-u", "htoolsd").stdout, machine.run("id", "-g", "htoolsd").stdout
    daemons = machine.run("getent", "group", "gnt-daemons").stdout.split(":")[2]
    assert status["Uid"].split() == user.split() * 4
    assert status["Gid"].split() == group.split() * 4
    assert sorted(status["Groups"].split()) == sorted([*group.split(), daemons])
    assert (status["CapEff"], status["NoNewPrivs"], status["Seccomp"]) == ("0" * 16, "1", "2")


def test_follows_luxid_and_decides_and_keeps_state(machine: Booted) -> None:
    wait_until_synchronised(machine)
    finished = decision(machine)
    assert (finished.stderr, finished.returncode) == ("", 0)
    wait_until(lambda: machine.status()["ledger"]["providers"])
    assert machine.status()["history"]["error"] is None


def test_runs_programs_of_the_administrator(machine: Booted) -> None:
    wait_until_synchronised(machine)
    wait_until(lambda: '"total": 2048' in json.dumps(ask(str(machine.socket), "storage", {})))


def test_counts_free_instances_and_serves_metrics(machine: Booted) -> None:
    wait_until_synchronised(machine)
    with configured(machine, 'http = {listen = "unix:/run/htoolsd/http"}\n'):
        machine.systemctl("reload", "htoolsd")
        wait_until((machine.root / "run/htoolsd/http").exists)
        ask(str(machine.socket), "metrics", {})
        wait_until(lambda: machine.status()["capacity"]["age_s"] is not None)
        with connect(machine.root / "run/htoolsd/http") as client:
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            received = b"".join(iter(lambda: client.recv(1 << 16), b""))
    machine.systemctl("reload", "htoolsd")
    assert (machine.status()["capacity"]["complete"], machine.status()["capacity"]["error"]) == (True, None)
    assert b"htoolsd_group_free_instances{" in received


def test_notifies_within_the_limits_of_the_unit(machine: Booted) -> None:
    """A program may write to the state directory; the example may connect, but there is no mail server."""
    example = f"{PROGRAMS}/python {ROOT}/contrib/notify/htoolsd-mail"
    commands = (
        f"cat >/var/lib/htoolsd/message\nSMTP_SERVER=127.0.0.1:1 exec {example} </var/lib/htoolsd/message"
    )
    script(machine.directory / "notify", f"#!/bin/sh\n{commands}\n")
    machine.run("ip", "link", "set", "lo", "up")
    with configured(machine, "", '[notify]\nprogram = "/mnt/notify"\n'):
        machine.systemctl("reload", "htoolsd")
        wait_until(lambda: machine.status()["notify"]["way"])
        answer: Any = ask(str(machine.socket), "notify", {})
    machine.systemctl("reload", "htoolsd")
    assert json.loads((machine.root / "var/lib/htoolsd/message").read_text())["events"]
    assert "Connection refused" in answer["line"]


def test_reload(machine: Booted) -> None:
    with configured(machine, "colour = 1\n"):
        assert machine.run("systemctl", "reload", "htoolsd").returncode
    with configured(machine, "connections = 7\n"):
        machine.systemctl("reload", "htoolsd")
        wait_until(lambda: '"configuration reloaded"' in machine.log())
    assert machine.systemctl("is-active", "htoolsd") == "active"


def test_uses_postgresql_as_its_own_user(machine: Booted) -> None:
    programs = postgresql.programs()
    if programs is None:
        pytest.skip("no PostgreSQL")
    directory = machine.directory / "postgresql"
    directory.mkdir()
    shutil.chown(directory, "nobody", "nogroup")
    as_nobody = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--pdeathsig=KILL"]
    place = "/mnt/postgresql"
    initdb = [
        programs / "initdb",
        "--auth=peer",
        "--username=nobody",
        "--no-sync",
        "--pgdata",
        f"{place}/data",
    ]
    assert machine.run(*as_nobody, *initdb).returncode == 0
    serve = [programs / "postgres", "-D", f"{place}/data", "-k", place, "-c", "listen_addresses="]
    serve += ["-c", "unix_socket_permissions=0777"]
    server = subprocess.Popen(machine.command(*as_nobody, *serve), stderr=subprocess.DEVNULL)
    try:
        psql = [*as_nobody, programs / "psql", "-h", place, "-d", "postgres", "-c"]
        wait_until(lambda: machine.run(*psql, "CREATE ROLE htoolsd LOGIN").returncode == 0)
        assert machine.run(*psql, "CREATE DATABASE ledger OWNER htoolsd").returncode == 0
        with configured(machine, f'ledger = "postgresql://htoolsd@/ledger?host={place}"\n'):
            machine.systemctl("restart", "htoolsd")
            wait_until(lambda: machine.status()["ledger"]["providers"])
        machine.systemctl("restart", "htoolsd")
    finally:
        server.kill()
        server.wait()


def test_hung_daemon_is_restarted_and_decides(machine: Booted) -> None:
    pid = machine.main_pid()
    machine.run("kill", "-STOP", pid)
    assert decision(machine).stderr == ""
    assert machine.main_pid() != pid


def test_nobody_notices_restarts(machine: Booted) -> None:
    before = machine.status()["decisions"]["alone"]
    restarted = threading.Event()

    def ask_again_and_again() -> set[tuple[str, int]]:
        outcomes = set()
        while not restarted.is_set():
            finished = decision(machine)
            outcomes.add((finished.stderr, finished.returncode))
            assert machine.status()["pid"]
        return outcomes

    with ThreadPoolExecutor(CLIENTS) as threads:
        clients = [threads.submit(ask_again_and_again) for _ in range(CLIENTS)]
        for _ in range(RESTARTS):
            machine.systemctl("reset-failed", "htoolsd")  # systemd counts the starts of other tests, too
            machine.systemctl("restart", "htoolsd")
            wait_until(lambda: machine.status()["decisions"]["served"])
        restarted.set()
    assert set().union(*[each.result() for each in clients]) == {("", 0)}
    assert machine.status()["decisions"]["alone"] == before


def test_stopped_daemon_stays_stopped_and_nobody_waits(machine: Booted) -> None:
    machine.systemctl("stop", "htoolsd")
    try:
        finished = decision(machine)
        assert "Connection refused; deciding without the daemon" in finished.stderr
        assert machine.run("systemctl", "is-active", "htoolsd").stdout == "inactive\n"
    finally:
        machine.systemctl("start", "htoolsd")


@contextmanager
def configured(machine: Booted, keys: str, tables: str = "") -> Iterator[None]:
    """The configuration with more keys and tables, within the block."""
    configuration = machine.root / "etc/htoolsd.toml"
    configuration.write_text(keys + CONFIG + tables)
    yield
    configuration.write_text(CONFIG)
