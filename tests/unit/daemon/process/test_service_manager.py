"""Messages to the service manager."""

import os
import socket
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import cast

import pytest
import trio
from trio.testing import MockClock

from htoolsd.api.decisions import Decisions
from htoolsd.process.service_manager import keep, notify, watch, watchdog_seconds
from htoolsd.process.starting import passed_sockets
from htoolsd.sync.sync import Sync


class RecordingDecisions:
    """Stands for decisions and synchronisation; notes the times of calls."""

    def __init__(self, healthy: bool) -> None:
        self.healthy = healthy
        self.times: list[float] = []

    def summary(self) -> str:
        return ""

    def give_up_late(self) -> float:
        self.times.append(trio.current_time())
        return 1.0

    async def watched(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            await watch(cast(Decisions, self), cast(Sync, self))


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[socket.socket]:
    """The socket of a service manager."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield sock


def received(manager: socket.socket) -> list[bytes]:
    """All messages that have arrived."""
    messages = []
    while True:
        try:
            messages.append(manager.recv(1000))
        except BlockingIOError:
            return messages


@pytest.mark.parametrize(("healthy", "expected"), [(True, [b"WATCHDOG=1"] * 3), (False, [])])
async def test_sends_signs_of_life_only_while_decisions_end(
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    manager: socket.socket,
    healthy: bool,
    expected: list[bytes],
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "3000000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    decisions = RecordingDecisions(healthy)
    await decisions.watched(2.5)
    assert received(manager) == expected
    assert decisions.times == [0, 1, 2]


async def test_sends_no_signs_of_life_without_a_watchdog(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, manager: socket.socket
) -> None:
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    decisions = RecordingDecisions(healthy=True)
    await decisions.watched(2.5)
    assert received(manager) == []
    assert len(decisions.times) == 3


@pytest.mark.parametrize("abstract", [False, True])
def test_sends_messages_to_the_service_manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abstract: bool
) -> None:
    name = f"@{tmp_path}" if abstract else str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(30)
        manager.bind(name.replace("@", "\0"))
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        notify("READY=1", "STATUS=5 nodes")
        assert manager.recv(100) == b"READY=1\nSTATUS=5 nodes"


def test_ignores_a_missing_service_manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "none"))
    notify("READY=1")


@pytest.mark.parametrize(
    ("usec", "pid", "seconds"),
    [
        ("60000000", "", 60),
        ("60000000", "OWN", 60),
        ("60000000", "1", inf),
        ("", "", inf),
        ("x", "", inf),
        ("0", "", inf),
    ],
)
def test_reads_the_watchdog_interval_for_this_process(
    monkeypatch: pytest.MonkeyPatch, usec: str, pid: str, seconds: float
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    monkeypatch.setenv("WATCHDOG_PID", pid.replace("OWN", str(os.getpid())))
    assert watchdog_seconds() == seconds


@pytest.mark.parametrize("stored", ["1", "0", None])
def test_socket_is_kept_by_a_manager_that_stores_descriptors(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch, stored: str | None
) -> None:
    if stored is not None:
        monkeypatch.setenv("FDSTORE", stored)
    with socket.socket(socket.AF_UNIX) as sock:
        kept = keep(sock)
        assert kept is (stored == "1")
        if not kept:
            assert received(manager) == []
            return
        assert manager.recv(1000) == b"FDSTOREREMOVE=1\nFDNAME=socket"
        message, (descriptor,), _, _ = socket.recv_fds(manager, 1000, 1)
        assert message == b"FDSTORE=1\nFDNAME=socket"
        assert os.path.sameopenfile(descriptor, sock.fileno())
        os.close(descriptor)


@pytest.mark.parametrize(
    ("pid", "count", "expected"),
    [(None, "2", [3, 4]), (None, "0", []), (None, "x", []), (None, "", []), ("1", "2", [])],
)
def test_passed_sockets_are_for_this_process_only(
    monkeypatch: pytest.MonkeyPatch, pid: str | None, count: str, expected: list[int]
) -> None:
    assert list(passed_sockets()) == []
    monkeypatch.setenv("LISTEN_PID", pid or str(os.getpid()))
    monkeypatch.setenv("LISTEN_FDS", count)
    assert list(passed_sockets()) == expected
