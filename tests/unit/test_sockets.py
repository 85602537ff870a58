"""Unix sockets and their names."""

import errno
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ganeti_htools.sockets import NamedSocket, bind


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "socket"


@pytest.fixture
def bound(path: Path) -> Iterator[NamedSocket]:
    bound = bind(str(path))
    with bound.socket:
        yield bound


def test_socket_is_open_to_user_and_group_only(bound: NamedSocket, path: Path) -> None:
    found = path.stat()
    assert stat.S_ISSOCK(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o660


def test_the_umask_is_left_as_it_was(path: Path) -> None:
    before = os.umask(0o027)
    try:
        bind(str(path)).socket.close()
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


def test_socket_without_listener_is_replaced(bound: NamedSocket, path: Path) -> None:
    bound.socket.close()
    with bind(str(path)).socket as sock, socket.socket(socket.AF_UNIX) as client:
        sock.listen()
        client.connect(str(path))


@pytest.mark.parametrize("crowded", [False, True])
def test_socket_with_listener_is_kept(bound: NamedSocket, path: Path, crowded: bool) -> None:
    bound.socket.listen(0)
    with socket.socket(socket.AF_UNIX) as client:
        if crowded:
            client.connect(str(path))
        with pytest.raises(OSError, match="somebody listens there") as caught:
            bind(str(path))
    assert caught.value.errno == errno.EADDRINUSE
    assert bound.named


def test_what_is_no_socket_is_not_touched(path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(OSError, match="exists and is no socket"):
        bind(str(path))
    assert path.read_text() == "precious"


def test_only_the_own_name_is_removed(bound: NamedSocket, path: Path) -> None:
    bound.unlink()
    assert not path.exists()
    bound.unlink()
    path.write_text("another's")
    bound.unlink()
    assert path.exists()


def test_a_name_that_is_gone_or_anothers_is_noticed(bound: NamedSocket, path: Path) -> None:
    assert bound.named
    path.rename(path.with_suffix(".moved"))
    assert not bound.named
    path.write_text("another's")
    assert not bound.named
