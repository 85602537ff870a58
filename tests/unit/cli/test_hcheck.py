import json
from dataclasses import replace
from pathlib import Path

import pytest

from ganeti_htools import streams
from ganeti_htools.backends import simu, text
from ganeti_htools.cli import hcheck
from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.types import DiskTemplate, Status
from ganeti_htools.planning.groups.health import group_health
from tests.support import by_hand
from tests.support.by_hand import instance

DRBD, PLAIN, EXT = DiskTemplate.DRBD, DiskTemplate.PLAIN, DiskTemplate.EXT


@pytest.fixture
def healthy() -> Cluster:
    instances = [
        instance("m", DRBD, "n0", "n1"),
        instance("s", EXT, "n0"),
        instance("l", PLAIN, "n1"),
    ]
    return by_hand.cluster({"n0": 10_000, "n1": 10_000, "n2": 10_000}, instances)


@pytest.fixture
def sick() -> Cluster:
    """A secondary that could not take over; there is room on the third node."""
    instances = [instance("m", DRBD, "n0", "n1", mem=6000), instance("s", EXT, "n1", mem=6000)]
    return by_hand.cluster({"n0": 10_000, "n1": 10_000, "n2": 10_000}, instances)


def run(tmp_path: Path, described: Cluster, *options: str) -> int:
    path = tmp_path / "cluster.data"
    path.write_text(text.dump(described))
    return hcheck.main(["-t", str(path), "--ganeti-version=3.0", *options])


def test_without_simulation_nothing_is_wrong_enough(
    tmp_path: Path, sick: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, sick, "--no-simulation") == 0
    out = capsys.readouterr().out
    assert out.startswith("Running in no-simulation mode.\n")
    assert "Cluster is not healthy: True\n" in out
    assert "after rebalancing" not in out


def test_what_rebalancing_would_do(tmp_path: Path, sick: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, sick) == 1
    out = capsys.readouterr().out
    assert out.startswith("Cluster needs rebalancing.\n")
    after = out[out.index("Statistics for group group1 after rebalancing") :]
    assert "    Nodes not N+1 happy: 0\n" in after
    assert run(tmp_path, sick, "--select-instances=s", "--no-instance-moves") == 1
    assert "    Nodes not N+1 happy: 1\n" in capsys.readouterr().out.partition("after rebalancing")[2]


def test_the_report_as_json(tmp_path: Path, sick: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, sick, "--json") == 1
    report = json.loads(capsys.readouterr().out)
    assert report["healthy"] is False
    (group,) = report["groups"]
    assert (group["name"], group["uuid"], group["tolerated_losses"]) == ("group1", "uuid-1", 0)
    assert group["initial"]["n1_fail"] == report["cluster"]["initial"]["n1_fail"] == 1
    assert group["final"]["score"] < group["initial"]["score"]
    assert run(tmp_path, sick, "--json", "--no-simulation", "--no-capacity-checks") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["cluster"]["final"] is None
    assert "gn1_fail" not in report["cluster"]["initial"]


