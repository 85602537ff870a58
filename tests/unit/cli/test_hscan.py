import json
import os
import tempfile
from pathlib import Path

import pytest

from ganeti_htools.backends import simu, text
from ganeti_htools.cli import hbal, hscan
from ganeti_htools.model.derive import derive
from ganeti_htools.model.units_in_use import units_in_use
from ganeti_htools.sources.source import Source, read
from tests.support.clusters import Shape, cluster
from tests.support.luxi_answers import answers, luxid
from tests.support.rapi_documents import write
from tests.support.rows import rows
from tests.support.simulators import simulator
from tests.support.storage_units import with_four_units


@pytest.fixture
def address(tmp_path: Path) -> str:
    return write(tmp_path / "rapi", cluster(3, Shape(nodes=3, instances=5, templates={"drbd": 1}, down=0)))


def test_json_tells_the_same_figures(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert hscan.main(["--json", "-p", address]) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert hscan.main(["--no-headers", address]) == 0
    row = capsys.readouterr().out.split()
    assert [report[key] for key in ("name", "nodes", "instances", "bad_nodes", "bad_instances")] == [
        row[0],
        *map(int, row[1:5]),
    ]
    assert report["score"] == pytest.approx(float(row[9]), abs=1e-8)
    saved = text.parse(Path(report["file"]).read_text("utf-8"), "saved")
    assert len(saved.nodes) == report["nodes"]


def test_score_that_is_no_number_is_not_padded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = cluster(3, Shape(nodes=3, instances=5, templates={"drbd": 1}))
    next(iter(data["nodes"].values()))["total_cpus"] = 0
    assert hscan.main(["--no-headers", "-d", str(tmp_path), write(tmp_path / "rapi", data)]) == 0
    *_, free_disk, score = capsys.readouterr().out.removesuffix("\n").split(" ")
    assert free_disk.isdigit()
    assert score == "NaN"


def test_what_is_saved_is_what_was_read(address: str, tmp_path: Path) -> None:
    assert hscan.main(["-d", str(tmp_path), address]) == 0
    (path,) = tmp_path.glob("*.data")
    assert path.name == address.replace("/", "_") + ".data"
    assert path.read_text("utf-8") == text.dump(read(Source(rapi=address), print).cluster)


def test_saves_without_names(address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hscan.main(["--anonymise", "-d", str(tmp_path), address]) == 0
    (path,) = tmp_path.glob("*.data")
    assert path.name == "cluster-1.data"
    saved = path.read_text("utf-8")
    assert "example.org" not in saved
    before, after = read(Source(rapi=address), print).cluster, text.parse(saved, "saved")
    assert [node.t_mem for node in after.nodes] == [node.t_mem for node in before.nodes]


@pytest.mark.parametrize(("version", "static"), [("3.0", False), ("3.1", True)])
def test_saves_the_memory_of_kvm_nodes_as_ganeti_does(version: str, static: bool, tmp_path: Path) -> None:
    data = cluster(3, Shape(nodes=3, instances=5, templates={"drbd": 1}, down=0))
    address = write(tmp_path / "rapi", {**data, "enabled_hypervisors": ["kvm"]})
    options = [f"--ganeti-version={version}", "--static-kvm-node-memory=77", "-d", str(tmp_path)]
    assert hscan.main([*options, address]) == 0
    (path,) = tmp_path.glob("*.data")
    saved = text.parse(path.read_text("utf-8"), "saved")
    assert [node.n_mem == 77 for node in saved.nodes] == [static] * 3


def test_storage_units_are_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that Ganeti tells are those that its simulator was given; and so are the plans for them."""
    shape = Shape(nodes=4, instances=20, templates={"drbd": 2, "plain": 1}, down=0)
    served = rows(with_four_units(cluster(1, shape))[0])
    with simulator(tmp_path, served, "--job-seconds=0") as ganeti:
        asking = [f"-L{ganeti.socket}", "--ask-storage"]
        assert hscan.main([*asking, "-d", str(tmp_path)]) == 0
        capsys.readouterr()
        plans = []
        for source in (["-t", str(ganeti.file)], ["-t", str(tmp_path / "LOCAL.data")], asking):
            assert hbal.main([*source, "-l", "4"]) == 0
            plans.append(capsys.readouterr().out)
    assert plans[0] == plans[1] == plans[2]
    saved = text.parse((tmp_path / "LOCAL.data").read_text("utf-8"), "saved")
    storage = {node.name: set(node.storage or ()) for node in saved.nodes}
    assert storage == {node.name: set(node.storage or ()) for node in served.nodes}
    disks = {row.name: row.disks for row in saved.instances}
    assert disks == {row.name: row.disks for row in served.instances}
    assert units_in_use(saved).local == units_in_use(served).local


def test_one_bad_cluster_does_not_keep_others_from_being_scanned(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "nonsense").mkdir()
    bad = f"file://{tmp_path}/nonsense"
    assert hscan.main(["--json", "-d", str(tmp_path), bad, address]) == hscan.FAILED
    reports = json.loads(capsys.readouterr().out)
    assert reports[0]["name"] == bad
    assert reports[0]["error"].endswith("cannot be read: No such file or directory")
    assert reports[1]["nodes"] == 3
    assert len(list(tmp_path.glob("*.data"))) == 1


def test_a_file_that_cannot_be_written(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert hscan.main(["-d", os.devnull, address]) == hscan.FAILED
    told = capsys.readouterr().out.splitlines()
    assert told[2] == f"Error for {address}: failed to load data. Details:"
    assert told[3].endswith("cannot be written: Not a directory")
    assert len(told) == 4


def test_without_names_the_own_cluster_is_scanned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = cluster(3, Shape(nodes=3, instances=5))
    with luxid(tmp_path / "socket", answers(data)):
        assert hscan.main([f"-L{tmp_path}/socket", "-d", str(tmp_path)]) == 0
    header, row = capsys.readouterr().out.splitlines()
    assert header.startswith("Name  Nodes ")
    assert row.split()[:3] == ["LOCAL", "3", "5"]
    saved = text.parse((tmp_path / "LOCAL.data").read_text("utf-8"), "saved")
    assert [node.name for node in saved.nodes] == list(data["nodes"])


def test_without_ganeti_the_own_cluster_cannot_be_scanned(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="g") as root:  # the path of a socket must not be long
        monkeypatch.setenv("GANETI_ROOTDIR", root)
        assert hscan.main([]) == hscan.FAILED
    told = capsys.readouterr().out.splitlines()
    assert told[2:] == [
        "Error for LOCAL: failed to load data. Details:",
        f"{root}/var/run/ganeti/socket/ganeti-query: Ganeti cannot be reached: No such file or directory",
    ]


def test_disk_is_that_of_all_storage_units_of_nodes() -> None:
    found = hscan.summarise(derive(simu.parse(["p,2,8g,64g,4;lvm-vg,ssdvg,1g;ext,san,1t"])))
    assert (found.total_disk, found.free_disk) == (18432, 18432)
