"""The judge of plans accepts what the tools plan, on clusters of every kind."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.node_reservations import with_reserved
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.tags import STANDBY
from ganeti_htools.planning.balancing.hbal import HBAL
from ganeti_htools.planning.groups.hregroup import HREGROUP
from ganeti_htools.planning.maintenance.hmaintain import HMAINTAIN
from ganeti_htools.planning.plan import Tool
from ganeti_htools.planning.squeezing.hsqueeze import HSQUEEZE
from tests.support.certificates import certified
from tests.support.rows import any_cluster
from tests.support.seeds import one_by_one
from tests.support.super_clusters import super_cluster

OPTIONS: dict[Tool[Any, Any], Any] = {
    HBAL: (
        {"all_groups": True},
        {"all_groups": True, "evacuation": True},
        {"all_groups": True, "ignore_soft_errors": True},
        {"all_groups": True, "disk_moves": False},
        {"all_groups": True, "min_disk": 0.1, "max_cpu": 2.0},
        {"all_groups": True, "repair_rules": True},
    ),
    HREGROUP: (
        {"action": "redistribute"},
        {"action": "redistribute", "partial": True, "allow_plain": True},
        {"action": "compress"},
        {"action": "balance", "allow_drbd": True},
    ),
    HSQUEEZE: (
        {},
        {"allow_drbd": True},
        {"allow_all": True, "minimal_resources": 0.5, "target_resources": 0.5},
    ),
    HMAINTAIN: ({}, {"empty": True}, {"empty": True, "check_redundancy": False}),
}


def standing_by(rng: Random) -> Cluster:
    """A full cluster whose offline nodes may be powered up."""
    cluster = any_cluster(rng)
    rows = tuple(replace(row, mem=2 * row.mem) for row in cluster.instances)
    nodes = (replace(row, tags=(*row.tags, f"{STANDBY}auto") * row.offline) for row in cluster.nodes)
    return replace(cluster, nodes=tuple(nodes), instances=rows)


def promising(rng: Random) -> Cluster:
    """A cluster that has promised disk space of its first node."""
    cluster = replace(any_cluster(rng), default_units=(DesiredUnit(StorageType.LVM_VG, "xenvg"),))
    first, *others = cluster.nodes
    return replace(cluster, nodes=(with_reserved(first, {"CUSTOM_DISK_MIB_LVM_VG_XENVG": 4096}), *others))


MAKERS = super_cluster, any_cluster, standing_by


def disagreement(tool: Tool[Any, Any], cluster: Cluster, rng: Random) -> str | None:
    """Return what the judge finds in a plan, None if nothing or if there is no plan."""
    options = rng.choice(OPTIONS[tool])
    if tool is HMAINTAIN:
        options = {**options, "nodes": [rng.choice(cluster.nodes).name]}
    try:
        found = certified(tool, cluster, **options)
    except HtoolsError:
        return None
    return f"{options}: {found.findings}" if found.findings else None


@pytest.mark.parametrize("seed", one_by_one(64))
@pytest.mark.parametrize("tool", OPTIONS, ids=lambda tool: tool.name)
def test_judge_accepts_plans(tool: Tool[Any, Any], seed: int) -> None:
    for make in MAKERS:
        assert disagreement(tool, make(Random(seed)), Random(seed)) is None


@pytest.mark.parametrize(
    ("tool", "make", "seed"),
    [
        (HREGROUP, any_cluster, 2139),  # two mirrored instances of which one comes back
        (HSQUEEZE, any_cluster, 2135),  # a node without free disk
        (HSQUEEZE, any_cluster, 2365),  # all instances of a node would have a place, but not by the score
        (HSQUEEZE, any_cluster, 11189),  # an instance that would take a node's last memory
        (
            HREGROUP,
            standing_by,
            12495,
        ),  # in the middle of a jobset, one instance comes back and another does not
        (HBAL, any_cluster, 12925),  # a node that fails N+1 by what is left, and not as it was read
        (HSQUEEZE, super_cluster, 12883),  # a secondary keeps too little of a class when a node is emptied
        (HSQUEEZE, super_cluster, 2197),  # a node that gives no instance the demanded amount
        (HBAL, super_cluster, 10096),  # a class in use beyond the capacity, of which more is kept
        (HSQUEEZE, super_cluster, 10443),  # a mirrored instance on a node without its class
        (HMAINTAIN, any_cluster, 10907),  # a mirror's node fails N+1 afterwards
        (HMAINTAIN, super_cluster, 10908),  # diskless instances take the place of others
        *((HBAL, promising, seed) for seed in (0, 3)),  # the disk space is of the default volume group
    ],
)
def test_judge_and_engine_agree_by_now(
    tool: Tool[Any, Any], make: Callable[[Random], Cluster], seed: int
) -> None:
    assert disagreement(tool, make(Random(seed)), Random(seed)) is None


if __name__ == "__main__":  # python -m tests.property.test_certificates FIRST LAST
    import sys

    first, last = map(int, sys.argv[1:])
    wrong = 0
    for seed in range(first, last):
        for tool in OPTIONS:
            for make in MAKERS:
                found = disagreement(tool, make(Random(seed)), Random(seed))
                if found is not None:
                    wrong += 1
                    print(tool.name, make.__name__, seed, found[:300], flush=True)
    print(f"{(last - first) * 3} clusters, {(last - first) * 12} plans asked for, {wrong} disagreements")
