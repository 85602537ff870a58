"""What policies see of a node group, made by hand."""

from dataclasses import replace
from typing import Any

import numpy as np

from ganeti_htools.model.cluster import Cluster, Group, Node
from ganeti_htools.model.derive import derive
from ganeti_htools.model.policy import DEFAULT_IPOLICY
from ganeti_htools.model.tags import STANDBY_AUTO
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.simulator.world import World, initial_world
from htoolsd.config.policies import (
    PolicySettings,
    RebalanceSettings,
    RedistributeSettings,
    RelieveSettings,
    RepairSettings,
    SqueezeSettings,
)
from htoolsd.policies.memory import Budget
from htoolsd.policies.observe import group_facts, needs
from htoolsd.policies.remedy import GroupFacts, Need, PlanBounds, Remedy, RemedyPlan
from tests.support.worlds import ANY, grouped, instance, node

WIDE = Budget(1000, 1 << 30)
EAGER = RebalanceSettings(mode="act", hold=1, start=0.02, stop=0.001, min_gain=1e-6)


def facts(score: float, n1: int = 0, now: float = 0.0) -> GroupFacts:
    """A node group without nodes, of which only figures are known."""
    cluster = Cluster((Group("rack1", "uuid"),), (), ())
    return GroupFacts(cluster, "rack1", derive(cluster), np.zeros(0, np.bool_), score, n1, now)


def planned(
    remedy: type[Remedy[Any]],
    cluster: Cluster,
    settings: PolicySettings,
    group: str = "default",
    **bounds: Any,
) -> RemedyPlan:
    """What would be done there, where budgets leave much room."""
    known: dict[str, Any] = {"room": WIDE} | bounds
    return remedy(settings).plan(cluster, PlanBounds(group, **known), lambda _text: None)


def needed(remedy: type[Remedy[Any]], cluster: Cluster, settings: PolicySettings) -> dict[str, Need]:
    """What is needed in each node group."""
    return {facts.group: need for facts, need in needs(remedy(settings), group_facts(cluster))}


def all_off(**settings: PolicySettings) -> dict[str, PolicySettings]:
    """The settings of all policies: those that are not told are off."""
    return {
        "repair": RepairSettings(),
        "redistribute": RedistributeSettings(),
        "squeeze": SqueezeSettings(),
        "relieve": RelieveSettings(),
        "rebalance": RebalanceSettings(),
    } | settings


STANDARD = 512  # MiB
POLICY = replace(DEFAULT_IPOLICY, std=replace(DEFAULT_IPOLICY.std, memory_size=STANDARD, cpu_count=1))


def racks(*counts: int, mem: int = 500, names: str = "abcdef") -> Cluster:
    """A node group with so many instances on each of its nodes, and a second group with two empty nodes."""
    nodes = [
        node(name, f_mem=4000 - mem * count, t_cpu=16.0, tags=("role:old",) if name == "b" else ())
        for name, count in zip(names, counts, strict=False)
    ]
    rows = [
        replace(instance(f"{name}{at}", DiskTemplate.EXT, name), mem=mem)
        for name, count in zip(names, counts, strict=False)
        for at in range(count)
    ]
    others = [node(name, group="uuid-2", master=name == "boss") for name in ("boss", "y")]
    groups = Group("default", "uuid", ipolicy=POLICY), Group("second", "uuid-2", ipolicy=POLICY)
    return Cluster(groups, (*nodes, *others), tuple(rows))


def asleep(cluster: Cluster, *names: str) -> Cluster:
    """These nodes are powered down, and report nothing."""

    def row(each: Node) -> Node:
        off = replace(each, offline=True, tags=(STANDBY_AUTO,), t_mem=0.0, n_mem=0, f_mem=0, t_cpu=0.0)
        return replace(off, t_dsk=0.0, f_dsk=0) if each.name in names else each

    return replace(cluster, nodes=tuple(map(row, cluster.nodes)))


def small(names: str, **instances: str) -> World:
    """The master, nodes with these names, and small instances on these nodes."""
    nodes = [node("boss", master=True), *(node(name, t_cpu=16.0) for name in names)]
    rows = [replace(instance(name, DiskTemplate.EXT, place), mem=100) for name, place in instances.items()]
    policy = replace(ANY, std=replace(ANY.std, memory_size=1000, cpu_count=1))
    return initial_world(Cluster((Group("default", "uuid", ipolicy=policy),), tuple(nodes), tuple(rows)))


def broken(full: bool = True) -> Cluster:
    """A group of which a node is offline that has an instance on shared storage; the others may be full."""
    cluster = grouped().cluster
    rows = tuple(row for row in cluster.instances if row.name == "shared")

    def changed(row: Node) -> Node:
        if row.name == "one":
            return Node("one", "uuid", offline=True)
        return replace(row, f_mem=500) if full and row.group == "uuid" else row

    return replace(cluster, instances=rows, nodes=tuple(map(changed, cluster.nodes)))
