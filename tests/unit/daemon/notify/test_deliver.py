"""Calls of a program and of a webhook."""

import gc
import json
import os
import socket
import subprocess
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import trio
import trustme
from trio.testing import wait_all_tasks_blocked

from htoolsd.config.notify import NotifySettings
from htoolsd.notify.deliver import Delivery, deliver
from tests.support.http_server import respond, serving
from tests.support.programs import ROOT

MESSAGE = json.dumps({"events": [{"text": "x" * 200_000}]}).encode()  # more than a pipe holds


def program(tmp_path: Path, script: str) -> str:
    path = tmp_path / "alarm"
    path.write_text(f"#!/bin/sh\ncd {tmp_path}\n{script}\n")
    path.chmod(0o755)
    return str(path)


async def call(path: str, seconds: float = 60.0) -> Delivery:
    with trio.fail_after(30):
        return await deliver(NotifySettings(program=path, timeout_seconds=seconds), MESSAGE)


async def without_reader(pipe: Path) -> None:
    """Wait until nobody has a named pipe open."""
    with trio.fail_after(30):
        while True:
            try:
                os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
            except OSError:
                return
            await trio.sleep(0.01)


async def test_program_gets_the_message(tmp_path: Path) -> None:
    path = program(tmp_path, "cat >message; echo 'accepted | by' >&2; echo more >&2; echo ignored")
    assert await call(path) == Delivery(0, "accepted | by")
    assert (tmp_path / "message").read_bytes() == MESSAGE


async def test_program_that_fails_says_why(tmp_path: Path) -> None:
    path = program(tmp_path, "printf 'no route\\033[2J\\nmore' >&2; exit 75")
    line = "no route\\x1b[2J"
    assert await call(path) == Delivery(75, line, f"{path}: exit status 75: {line}")


async def test_program_need_not_read_and_may_print_much(tmp_path: Path) -> None:
    path = program(tmp_path, "yes abcdefg | head -c 1000000 >&2")
    assert await call(path) == Delivery(0, "abcdefg")


async def test_program_that_prints_without_end_is_killed(tmp_path: Path) -> None:
    path = program(tmp_path, "yes abcdefg >&2")
    why = f"{path}: more than 1 MiB on standard error; it was killed"
    assert await call(path) == Delivery(None, "abcdefg", why)


async def test_children_that_go_on_hold_nothing_up(tmp_path: Path) -> None:
    path = program(tmp_path, "sleep 60 & echo $! >child")
    assert await call(path) == Delivery(0)
    os.kill(int((tmp_path / "child").read_text()), 9)  # still there


async def test_program_is_killed_with_its_children_at_the_deadline(tmp_path: Path) -> None:
    path = program(tmp_path, "mkfifo pipe; (exec 3<>pipe; echo late >&2; sleep 60) & wait")
    assert await call(path, 1.0) == Delivery(None, "late", f"{path}: no end within 1 s; it was killed")
    await without_reader(tmp_path / "pipe")


async def test_program_dies_with_the_daemon(tmp_path: Path) -> None:
    path = program(tmp_path, "mkfifo pipe; (exec 3<>pipe; echo >begun; sleep 60) & wait")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call, path)
        while not (tmp_path / "begun").exists():
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    await without_reader(tmp_path / "pipe")


