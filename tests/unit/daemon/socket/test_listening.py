import errno
import fcntl
import grp
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from htoolsd.socket import listening
from htoolsd.socket.listening import ListeningSocket, StartError, listen


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "htoolsd.sock"


@pytest.fixture
def listener(path: Path) -> Iterator[ListeningSocket]:
    listener = listen(str(path), "")
    yield listener
    listener.socket.close()


def test_everybody_may_connect(listener: ListeningSocket, path: Path) -> None:
    found = path.stat()
    assert stat.S_ISSOCK(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o666
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


def test_only_members_of_the_group_may_connect(path: Path) -> None:
    groups = [entry for entry in grp.getgrall() if entry.gr_gid in os.getgroups() or os.geteuid() == 0]
    group = groups[-1]
    listen(str(path), group.gr_name).socket.close()
    found = path.stat()
    assert (found.st_gid, stat.S_IMODE(found.st_mode)) == (group.gr_gid, 0o660)


def test_refuses_an_unknown_group_and_leaves_no_socket(path: Path) -> None:
    with pytest.raises(StartError, match="there is no group 'nobody-at-all'"):
        listen(str(path), "nobody-at-all")
    assert not path.exists()


def test_replaces_a_stale_socket(listener: ListeningSocket, path: Path) -> None:
    listener.socket.close()
    with listen(str(path), "").socket, socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


@pytest.mark.parametrize("crowded", [False, True])
def test_does_not_take_a_live_socket(path: Path, crowded: bool) -> None:
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as other, socket.socket(socket.AF_UNIX) as client:
        other.bind(str(path))
        other.listen(0)
        if crowded:
            client.connect(str(path))
        with pytest.raises(StartError, match="already running"):
            listen(str(path), "")
        assert path.exists()


def test_does_not_replace_what_is_not_a_socket(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("precious")
    with pytest.raises(StartError, match="exists and is no socket"):
        listen(str(path), "")
    assert path.read_text() == "precious"


def test_refuses_a_bad_socket_name_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "sock", tmp_path / ("x" * 200)):
        with pytest.raises(StartError) as caught:
            listen(str(path), "")
        assert str(path)[:100] in str(caught.value)
        assert "\n" not in str(caught.value)


def test_removes_only_its_own_name(listener: ListeningSocket, path: Path) -> None:
    listener.leave()
    assert not path.exists()
    listener.leave()
    path.write_text("another's")
    listener.leave()
    assert path.exists()


def test_gives_signs_of_life_only_while_it_has_the_name(listener: ListeningSocket, path: Path) -> None:
    sign = Path(f"{path}.lock")
    os.utime(sign, times=(1, 1))
    listener.touch()
    assert sign.stat().st_mtime > 1
    path.unlink()
    path.touch()
    os.utime(sign, times=(1, 1))
    listener.touch()
    assert sign.stat().st_mtime == 1


def test_sign_of_life_is_made_again_and_only_the_daemons(listener: ListeningSocket, path: Path) -> None:
    sign = Path(f"{path}.lock")
    sign.unlink()
    listener.touch()
    assert stat.S_IMODE(sign.stat().st_mode) == 0o600


CONTENDER = """
import sys
from htoolsd.socket import listening
from htoolsd.socket.listening import StartError, listen
for _ in sys.stdin:
    try:
        listener = listen(sys.argv[1], "")
    except StartError as error:
        print(str(error).partition(":")[0], flush=True)
    else:
        print("listens", flush=True)
        sys.stdin.readline()
        listener.socket.close()
        print("gone", flush=True)
"""


def test_one_of_several_simultaneous_daemons_listens(path: Path) -> None:
    """Each time over a socket that somebody left who was killed."""
    contenders = [
        subprocess.Popen(
            [sys.executable, "-c", CONTENDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]

    def told(each: subprocess.Popen[str]) -> str:
        assert each.stdout is not None
        return each.stdout.readline().strip()

    def go(each: subprocess.Popen[str]) -> None:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()

    try:
        for _ in range(50):
            for each in contenders:
                go(each)
            outcomes = [told(each) for each in contenders]
            assert sorted(outcomes) == [*["already running"] * 3, "listens"]
            winner = contenders[outcomes.index("listens")]
            go(winner)
            assert told(winner) == "gone"
    finally:
        for each in contenders:
            each.kill()
            each.communicate()


def test_waits_for_another_daemon_that_is_about_to_listen(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "_PATIENCE", 0.05)
    path.parent.mkdir()
    with open(f"{path}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(StartError, match="another htoolsd is about to listen there"):
            listen(str(path), "")
    listen(str(path), "").socket.close()


def test_removes_no_name_that_another_daemon_is_taking(listener: ListeningSocket, path: Path) -> None:
    with open(f"{path}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        listener.leave()
    assert path.exists()


def test_raises_when_the_name_cannot_be_removed(
    listener: ListeningSocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), path)

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(PermissionError):
        listener.leave()
