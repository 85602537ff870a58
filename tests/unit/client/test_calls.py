"""Asking the daemon, on a socket."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ganeti_htools.client.calls import NoReplyError, ask


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
