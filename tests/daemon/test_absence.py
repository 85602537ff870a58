"""What the executable does while the daemon is away or busy: asks again, or decides by itself and says so."""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from bench import overload
from ganeti_htools.client.calls import RECENTLY, ask
from ganeti_htools.client.protocol import SIGN_OF_LIFE, STARTING
from htoolsd import marks
from htoolsd.process import starting
from htoolsd.process.starting import show_start
from htoolsd.socket.acceptor import TOUCH_SECONDS
from tests.support.programs import (
    EXECUTABLE,
    FALLBACK,
    PATIENCE,
    PROGRAMS,
    Daemon,
    Finished,
    altered_executable,
    connect,
    executable,
    hail,
    orphaned,
    run,
    running,
    script,
    set_last_sign,
    stale,
    wait_until,
)

CORES = len(os.sched_getaffinity(0))
LONG = "--htoolsd-timeout=100"  # half of which no test takes


@contextmanager
def asked(
    path: Path,
    *arguments: object,
    clients: int = 1,
    program: Path = EXECUTABLE,
    fallback: str = "/bin/false",
) -> Iterator[list[Finished]]:
    """Run the executable meanwhile; what became of it is there afterwards."""

    def decide() -> Finished:
        return executable(path, *arguments, program=program, fallback=fallback)

    finished: list[Finished] = []
    with ThreadPoolExecutor(clients) as threads:
        results = [threads.submit(decide) for _ in range(clients)]
        yield finished
        finished += [result.result() for result in results]


def noticing(directory: Path) -> Path:
    """An executable that leaves a file ``away-PID`` when it has found no daemon."""
    pause = "time.sleep(PAUSE"
    return altered_executable(directory, pause, f'open(f"{directory}/away-{{os.getpid()}}", "w"); {pause}')


def assert_by_daemon(finished: Finished, request: Path) -> None:
    assert (finished.stdout, finished.stderr) == (hail(request).stdout, "")


def assert_decided_alone(path: Path, *arguments: object, program: Path = EXECUTABLE) -> None:
    """The executable runs its fallback, which is echo here; in time, if it would have asked for long."""
    finished = executable(path, EXECUTABLE, *arguments, program=program, fallback="/bin/echo")
    assert finished.stdout == f"{EXECUTABLE}\n"


@pytest.fixture
def impatient(tmp_path: Path) -> Path:
    """An executable for which every sign of life is old."""
    return altered_executable(tmp_path, "RECENTLY = 15 ", "RECENTLY = 0 ")


@pytest.mark.parametrize("end", [Daemon.kill, Daemon.stop])
def test_executable_waits_for_a_daemon_to_return(
    tmp_path: Path, request_path: Path, end: Callable[[Daemon], object]
) -> None:
    with running(tmp_path / "daemon") as daemon:
        end(daemon)
    assert daemon.socket.exists() is (end is Daemon.kill)
    asking = noticing(tmp_path)
    with asked(daemon.socket, request_path, LONG, clients=3, program=asking) as finished:
        wait_until(lambda: len(list(tmp_path.glob("away-*"))) == 3)
        with running(tmp_path / "daemon") as daemon:
            wait_until(lambda: daemon.status()["decisions"]["served"] == 3)
    for answer in finished:
        assert_by_daemon(answer, request_path)


def test_executable_asks_a_busy_daemon_again(tmp_path: Path, request_path: Path) -> None:
    with (
        running(tmp_path / "daemon", gated=True, config="wait_seconds = 0.1") as gated,
        asked(gated.socket, request_path, LONG, clients=2) as finished,
    ):
        wait_until(lambda: gated.status()["decisions"]["refused"] > 1)
        gated.gate.touch()
    for answer in finished:
        assert_by_daemon(answer, request_path)


@pytest.mark.parametrize("what", ["killed", "stopped", "never there"])
def test_executable_does_not_wait_for_a_daemon_gone_long_ago(tmp_path: Path, what: str) -> None:
    path = tmp_path / "daemon" / "socket"
    if what != "never there":
        path.parent.mkdir()
    if what == "killed":
        stale(path, age=60)
    if what == "stopped":
        os.utime(path.parent, times=(1, 1))
    assert_decided_alone(path, LONG)


@pytest.mark.parametrize("ahead", [0, 1e6], ids=["in time", "clock set back"])
def test_waiting_executables_stop_when_the_daemon_is_gone_long(tmp_path: Path, ahead: float) -> None:
    assert_decided_alone(stale(tmp_path / "socket", age=14 if not ahead else -ahead), LONG)


def test_executable_does_not_repeat_a_deadly_request(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "fragile"))
        listening.listen()
        with asked(tmp_path / "fragile", EXECUTABLE, LONG, fallback="/bin/echo") as finished:
            for _ in range(2):
                listening.accept()[0].close()
    assert finished[0].stdout == f"{EXECUTABLE}\n"


