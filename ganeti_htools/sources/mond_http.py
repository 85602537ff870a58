"""Queries the monitoring daemons of all nodes over HTTP (``ganeti-mond(8)``)."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse
from io import BytesIO
from socket import socket
from time import monotonic
from typing import Any, cast

import orjson

from ganeti_htools.backends import mond
from ganeti_htools.model.errors import DataError

PORT = 1815
PATIENCE = 5.0  # seconds; Ganeti holds locks while an iallocator waits

_AT_ONCE = 32
_MOST = 1 << 22  # bytes of an answer


def query(
    nodes: Iterable[str], collector: str, *, port: int = PORT, patience: float = PATIENCE
) -> tuple[mond.MondReports, tuple[str, ...]]:
    """Return the report of ``collector`` on each node, and a warning for each node without an answer.

    Each node has ``patience`` seconds. After one failure no further nodes are queried, since the data is
    useless unless all nodes answer.
    """
    ask = partial(_ask, collector=collector, port=port, patience=patience)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = {node: pool.submit(ask, node) for node in nodes}
        for answer in as_completed(answers.values()):
            if answer.result() is None:
                pool.shutdown(cancel_futures=True)
                break
    reports = {node: answer.result() for node, answer in answers.items() if not answer.cancelled()}
    return (
        {node: report for node, report in reports.items() if report is not None},
        tuple(
            f"Failed to contact node's {node} MonD for DC {collector}"
            for node, report in reports.items()
            if report is None
        ),
    )


def _ask(node: str, collector: str, port: int, patience: float) -> dict[str, Any] | None:
    deadline = monotonic() + patience
    try:
        with closing(HTTPConnection(node, port, timeout=patience)) as connection:
            connection.request("GET", f"/1/report/default/{collector}", headers={"Connection": "close"})
            response = HTTPResponse(cast(socket, _Received(_receive(connection.sock, deadline))))
        response.begin()
        if response.status != 200:
            return None
        return mond.by_collector([orjson.loads(response.read())], node)
    except (OSError, HTTPException, UnicodeError, orjson.JSONDecodeError, DataError):
        return None


def _receive(sock: socket, deadline: float) -> bytes:
    """Read to the end of the connection within the deadline; a socket's timeout is per read only."""
    data = bytearray()
    while len(data) < _MOST:
        sock.settimeout(max(deadline - monotonic(), 0.001))
        received = sock.recv(65536)
        if not received:
            break
        data += received
    return bytes(data)


class _Received:
    """The part of a socket's interface that HTTPResponse needs, over received bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> BytesIO:
        return BytesIO(self._data)
