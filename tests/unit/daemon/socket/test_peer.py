import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from htoolsd.socket.peer import Credentials, SocketPeer, credentials_of
from tests.support.memory_peer import open_file, wait_closed
from tests.support.programs import PATIENCE


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


async def test_credentials_have_the_supplementary_groups(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    assert set(peer_of(pair).credentials.groups) == set(os.getgroups())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to change the groups")
@pytest.mark.parametrize("groups", [range(0), range(100, 356), range(100, 357), range(1, 65537)])
def test_all_groups_of_a_client_count(groups: range) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0htoolsd-test-groups-{os.getpid()}")
    listener.listen()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups(groups)
            os.setresgid(77, 77, 77)
            os.setresuid(78, 78, 78)
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(listener.getsockname())
                client.recv(1)
            status = 0
        finally:
            os._exit(status)
    connection, _ = listener.accept()

    async def credentials() -> Credentials:
        return credentials_of(trio.socket.from_stdlib_socket(connection))

    connection.setblocking(False)
    found = trio.run(credentials)
    connection.close()
    listener.close()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (found.pid, found.uid, found.gid, found.groups) == (child, 78, 77, tuple(groups))


async def test_receives_bytes_with_their_files(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    descriptor = open_file(tmp_path / "request", "hello")
    socket.send_fds(pair[0], [b"message"], [descriptor])
    os.close(descriptor)
    data, (file,) = await peer_of(pair).receive()
    assert data == b"message"
    with file.taken() as received:
        assert received is not None
        assert os.pread(received, 10, 0) == b"hello"
        assert fcntl.fcntl(received, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    with file.taken() as nothing:
        assert nothing is None
    wait_closed(received)


async def test_closes_files_that_nobody_takes(pair: tuple[socket.socket, socket.socket]) -> None:
    many = [os.open("/dev/null", os.O_RDONLY)] * 253
    socket.send_fds(pair[0], [b"x"], many)
    before = len(os.listdir("/proc/self/fd"))
    os.close(many[0])
    _, files = await peer_of(pair).receive()
    assert len(files) == 253
    for file in files:
        file.close()
    with trio.fail_after(PATIENCE):
        while len(os.listdir("/proc/self/fd")) >= before:
            await trio.sleep(0.001)


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
