"""Node daemons that take connections, and those that do not."""

import socket

import pytest
import trio

from ganeti_htools.execution import node_daemons
from ganeti_htools.luxi.client import LuxiClient
from ganeti_htools.luxi.queries import QueryRow
from ganeti_htools.model.errors import DataError


async def test_daemon_answers_if_it_accepts_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the port that ``services(5)`` names."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    monkeypatch.setattr(socket, "getservbyname", lambda *service: {("ganeti-noded", "tcp"): port}[service])
    async with listener:
        assert await node_daemons.answers("127.0.0.1")
    assert not await node_daemons.answers("127.0.0.1")
    assert not await node_daemons.answers("no address")


async def test_port_is_ganetis_default(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def refuse(host: str, port: int) -> None:
        asked.append((host, port))
        raise OSError

    def unknown(*_service: str) -> int:
        raise OSError

    monkeypatch.setattr(socket, "getservbyname", unknown)
    monkeypatch.setattr(trio, "open_tcp_stream", refuse)
    assert not await node_daemons.answers("192.0.2.1")
    assert asked == [("192.0.2.1", 1811)]


async def test_names_the_nodes_whose_daemons_are_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = {"one": {"pip": "192.0.2.1"}, "two": {"pip": "192.0.2.2"}, "three": {}}

    async def query(*_query: object) -> list[QueryRow]:
        return [QueryRow({"name": name, **address}, {}) for name, address in addresses.items()]

    async def answers(address: str) -> bool:
        return address == "192.0.2.1"

    monkeypatch.setattr("ganeti_htools.luxi.queries.query", query)
    with pytest.raises(DataError, match=r"^the node daemon does not answer on two$"):
        await node_daemons.expect(LuxiClient("/nowhere"), addresses, answers)
