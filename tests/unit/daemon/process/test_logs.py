"""The log: written to whoever reads it, and no burden to the daemon when nobody does."""

import fcntl
import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, suppress
from pathlib import Path

import pytest
import structlog

from htoolsd.process import logs
from htoolsd.process.logs import NonBlockingLog

Pipe = tuple[int, int]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    ends = os.pipe()
    yield ends
    for end in ends:
        with suppress(OSError):  # it may be closed
            os.close(end)


def test_writes_lines_unchanged(pipe: Pipe) -> None:
    outlet = NonBlockingLog(pipe[1])
    outlet.write(b"one\n")
    outlet.write(b"t" * 10_000 + b"\n")
    assert os.read(pipe[0], 1 << 20) == b"one\n" + b"t" * 10_000 + b"\n"


def test_counts_lost_lines(pipe: Pipe) -> None:
    outlet, line, count = NonBlockingLog(pipe[1]), b"x" * 999 + b"\n", 500
    for _ in range(count):
        outlet.write(line)  # would never return if it waited
    kept = os.read(pipe[0], 1 << 20).count(line)
    assert 0 < kept < count
    outlet.write(b"last\n")
    told, last = os.read(pipe[0], 1 << 20).splitlines()
    assert json.loads(told) == {"event": "log lines lost", "lines": count - kept}
    assert last == b"last"


def test_line_that_was_begun_is_finished_before_any_other(pipe: Pipe) -> None:
    fcntl.fcntl(pipe[1], fcntl.F_SETPIPE_SZ, 8192)
    outlet, received = NonBlockingLog(pipe[1]), b""
    for size in (3000, 9000, 20_000, 10, 5000, 1):
        outlet.write(b"%d" % size + b"x" * size + b"\n")
        received += os.read(pipe[0], 5000)
    for _ in range(10):
        outlet.write(b"last\n")
        received += os.read(pipe[0], 1 << 20)
    lines = received.splitlines()
    whole = {b"%d" % size + b"x" * size for size in (3000, 9000, 20_000, 10, 5000, 1)}
    assert all(line in whole or line == b"last" or b"log lines lost" in line for line in lines)
    assert lines[:2] == [b"3000" + b"x" * 3000, b"9000" + b"x" * 9000]
    assert lines[-1] == b"last"


def test_a_closed_pipe_loses_lines(pipe: Pipe) -> None:
    outlet = NonBlockingLog(pipe[1])
    os.close(pipe[0])
    outlet.write(b"one\n")
    outlet.write(b"two\n")
    read, write = os.pipe()
    os.dup2(write, pipe[1])
    outlet.write(b"last\n")
    told, last = os.read(read, 1 << 20).splitlines()
    assert (json.loads(told)["lines"], last) == (2, b"last")
    os.close(read)
    os.close(write)


def logged(pipe: Pipe, say: Callable[[], None]) -> list[bytes]:
    """What is logged by a process whose standard error is a pipe."""
    with os.fdopen(os.dup(pipe[1]), "w") as stderr, redirect_stderr(stderr):
        logs.configure()
        try:
            say()
        finally:
            structlog.reset_defaults()
    os.write(pipe[1], b"end")
    return os.read(pipe[0], 1 << 20).splitlines()[:-1]


def test_keeps_foreign_text_on_one_short_line(pipe: Pipe) -> None:
    (line,) = logged(
        pipe, lambda: structlog.get_logger().info("seen", path="\udcff\n", method="x" * 10_000_000)
    )
    assert len(line) < 3000
    assert json.loads(line)["path"] == r"\udcff\n"
    (line,) = logged(
        pipe, lambda: structlog.get_logger().info("seen", nodes=[("a\n", "x" * 1_000_000)], instances=("b",))
    )
    assert len(line) < 3000
    assert json.loads(line)["nodes"][0][0] == r"a\n"
    assert json.loads(line)["instances"] == ["b"]


def say_all() -> None:
    log = structlog.get_logger()
    for say in (log.debug, log.info, log.warning, log.error, log.critical):
        say("said")
    try:
        raise ValueError
    except ValueError:
        log.exception("said")
    logs.print_error("said")


def test_adds_priorities_for_the_journal(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    found = os.fstat(pipe[1])
    monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")
    lines = logged(pipe, say_all)
    assert [line[:3] for line in lines] == [b"<7>", b"<6>", b"<4>", b"<3>", b"<2>", b"<3>", b"<3>"]


def test_lines_reach_the_journal_whole_or_not_at_all(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = os.fstat(pipe[1])
    monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")
    monkeypatch.setattr(logs, "_JOURNAL", str(tmp_path / "journal"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(str(tmp_path / "journal"))
        journal.setblocking(False)

        def received() -> list[dict[str, str]]:
            found = []
            with suppress(BlockingIOError):
                while True:
                    lines = journal.recv(1 << 20).decode().splitlines()
                    found.append(dict(line.split("=", 1) for line in lines))
            return found

        def say_much() -> None:
            log, sent = structlog.get_logger(), 2000
            for number in range(sent):
                log.error("said", number=number, text="x" * 900)
            read = received()
            assert [json.loads(each["MESSAGE"])["number"] for each in read] == list(range(len(read)))
            log.warning("last")
            lost, last = received()
            assert json.loads(lost["MESSAGE"]) == {"event": "log lines lost", "lines": sent - len(read)}
            assert (last["PRIORITY"], json.loads(last["MESSAGE"])["event"]) == ("4", "last")
            assert {each["PRIORITY"] for each in read} == {"3"}

        assert logged(pipe, say_much) == []


def test_other_users_cannot_connect(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOURNAL_STREAM", "1:2")
    *lines, complaint = logged(pipe, say_all)
    assert {json.loads(line)["event"] for line in lines} == {"said"}
    assert complaint == b"htoolsd: said"
