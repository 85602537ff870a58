import json
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.backends import text
from ganeti_htools.cli import hcheck, hspace
from ganeti_htools.model.types import DiskTemplate
from tests.support import by_hand
from tests.support.clusters import Shape, cluster
from tests.support.rapi_documents import documents

SIMULATED = ("--simulate=p,3,100g,16g,8,12", "--disk-template=drbd", "--tiered-alloc=40g,8g,2")


def test_json_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    hspace.main([*SIMULATED, "--machine-readable"])
    told = dict(line.split("=", 1) for line in capsys.readouterr().out.splitlines())
    assert hspace.main([*SIMULATED, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["cluster"]["nodes"] == 3
    assert report["standard"]["instances"] == int(told["HTS_ALLOC_INSTANCES"])
    tiers = [
        f"{tier['mem']},{tier['dsk']},{tier['vcpus']},{tier['spindles']}={tier['instances']}"
        for tier in report["tiered"]["tiers"]
    ]
    assert f"'{' '.join(tiers)}'" == told["HTS_TSPEC"]
    assert report["standard"]["failures"]["FailCPU"] == int(told["HTS_ALLOC_FAILCPU_CNT"])


def test_what_is_in_the_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # n1 has room for one of them; they leave n0 in the reverse order.
    described = by_hand.cluster(
        {"n0": 10_000, "n1": 3_000},
        [by_hand.instance(name, DiskTemplate.EXT, "n0", mem=2_000) for name in ("a", "b")],
    )
    (tmp_path / "cluster.data").write_text(text.dump(described))
    argv = ["-t", str(tmp_path / "cluster.data"), "--disk-template=ext", "--standard-alloc=1g,1000,1", "-l2"]
    lines = ["n0 cannot fail without loss: a would not come back", "without this check 2 would fit"]
    assert hspace.main(argv) == 0
    out, err = capsys.readouterr()
    assert f"  - {lines[0]}\n  - {lines[1]}\n" in out.partition("Normal")[2]
    assert [f"Standard allocation: {line}" for line in lines] == err.splitlines()[-2:]
    assert hspace.main([*argv, "--machine-readable"]) == 0
    told = dict(line.split("=", 1) for line in capsys.readouterr().out.splitlines())
    assert (told["HTS_ALLOC_OBSTACLES"], told["HTS_ALLOC_UNCHECKED"]) == ("'n0=a'", "2")
    assert hspace.main([*argv, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["standard"]["obstruction"] == {
        "unchecked": 2,
        "more": False,
        "obstacles": [{"node": "n0", "instances": ["a"]}],
    }
    for switch in ("--no-capacity-checks", "-l0"):
        assert hspace.main([*argv, switch]) == 0
        assert "cannot fail without loss" not in "".join(capsys.readouterr())


def test_what_would_be_in_the_way(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--disk-template=ext", "--standard-alloc=1g,1g,1", "--tiered-alloc=1g,1g,1"]
    assert hspace.main(["--simulate=p,1,100g,16g,8", *arguments]) == 0
    line = "node-01-001 cannot fail without loss with one more instance: new-0 would not come back"
    out, err = capsys.readouterr()
    assert (out.count(line), err.count(line)) == (2, 2)


def test_nodes_that_are_not_n1_are_in_the_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mirrored = by_hand.instance("a", DiskTemplate.DRBD, "n0", "n1", mem=4_000)
    described = by_hand.cluster({"n0": 10_000, "n1": 3_000, "n2": 10_000}, [mirrored])
    (tmp_path / "cluster.data").write_text(text.dump(described))
    argv = ["-t", str(tmp_path / "cluster.data"), "--standard-alloc=1g,1g,1", "--machine-readable"]
    assert hspace.main(argv) == 0
    told = dict(line.split("=", 1) for line in capsys.readouterr().out.splitlines())
    assert (told["HTS_ALLOC_INSTANCES"], told["HTS_ALLOC_OBSTACLES"]) == ("0", "'n0=a'")
    assert int(told["HTS_ALLOC_UNCHECKED"]) > 0


def test_saved_clusters_can_be_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hspace.main([*SIMULATED, "-l4", "-S", str(tmp_path / "after")]) == 0
    assert capsys.readouterr().err == "".join(
        f"The cluster state after {kind} allocation has been written to file '{tmp_path}/after.{kind}'\n"
        for kind in ("tiered", "standard")
    )
    saved = text.parse((tmp_path / "after.standard").read_text(), "after")
    assert [instance.name for instance in saved.instances] == ["new-0", "new-1", "new-2", "new-3"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["after.standard", "after.tiered"]


def test_several_disks_on_units_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--simulate=p,3,100g,64g,16", "--simulate-storage=lvm-vg,ssdvg,50g", "--no-capacity-checks"]
    words += ["--disk-template=plain", "--disk=10g", "--disk=20g,lvm-vg,ssdvg"]
    assert hspace.main(words) == 0
    told = capsys.readouterr().out
    assert "using disk template 'plain', with disks of 10240 MiB and 20480 MiB on lvm-vg/ssdvg.\n" in told
    assert "  -   6 instances allocated\n" in told
    assert "  - first to end: disk space on lvm-vg/ssdvg; closest: node-01-001 lacks 10241 MiB\n" in told
    assert "  - lvm-vg/ssdvg: 30720 of 153600 MiB left, at most 10240 on one node\n" in told
    assert hspace.main([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)["standard"]
    assert [disk["size"] for disk in report["disks"]] == [10240, 20480]
    assert report["storage"]["ends_first"].startswith("disk space on lvm-vg/ssdvg")
    assert hspace.main([*words, "--machine-readable"]) == 0
    assert "HTS_ALLOC_FAILDISK_CNT=3\n" in capsys.readouterr().out


def test_what_fits_in_a_pool(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--simulate=p,3,100g,64g,16", "--simulate-storage=rbd,vms,50g", "--storage-unit=rbd,vms"]
    assert hspace.main([*words, "--standard-alloc=10g,128,1"]) == 0
    told = capsys.readouterr().out
    assert "using disk template 'rbd' on rados/vms.\n" in told
    assert "  -   4 instances allocated\n" in told
    assert "  - first to end: space in rados/vms, which lacks 1 MiB\n" in told
    assert "  - rados/vms: 10240 of 51200 MiB left\n" in told


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["unexpected"], "This program doesn't take any arguments."),
        (["--simulate=u,3,1g,1g,1"], "failure during allocation: No online nodes"),
        (["--simulate=p,1,1g,1g,1", "--disk-template=drbd"], "Not enough online nodes"),
        (["--simulate=p,1,1g,1g,1", "-Onode9"], "wrong node name(s) set as offline: node9"),
        ([*SIMULATED, "--storage-unit=lvm-vg,ssdvg"], "no node tells its storage units"),
        ([*SIMULATED, "-S/no/such/directory/x"], "/no/such/directory/x.tiered: cannot be written"),
    ],
)
def test_errors_are_one_line(capsys: pytest.CaptureFixture[str], argv: list[str], problem: str) -> None:
    assert hspace.main(argv) == 1
    told = capsys.readouterr().err
    assert problem in told
    assert told.startswith("Error: ")
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ("--standard-alloc=1g,1g", "expected disk,ram,cpu"),
        ("--tiered-alloc=1g,many,1", "tiered specs memory: "),
        ("--disk-template=floppy", "expected one of diskless, file"),
        ("--disk=many", "cannot parse string 'many', expected a size"),
        ("--disk=1g,lvm-vg", "expected TYPE,KEY, not 'lvm-vg'"),
        ("--storage-unit=floppy,a", "unknown storage type of 'floppy/a'"),
        ("--spindle-use=-1", "expected a whole number from 0"),
    ],
)
def test_wrong_values(capsys: pytest.CaptureFixture[str], option: str, problem: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        hspace.main([*SIMULATED, option])
    assert stopped.value.code == 1
    assert problem in capsys.readouterr().err


def test_instances_as_they_are_configured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    described: dict[str, Any] = dict(
        documents(cluster(1, Shape(nodes=3, instances=2, templates={"drbd": 1}, down=0)))
    )
    for instance, running, configured in zip(described["instances"], (4096, 1024), (1024, 512), strict=True):
        instance["oper_ram"], instance["beparams"]["maxmem"] = running, configured
    for name, document in described.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(document))

    def used(*options: str) -> int:
        arguments = [f"--master=file://{tmp_path}", "--json", "--max-length=0", *options]
        assert hspace.main(arguments) == 0
        return int(json.loads(capsys.readouterr().out)["cluster"]["resources"]["i_mem"])

    assert (used(), used("--state-of-record")) == (4096 + 1024, 1024 + 512)


def test_refuses_template_that_the_cluster_does_not_enable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    described: dict[str, Any] = dict(documents(cluster(1, Shape(nodes=3, instances=2))))
    described["info"]["enabled_disk_templates"] = ["ext", "plain"]
    for name, document in described.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    source = f"--master=file://{tmp_path}"
    assert hspace.main([source, "--disk-template=drbd"]) == 1
    error = "Error: Disk template drbd is not enabled; the cluster enables ext, plain\n"
    out, err = capsys.readouterr()
    assert (out, err.splitlines(keepends=True)[-1]) == ("", error)
    assert hspace.main([source, "--disk-template=plain", "-l0"]) == 0
    assert hcheck.main([source, "--no-simulation"]) == 0
    group = described["groups"][0]
    named = ", ".join(t for t in group["ipolicy"]["disk-templates"] if t not in ("ext", "plain"))
    warning = (
        f"Warning: group {group['name']}: its policy allows {named}, which the cluster does not enable\n"
    )
    assert warning in capsys.readouterr().err
    assert hcheck.main([source, "--no-simulation", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["not_enabled"] == {group["name"]: named.split(", ")}
