"""Plans that are damaged, or made for a cluster that allows more: each is refused for its reason."""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from ganeti_htools.backends import text
from ganeti_htools.judge.judge import Finding, judge
from ganeti_htools.model.cluster import Cluster, Instance, Nic, Node
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.policy import DEFAULT_IPOLICY
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import AllocPolicy, DiskTemplate
from ganeti_htools.planning.balancing.hbal import HBAL
from ganeti_htools.planning.groups.hregroup import HREGROUP
from ganeti_htools.planning.maintenance.hmaintain import HMAINTAIN
from ganeti_htools.planning.squeezing.hsqueeze import HSQUEEZE
from tests.support.certificates import planned

EXAMPLES = Path(__file__).parents[3] / "examples"
Change = Callable[[Any], None]  # of the statement of a plan
Other = Callable[[Cluster], Cluster]


@cache
def example(name: str) -> Cluster:
    return text.parse((EXAMPLES / f"{name}.data").read_text(), name)


@cache
def plan(tool: str) -> tuple[Cluster, Any]:
    match tool:
        case "hbal":
            return example("drifted"), planned(HBAL, example("drifted"), group="rack1")
        case "hregroup":
            return example("racks"), planned(HREGROUP, example("racks"))
        case "hsqueeze":
            return example("idle"), planned(HSQUEEZE, example("idle"))
    return example("drifted"), planned(HMAINTAIN, example("drifted"), nodes=["node5"], empty=True)


def judged(tool: str, change: Change | None, other: Other | None = None) -> list[Finding]:
    cluster, document = plan(tool)
    document = copy.deepcopy(document)
    if change is not None:
        change(document["plan"])
    return judge(other(cluster) if other is not None else cluster, document).findings


def moves(statement: Any) -> list[Any]:
    return [job for jobs in statement["jobsets"] for job in jobs if job["instance"]]


def job(number: int, **values: Any) -> Change:
    """Change a move of the plan, counted from 1."""

    def change(statement: Any) -> None:
        moves(statement)[number - 1].update(values)

    return change


def command(number: int, old: str, new: str) -> Change:
    def change(statement: Any) -> None:
        chosen = moves(statement)[number - 1]
        assert any(old in each for each in chosen["commands"])
        chosen["commands"] = [each.replace(old, new) for each in chosen["commands"]]

    return change


def told(key: str, amount: float) -> Change:
    def change(statement: Any) -> None:
        statement["cost"][key] += amount

    return change


def scored(when: str) -> Change:
    def change(statement: Any) -> None:
        statement["score"][when] += 0.001

    return change


def miscounted(statement: Any) -> None:
    statement["cost"]["moves"]["migrations"] = 7


def cleared(key: str) -> Change:
    return lambda statement: statement.pop(key)


def without_last_jobset(statement: Any) -> None:
    del statement["jobsets"][-1]


def with_spindles(row: Instance) -> Instance:
    return replace(row, disks=tuple(replace(disk, spindles=2) for disk in row.disks))


def in_one_jobset(statement: Any) -> None:
    statement["jobsets"] = [[each for jobs in statement["jobsets"] for each in jobs]]


def backwards(statement: Any) -> None:
    statement["jobsets"].reverse()


def twice(statement: Any) -> None:
    statement["jobsets"].append(statement["jobsets"][-1])


def only(number: int, **values: Any) -> Change:
    """Leave a plan of one move with other figures."""

    def change(statement: Any) -> None:
        chosen = moves(statement)[number - 1]
        chosen.update(values, score=None)
        statement.update(jobsets=[[chosen]], cost=None, score={"before": None, "after": None})

    return change


def move(instance: str, was: list[str], now: list[str], *commands: str) -> Change:
    """Leave a plan of one other move."""
    values = {"instance": instance, "from": was, "to": now, "commands": list(commands)}
    return only(1, **values)


def nodes(change: Callable[[Node], Node], *names: str) -> Other:
    def other(cluster: Cluster) -> Cluster:
        rows = (change(row) if not names or row.name in names else row for row in cluster.nodes)
        return replace(cluster, nodes=tuple(rows))

    return other


def instances(change: Callable[[Instance], Instance], *names: str) -> Other:
    def other(cluster: Cluster) -> Cluster:
        rows = (change(row) if not names or row.name in names else row for row in cluster.instances)
        return replace(cluster, instances=tuple(rows))

    return other


def groups(**values: Any) -> Other:
    return lambda cluster: replace(
        cluster, groups=tuple(replace(group, **values) for group in cluster.groups)
    )


