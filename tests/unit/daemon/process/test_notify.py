import os
import socket
from math import inf
from pathlib import Path

import pytest

from htoolsd.process.notify import notify, watchdog


@pytest.mark.parametrize("abstract", [False, True])
def test_the_service_manager_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abstract: bool) -> None:
    name = f"@{tmp_path}" if abstract else str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(30)
        manager.bind(name.replace("@", "\0"))
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        notify("READY=1", "STATUS=5 nodes")
        assert manager.recv(100) == b"READY=1\nSTATUS=5 nodes"


def test_nobody_there_is_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "none"))
    notify("READY=1")


@pytest.mark.parametrize(
    ("usec", "pid", "seconds"),
    [
        ("60000000", "", 60),
        ("60000000", "OWN", 60),
        ("60000000", "1", inf),
        ("", "", inf),
        ("x", "", inf),
        ("0", "", inf),
    ],
)
def test_how_often_the_service_manager_wants_to_hear(
    monkeypatch: pytest.MonkeyPatch, usec: str, pid: str, seconds: float
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    monkeypatch.setenv("WATCHDOG_PID", pid.replace("OWN", str(os.getpid())))
    assert watchdog() == seconds
