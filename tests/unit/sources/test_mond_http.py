import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from socket import create_server

import orjson
import pytest

from ganeti_htools.sources import mond_http
from tests.support.http_server import Answer, respond, serving

COLLECTOR = "cpu-avg-load"
REPORT = {"name": COLLECTOR, "version": "B", "data": {"cpu_total": 0.5}}


def report(handler: BaseHTTPRequestHandler) -> None:
    known = handler.path == "/1/report/default/cpu-avg-load"
    respond(handler, orjson.dumps(REPORT), 200 if known else 404)


def in_chunks(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for byte in orjson.dumps(REPORT):
        handler.wfile.write(b"1\r\n%c\r\n" % byte)
    handler.wfile.write(b"0\r\n\r\n")


@pytest.mark.parametrize("answer", [report, in_chunks])
def test_every_node_is_asked(answer: Answer) -> None:
    with serving(answer) as port:
        assert mond_http.query(["127.0.0.1"], COLLECTOR, port=port) == (
            {"127.0.0.1": {COLLECTOR: {"cpu_total": 0.5}}},
            (),
        )


def test_more_nodes_than_are_asked_at_once() -> None:
    nodes = [f"127.0.{high}.{low}" for high in range(2) for low in range(1, 41)]
    with serving_everywhere() as port:
        reports, warnings = mond_http.query(nodes, COLLECTOR, port=port)
    assert list(reports) == nodes
    assert warnings == ()


@contextlib.contextmanager
def serving_everywhere() -> Iterator[int]:
    """A server on all addresses of this machine, of which 127.0.0.0/8 has many."""
    body = orjson.dumps(REPORT)
    response = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    stop = threading.Event()

    def serve() -> None:
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(response)

    with create_server(("", 0), backlog=100) as server:
        server.settimeout(0.05)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            stop.set()
            thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        lambda handler: respond(handler, b"", 500),
        lambda handler: respond(handler, orjson.dumps(REPORT), 404),
        lambda handler: respond(handler, b"<html>"),
        lambda handler: respond(handler, b"[]"),
        lambda handler: respond(handler, b"[" * 100_000),
        lambda handler: respond(handler, b'{"name": "cpu-avg-load"}'),
        lambda handler: handler.wfile.write(b"SSH-2.0-OpenSSH\r\n"),
        lambda handler: handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{}"),
        lambda handler: handler.wfile.write(b""),
    ],
)
def test_an_answer_that_cannot_be_used_is_none(answer: Answer) -> None:
    def and_close(handler: BaseHTTPRequestHandler) -> None:
        answer(handler)
        handler.close_connection = True

    with serving(and_close) as port:
        assert mond_http.query(["127.0.0.1"], COLLECTOR, port=port) == ({}, (warning("127.0.0.1"),))


def warning(node: str) -> str:
    return f"Failed to contact node's {node} MonD for DC {COLLECTOR}"


def test_a_node_that_never_answers() -> None:
    done = threading.Event()

    def wait(_handler: BaseHTTPRequestHandler) -> None:
        done.wait()

    with serving(wait) as port:
        result = mond_http.query(["127.0.0.1"], COLLECTOR, port=port, patience=0.05)
        done.set()
    assert result == ({}, (warning("127.0.0.1"),))


def test_a_node_that_answers_bit_by_bit_has_no_longer() -> None:
    done = threading.Event()

    def slowly(handler: BaseHTTPRequestHandler) -> None:
        while not done.wait(0.01):
            handler.wfile.write(b"H")

    with serving(slowly) as port:
        result = mond_http.query(["127.0.0.1"], COLLECTOR, port=port, patience=0.1)
        done.set()
    assert result == ({}, (warning("127.0.0.1"),))


def test_nodes_that_do_not_exist_or_do_not_listen() -> None:
    with create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    reports, warnings = mond_http.query(
        ["127.0.0.1", "no such name", "x" * 300, "a..b"], COLLECTOR, port=port
    )
    assert reports == {}
    assert set(warnings) <= {warning(node) for node in ("127.0.0.1", "no such name", "x" * 300, "a..b")}
    assert warnings


def test_without_nodes_nobody_is_asked() -> None:
    assert mond_http.query([], COLLECTOR) == ({}, ())
