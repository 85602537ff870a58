"""The sign of a daemon that starts on a kept socket."""

import os
import runpy
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ganeti_htools.client.protocol import STARTING
from ganeti_htools.sockets import is_open
from htoolsd.process import starting
from htoolsd.process.starting import SUFFIX, show_start
from tests.support.programs import FALLBACK


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / "socket"))
        yield sock


def sign_of(sock: socket.socket) -> str:
    return f"{sock.getsockname()}{SUFFIX}"


@pytest.mark.parametrize("form", ["--socket-fd {}", "--socket-fd={}", "passed"])
def test_sign_is_open_until_it_is_closed_and_given_again(
    kept: socket.socket, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, environment = form.format(kept.fileno()).split(), dict[str, str]()
    if form == "passed":
        monkeypatch.setattr(starting, "_FIRST_PASSED", kept.fileno())
        environment = {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
    for _ in range(2):
        (sign,) = show_start(["htoolsd", *options], environment)
        assert is_open(sign_of(kept))
        assert not sign.get_inheritable()
        sign.close()
        assert not is_open(sign_of(kept))


def test_sign_of_another_daemon_stays(kept: socket.socket) -> None:
    argv = ["htoolsd", "--socket-fd", str(kept.fileno())]
    (first,) = show_start(argv, {})
    assert not show_start(argv, {})
    assert is_open(sign_of(kept))
    first.close()


@pytest.mark.parametrize(
    ("argv", "environment"),
    [
        ([], {}),
        (["--socket-fd"], {}),
        (["--socket-fd", "x"], {}),
        (["--socket-fd", "99999999999999999999"], {}),
        (["--socket-fd=0"], {}),
        ([], {"LISTEN_FDS": "1", "LISTEN_PID": "1"}),
    ],
)
def test_no_sign_without_a_kept_socket(argv: list[str], environment: Mapping[str, str]) -> None:
    assert not show_start(["htoolsd", *argv], environment)


def test_socket_without_a_name_gets_no_sign() -> None:
    with socket.socket(socket.AF_UNIX) as unnamed:
        assert not show_start(["htoolsd", "--socket-fd", str(unnamed.fileno())], {})


def test_little_is_imported_before_the_sign() -> None:
    code = "import sys, htoolsd.__main__"
    code += "; assert not {'argparse', 'dataclasses', 'trio', 'numpy', 'ganeti_htools'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={})


def test_all_programs_know_the_sign_by_the_same_name() -> None:
    assert runpy.run_path(str(FALLBACK))["START"] == STARTING == SUFFIX
