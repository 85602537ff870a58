"""Queries the monitoring daemons of all nodes over HTTP (``ganeti-mond(8)``)."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import httpx
import orjson
import trio

from ganeti_htools.backends import mond
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.nursery import open_nursery
from ganeti_htools.sources.rapi_http import get_document

PORT = 1815
PATIENCE = 5.0  # seconds; Ganeti holds locks while an iallocator waits

_AT_ONCE = 32
_MOST = 1 << 22  # bytes of an answer


def query(
    nodes: Sequence[str], collector: str, *, port: int = PORT, patience: float = PATIENCE
) -> tuple[mond.MondReports, tuple[str, ...]]:
    """Do the same as :func:`reports` outside of trio."""
    return trio.run(partial(reports, nodes, collector, port=port, patience=patience)) if nodes else ({}, ())


async def reports(
    nodes: Sequence[str], collector: str, *, port: int = PORT, patience: float = PATIENCE
) -> tuple[mond.MondReports, tuple[str, ...]]:
    """Return the report of ``collector`` on each node, and a warning for each node without an answer.

    Each node has ``patience`` seconds. After one failure no further nodes are queried, since the data is
    useless unless all nodes answer.
    """
    found: dict[str, dict[str, Any] | None] = {}

    async def ask(client: httpx.AsyncClient, node: str, turns: trio.Semaphore) -> None:
        async with turns:
            if None in found.values():
                return
            url = f"http://{node}:{port}/1/report/default/{collector}"
            try:
                document = await get_document(client, url, patience, _MOST)
                found[node] = mond.by_collector([orjson.loads(document)], node)
            except (HtoolsError, ValueError):
                found[node] = None

    turns = trio.Semaphore(_AT_ONCE)
    async with httpx.AsyncClient(timeout=None, trust_env=False) as client, open_nursery() as nursery:
        for node in nodes:
            nursery.start_soon(ask, client, node, turns)
    return (
        {node: report for node in nodes if (report := found.get(node)) is not None},
        tuple(
            f"Failed to contact node's {node} MonD for DC {collector}"
            for node in nodes
            if node in found and found[node] is None
        ),
    )
