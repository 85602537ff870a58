"""The HTTP listener of a running daemon, over real sockets."""

import os
import shutil
import signal
import socket
import stat
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.programs import PATIENCE, Daemon, run, running, wait_until

TOKEN = "0123456789abcdef"
RIGHT = f"Authorization: Bearer {TOKEN}"
LIMITS = "idle_seconds = 0.5\nconnections = 3\nconnections_per_user = 3\n"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def token_file(directory: Path) -> Path:
    file = directory / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    return file


def over_tcp(port: int, token: Path) -> str:
    return f'[http]\nlisten = "127.0.0.1:{port}"\ntoken_file = "{token}"\nhosts = ["master.example.org"]\n'


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, int]]:
    """A daemon, and its port."""
    directory, port = tmp_path_factory.mktemp("http"), free_port()
    with running(directory, config=LIMITS + over_tcp(port, token_file(directory))) as daemon:
        wait_until(lambda: listens(port))
        yield daemon, port


@pytest.fixture
def port(serving: tuple[Daemon, int]) -> int:
    return serving[1]


def exchange(port: int, data: bytes) -> bytes:
    """Send bytes; return everything that comes back until the end."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as sock:
        sock.sendall(data)
        return rest(sock)


def rest(sock: socket.socket) -> bytes:
    received = b""
    while part := sock.recv(1 << 16):
        received += part
    return received


def ask(port: int, line: str, *headers: str, host: str = "Host: localhost") -> tuple[int, str, str]:
    """Send a request; return status, head and body of the answer."""
    head = "\r\n".join((line, *([host] if host else []), *headers, "", ""))
    return answer(exchange(port, head.encode()))


def answer(received: bytes) -> tuple[int, str, str]:
    head, _, body = received.decode().partition("\r\n\r\n")
    return int(head.split()[1]), head, body


def test_metrics_and_health(port: int) -> None:
    status, head, body = ask(port, "GET /metrics HTTP/1.1", RIGHT)
    assert (status, body[:20]) == (200, "# HELP htoolsd_info ")
    assert "Content-Type: text/plain; version=0.0.4; charset=utf-8" in head
    status, _, body = ask(port, "GET /healthz HTTP/1.1", RIGHT, host="Host: master.example.org:80")
    assert (status, body.count("\n")) == (503, 1)
    assert body.startswith("luxid cannot be asked: ")
    status, head, body = ask(port, "HEAD /metrics HTTP/1.1", RIGHT)
    assert (status, body) == (200, "")
    assert "Content-Length: 0" not in head


@pytest.mark.parametrize(
    ("line", "headers", "status"),
    [
        ("GET /metrics HTTP/1.1", [], 401),
        ("GET / HTTP/1.1", [], 401),
        ("GET /nothing HTTP/1.1", [RIGHT], 404),
        ("POST /metrics HTTP/1.1", [RIGHT, "Content-Length: 1000000"], 405),
        ("GET /metrics HTTP/1.1", [RIGHT, "Host: localhost"], 400),
        ("GET /metrics HTTP/1.1", [RIGHT, f"X: {'x' * 40000}"], 431),
        ("GET /metrics\x01 HTTP/1.1", [RIGHT], 400),
        ("CONNECT evil.example:80 HTTP/1.1", [RIGHT], 404),
        ("GET /metrics HTTP/1.1", [RIGHT, "Transfer-Encoding: chunked", "Content-Length: 3"], 200),
    ],
)
def test_refusals(port: int, line: str, headers: list[str], status: int) -> None:
    assert ask(port, line, *headers)[0] == status


def test_other_hosts_are_refused_before_the_token_counts(port: int) -> None:
    for host in ("Host: evil.example", "Host: localhost.evil.example"):
        assert ask(port, "GET /metrics HTTP/1.1", RIGHT, host=host)[0] == 403
    assert ask(port, "GET /metrics HTTP/1.0", RIGHT, host="")[0] == 403
    assert ask(port, "GET /metrics HTTP/1.1", RIGHT, host="")[0] == 400


def test_a_connection_has_one_answer(port: int) -> None:
    request = f"GET /healthz HTTP/1.1\r\nHost: localhost\r\n{RIGHT}\r\n\r\n".encode()
    received = exchange(port, 5 * request)
    assert received.count(b"HTTP/1.1 ") == 1
    assert b"Connection: close" in received


def test_what_is_no_http_is_answered_as_such(port: int) -> None:
    for data in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 600, b"\x03{}\x03\r\n\r\n"):
        assert answer(exchange(port, data))[0] == 400


def test_slow_heads_end_in_time(port: int) -> None:
    begun = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n")
        for _ in range(3):  # each byte is in time, the head is not
            time.sleep(0.1)
            sock.sendall(b"x")
        assert answer(rest(sock))[0] == 408
    assert 0.4 < time.monotonic() - begun < PATIENCE


def test_idle_clients_give_way_to_new_ones(port: int) -> None:
    idle = [socket.create_connection(("127.0.0.1", port), PATIENCE) for _ in range(6)]
    try:
        assert ask(port, "GET /metrics HTTP/1.1", RIGHT)[0] == 200
    finally:
        for sock in idle:
            sock.close()


def test_clients_that_leave_are_no_errors(serving: tuple[Daemon, int]) -> None:
    daemon, port = serving
    now = struct.pack("ii", 1, 0)  # with this, closing resets the connection
    for data in (b"", b"GET /met", f"GET /metrics HTTP/1.1\r\nHost: localhost\r\n{RIGHT}\r\n\r\n".encode()):
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as sock:
            sock.sendall(data)
            time.sleep(0.05)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)
    assert ask(port, "GET /metrics HTTP/1.1", RIGHT)[0] == 200
    assert not [each for each in daemon.events() if each["level"] == "error"]


def test_users_of_a_unix_socket_have_roles_and_a_reload_moves_the_listener(tmp_path: Path) -> None:
    path, port = tmp_path / "http", free_port()
    tmp_path.chmod(0o755)
    token = token_file(tmp_path)
    with running(tmp_path / "daemon", config=f'[http]\nlisten = "unix:{path}"\n') as daemon:
        wait_until(path.exists)
        assert stat.S_IMODE(path.stat().st_mode) == 0o666
        assert unix(path) == 200
        token.chmod(0o644)
        reload(daemon, over_tcp(port, token))
        wait_until(lambda: daemon.told("HTTP not listening"))
        assert daemon.told("HTTP not listening")[0]["error"].endswith("expected mode 0600")
        assert not path.exists()
        token.chmod(0o600)
        reload(daemon, over_tcp(port, token))
        wait_until(lambda: len(daemon.told("HTTP listening")) == 2)
        assert ask(port, "GET /metrics HTTP/1.1", RIGHT)[0] == 200
        token.write_text("fedcba9876543210")
        reload(daemon, over_tcp(port, token))
        wait_until(lambda: len(daemon.told("HTTP listening")) == 3)
        assert ask(port, "GET /metrics HTTP/1.1", RIGHT)[0] == 401
        reload(daemon, "")
        wait_until(lambda: not listens(port))
        assert daemon.status()["pid"]


def unix(path: Path) -> int:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(PATIENCE)
        sock.connect(str(path))
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return answer(rest(sock))[0]


def reload(daemon: Daemon, config: str) -> None:
    daemon.configure(config)
    daemon.signal(signal.SIGHUP)


def listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("curl"), reason="needs another user, and curl")
def test_user_without_the_role_is_refused(tmp_path: Path) -> None:
    for directory in (tmp_path, *tmp_path.parents):
        if directory.stat().st_mode & 0o001 == 0:
            directory.chmod(directory.stat().st_mode | 0o011)
    path = tmp_path / "http"
    with running(tmp_path / "daemon", config=f'[http]\nlisten = "unix:{path}"\n'):
        wait_until(path.exists)
        shown = run(
            *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
            *("curl", "-s", "--unix-socket", path, "http://localhost/metrics"),
        )
    assert "does not have the role read" in shown.stdout
