"""Whether this is the master node, as long as the daemon runs."""

import socket
from pathlib import Path

import pytest
import structlog

from ganeti_htools.sources.ssconf import this_node
from htoolsd.process.mastership import role


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
        leads = role(this_node(str(master.parent)))
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
    monkeypatch.setattr(socket, "getfqdn", lambda: "node1")
    leads = role(this_node(str(master.parent)))
    assert await leads() is False
    monkeypatch.setattr(socket, "getfqdn", lambda: "node1.example.org")
    assert await leads() is True
    monkeypatch.setattr(socket, "getfqdn", lambda: "node1")
    assert await leads() is True
