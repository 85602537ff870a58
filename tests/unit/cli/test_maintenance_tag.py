"""Nodes with the tag of maintenance take no instances, whatever plans or decides."""

import json
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.cli import hail, hbal, hregroup, hroller, hspace, hsqueeze
from ganeti_htools.model.tags import MAINTENANCE
from tests.support import messages
from tests.support.clusters import Shape, cluster

# node1 is the master; node4 has the most room, node5 none of it.
FILE = """\
g|u|preferred||
h|v|preferred||

node1|8000|0|2000|90000|90000|40|M|u
node2|8000|0|5000|90000|90000|40|N|u
node3|8000|0|7000|90000|90000|40|N|u
node4|8000|0|8000|90000|90000|40|{role}|u|1|{tags}
node5|8000|0|1000|90000|90000|40|Y|v
node6|8000|0|8000|90000|90000|40|N|v

inst1|3000|1024|1|running|Y|node1||ext|
inst2|3000|1024|1|running|Y|node1||ext|
inst3|3000|1024|1|running|Y|node2||ext|
inst4|1000|1024|1|running|Y|node3||ext|
inst5|7000|1024|1|running|Y|node5||ext|

"""
STANDBY = FILE.format(role="Y", tags=f"htools:standby:auto,{MAINTENANCE}")


@pytest.mark.parametrize(
    ("tool", "options"),
    [
        (hbal, ("-G", "g", "-C")),
        (hspace, ("--disk-template=ext", "-p", "-l5")),
        (hregroup, ("redistribute", "-C")),
        (hregroup, ("compress", "--group=h", "-C")),
        (hsqueeze, ("--target-resources=0", "-C")),
        (hroller, ("--force", "--print-moves")),
    ],
)
def test_tool_plans_as_if_the_node_was_offline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tool: Any, options: tuple[str, ...]
) -> None:
    def printed(role: str, tags: str) -> str:
        (tmp_path / "cluster").write_text(FILE.format(role=role, tags=tags))
        tool.main(["-t", str(tmp_path / "cluster"), *options])
        return capsys.readouterr().out

    tagged = printed("N", MAINTENANCE)
    assert tagged == printed("Y", "")
    assert tagged != printed("N", "")


def test_hsqueeze_does_not_power_it_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cluster").write_text(STANDBY)
    hsqueeze.main(["-t", str(tmp_path / "cluster"), "--minimal-resources=1000", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert report["nodes"] == []
    assert report["kept"]["node4"] == "is in maintenance"


def test_hail_without_daemon_heeds_the_tag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, path = cluster(3, Shape(nodes=3, instances=4, fill=0.3)), tmp_path / "request"
    request = messages.allocate("new.example.org", "drbd", memory=128, disks=[1024])

    def chosen() -> list[str]:
        path.write_text(messages.encode(messages.message(data, request)))
        assert hail.main([str(path), "--no-capacity-checks"]) == 0
        result: list[str] = json.loads(capsys.readouterr().out)["result"]
        return result

    first = chosen()
    data["nodes"][first[0]]["tags"] = [MAINTENANCE]
    assert first[0] not in chosen()