@pytest.mark.parametrize("report", ["drifted", "balanced", "racks"])
def test_json_has_the_health_that_the_status_of_the_daemon_has(
    report: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(__file__).parents[3] / "examples" / f"{report}.data"
    hcheck.main(["-t", str(path), "--json"])
    shown = json.loads(capsys.readouterr().out)
    expected = {
        each["name"]: each["health"] for each in group_health(text.parse(path.read_text(), path.name))
    }
    assert {each["name"]: each["health"] for each in shown["groups"]} == expected
    assert shown["healthy"] is (set(expected.values()) == {"healthy"})


def test_offline_node_without_instances_is_no_fault_of_health(
    tmp_path: Path, healthy: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, healthy, "-O", "n2", "--json") == 1  # Ganeti counts it
    shown = json.loads(capsys.readouterr().out)
    assert (shown["healthy"], shown["cluster"]["initial"]["offline_nodes"]) == (True, 1)


def test_storage_that_is_wrong_is_a_warning_and_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = simu.parse(["p,2,100g,64g,4;lvm-vg,ssdvg,1g", "p,1,100g,64g,4"])
    xenvg, ssdvg = made.nodes[0].storage or ()
    full = replace(made.nodes[0], storage=(xenvg, ssdvg._replace(free=1)))
    made = replace(made, nodes=(full, *made.nodes[1:]))
    assert run(tmp_path, made) == 0
    told, warned = capsys.readouterr()
    assert warned == "Warning: lvm-vg/ssdvg of node node-01-001 is 99 % full: 1 MiB of 1.0 GiB are free\n"
    assert "No need to rebalance cluster" in told
    assert run(tmp_path, made, "-q") == 0
    assert capsys.readouterr() == ("", "")
    assert run(tmp_path, made, "--json") == 0
    told, warned = capsys.readouterr()
    report = json.loads(told)
    assert (report["healthy"], report["storage"]["full"], warned) == (True, 1, "")


def test_table_of_losses_fits_80_columns(
    tmp_path: Path, healthy: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    long = {node.name: f"{node.name}.a-rather-long-name-{node.name}" for node in healthy.nodes}
    nodes = tuple(replace(node, name=long[node.name]) for node in healthy.nodes)
    moved = tuple(
        replace(each, pnode=long[each.pnode], snode=each.snode and long[each.snode])
        for each in healthy.instances
    )
    monkeypatch.setattr(streams, "width", lambda: 80)
    assert run(tmp_path, replace(healthy, nodes=nodes, instances=moved), "--losses") == 2
    shown = capsys.readouterr().out
    assert "Spindles" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_losses_are_those_of_any_node(
    tmp_path: Path, healthy: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, healthy, "--losses", "--json") == run(tmp_path, healthy, "--what-if-lost=any") == 2
    shown = json.loads(capsys.readouterr().out.partition("\nWithout")[0])
    assert [each["node"] for each in shown["lost"]] == ["n0", "n1", "n2"]


def test_data_that_is_lost_is_told_first(
    tmp_path: Path, healthy: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = (*healthy.instances, instance("l2", DiskTemplate.FILE, "n0"))
    described = replace(healthy, instances=rows)
    assert run(tmp_path, described, "--what-if-lost=any") == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Without node n0: 1 of 3 instances come back without their data, 2 with it,")
    assert lines[1].startswith("    l2 is recreated, without its data, on n")
    assert lines[2].startswith("Without node n1: 1 of 1 instances")
    assert lines[-1].endswith(": 0 (1 if data may be lost)")
    assert run(tmp_path, described, "--what-if-lost=n0", "--json") == 2
    report = json.loads(capsys.readouterr().out)
    (loss,) = report["lost"]
    assert [loss[key] for key in ("survived", "with_data", "without_data", "not_back")] == [False, 2, 1, 0]
    assert report["tolerated_losses"] == {"group1": 0}
    assert report["tolerated_losses_without_data"] == {"group1": 1}


def test_what_becomes_of_any_node(tmp_path: Path, sick: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, sick, "--what-if-lost", "any") == 1
    out = capsys.readouterr().out
    assert "Without node n0: 0 of 1 instances come back" in out
    assert "    m does not come back\n" in out
    assert "Without node n1: 1 of 1 instances come back" in out
    assert "    s moves" not in out
    assert run(tmp_path, sick, "--what-if-lost", "any", "--json") == 1
    report = json.loads(capsys.readouterr().out)
    assert [loss["survived"] for loss in report["lost"]] == [False, True, True]
    assert report["lost"][0]["instances"] == [{"name": "m", "by": "failover", "node": None}]
    assert report["tolerated_losses"] == {"group1": 0}


def test_rebalancing_may_have_to_avoid_disk_moves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # n1 has no room for m. Free is then 7000, 2000, 9000 if m gets a secondary on n2, where its disk is
    # copied to; or 7000, 10000, 1000, which is less even, if s migrates there.
    instances = [
        instance("m", DRBD, "n0", "n1", mem=3000),
        instance("s", EXT, "n1", mem=8000),
        instance("l", PLAIN, "n2", mem=1000),
    ]
    described = by_hand.cluster({"n0": 10_000, "n1": 10_000, "n2": 10_000}, instances)

    def final_score(*options: str) -> float:
        assert run(tmp_path, described, "--json", "--ignore-dynu", "-l1", *options) == 1
        return float(json.loads(capsys.readouterr().out)["groups"][0]["final"]["score"])

    copied, migrated = final_score(), final_score("--no-disk-moves")
    assert copied < migrated
    # 1.9987 is gained by the former, 1.9075 by the latter: 1.048 times as much.
    assert final_score("--avoid-disk-moves=1.04") == copied
    assert final_score("--avoid-disk-moves=1.05") == migrated


def two_groups(mem: int) -> Cluster:
    """A group of one node, with an instance of that size, and one of two nodes."""
    made = by_hand.cluster({"n0": 20_000, "n1": 10_000, "n2": 10_000}, [instance("i", EXT, "n0", mem=mem)])
    nodes = (made.nodes[0], *(replace(node, group="uuid-2") for node in made.nodes[1:]))
    return replace(made, groups=(*made.groups, Group("group2", "uuid-2")), nodes=nodes)


@pytest.mark.parametrize(
    ("mem", "told"),
    [
        (1000, "    Redistribution (hregroup) would repair it"),
        (
            15_000,
            "    Redistribution (hregroup) would not repair it: instance i: no room in group1 (no other node"
            " is online), no room in group2 (most missing: memory; closest: n1 lacks 5001 MiB; counted as"
            " FailMem: 2)",
        ),
    ],
)
def test_what_redistribution_would_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mem: int, told: str
) -> None:
    assert run(tmp_path, two_groups(mem), "-O", "n0", "-v") == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "edistribution" in line] == [told]
    assert "        offline nodes still have i" in lines
    assert lines.count("    Health: healthy") == 1
    assert lines[-1] == "Rules of Ganeti 3.0"
    run(tmp_path, two_groups(mem), "-O", "n0", "--json")
    ill, well = json.loads(capsys.readouterr().out)["groups"]
    assert (ill["health"], well["health"], well["redistribution"]) == ("unhealthy", "healthy", None)
    assert ill["redistribution"]["repairs"] is (mem == 1000)


def test_redistribution_is_not_tried_in_vain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options in (["-v", "--no-simulation"], []):
        run(tmp_path, two_groups(1000), "-O", "n0", *options)
        assert "edistribution" not in capsys.readouterr().out


def test_names_instances_that_run_on_a_wrong_node(
    tmp_path: Path, healthy: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """On standard error; what Debian's prints stays."""
    assert run(tmp_path, healthy) == 0
    usual = capsys.readouterr().out
    row = replace(healthy.instances[0], status=Status.WRONG_NODE)
    assert run(tmp_path, replace(healthy, instances=(row, *healthy.instances[1:]))) == 0
    out, err = capsys.readouterr()
    assert (out, err) == (
        usual,
        "Warning: m runs on another node than its primary; next: gnt-instance migrate --cleanup m\n",
    )


def test_lists_tags_without_effect(
    tmp_path: Path, healthy: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *others = healthy.instances
    wrong = replace(healthy, instances=(replace(first, tags=("htools:together",)), *others))
    line = f"instance {first.name}: tag htools:together has no effect; "
    line += "expected htools:together:..., see htools-tags(7)"
    assert run(tmp_path, wrong) == 0
    assert capsys.readouterr().out.endswith(f"\nTags without effect: 1\n    {line}\n")
    assert run(tmp_path, wrong, "--json") == 0
    assert json.loads(capsys.readouterr().out)["tag_faults"] == [line]
    assert run(tmp_path, healthy, "--json") == 0
    assert "tag_faults" not in json.loads(capsys.readouterr().out)
