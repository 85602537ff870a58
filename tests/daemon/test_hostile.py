"""Whatever a client sends, the others are answered."""

import json
import os
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from ganeti_htools.client.calls import CallRefusedError
from tests.support import messages
from tests.support.clusters import Shape, cluster
from tests.support.lingering import lingering, within
from tests.support.programs import PATIENCE, Daemon, connect, request_file, running, wait_until

PROMPT = 1.0  # seconds of the daemon's CPU time; usually 0.2. Others may keep the machine busy.
MIB = 1 << 20
CALL = b'{"method":"decide","version":1,"args":{}}\x03'


def heard(client: socket.socket) -> bytes:
    client.settimeout(PATIENCE)
    answer = b""
    while not answer.endswith(b"\x03") and (piece := client.recv(1 << 16)):
        answer += piece
    return answer


def cpu_time(daemon: Daemon) -> float:
    """The seconds of CPU time that the daemon has used."""
    fields = Path(f"/proc/{daemon.process.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def slowest_status(daemon: Daemon, hostile: threading.Thread) -> float:
    """Of those asked for while another thread is at it."""
    slowest = 0.0
    hostile.start()
    while hostile.is_alive():
        began = cpu_time(daemon)
        daemon.status()
        slowest = max(slowest, cpu_time(daemon) - began)
    hostile.join()
    return slowest


def quoted(text: str) -> bytes:
    call = {"method": "decide", "version": 1, "args": {"request": text}}
    return json.dumps(call, ensure_ascii=False).encode()


# Made when they are sent: together they are large.
MESSAGES: dict[str, tuple[Callable[[], bytes], bytes]] = {
    "lists": (lambda: b"[" + b"[]," * (5 * MIB) + b"0]", b"more than 10000 values"),
    "nested": (lambda: b"[" * (15 * MIB), b"more than 10000 values"),
    "not very nested": (lambda: b"[" * 5000, b"within each other"),
    "backslashes": (lambda: b'"' + b"\\" * (15 * MIB), b"bad-message"),
    "quotes": (lambda: b'"' * (15 * MIB), b"bad-message"),
    "too long": (lambda: b"[" + b"[]," * (20 * MIB), b"longer than 16777216 bytes"),
    "text": (lambda: quoted("\U0001f600" * (3 * MIB)), b"Invalid JSON"),
    "lists in a text": (lambda: quoted("[" + "[]," * (5 * MIB) + "0]"), b"more than 1000000 values"),
    "ends": (lambda: b"\x03" * MIB, b"more than 1000 calls are not answered yet"),
    "a method": (
        lambda: json.dumps({"method": "x" * (15 * MIB), "args": {}, "version": 1}).encode(),
        b"no method",
    ),
}


@pytest.mark.parametrize("kind", MESSAGES)
def test_messages(daemon: Daemon, kind: str) -> None:
    make, expected = MESSAGES[kind]
    message, answers = make() + b"\x03", []

    def send() -> None:
        with connect(daemon.socket) as client:
            with suppress(BrokenPipeError):  # the answer may come before all was sent
                client.sendall(message)
            answers.append(heard(client))

    assert slowest_status(daemon, threading.Thread(target=send)) < PROMPT
    assert expected in answers[0]


def many_nodes(number: int) -> bytes:
    content = messages.message(cluster(1, Shape(nodes=3, instances=4)), messages.allocate("new"))
    node = next(iter(content["nodes"].values()))
    nodes = {**content["nodes"], **{f"other{i}": node for i in range(number)}}
    return json.dumps({**content, "nodes": nodes}).encode()


FILES: dict[str, tuple[Callable[[], bytes], bytes]] = {
    "lists": (lambda: b"[" + b"[]," * (5 * MIB) + b"0]", b"more than 1000000 values"),
    "fewer lists": (lambda: b"[" + b"[]," * 300_000 + b"0]", b"expected an object"),
    "nested": (lambda: b"[" * 400_000, b"within each other"),
    "too long": (lambda: b"[" + b"[]," * (80 * MIB), b"longer than 16777216 bytes"),
    "members": (lambda: b'{"nodegroups": {}, "nodes": {"' + b'}, "' * (3 * MIB), b"more than 1000000 values"),
    "nodes": (lambda: many_nodes(20_000), b"more than 3000 nodes"),
    "objects": (lambda: b'{"nodes":[' + b'{"a":0.5},' * 499_000 + b"0]}", b"key 'request' not found"),
    "a name twice": (lambda: b'{"a":{' + b'"b":[],' * 300_000 + b'"b":0}}', b"key 'request' not found"),
}


@pytest.mark.parametrize("kind", FILES)
def test_files(daemon: Daemon, tmp_path: Path, kind: str) -> None:
    make, expected = FILES[kind]
    path = tmp_path / "request"
    path.write_bytes(make())
    answers = []

    def ask() -> None:
        with connect(daemon.socket) as client, path.open() as file:
            socket.send_fds(client, [CALL], [file.fileno()])
            answers.append(heard(client))

    assert slowest_status(daemon, threading.Thread(target=ask)) < PROMPT
    assert expected in answers[0]


def test_decides_while_policies_plan(daemon: Daemon, tmp_path: Path) -> None:
    with connect(daemon.socket) as client, request_file(tmp_path).open() as file:
        socket.send_fds(client, [CALL], [file.fileno()])
        assert b"Request successful" in heard(client)


@pytest.mark.parametrize("kind", ["one", "as many as fit", "nested", "unread"])
@pytest.mark.parametrize("via", ["socket", "HTTP"])
def test_nobody_waits_for_descriptors_that_are_slow_to_close(tmp_path: Path, via: str, kind: str) -> None:
    """Not even who stops the daemon. Each close takes 10 minutes."""
    path, message = tmp_path / "daemon" / "socket", b'{"method":"status","version":1,"args":{}}\x03'
    if via == "HTTP":
        path, message = tmp_path / "http", b"GET / HTTP/1.1\r\n\r\n"

    def answers() -> bool:
        with suppress(OSError), connect(path) as client:
            client.sendall(message)
            return bool(heard(client) if via == "socket" else client.recv(1))
        return False

    def has_status() -> bool:
        with suppress(CallRefusedError):
            return bool(daemon.status())
        return False

    config = f'[http]\nlisten = "unix:{tmp_path}/http"\n'
    with running(tmp_path / "daemon", config=config) as daemon, ExitStack() as stack:
        wait_until(path.exists)
        ends, others = zip(*(lingering() for _ in range(2 if kind == "one" else 12)), strict=True)
        for other in others:
            stack.enter_context(other)
        passed = [within(end) for end in ends] if kind == "nested" else ends
        many = [end.fileno() for end in passed] * (20 if kind == "as many as fit" else 1)
        for _ in range(8):
            with connect(path) as client, suppress(OSError):
                if kind == "unread":
                    client.sendall(b"\x03")
                socket.send_fds(client, [message], many)
        with connect(path) as client:
            with suppress(OSError):  # only root may have any number on their way
                socket.send_fds(client, [message], many)
            for end in {*ends, *passed}:
                end.close()
        wait_until(answers)  # at once, or once few of this user's descriptors are left
        wait_until(has_status)
        assert daemon.stop() == 0
