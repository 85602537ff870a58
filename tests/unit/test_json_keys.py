"""The manual pages tell of every key of ``--json``, and of no others."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.backends import simu, text
from ganeti_htools.cli import harep, hbal, hcheck, hinfo, hmaintain, hroller, hscan, hspace, hsqueeze
from ganeti_htools.execution.jobs import Job
from ganeti_htools.execution.record import INTERRUPTED, record
from ganeti_htools.execution.run import Ending, Run, Task
from ganeti_htools.luxi.opcodes import Signature
from ganeti_htools.model.cluster import Cluster, Group
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.maintenance_tags import roll_tag
from ganeti_htools.model.tags import MAINTENANCE
from ganeti_htools.model.types import DiskTemplate, Status
from tests.support import by_hand
from tests.support.by_hand import instance
from tests.support.clusters import Shape
from tests.support.clusters import cluster as generated_cluster
from tests.support.luxi_answers import answers, luxid
from tests.support.schemas import complaint

DRBD, EXT, PLAIN = DiskTemplate.DRBD, DiskTemplate.EXT, DiskTemplate.PLAIN
# Objects of which the keys are names of groups, components, kinds of moves or constraints.
BY_NAME = {
    *("components", "coefficients", "failures", "moves", "tolerated_losses"),
    "tolerated_losses_without_data",
    *(
        "generations",
        "plans",
        "disk_mib_by_unit",
        "kept",
        "least_free_mib",
        "not_enabled",
        "values",
        "counts",
    ),
    *("by_type", "counts", "outcomes", "staying"),
}
MAN = Path(__file__).parents[2] / "man"


def keys(document: Any) -> Iterator[str]:
    match document:
        case dict():
            for key, value in document.items():
                if not key.isupper():  # the name of a resource class
                    yield key
                if key == "plan" and isinstance(value, dict):
                    continue  # htools(1) explains it
                named = key in BY_NAME and isinstance(value, dict)
                yield from keys(list(value.values()) if named else value)
        case list():
            for value in document:
                yield from keys(value)


@pytest.fixture
def report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """What a tool prints of a cluster that has something of everything."""
    rows = [
        *(instance(f"a{number}", DRBD, "n0", "n1") for number in range(4)),
        instance("b", EXT, "n2", mem=9500),
        instance("c", PLAIN, "n3", mem=9500),
    ]
    made = by_hand.cluster({f"n{number}": 10_000 for number in range(4)}, rows)
    nodes = (replace(made.nodes[0], master=True), *made.nodes[1:])
    path = tmp_path / "cluster.data"
    path.write_text(text.dump(replace(made, nodes=nodes)))

    def ask(tool: Any, *options: str, cluster: Cluster | None = None) -> Any:
        if cluster is not None:
            path.write_text(text.dump(cluster))
        assert tool.main(["-t", str(path), "--json", *options]) in (0, 1, 2, 3)
        document = json.loads(capsys.readouterr().out)
        assert complaint(tool.__name__.rpartition(".")[2], document) is None
        return document

    return ask


def told(page: str) -> set[str]:
    """Words in bold in the section about JSON that look like keys."""
    section = (MAN / page).read_text("utf-8").split("# JSON\n")[1].split("\n# ")[0]
    return set(re.findall(r"(?<!\\-)\*\*([a-z_][a-z0-9_]*)\*\*(?!\()", section))


def outcome() -> Any:
    """The record of a run."""
    job = Job("title", ({"OP_ID": "OP_NODE_MODIFY"},), ("command",), None)
    run = Run(Signature("hbal", "reason", "rebalancing", "run"), [[job]])
    run.tasks.append(Task(job, "1/1", 1))
    run.ending = Ending.DONE
    return record(run)


def check(page: str, documents: list[Any], values: set[str] = frozenset()) -> None:  # type: ignore[assignment]
    """``values`` are words that the page names as values."""
    assert told(page) - values == set(keys(documents))


def uneven_units(crowded: bool = False) -> Cluster:
    """Nodes with a storage unit more, which all instances leave free; the third may have no room for them."""
    made = simu.parse(["p,3,100g,9g,4;lvm-vg,ssdvg,9g"])
    if crowded:
        full = tuple(unit._replace(free=0) for unit in made.nodes[2].storage or ())
        made = replace(made, nodes=(*made.nodes[:2], replace(made.nodes[2], storage=full)))
    return replace(
        made, instances=tuple(instance(name, DRBD, "node-01-001", "node-01-002") for name in "abc")
    )


def running_when_down() -> Cluster:
    """A node with an instance that runs although it should be down."""
    row = replace(instance("a", DRBD, "n0", "n1"), status=Status.ERROR_UP)
    return by_hand.cluster({"n0": 10_000, "n1": 10_000}, [row])


def two_groups() -> Cluster:
    """One node with an instance, and nodes of another group."""
    made = by_hand.cluster({f"n{number}": 10_000 for number in range(3)}, [instance("a", EXT, "n0")])
    nodes = (made.nodes[0], *(replace(node, group="uuid-2") for node in made.nodes[1:]))
    return replace(made, groups=(*made.groups, Group("group2", "uuid-2")), nodes=nodes)


def bound_to_node(name: str) -> Cluster:
    """An instance on n0 whose tags allow just one node."""
    row = replace(instance("a", EXT, "n0"), tags=(f"htools:node:{name}",))
    return by_hand.cluster(dict.fromkeys(("n0", "n1"), 10_000), [row])


def test_hbal(report: Callable[..., Any], short_search: None) -> None:
    documents = [
        report(hbal, "-O", "n3"),
        report(hbal, "--optimise=0.1"),
        report(hbal, "--front=2", "--pick=1"),
        report(hbal, "--all-groups"),
        report(hbal, "--explain=a0"),
        report(hbal, cluster=uneven_units()),
        report(hbal, "--explain=a", cluster=uneven_units(crowded=True)),
        report(hbal, "--explain=a", cluster=bound_to_node("n0")),
        report(hbal, "--witness=/bin/false"),
        report(hbal, "--repair-rules", "-l0", cluster=bound_to_node("n1")),
        {"execution": outcome()},
    ]
    endings = {ending.value for ending in Ending} | {INTERRUPTED}
    check("hbal.1.md", documents, endings)


def test_harep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with luxid(tmp_path / "luxi", answers(generated_cluster(1, Shape(nodes=3, instances=3)))):
        assert harep.main([f"-L{tmp_path / 'luxi'}", "--json", "--dry-run"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert complaint("harep", document) is None
    check("harep.1.md", [document])


def test_hcheck(report: Callable[..., Any], tmp_path: Path) -> None:
    plan = report(hbal)
    plan["plan"]["cost"]["disk_mib"] += 1
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    check(
        "hcheck.1.md",
        [
            report(hcheck),
            report(hcheck, f"--plan={tmp_path / 'plan.json'}"),
            report(hcheck, "--what-if-lost=any"),
            report(hcheck, cluster=uneven_units()),
            report(hcheck, "-O", "n0", cluster=two_groups()),
            report(hcheck, "--what-if-lost=n0", cluster=bound_to_node("n0")),
            report(hcheck, cluster=bound_to_node("n1")),
            report(hcheck, "--rules", cluster=bound_to_node("n9")),
            report(hcheck, cluster=running_when_down()),
            report(hcheck, cluster=replace(uneven_units(), tags=("htools:ignore:none",))),
        ],
    )


def with_gpus(described: Cluster) -> Cluster:
    """The cluster with a custom resource class."""
    there = (("CUSTOM_GPU", Inventory(4)),)
    return replace(described, nodes=tuple(replace(node, inventories=there) for node in described.nodes))


def test_hinfo(report: Callable[..., Any]) -> None:
    storage = simu.parse(["p,1,100,4,4;lvm-vg,ssdvg,20;rbd,vms,5"])
    classes = with_gpus(storage)
    found = [report(hinfo), report(hinfo, "--storage", cluster=storage), report(hinfo, cluster=classes)]
    check("hinfo.1.md", found)


def test_hmaintain(report: Callable[..., Any], tmp_path: Path) -> None:
    started = report(hmaintain, "start", "n0", "n3", "--no-capacity-checks")
    made = text.parse((tmp_path / "cluster.data").read_text(), "")
    tags = MAINTENANCE, roll_tag("T:ann")
    tagged = replace(made, nodes=tuple(replace(node, tags=tags) for node in made.nodes))
    status, roll = (report(hmaintain, action, cluster=tagged) for action in ("status", "roll"))
    assert started["staying"]
    assert status["rolls"]
    assert roll["batches"]
    found = [started, status, roll, {"execution": None}]
    check("hmaintain.1.md", found)


def test_hroller(report: Callable[..., Any]) -> None:
    check("hroller.1.md", [report(hroller, "--full-evacuation", "--ignore-non-redundant")])


def test_hspace(report: Callable[..., Any]) -> None:
    sizes = "--disk-template=ext", "--standard-alloc=1024,1024,1", "--tiered-alloc=2048,2048,2"
    roomy = report(hspace, *sizes)
    narrow = by_hand.cluster(
        {"n0": 10_000, "n1": 3_000}, [instance(name, EXT, "n0", mem=2_000) for name in "ab"]
    )
    disks = "--disk-template=plain", "--disk=1g,lvm-vg,ssdvg", "--storage-unit=lvm-vg,ssdvg"
    units = report(hspace, *disks, cluster=simu.parse(["p,3,100g,9g,4;lvm-vg,ssdvg,9g;rbd,vms,1g"]))
    gpus = with_gpus(by_hand.cluster({"n0": 9_000}, []))
    classes = report(hspace, *sizes, "--resource=CUSTOM_GPU:1", cluster=gpus)
    check("hspace.1.md", [roomy, units, classes, report(hspace, *sizes, cluster=narrow)])


def test_hsqueeze(report: Callable[..., Any]) -> None:
    found = report(hsqueeze, "--target-resources=0", "--minimal-resources=0")
    assert found["jobsets"]
    several = {"phases": [{"action": "online", "nodes": [], "jobsets": 0}]}
    check("hsqueeze.1.md", [found, several, {"execution": None}], {"nothing"})


def test_hscan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = Path(__file__).parent / "none"
    assert hscan.main(["-d", str(tmp_path), "--json", f"file://{data}"]) == 2
    documents = json.loads(capsys.readouterr().out)
    assert complaint("hscan", documents) is None
    summary = [{"file": "", **dict.fromkeys(hscan.Summary.__dataclass_fields__)}]
    check("hscan.1.md", [documents, summary], {"bad"})
