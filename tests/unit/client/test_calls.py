"""Asking the daemon, on a socket."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ganeti_htools.client import calls
from ganeti_htools.client.calls import CallRefusedError, NoReplyError, ask
from htoolsd.process.starting import show_start
from tests.support.programs import orphaned

STOPPING = b'{"success": false, "result": {"error": "stopping", "message": "htoolsd is stopping"}}\x03'


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "socket")


@pytest.fixture
def crowded(path: str) -> Iterator[socket.socket]:
    """A listening socket with one client that is not accepted yet, and no room for another."""
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(path)
        listener.listen(0)
        client.connect(path)
        yield listener


def test_waits_for_room_in_the_queue_of_connections(
    path: str, crowded: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def serve() -> None:
        with crowded.accept()[0] as client:
            client.recv(1000)
            client.sendall(b'{"success": true, "result": 7}\x03')

    def make_room(_seconds: float) -> None:
        crowded.accept()[0].close()
        threading.Thread(target=serve, daemon=True).start()

    monkeypatch.setattr(time, "sleep", make_room)
    assert ask(path, "status", {}, patience=30) == 7


def test_room_is_not_waited_for_longer_than_for_an_answer(path: str, crowded: socket.socket) -> None:
    with pytest.raises(NoReplyError, match=r"no answer within 0\.01 s"):
        ask(path, "status", {}, patience=0.01)


def serve(listening: socket.socket, *answers: bytes) -> None:
    """Give one answer to each client, then stop listening."""
    for each in answers:
        with listening.accept()[0] as client:
            client.recv(1000)
            client.sendall(each)
    listening.close()


@pytest.mark.parametrize("back", [True, False])
def test_asks_next_daemon_after_one_that_stops(path: str, back: bool) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        answers = [STOPPING, *([b'{"success": true, "result": 7}\x03'] * back)]
        thread = threading.Thread(target=serve, args=(listening, *answers))
        thread.start()
        if back:
            assert ask(path, "status", {}, patience=30) == 7
        else:
            with pytest.raises(CallRefusedError, match="htoolsd is stopping"):
                ask(path, "status", {}, patience=30)
        thread.join()


def test_waits_at_kept_socket_only_while_the_daemon_may_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with orphaned(tmp_path / "socket") as kept:
        (sign,) = show_start(["htoolsd", "--socket-fd", str(kept.fileno())], {})
        for starting in True, False:
            monkeypatch.setattr(calls, "RECENTLY", 0.0 if starting else 15.0)
            thread = threading.Thread(target=serve, args=(kept.dup(), b'{"success": true, "result": 7}\x03'))
            thread.start()
            assert ask(str(tmp_path / "socket"), "status", {}, patience=30) == 7
            thread.join()
            sign.close()
        monkeypatch.setattr(calls, "RECENTLY", 0.0)
        with pytest.raises(NoReplyError, match="the daemon has ended; is htoolsd running"):
            ask(str(tmp_path / "socket"), "status", {}, patience=30)
