"""The HTTP listener goes on, whatever happens to its socket."""

import socket
from pathlib import Path
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs

from htoolsd.api.parts import HttpStatus
from htoolsd.config.http import HttpSettings
from htoolsd.http.listener import HttpListener
from htoolsd.socket.access import Access
from tests.support.settings import settings

UNUSED: Any = None


@pytest.mark.parametrize("unix", [False, True])
async def test_listens_again_after_an_error_of_its_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unix: bool
) -> None:
    (tmp_path / "token").write_text("0123456789abcdef\n")
    (tmp_path / "token").chmod(0o600)
    listening = 0

    async def fail(_serve: object, listeners: list[trio.SocketListener], **_keywords: object) -> None:
        nonlocal listening
        listening += 1
        if listening == 3:
            scope.cancel()
        for listener in listeners:
            await listener.aclose()
        raise ExceptionGroup("tasks", [OSError(5, "Input/output error")])

    monkeypatch.setattr("htoolsd.http.listener._RETRY", 0.01)
    monkeypatch.setattr(trio, "serve_listeners", fail)
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    table = HttpSettings(listen=f"127.0.0.1:{port}", token_file=str(tmp_path / "token"))
    if unix:
        table = HttpSettings(listen=f"unix:{tmp_path}/socket")
    known = settings(http=table)
    state = HttpStatus()
    http = HttpListener(known, Access(known), UNUSED, UNUSED, UNUSED, state)
    with capture_logs() as lines, trio.CancelScope() as scope:
        await http.run()
    assert [(line["event"], line["error"]) for line in lines if line["log_level"] == "error"] == [
        ("HTTP not listening", "Input/output error")
    ]


async def test_status_has_the_error_while_it_does_not_listen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("htoolsd.http.listener._RETRY", 0.01)
    (tmp_path / "token").write_text("0123456789abcdef")
    (tmp_path / "token").chmod(0o644)
    with socket.create_server(("127.0.0.1", 0)) as unused:
        listen = f"127.0.0.1:{unused.getsockname()[1]}"
    table = HttpSettings(listen=listen, token_file=str(tmp_path / "token"))
    known = settings(http=table)
    state = HttpStatus()
    http = HttpListener(known, Access(known), UNUSED, UNUSED, UNUSED, state)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(http.run)
        while state.error is None:
            await trio.sleep(0.01)
        assert "expected mode 0600" in state.error
        (tmp_path / "token").chmod(0o600)
        while state.error is not None:
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
