import json
from dataclasses import replace
from pathlib import Path

import pytest

from ganeti_htools.backends import text
from ganeti_htools.cli import hinfo
from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand, messages
from tests.support.by_hand import instance
from tests.support.clusters import Shape, cluster


@pytest.fixture
def described() -> Cluster:
    """Two groups; the second has a node that cannot take over, and an instance reaches into it."""
    instances = [
        instance("i0.example.org", DiskTemplate.DRBD, "n0.example.org", "n1.example.org"),
        instance("i1.example.org", DiskTemplate.DRBD, "n0.example.org", "n2.example.org", mem=3000),
        instance("i2.example.org", DiskTemplate.EXT, "n2.example.org", mem=7500),
    ]
    sizes = dict.fromkeys(("n0.example.org", "n1.example.org", "n2.example.org"), 10_000)
    made = by_hand.cluster(sizes, instances)
    nodes = (*made.nodes[:2], replace(made.nodes[2], group="uuid-2"))
    return replace(made, groups=(*made.groups, Group("group2", "uuid-2")), nodes=nodes, tags=("a", "b"))


@pytest.fixture
def file(described: Cluster, tmp_path: Path) -> str:
    path = tmp_path / "cluster.data"
    path.write_text(text.dump(described))
    return str(path)


def test_the_report_as_json(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert hinfo.main(["-t", file, "--json", "-v", "-O", "n1"]) == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert (report["nodes"], report["instances"], report["tags"]) == (3, 3, ["a", "b"])
    assert [group["name"] for group in report["groups"]] == ["group1", "group2"]
    assert [group["n1_happy"] for group in report["groups"]] == [True, False]
    assert report["n1_happy"] is False
    described = text.parse(Path(file).read_text(), file)
    for node, told in zip(described.nodes, report["node_list"], strict=True):
        assert (told["name"], told["free_memory"]) == (node.name, node.f_mem)
        assert (told["total_memory"], told["total_disk"]) == (node.t_mem, node.t_dsk)
        assert told["primaries"] == [row.name for row in described.instances if row.pnode == node.name]
        assert told["secondaries"] == [row.name for row in described.instances if row.snode == node.name]
        assert told["offline"] is told["name"].startswith("n1")
    assert sum(not told["n1_happy"] for told in report["node_list"]) == 1
    assert {told["group"] for told in report["node_list"]} == {"group1", "group2"}
    assert report["split_instances"] == ["i1.example.org"]
    assert report["coefficients"]["offline_all_cnt"] == {"value": 1.0, "weight": 4.0}
    weighted = sum(part["value"] * part["weight"] for part in report["coefficients"].values())
    assert report["score"] == pytest.approx(weighted)
    assert err == ""


def test_storage_is_shown_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--simulate=p,1,100,4,4", "--simulate-storage=lvm-vg,ssdvg,20"]
    assert hinfo.main([*words, "--storage"]) == 0
    assert "\n   node-01-001      0.1/0.1      0.0/0.0\n" in capsys.readouterr().out
    assert hinfo.main([*words, "--storage", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["storage"]
    assert [unit["key"] for unit in told["units"]] == ["xenvg", "ssdvg"]
    assert hinfo.main([*words, "--json"]) == 0
    assert "storage" not in json.loads(capsys.readouterr().out)


def test_warns_of_fields_and_units_that_do_not_exist(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    fields = "name,nosuch,fdsk/lvm-vg/nosuch,fdsk/nosuch,fres/CUSTOM_GPU,ucpu"
    assert hinfo.main(["-t", file, f"-p{fields}"]) == 0
    err = capsys.readouterr().err
    warnings = [line for line in err.splitlines() if line.startswith("Warning: ")]
    unknown = "Warning: --print-nodes: unknown field {!r}; htools(1) lists the fields"
    assert warnings == [
        unknown.format("nosuch"),
        "Warning: --print-nodes: field 'fdsk/lvm-vg/nosuch': no node has this storage unit",
        unknown.format("fdsk/nosuch"),
        unknown.format("fres/CUSTOM_GPU"),
    ]
    assert hinfo.main(["-t", file, "-p+idx"]) == 0
    assert "Warning" not in capsys.readouterr().err


def test_warns_of_a_sixth_section(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = Path(file).read_text()
    path = tmp_path / "six.data"
    path.write_text(f"{content}\n\nlost\n")
    assert hinfo.main(["-t", str(path)]) == 0
    place = f"{path}: line {content.count(chr(10)) + 3}"
    names = "groups, nodes, instances, tags, policies"
    assert capsys.readouterr().err.startswith(
        f"Warning: {place}: ignored from here on; expected five sections: {names}\n"
    )
    path.write_text(f"{content}\n\n\n")
    assert hinfo.main(["-t", str(path)]) == 0
    assert "Warning" not in capsys.readouterr().err


def test_a_cluster_from_a_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = cluster(1, Shape(nodes=3, instances=7, templates={"ext": 1}))
    path = tmp_path / "request.json"
    path.write_text(messages.encode(messages.message(data, messages.allocate("new", "ext"))))
    assert hinfo.main(["-I", str(path), "-pname,pcnt"]) == 0
    out, err = capsys.readouterr()
    assert "Loaded 3 nodes, 7 instances, 1 node group\n" in out
    counts = [line.split() for line in err.partition("Cluster status:\n")[2].splitlines()[1:] if line]
    assert sum(int(primaries) for _, primaries in counts) == 7
