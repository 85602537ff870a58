"""``htoolsctl top`` in a real terminal, and as text where there is none."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.support.programs import PATIENCE, PROGRAMS, Daemon, run, running, small_cluster, wait_until
from tests.support.simulators import simulator

SIZE = struct.pack("HHHH", 24, 80, 0, 0)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    place = tmp_path_factory.mktemp("daemon")
    with simulator(place, small_cluster()), running(place) as daemon:
        wait_until(lambda: daemon.status()["cluster"]["nodes"])
        yield daemon


def on_terminal(daemon: Daemon, kind: str, *steps: tuple[bytes, bytes]) -> tuple[int, bytes]:
    """Run it on a terminal, and send keys as soon as texts are there; the exit status and all output."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, SIZE)
    environment = {**os.environ, "HTOOLSD_SOCKET": str(daemon.socket), "TERM": kind}
    process = subprocess.Popen(
        [PROGRAMS / "htoolsctl", "top"], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    seen, begin = b"", 0
    with open(ours, "rb", buffering=0) as screen, process:
        for text, keys in (*steps, (b"\0never", b"")):
            while text not in seen[begin:] and select.select([screen], [], [], PATIENCE)[0]:
                part = b""
                with suppress(OSError):  # the other side is closed
                    part = screen.read(1 << 16)
                if not part:
                    break
                seen += part
            begin = len(seen)
            if keys:
                os.write(ours, keys)
        return process.wait(PATIENCE), seen


def test_live_view_obeys_keys_and_leaves_the_screen(daemon: Daemon) -> None:
    there = (b"q quit", b"\n"), (b"OTHER NODE", b"\n"), (b"why ", b"\x7f")
    status, seen = on_terminal(daemon, "vt100", *there, (b"OTHER NODE", b"j"), (b"SUMMARY", b"q"))
    assert (status, b"node1" in seen, b"expected" in seen) == (0, True, False)


def test_terminal_without_capabilities_is_an_error_of_one_line(daemon: Daemon) -> None:
    status, seen = on_terminal(daemon, "no-such-terminal")
    assert (status, seen.count(b"\n")) == (1, 1)
    assert b"try --once" in seen


def test_frame_as_text_has_all_nodes(daemon: Daemon) -> None:
    shown = run(PROGRAMS / "htoolsctl", "top", "--once", environment={"HTOOLSD_SOCKET": str(daemon.socket)})
    assert shown.returncode == 0
    assert all(node.name.partition(".")[0] in shown.stdout for node in small_cluster().nodes)


def test_no_daemon_is_an_error_of_one_line() -> None:
    shown = run(PROGRAMS / "htoolsctl", "--socket", "/nonexistent", "top")
    assert (shown.returncode, shown.stdout, shown.stderr.count("\n")) == (1, "", 1)