@pytest.mark.parametrize("mode", [None, 0o644])
async def test_missing_program_is_an_error(tmp_path: Path, mode: int | None) -> None:
    path = program(tmp_path, "")
    os.unlink(path) if mode is None else os.chmod(path, mode)
    assert NotifySettings(program=path).problem() == f"{path}: expected a program that can be executed"
    why = "No such file or directory" if mode is None else "Permission denied"
    assert await call(path) == Delivery(error=f"{path}: {why}")


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trustme.LeafCert:
    """A certificate that the system trusts."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    monkeypatch.setenv("no_proxy", "*")
    return authority.issue_cert("localhost")


async def test_webhook_is_posted_over_verified_tls(certificate: trustme.LeafCert) -> None:
    received: list[tuple[str, str | None, bytes]] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers["Content-Length"])
        body = handler.rfile.read(length)
        received.append((f"{handler.command} {handler.path}", handler.headers["Content-Type"], body))
        respond(handler, b"", 204)

    with serving(answer, certificate) as port:
        settings = NotifySettings(url=f"https://localhost:{port}/hook?token=secret")
        assert await deliver(settings, MESSAGE) == Delivery(204)
    assert received == [("POST /hook?token=secret", "application/json", MESSAGE)]
    with serving(answer, trustme.CA().issue_cert("localhost")) as port:
        failed = await deliver(NotifySettings(url=f"https://localhost:{port}/hook?token=secret"), MESSAGE)
    assert failed.error is not None
    assert failed.error.startswith("localhost: ")
    assert "certificate verify failed" in failed.error
    assert len(received) == 1


async def test_webhook_that_does_not_read_leaves_nothing_behind() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings = NotifySettings(url=f"http://127.0.0.1:{server.getsockname()[1]}")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(deliver, settings, bytes(50_000_000))  # more than the kernel takes
            connection, _ = await trio.to_thread.run_sync(server.accept)
            with connection:
                await trio.to_thread.run_sync(connection.recv, 1)
                await wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
    gc.collect()  # what is left behind is a warning, which is an error in tests


async def test_webhook_that_refuses_redirects_or_hangs_is_an_error() -> None:
    release = threading.Event()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.rfile.read(int(handler.headers["Content-Length"]))
        if handler.path == "/hang":
            release.wait(30)
        elif handler.path == "/moved":
            handler.send_response(307)
            handler.send_header("Location", "/ok")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
        else:
            respond(handler, b"<html>", 503)

    with serving(answer) as port:
        base = f"http://localhost:{port}"
        refused = await deliver(NotifySettings(url=f"{base}/secret"), MESSAGE)
        moved = await deliver(NotifySettings(url=f"{base}/moved"), MESSAGE)
        hung = await deliver(NotifySettings(url=f"{base}/hang", timeout_seconds=0.3), MESSAGE)
        release.set()
    assert refused == Delivery(503, error="localhost: HTTP status 503 Service Unavailable")
    assert moved.status == 307
    assert hung.error is not None
    assert (await deliver(NotifySettings(url=base), MESSAGE)).error is not None  # nobody listens any more


def test_example_mails_a_message() -> None:
    event = {"text": "group rack1: node2 fails N+1", "command": "hbal -D -G rack1"}
    message = {
        "cluster": None,
        "node": "boss",
        "dropped": 2,
        "events": [event, {"text": "full", "command": ""}],
    }
    received = list[str]()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection, connection.makefile("rw", newline="") as stream:
                stream.write("220 here\r\n")
                for answer in "250 hello", "250 from", "250 to", "354 go on", "250 taken", "221 bye":
                    stream.flush()
                    received.append(stream.readline())
                    while answer == "250 taken" and received[-1] != ".\r\n":
                        received.append(stream.readline())
                    stream.write(f"{answer}\r\n")

        serving = threading.Thread(target=serve)
        serving.start()
        ended = run_example(message, server.getsockname()[1])
        serving.join()
    assert (ended.returncode, ended.stderr) == (0, "")
    envelope, _, rest = "".join(received).replace("\r\n", "\n").partition("data\n")
    assert "rcpt to:<root@localhost>" in envelope.lower()
    headers, _, body = rest.partition("\n\n")
    assert "Subject: boss: group rack1: node2 fails N+1 and 1 more\n" in headers
    text = "group rack1: node2 fails N+1\n  next: hbal -D -G rack1\nfull\nevents lost before: 2\n"
    assert body.partition(".\n")[0] == text
    refused = run_example(message, 1)
    assert refused.returncode == 1
    assert "Connection refused" in refused.stderr


def run_example(message: object, port: int) -> subprocess.CompletedProcess[str]:
    script = ROOT / "contrib" / "notify" / "htoolsd-mail"
    environment = {"PATH": os.environ["PATH"], "SMTP_SERVER": f"127.0.0.1:{port}"}
    return subprocess.run(
        [script], input=json.dumps(message), text=True, capture_output=True, env=environment, timeout=30
    )
