"""The daemon's first socket: a new one, or one that outlives daemons."""

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from htoolsd.process.socket import first_socket
from htoolsd.socket.listening import StartError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "socket"


@pytest.fixture
def kept(path: Path) -> Iterator[socket.socket]:
    """A socket that stays open elsewhere."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
        sock.listen()
        yield sock


def passed(sock: socket.socket) -> int:
    """A descriptor of the socket for another owner."""
    return os.dup(sock.fileno())


def test_given_socket_is_used_and_outlives_its_user(path: Path, kept: socket.socket) -> None:
    waiting = socket.socket(socket.AF_UNIX)
    with waiting, first_socket(str(path), "", passed(kept)).socket as used:
        waiting.connect(str(path))
        assert used.get_inheritable() is False
        used.close()
        kept.accept()[0].close()


def test_given_socket_admits_whom_the_configuration_says(path: Path, kept: socket.socket) -> None:
    path.chmod(0o600)
    first_socket(str(path), "", passed(kept)).socket.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o666


def test_end_leaves_a_mark_on_a_kept_socket(path: Path, kept: socket.socket) -> None:
    listener = first_socket(str(path), "", passed(kept))
    sign = path.with_suffix(".lock")
    listener.leave()
    assert sign.stat().st_mtime == 0
    listener.touch()
    assert sign.stat().st_mtime > 0
    listener.socket.close()


def test_new_socket_is_removed_at_the_end(path: Path) -> None:
    listener = first_socket(str(path), "", None)
    listener.leave()
    assert not path.exists()
    listener.socket.close()


def test_given_socket_must_be_one_with_the_right_name(path: Path, kept: socket.socket) -> None:
    with tempfile.TemporaryFile() as file, pytest.raises(StartError, match="expected a socket"):
        first_socket(str(path), "", file.fileno())
    with pytest.raises(StartError, match="is not the Unix socket /another"):
        first_socket("/another", "", passed(kept))
    other = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with other, pytest.raises(StartError, match="is not the Unix socket"):
        first_socket(str(path), "", passed(other))
    path.rename(path.with_suffix(".old"))
    with pytest.raises(StartError, match="is not the name of this socket any more"):
        first_socket(str(path), "", passed(kept))


@pytest.mark.parametrize("name_changed", [False, True])
def test_passed_socket_is_used_if_it_has_the_name(
    path: Path, kept: socket.socket, name_changed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = path.with_suffix(".new") if name_changed else path
    monkeypatch.setattr("htoolsd.process.socket.passed_sockets", lambda: [passed(kept)])
    with structlog.testing.capture_logs() as log:
        listener = first_socket(str(wanted), "", None)
    assert (listener.kept, listener.named) == (not name_changed, True)
    assert [line["event"] for line in log] == ["passed socket is not used"] * name_changed
    listener.socket.close()
