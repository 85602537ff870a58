"""The right to act on a luxid."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from htoolsd.sync.acting import ActingRight

Rights = Callable[[Path], ActingRight]

HOLDER = """
import sys
from htoolsd.sync.acting import ActingRight
right = ActingRight(sys.argv[1])
assert right.rival() is None
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def right() -> Iterator[Rights]:
    """Return a function that makes rights, which end with the test."""
    with ExitStack() as made:

        def make(luxi: Path) -> ActingRight:
            return made.enter_context(closing(ActingRight(str(luxi))))

        yield make


@pytest.fixture
def luxi(tmp_path: Path) -> Path:
    path = tmp_path / "luxi"
    path.touch()
    return path


def test_second_one_sees_the_process_of_the_first(luxi: Path, right: Rights) -> None:
    first, second = right(luxi), right(luxi)
    assert first.rival() is None
    for _ in range(300):  # more than wait for an answer at the same time
        assert second.rival() == os.getpid()
        assert first.rival() is None


def test_right_ends_with_the_process(luxi: Path, right: Rights) -> None:
    mine = right(luxi)
    command = [sys.executable, "-c", HOLDER, str(luxi)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert mine.rival() == holder.pid
        holder.kill()
        holder.wait()
    assert mine.rival() is None


def test_holder_that_never_answers_is_still_a_rival(luxi: Path, right: Rights) -> None:
    first, second = right(luxi), right(luxi)
    assert first.rival() is None
    assert {second.rival() for _ in range(5000)} == {os.getpid()}


def test_each_luxid_has_a_right_of_its_own(luxi: Path, right: Rights) -> None:
    (luxi.parent / "other").touch()
    (luxi.parent / "link").symlink_to(luxi.parent)
    first = right(luxi)
    assert first.rival() is None
    assert right(luxi.parent / "other").rival() is None
    assert right(luxi.parent / "link" / "luxi").rival() == os.getpid()


def test_right_survives_a_restart_of_luxid(luxi: Path, right: Rights) -> None:
    first, second = right(luxi), right(luxi)
    assert first.rival() is None
    luxi.unlink()
    assert (first.rival(), second.rival()) == (None, None)
    luxi.touch()
    assert (first.rival(), second.rival()) == (None, os.getpid())


class OfNobody:
    """Credentials of a process of another user."""

    size = 12

    def unpack(self, _data: bytes) -> tuple[int, int, int]:
        return 1, 65534, 65534


def test_other_users_cannot_take_the_right_away(
    luxi: Path, right: Rights, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = right(luxi), right(luxi)
    assert first.rival() is None
    monkeypatch.setattr("htoolsd.sync.acting._CREDENTIALS", OfNobody())
    assert second.rival() is None