def tagged(tag: str, *names: str) -> Other:
    return instances(lambda row: replace(row, tags=(*row.tags, tag)), *names)


def both(*others: Other) -> Other:
    def other(cluster: Cluster) -> Cluster:
        for each in others:
            cluster = each(cluster)
        return cluster

    return other


def on_vg(row: Node) -> Node:
    unit = DesiredUnit(StorageType.LVM_VG, "other" if row.name == "node4" else "xenvg")
    return replace(row, storage=(Unit(unit, int(row.t_dsk), row.f_dsk),))


TO_4 = "gnt-instance replace-disks -n node4 web1"
WEB1 = partial(move, "web1", ["node1", "node2"])
SMALL = replace(DEFAULT_IPOLICY, minmax=(replace(DEFAULT_IPOLICY.minmax[0], max=DEFAULT_IPOLICY.std),))

DAMAGED = [
    # What the plan says of itself
    ("hbal", job(1, instance="web9"), None, "plan", "no instance web9"),
    ("hbal", job(1, to=["node9", "node2"]), None, "plan", "no node node9"),
    ("hbal", job(1, **{"from": ["node4", "node2"]}), None, "plan", "not on node4:node2"),
    ("hbal", job(1, to=["node4", "node3"]), None, "plan", "not to node4:node3"),
    ("hbal", job(1, commands=["rm -rf /"]), None, "plan", "expected a command"),
    ("hbal", job(1, commands=["gnt-instance reboot web1"]), None, "plan", "expected a command"),
    ("hbal", job(1, commands=[]), None, "plan", "the commands lead to"),
    ("hbal", cleared("jobsets"), None, "plan", "KeyError: 'jobsets'"),
    ("hbal", cleared("score"), None, "plan", "KeyError: 'score'"),
    ("hbal", without_last_jobset, None, "volume", "moves"),
    ("hbal", in_one_jobset, None, "jobset", "shares node"),
    ("hbal", backwards, None, "plan", "not on"),
    ("hbal", twice, None, "plan", "not on"),
    ("hbal", WEB1(["node1", "node1"], TO_4.replace("node4", "node1")), None, "plan", "same node twice"),
    ("hregroup", command(1, "web1", "web2"), None, "plan", "expected a command"),
    ("hregroup", command(3, "-n node31 ", ""), None, "plan", "expected a command"),
    ("hregroup", job(1, commands=["gnt-instance failover -f web1"]), None, "plan", "no secondary"),
    ("hmaintain", command(1, "-n node6", "-n node7"), None, "plan", "the commands lead to"),
    # Announced figures
    ("hbal", scored("before"), None, "score", "announced 10.69"),
    ("hbal", scored("after"), None, "score", "announced"),
    ("hbal", job(2, score=1.0), None, "score", "announced 1.0"),
    ("hbal", told("disk_mib", 1), None, "volume", "MiB of disks"),
    ("hbal", told("memory_mib", -4096), None, "volume", "MiB of memory"),
    ("hbal", miscounted, None, "volume", "moves announced"),
    ("hsqueeze", told("memory_mib", 1), None, "volume", "MiB of memory"),
    # Capacity
    ("hbal", None, nodes(lambda row: replace(row, f_mem=0), "node4"), "capacity", "memory"),
    ("hbal", None, nodes(lambda row: replace(row, t_mem=4096), "node4"), "capacity", "memory"),
    ("hbal", None, nodes(lambda row: replace(row, f_dsk=1024), "node4"), "capacity", "more than there is"),
    ("hbal", None, nodes(on_vg), "capacity", "has no storage unit lvm-vg/xenvg"),
    (
        "hbal",
        None,
        both(nodes(lambda row: replace(row, excl_stor=True), "node4"), instances(with_spindles)),
        "capacity",
        "spindles",
    ),
    (
        "hbal",
        None,
        both(
            nodes(lambda row: replace(row, inventories=(("CUSTOM_GPU", Inventory(2)),)), "node1", "node2"),
            tagged("htools:resource:CUSTOM_GPU:1"),
        ),
        "capacity",
        "CUSTOM_GPU",
    ),
    ("hsqueeze", None, nodes(lambda row: replace(row, f_mem=100), "node1"), "capacity", "memory"),
    ("hregroup", None, nodes(lambda row: replace(row, f_mem=100), "node22"), "capacity", "memory"),
    # Policies
    ("hbal", lambda plan: plan["options"].update(max_cpu=0.1), None, "policy", "CPUs"),
    ("hbal", lambda plan: plan["options"].update(min_disk=0.9), None, "policy", "must stay"),
    ("hbal", None, groups(ipolicy=replace(DEFAULT_IPOLICY, vcpu_ratio=0.1)), "policy", "CPUs"),
    ("hbal", None, groups(ipolicy=replace(DEFAULT_IPOLICY, spindle_ratio=1.0)), "policy", "spindles"),
    ("hregroup", None, groups(ipolicy=SMALL), "policy", "does not allow it (FailMem)"),
    (
        "hregroup",
        None,
        groups(ipolicy=replace(DEFAULT_IPOLICY, disk_templates=(DiskTemplate.DRBD,))),
        "policy",
        "FailDisk",
    ),
    (
        "hbal",
        None,
        both(
            lambda cluster: replace(cluster, tags=(*cluster.tags, "htools:migration:cpu")),
            nodes(lambda row: replace(row, tags=("cpu:new",)), "node1", "node2"),
        ),
        "policy",
        "migration tags",
    ),
    # N+1, redundancy
    ("hbal", None, nodes(lambda row: replace(row, f_mem=6000), "node4"), "n+1", "N+1"),
    (
        "hregroup",
        None,
        nodes(lambda row: replace(row, f_mem=30000), "node22"),
        "redundancy",
        "come back",
    ),
    (
        "hmaintain",
        None,
        nodes(lambda row: replace(row, offline=True), "node7"),
        "groups",
        "takes no instances (offline)",
    ),
    # Exclusion tags and rules
    ("hbal", None, tagged("service:web", "db1", "mail", "wiki", "build", "shop"), "exclusion", "service:web"),
    ("hbal", None, tagged("htools:fixed"), "rules", "htools:fixed"),
    ("hbal", None, tagged("htools:avoid:old", "web1", "web2", "db1", "db2", "shop", "mail"), None, ""),
    (
        "hbal",
        None,
        both(
            tagged("htools:avoid:new", "web1", "web2", "db1", "db2", "shop", "mail"),
            nodes(lambda row: replace(row, tags=("new",)), "node4"),
        ),
        "rules",
        "htools:avoid:new",
    ),
    ("hsqueeze", None, tagged("htools:node:node2", "web2"), "rules", "htools:node:node2"),
    ("hsqueeze", None, tagged("htools:on:ssd", "wiki"), "rules", "htools:on:ssd"),
    ("hsqueeze", None, tagged("htools:apart:x", "web2", "mail"), "rules", "htools:apart:x"),
    ("hregroup", None, tagged("htools:together:x", "web1", "web2"), "rules", "htools:together:x"),
    # Groups
    ("hbal", None, nodes(lambda row: replace(row, offline=True), "node4"), "groups", "offline"),
    ("hbal", None, nodes(lambda row: replace(row, drained=True, offline=True), "node4"), "groups", "drained"),
    (
        "hbal",
        None,
        nodes(lambda row: replace(row, tags=("htools:maintenance",)), "node4"),
        "groups",
        "maintenance",
    ),
    (
        "hbal",
        lambda plan: plan["options"].update(offline=["node4"]),
        None,
        "groups",
        "takes no instances (offline)",
    ),
    ("hbal", WEB1(["node1", "node5"], TO_4.replace("node4", "node5")), None, "groups", "leaves its node"),
    ("hsqueeze", None, nodes(lambda row: replace(row, offline=True), "node3"), "groups", "offline"),
    (
        "hregroup",
        None,
        lambda cluster: replace(cluster, tags=(*cluster.tags, "htools:nointergroup")),
        "groups",
        "nointergroup",
    ),
    ("hregroup", None, groups(alloc_policy=AllocPolicy.UNALLOCABLE), "groups", "unallocable"),
    (
        "hregroup",
        None,
        instances(lambda row: replace(row, nics=(Nic(network="net1"),)), "web1"),
        "groups",
        "lacks network net1",
    ),
    ("hsqueeze", lambda plan: plan["jobsets"].pop(1), None, "capacity", "goes offline"),
]


@pytest.mark.parametrize(("tool", "change", "other", "kind", "why"), DAMAGED)
def test_refuses_damaged_plan_for_its_reason(
    tool: str, change: Change | None, other: Other | None, kind: str | None, why: str
) -> None:
    found = judged(tool, change, other)
    if kind is None:
        assert not found
        return
    assert any(each.kind == kind and why in each.text for each in found), found


def test_there_are_fifty_damaged_plans() -> None:
    assert sum(kind is not None for _, _, _, kind, _ in DAMAGED) >= 50


@pytest.mark.parametrize("tool", ["hbal", "hregroup", "hsqueeze", "hmaintain"])
def test_accepts_the_plan_as_made(tool: str) -> None:
    assert not judged(tool, None)
