"""The log: written to whoever reads it, and no burden to the daemon when nobody does."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress

import pytest

from htoolsd.logs import Outlet

Pipe = tuple[int, int]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    ends = os.pipe()
    yield ends
    for end in ends:
        with suppress(OSError):  # it may be closed
            os.close(end)


def test_lines_come_out_as_they_are(pipe: Pipe) -> None:
    outlet = Outlet(pipe[1])
    outlet.write(b"one\n")
    outlet.write(b"t" * 10_000 + b"\n")
    assert os.read(pipe[0], 1 << 20) == b"one\n" + b"t" * 10_000 + b"\n"


def test_lines_for_which_there_is_no_room_are_counted(pipe: Pipe) -> None:
    outlet, line, count = Outlet(pipe[1]), b"x" * 999 + b"\n", 500
    for _ in range(count):
        outlet.write(line)  # would wait for ever
    kept = os.read(pipe[0], 1 << 20).count(line)
    assert 0 < kept < count
    outlet.write(b"last\n")
    told, last = os.read(pipe[0], 1 << 20).splitlines()
    assert json.loads(told) == {"event": "log lines lost", "lines": count - kept}
    assert last == b"last"


def test_nobody_can_read_it_any_more(pipe: Pipe) -> None:
    outlet = Outlet(pipe[1])
    os.close(pipe[0])
    outlet.write(b"one\n")
    outlet.write(b"two\n")
