import socket
from pathlib import Path

import pytest

from ganeti_htools.sources.ssconf import Ssconf, this_node


def test_master_is_the_named_node(tmp_path: Path) -> None:
    (tmp_path / "ssconf_master_node").write_text("Node1.example.org\n")
    assert Ssconf("node1.example.org", str(tmp_path)).leads()
    assert not Ssconf("node2.example.org", str(tmp_path)).leads()
    assert Ssconf("node2.example.org", str(tmp_path)).master() == "node1.example.org"


def test_leads_when_no_master_is_named(tmp_path: Path) -> None:
    assert Ssconf("node1", str(tmp_path)).leads()
    assert Ssconf("node1", str(tmp_path / "none")).leads()


def test_raises_when_the_master_file_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "ssconf_master_node").mkdir()
    with pytest.raises(OSError, match="not a regular file"):
        Ssconf("node1", str(tmp_path)).leads()


def test_node_name_and_directory_follow_ganeti_s_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GANETI_ROOTDIR", raising=False)
    monkeypatch.delenv("GANETI_HOSTNAME", raising=False)
    assert this_node("") == Ssconf(socket.getfqdn().lower(), "/var/lib/ganeti")
    monkeypatch.setenv("GANETI_ROOTDIR", "/cluster/Node3")
    monkeypatch.setenv("GANETI_HOSTNAME", "Node3")
    assert this_node("") == Ssconf("node3", "/cluster/Node3/var/lib/ganeti")
    assert this_node("/elsewhere").directory == "/elsewhere"


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe", b"node1 node2", b"node1\0", b"n" * 5000])
def test_raises_when_the_file_names_no_node(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "ssconf_master_node").write_bytes(content)
    with pytest.raises(OSError, match=r"ssconf_master_node"):
        Ssconf("node1", str(tmp_path)).leads()
