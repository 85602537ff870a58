"""Whether Ganeti's node daemons answer: a node that is powered on is of use only then."""

import socket
from collections.abc import Awaitable, Callable, Iterable

import trio

from ganeti_htools.luxi import queries
from ganeti_htools.luxi.client import LuxiClient
from ganeti_htools.model.errors import DataError

Answers = Callable[[str], Awaitable[bool]]  # whether the node daemon at an address does

_PORT = 1811
_PATIENCE = 5.0  # seconds for a connection


async def answers(address: str) -> bool:
    """Whether the node daemon at an address takes a connection."""
    try:
        with trio.fail_after(_PATIENCE):
            stream = await trio.open_tcp_stream(address, _port())
    except (OSError, trio.TooSlowError):
        return False
    await trio.aclose_forcefully(stream)
    return True


def _port() -> int:
    """Where node daemons listen: as for Ganeti (``GetDaemonPort``), ``services(5)`` may name another port."""
    try:
        return socket.getservbyname("ganeti-noded", "tcp")
    except OSError:
        return _PORT


async def expect(ganeti: LuxiClient, nodes: Iterable[str], answers: Answers) -> None:
    """Raises DataError if there are nodes whose daemon does not answer at the address that luxid tells."""
    wanted, silent = ["|", *(["=", "name", node] for node in nodes)], list[str]()

    async def look(name: str, address: str) -> None:
        if not await answers(address):
            silent.append(name)

    async with trio.open_nursery() as nursery:
        for row in await queries.query(ganeti, "node", ("name", "pip"), wanted):
            if "pip" in row.values:
                nursery.start_soon(look, row.values["name"], row.values["pip"])
    if silent:
        raise DataError(f"the node daemon does not answer on {', '.join(sorted(silent))}")
