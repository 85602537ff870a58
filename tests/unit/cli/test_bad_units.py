"""Storage units that cannot be: one line that names node, unit and field; and such as are only unusual."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.cli import hail, hbal, hcheck
from ganeti_htools.deciding.decision import Cache, respond
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.options import PlacementOptions
from tests.support.clusters import Json, Shape, cluster
from tests.support.messages import allocate, encode, message
from tests.support.text_format import text as text_of

NODE = "node2.example.org"
GOOD = {"sunit": ["lvm-vg", "xenvg", []], "free": 500_000, "total": 900_000}
BAD: list[tuple[list[Json], str]] = [
    ([GOOD, GOOD], "lvm-vg/xenvg appears more than once"),
    ([GOOD | {"free": 900_001}], "lvm-vg/xenvg: free: expected at most the total of 900000 MiB, got 900001"),
    ([GOOD | {"total": -1}], "-1"),
    ([GOOD | {"total": 2**70}], "total"),
    ([GOOD | {"free": "many"}], "'many'"),
    ([GOOD | {"sunit": ["zfs", "tank", []]}], "unknown storage type of 'zfs/tank'"),
]


def described(storage: Any, **disk: Any) -> Json:
    """A cluster of which one node tells these units; one of its instances has a disk that is described."""
    data = cluster(4, Shape(nodes=4, instances=8, templates={"plain": 1, "drbd": 1}))
    name, instance = next(
        (name, each) for name, each in data["instances"].items() if each["disk_template"] == "plain"
    )
    instances = data["instances"] | {name: instance | {"disks": [instance["disks"][0] | disk]}}
    nodes = data["nodes"] | {NODE: data["nodes"][NODE] | {"storage": storage}}
    return data | {"nodes": nodes, "instances": instances}


def hail_of(data: Json, path: Path, request: Json | None = None) -> int:
    path.write_text(encode(message(data, request or allocate("new.example.org", "plain"))), "utf-8")
    return hail.main([str(path)])


@pytest.mark.parametrize(("storage", "error"), BAD)
def test_it_is_refused_in_one_line(
    storage: list[Json], error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = described(storage)
    assert hail_of(data, tmp_path / "request") == 1
    told = [capsys.readouterr()]
    (tmp_path / "data").write_text(text_of(data), "utf-8")
    assert hbal.main(["-t", str(tmp_path / "data")]) == 1
    told.append(capsys.readouterr())
    for out, err in told:
        assert out == ""
        assert err.count("\n") == 1
        assert NODE in err
        assert "storage: " in err
        assert error in err
        assert storage[0]["sunit"][1] in err


@pytest.mark.parametrize(("storage", "error"), BAD)
def test_the_daemon_says_the_same(storage: list[Json], error: str) -> None:
    whole, cache = message(described([GOOD]), allocate("new.example.org", "plain")), Cache()
    respond(encode(whole).encode(), PlacementOptions(), cache)
    bad = message(described(storage), allocate("new.example.org", "plain"))
    for kept in (None, cache):
        with pytest.raises(DataError, match=rf"node '{NODE}'.*storage: ") as caught:
            respond(encode(bad).encode(), PlacementOptions(), kept)
        assert error in str(caught.value)


@pytest.mark.parametrize("missing", ["ssdvg", "a" * 500, "ß,;|%"])
def test_a_unit_that_no_node_has(missing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = described([GOOD], vg=missing)
    (tmp_path / "data").write_text(text_of(data), "utf-8")
    assert hbal.main(["-t", str(tmp_path / "data"), "-q"]) == 0
    assert hcheck.main(["-t", str(tmp_path / "data"), "-q", "--machine-readable"]) in (0, 1)
    capsys.readouterr()
    assert hail_of(data, tmp_path / "request") == 0
    assert json.loads(capsys.readouterr().out)["success"]
    request = allocate("new.example.org", "plain")
    request["disks"] = [disk | {"vg": missing} for disk in request["disks"]]
    assert hail_of(data, tmp_path / "request", request) == 0
    answer = json.loads(capsys.readouterr().out)
    assert not answer["success"]
    assert missing[:200] in answer["info"]


def test_half_of_the_nodes_tell_their_units(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = described([GOOD, {"sunit": ["lvm-vg", "ssdvg", []], "free": 20_000, "total": 20_000}])
    request = allocate("new.example.org", "plain", disks=[10_000])
    request["disks"][0]["vg"] = "ssdvg"
    assert hail_of(data, tmp_path / "request", request) == 0
    assert json.loads(capsys.readouterr().out)["result"] == [NODE]
    (tmp_path / "data").write_text(text_of(data), "utf-8")
    assert hbal.main(["-t", str(tmp_path / "data"), "-q"]) == 0
    places = set()
    for seed in range(20):  # the default unit is on all of them
        memory = random.Random(seed).randrange(128, 4096)
        request = allocate("new.example.org", "plain", memory=memory, disks=[1024])
        request["restrict-to-nodes"] = [f"node{1 + seed % 4}.example.org"]
        hail_of(data, tmp_path / "request", request)
        places.update(json.loads(capsys.readouterr().out.splitlines()[-1])["result"])
    assert len(places) == 4