# A socket that outlives the daemon.


@contextmanager
def on_kept_socket(kept: socket.socket, path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon on a socket that this process keeps; ended by SIGTERM."""
    command = [sys.executable, "-m", "htoolsd", "--socket", str(path), "--socket-fd", str(kept.fileno())]
    command += ["--state-dir", str(path.parent / "state"), "--luxi", str(path.parent / "luxi")]
    process = subprocess.Popen(command, pass_fds=[kept.fileno()], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE)


def test_executables_wait_at_a_kept_socket_for_the_next_daemon(tmp_path: Path, request_path: Path) -> None:
    path = tmp_path / "socket"
    with orphaned(path) as kept:
        for _ in range(2):
            with asked(path, request_path, LONG, clients=3) as finished, on_kept_socket(kept, path):
                wait_until(lambda: ask(str(path), "status", {})["decisions"]["served"] == 3)
            for answer in finished:
                assert_by_daemon(answer, request_path)
            assert Path(f"{path}.lock").stat().st_mtime == 0
    assert_decided_alone(path, LONG)  # closed: stopped


@pytest.mark.parametrize("crowded", [False, True])
def test_executable_does_not_wait_at_a_kept_socket_for_long(
    tmp_path: Path, impatient: Path, crowded: bool
) -> None:
    path = tmp_path / "socket"
    with orphaned(path), ExitStack() as crowd:
        for _ in range(3 * crowded):
            crowd.enter_context(connect(path))
        assert_decided_alone(path, LONG, program=impatient)


def test_executable_waits_at_a_kept_socket_while_a_daemon_starts(
    tmp_path: Path, request_path: Path, impatient: Path
) -> None:
    path = tmp_path / "socket"
    with orphaned(path) as kept, start_signs(kept), ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(
            executable, path, request_path, LONG, program=impatient, fallback="/bin/echo"
        )
        wait_until(lambda: select.select([kept], [], [], 0)[0])
        with on_kept_socket(kept, path):
            assert_by_daemon(waiting.result(), request_path)


def test_executable_notices_that_a_starting_daemon_ends(tmp_path: Path, impatient: Path) -> None:
    path = tmp_path / "socket"
    with orphaned(path) as kept, ThreadPoolExecutor(1) as threads:
        with start_signs(kept):
            waiting = threads.submit(assert_decided_alone, path, LONG, program=impatient)
            wait_until(lambda: select.select([kept], [], [], 0)[0])
        waiting.result()


@contextmanager
def start_signs(kept: socket.socket) -> Iterator[None]:
    """The signs that a daemon gives when it begins to start, open within the block."""
    with ExitStack() as signs:
        for sign in show_start(["htoolsd", "--socket-fd", str(kept.fileno())], {}):
            signs.enter_context(sign)
        yield


def test_executable_notices_that_the_daemon_ends_meanwhile(tmp_path: Path, impatient: Path) -> None:
    with socket.socket(socket.AF_UNIX) as kept:
        kept.bind(str(tmp_path / "socket"))
        kept.listen()
        pid = os.fork()
        if not pid:
            kept.listen()
            time.sleep(PATIENCE)
            os._exit(0)
        with ThreadPoolExecutor(1) as threads:
            ending = threads.submit(assert_decided_alone, tmp_path / "socket", LONG, program=impatient)
            wait_until(lambda: select.select([kept], [], [], 0)[0])
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            ending.result()


def concurrency(log: Path) -> int:
    """How many were under way at the same time at most, by the lines of those who began and ended."""
    count = most = 0
    for line in log.read_text().split():
        count += 1 if line == "begun" else -1
        most = max(most, count)
    assert count == 0
    return most


def test_as_many_decide_by_themselves_as_there_are_cores(tmp_path: Path) -> None:
    log = tmp_path / "log"
    slow = script(
        tmp_path / "slow", f"#!/bin/sh\necho begun >> {log}\nsleep 0.2\necho ended >> {log}\necho {{}}\n"
    )
    with asked(
        tmp_path / "no" / "thing", EXECUTABLE, LONG, clients=3 * CORES, fallback=str(slow)
    ) as finished:
        pass
    assert [answer.stdout for answer in finished] == ["{}\n"] * 3 * CORES
    assert 1 <= concurrency(log) <= CORES


@contextmanager
def all_slots_taken(path: Path) -> Iterator[None]:
    """As by others who decide by themselves."""
    with ExitStack() as slots:
        for number in range(CORES):
            slot = slots.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            slot.bind(b"\0htoolsd%d%b" % (number, bytes(path)[-90:]))
        yield


def test_executable_without_a_slot_keeps_asking(tmp_path: Path, request_path: Path) -> None:
    with running(tmp_path / "daemon") as daemon:
        pass
    set_last_sign(daemon.socket, 60)
    asking = noticing(tmp_path)
    with all_slots_taken(daemon.socket), asked(daemon.socket, request_path, LONG, program=asking) as finished:
        wait_until(lambda: list(tmp_path.glob("away-*")))
        with running(tmp_path / "daemon") as daemon:
            wait_until(lambda: daemon.status()["decisions"]["served"] == 1)
    assert_by_daemon(finished[0], request_path)


def test_late_answer_counts_while_nobody_decides(tmp_path: Path, request_path: Path) -> None:
    with running(tmp_path / "daemon", gated=True) as gated, all_slots_taken(gated.socket):
        with asked(gated.socket, request_path, "--htoolsd-timeout=0.5") as finished:
            time.sleep(1)
            gated.gate.touch()
        assert gated.status()["decisions"]["abandoned"] == 0
    assert_by_daemon(finished[0], request_path)


def test_slots_of_deciding_executables_cannot_be_blocked(tmp_path: Path) -> None:
    path = tmp_path / "no" / "thing"
    with all_slots_taken(path):
        assert_decided_alone(path, "--htoolsd-timeout=0.2")


@pytest.mark.slow
def test_all_answers_are_right_under_overload() -> None:
    """A short one; bench/overload.py measures for longer, and time."""
    answers = overload.measure(overload.Row("test", seconds=2, kills=1, clients=8, nodes=10))
    assert all(answer.right for answer in answers)
    assert sum(answer.by_daemon for answer in answers) > len(answers) / 2


# Signs.


@pytest.fixture
def logging(tmp_path: Path) -> Path:
    """The executable, with a system log of its own."""
    return altered_executable(tmp_path, "/dev/log", str(tmp_path / "log"))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.bind(str(tmp_path / "log"))
        log.settimeout(PATIENCE)
        yield log


def test_logs_fallback_decisions_to_syslog(tmp_path: Path, logging: Path, log: socket.socket) -> None:
    finished = executable(tmp_path / "no" / "thing", EXECUTABLE, program=logging, fallback="/bin/echo")
    line = log.recv(10000).decode()
    assert line.startswith("<28>")  # daemon, warning
    assert time.strptime(f"2024 {line[4:19]}", "%Y %b %d %H:%M:%S")
    assert line[19:].startswith(" htoolsd[")
    assert line.endswith(f"]: {finished.stderr.removeprefix('htoolsd: ').strip()}")
    log.setblocking(False)
    with pytest.raises(BlockingIOError):
        log.recv(1)


def test_logs_nothing_to_syslog_when_the_daemon_decides(
    tmp_path: Path, request_path: Path, logging: Path, log: socket.socket
) -> None:
    with running(tmp_path / "daemon") as daemon:
        assert_by_daemon(executable(daemon.socket, request_path, program=logging), request_path)
        assert daemon.status()["decisions"]["alone"] == 0
    log.setblocking(False)
    with pytest.raises(BlockingIOError):
        log.recv(1)


def test_ignores_a_syslog_that_nobody_reads(tmp_path: Path, logging: Path, log: socket.socket) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other, suppress(BlockingIOError):
        other.setblocking(False)
        while True:
            other.sendto(b"x" * 1000, str(tmp_path / "log"))
    assert_decided_alone(tmp_path / "no" / "thing", program=logging)


def test_status_counts_decisions_without_the_daemon(tmp_path: Path) -> None:
    with running(tmp_path / "daemon") as daemon:
        pass
    set_last_sign(daemon.socket, 60)
    for _ in range(3):
        executable(daemon.socket, EXECUTABLE, fallback="/bin/true")
    with running(tmp_path / "daemon") as daemon:
        decisions = daemon.status()["decisions"]
        assert decisions["alone"] == 3
        assert abs(time.time() - decisions["last_alone"]) < PATIENCE
        shown = run(PROGRAMS / "htoolsctl", "--socket", daemon.socket, "status").stdout
    assert "  fallback   3 decided without the daemon, the last " in shown


def test_counting_follows_no_links(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("all")
    (tmp_path / "socket.alone").symlink_to(precious)
    os.utime(tmp_path, times=(1, 1))
    assert_decided_alone(tmp_path / "socket")
    assert precious.read_text() == "all"


def test_counting_waits_for_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "socket.alone")
    os.utime(tmp_path, times=(1, 1))
    assert_decided_alone(tmp_path / "socket")


def test_executable_and_daemon_agree() -> None:
    text = FALLBACK.read_text()
    assert f'"{marks.ALONE}"' in text
    assert f"\nRECENTLY = {3 * TOUCH_SECONDS} " in text
    assert RECENTLY == 3 * TOUCH_SECONDS
    assert f'"{SIGN_OF_LIFE}"' in text
    assert f'"{STARTING}"' in text
    assert starting.SUFFIX == STARTING
