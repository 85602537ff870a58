"""Load from a real Prometheus with two days of history, and from servers that answer nonsense."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from htoolsd.config.load import LoadSettings
from htoolsd.load.figures import HOUR, LoadError, LoadNames
from htoolsd.load.prometheus import Prometheus
from tests.support import http_server
from tests.support.prometheus import serving

MIB = 1 << 20
NAMES = LoadNames(
    {name: name for name in ("web.example.com", "db.example.com")}, {"node1": "node1", "node2": "node2"}
)
NOW = time.time()
STEP = 120
HISTORY, FUTURE = 30 * HOUR, 2 * HOUR  # seconds, so that a slow machine finds present values


def gauge(value: float) -> list[tuple[float, float]]:
    return [(NOW - HISTORY + place * STEP, value) for place in range((HISTORY + FUTURE) // STEP)]


def counter(rate: float, restarted: float = 0.0) -> list[tuple[float, float]]:
    """Count at a rate; the counter begins anew at a time."""
    return [
        (time, (time - restarted if time >= restarted > 0 else place * STEP) * rate)
        for place, (time, _) in enumerate(gauge(0))
    ]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    history: dict[str, list[tuple[float, float]]] = {}
    for number, name in enumerate(("web.example.com", "db.example.com"), 1):
        labels = f'{{name="{name}:9100"}}'
        history |= {
            f"ganeti_instance_cpu_seconds_total{labels}": counter(number, NOW - HISTORY / 2),
            f"ganeti_instance_memory_bytes{labels}": gauge(number * 1024 * MIB),
            f"ganeti_instance_disk_bytes_total{labels}": counter(5 * MIB),
        }
    history['ganeti_instance_network_bytes_total{name="web.example.com:9100"}'] = counter(MIB)
    history['node_cpu_seconds_total{instance="node1:9100",mode="user",cpu="0"}'] = counter(0.5)
    history['node_cpu_seconds_total{instance="node1:9100",mode="system",cpu="0"}'] = counter(0.25)
    history['node_cpu_seconds_total{instance="node1:9100",mode="idle",cpu="0"}'] = counter(0.25)
    history['node_pressure_cpu_waiting_seconds_total{instance="node1:9100"}'] = counter(0.1)
    history['node_pressure_io_waiting_seconds_total{instance="node1:9100"}'] = counter(0.3)
    with serving(tmp_path_factory.mktemp("prometheus"), history) as url:
        yield url


def prometheus(url: str, **keys: str) -> Prometheus:
    others: dict[str, Any] = dict.fromkeys(("node_memory", "node_disk", "node_network"), "none")
    return Prometheus(LoadSettings(source="prometheus", url=url, exporter="textfile", **{**others, **keys}))


async def test_present_load_has_the_units_of_profiles(server: str) -> None:
    sample = await prometheus(server).sample(NAMES)
    assert sample.instances is not None
    assert sample.instances["db.example.com"] == pytest.approx([2, 2048, 5, 0], rel=0.5)
    assert sample.instances["web.example.com"] == pytest.approx([1, 1024, 5, 1], rel=0.5)
    assert sample.nodes.keys() == {"node1"}
    assert sample.nodes["node1"][0] == pytest.approx(0.75, rel=0.5)
    assert sample.pressure == pytest.approx({"node1": 0.3}, rel=0.5)
    assert sample.errors == ()


async def test_hours_of_the_past_are_unknown_where_the_server_has_nothing(server: str) -> None:
    """A counter that began anew counts on."""
    end = NOW // HOUR * HOUR
    hours = await prometheus(server).hours(NAMES, end - 24 * HOUR, end)
    for figures in (hours.mean, hours.peak):
        assert figures["db.example.com"] == pytest.approx(np.tile([[2], [2048], [5], [0]], 24), rel=0.15)
    before = await prometheus(server).hours(NAMES, end - 72 * HOUR, end - 48 * HOUR)
    assert before.mean == {}


UNPARSED = 'invalid parameter "query": 1:9: parse error: unclosed left parenthesis'
SERIES = "expected one series for each instance"


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("scalar(ganeti_instance_memory_bytes)", "got a scalar"),
        ("no_such_metric", "got no series"),
        ("sum(ganeti_instance_memory_bytes)", "label name is missing"),
        (
            "label_replace(up or vector(1), 'name', 'mail', '', '')",
            "label name names no instance, but 'mail'",
        ),
        (
            "ganeti_instance_memory_bytes or label_replace(ganeti_instance_memory_bytes, 'job', 'a', '', '')",
            "got two series for NAME.example.com; sum by (name) (...) makes them one",
        ),
        (
            "sum by (",
            'the server answers invalid parameter "query": 1:9: parse error: unclosed left parenthesis',
        ),
    ],
)
async def test_names_query_and_expectation(server: str, query: str, error: str) -> None:
    with pytest.raises(LoadError) as raised:
        await prometheus(server, cpu=query).sample(NAMES)
    (line,) = raised.value.lines
    line = line.replace("web.", "NAME.").replace("db.", "NAME.")
    assert line == f"cpu: {query}: {error}; {SERIES}"


async def test_error_about_nodes_keeps_the_load_of_instances(server: str) -> None:
    sample = await prometheus(server, node_cpu="no_such_metric").sample(NAMES)
    assert sample.errors == ("node_cpu: no_such_metric: got no series; expected one series for each node",)
    assert sample.instances


def _respond(body: bytes, status: int = 200) -> http_server.Answer:
    return lambda handler: http_server.respond(handler, body, status)


def _endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(bytes(1 << 20))


def _silent(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.recv(1)  # until the client has given up


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (_respond(b"", 503), "the server answers 503 Service Unavailable"),
        (_respond(b"<html>"), "got no answer of Prometheus"),
        (_respond(b'{"data": {"resultType": "vector", "result": [5]}}'), "got no answer of Prometheus"),
        (_endless, "the answer is larger than 32 MiB"),
        (_silent, "no complete answer within 1 seconds"),
    ],
)
async def test_other_servers_are_an_error_of_one_line(answer: Callable[..., None], error: str) -> None:
    with http_server.serving(answer) as port:
        settings = LoadSettings(
            source="prometheus",
            url=f"http://127.0.0.1:{port}",
            timeout_seconds=1.0 if answer is _silent else 30.0,
        )
        keys: dict[str, Any] = dict.fromkeys((*settings.node_queries, "memory", "disk", "network"), "none")
        with pytest.raises(LoadError) as raised:
            await Prometheus(replace(settings, **{**keys, "cpu": "up", "exporter": "process"})).sample(NAMES)
    first = raised.value.lines[0]
    assert first == f"cpu: up: {error}; {SERIES}"


async def test_secrets_are_sent(tmp_path: Path) -> None:
    seen = list[str | None]()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        seen.append(handler.headers["Authorization"])
        http_server.respond(handler, b"", 401)

    token = tmp_path / "token"
    token.write_text("secret-of-sixteen")
    token.chmod(0o600)
    login = tmp_path / "netrc"
    login.write_text("machine 127.0.0.1 login reader password secret")
    with http_server.serving(answer) as port:
        settings = LoadSettings(source="prometheus", url=f"http://127.0.0.1:{port}")
        for way in (replace(settings, token_file=str(token)), replace(settings, netrc_file=str(login))):
            with pytest.raises(LoadError, match="401 Unauthorized"):
                await Prometheus(way).sample(NAMES)
    assert {*seen} == {"Bearer secret-of-sixteen", "Basic cmVhZGVyOnNlY3JldA=="}
