"""Ganeti's node daemons: a node that was powered on is usable once its daemon answers."""

import socket
from collections.abc import Awaitable, Callable, Iterable

import trio

from ganeti_htools.luxi import queries
from ganeti_htools.luxi.client import LuxiClient
from ganeti_htools.model.errors import DataError
from ganeti_htools.nursery import open_nursery

Answers = Callable[[str], Awaitable[bool]]  # whether the node daemon at an address answers

_PORT = 1811
_PATIENCE = 5.0  # seconds for a connection


async def answers(address: str) -> bool:
    """Whether the node daemon at an address accepts a connection."""
    try:
        with trio.fail_after(_PATIENCE):
            stream = await trio.open_tcp_stream(address, _port())
    except (OSError, trio.TooSlowError):
        return False
    await trio.aclose_forcefully(stream)
    return True


def _port() -> int:
    """Return the port of node daemons, which ``services(5)`` may change (Ganeti's ``GetDaemonPort``)."""
    try:
        return socket.getservbyname("ganeti-noded", "tcp")
    except OSError:
        return _PORT


async def expect(ganeti: LuxiClient, nodes: Iterable[str], answers: Answers) -> None:
    """Ask the daemons of nodes, at luxid's addresses. Raises DataError if any does not answer."""
    wanted, silent = ["|", *(["=", "name", node] for node in nodes)], list[str]()

    async def look(name: str, address: str) -> None:
        if not await answers(address):
            silent.append(name)

    async with open_nursery() as nursery:
        for row in await queries.query(ganeti, "node", ("name", "pip"), wanted):
            if "pip" in row.values:
                nursery.start_soon(look, row.values["name"], row.values["pip"])
    if silent:
        raise DataError(f"the node daemon does not answer on {', '.join(sorted(silent))}")
