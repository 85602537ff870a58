"""Whether this is the master node, as long as the daemon runs."""

import socket
import threading
from pathlib import Path

import pytest
import structlog
import trio

from ganeti_htools.sources.ssconf import this_node
from htoolsd.sync.this_node import ThisNode
from tests.support.programs import PATIENCE


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that names it, on node1."""
    monkeypatch.delenv("GANETI_HOSTNAME", raising=False)
    monkeypatch.setattr(socket, "getfqdn", lambda: "node1.example.org")
    path = tmp_path / "ssconf_master_node"
    path.write_text("node1.example.org")
    return path


async def test_unreadable_master_file_keeps_the_role(master: Path) -> None:
    with structlog.testing.capture_logs() as log:
        leads = ThisNode(this_node(str(master.parent))).leads
        for text, expected in ((b"\xff", None), (b"node2", False), (b"\xff", False), (b"", False)):
            master.write_bytes(text)
            assert await leads() is expected
        master.write_text("node1.example.org")
        assert await leads() is True
        for _ in range(3):
            master.write_bytes(b"\xff")
            assert await leads() is True
    assert [line["event"] for line in log] == ["master node cannot be determined"] * 3


async def test_reads_the_node_name_again_after_boot(master: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For all who ask for it later."""
    monkeypatch.setattr(socket, "getfqdn", lambda: "localhost")
    node = ThisNode(this_node(str(master.parent)))
    assert await node.leads() is False
    assert node.status() == {"node": "localhost", "master_node": "node1.example.org"}
    monkeypatch.setattr(socket, "getfqdn", lambda: "node1.example.org")
    assert await node.leads() is True
    monkeypatch.setattr(socket, "getfqdn", lambda: "localhost")
    assert await node.leads() is True
    assert not node.ssconf.is_other_node_master()
    assert node.status() == {"node": "node1.example.org", "master_node": "node1.example.org"}


async def test_slow_resolver_delays_neither_role_nor_stop(
    master: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, asked, answer = ThisNode(this_node(str(master.parent))), 0, threading.Event()

    def resolve() -> str:
        nonlocal asked
        asked += 1
        answer.wait(PATIENCE)
        return "node2"

    monkeypatch.setattr(socket, "getfqdn", resolve)
    master.write_text("node2")
    try:
        with trio.fail_after(PATIENCE / 2):
            assert await node.leads() is False
            assert await node.leads() is False
            with trio.move_on_after(0.01):
                await node.leads()
            assert asked == 1
            assert node.status() == {"node": "node1.example.org", "master_node": "node2"}
            master.write_text("node1.example.org")
            assert await node.leads() is True
            master.write_text("node2")
    finally:
        answer.set()
    with trio.fail_after(PATIENCE):
        while not await node.leads():
            await trio.sleep(0.001)
    assert node.status() == {"node": "node2", "master_node": "node2"}
