import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from htoolsd.socket.peer import SocketPeer
from tests.support.memory_peer import open_file


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    yield ours, theirs
    ours.close()
    theirs.close()


def peer_of(pair: tuple[socket.socket, socket.socket]) -> SocketPeer:
    return SocketPeer(trio.socket.from_stdlib_socket(pair[1]))


async def test_credentials_come_from_the_kernel(pair: tuple[socket.socket, socket.socket]) -> None:
    who = peer_of(pair).credentials
    assert (who.pid, who.uid, who.gid) == (os.getpid(), os.getuid(), os.getgid())


async def test_receives_bytes_with_their_files(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    descriptor = open_file(tmp_path / "request", "hello")
    socket.send_fds(pair[0], [b"message"], [descriptor])
    os.close(descriptor)
    data, (file,) = await peer_of(pair).receive()
    received = file.take()
    assert received is not None
    assert data == b"message"
    assert os.pread(received, 10, 0) == b"hello"
    assert fcntl.fcntl(received, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    os.close(received)


async def test_closes_files_that_nobody_takes(pair: tuple[socket.socket, socket.socket]) -> None:
    before = len(os.listdir("/proc/self/fd"))
    many = [os.open("/dev/null", os.O_RDONLY) for _ in range(100)]
    socket.send_fds(pair[0], [b"x"], many)
    for descriptor in many:
        os.close(descriptor)
    _, files = await peer_of(pair).receive()
    for file in files:
        file.close()
    assert len(os.listdir("/proc/self/fd")) == before


async def test_sends_long_answers_completely(pair: tuple[socket.socket, socket.socket]) -> None:
    ours = trio.SocketStream(trio.socket.from_stdlib_socket(pair[0]))
    data = os.urandom(3_000_000)
    received = b""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(peer_of(pair).send, data)
        while len(received) < len(data):
            received += await ours.receive_some()
    assert received == data


async def test_client_vanishes_only_when_it_closes(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    peer, gone = peer_of(pair), trio.Event()

    async def watch() -> None:
        await peer.vanished()
        gone.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await trio.testing.wait_all_tasks_blocked()
        assert not gone.is_set()
        pair[0].close()
        await gone.wait()


@pytest.mark.parametrize(
    "sign_of_life", [lambda sock: sock.shutdown(socket.SHUT_WR), lambda sock: sock.send(b"x")]
)
async def test_client_that_stopped_sending_has_not_vanished(
    pair: tuple[socket.socket, socket.socket], sign_of_life: object
) -> None:
    assert callable(sign_of_life)
    sign_of_life(pair[0])
    with trio.move_on_after(0.05) as waited:
        await peer_of(pair).vanished()
    assert waited.cancelled_caught
