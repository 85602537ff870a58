"""Pools bound how many instances are counted."""

from dataclasses import replace

import numpy as np
import pytest

from ganeti_htools.backends import simu
from ganeti_htools.engine.capacity.counting import standard, tiered
from ganeti_htools.engine.capacity.scope import AllocationScope, chosen_scope
from ganeti_htools.model.derive import derive
from ganeti_htools.model.instance_kinds import InstanceKind, InstanceSize
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.types import DiskTemplate, Fail

VMS, FAST = (DesiredUnit(StorageType.RADOS, key) for key in ("vms", "fast"))
KIND = InstanceKind(DiskTemplate.RBD, 1, VMS)


def state(pool: str = "10g", nodes: int = 2) -> State:
    cluster = simu.parse([f"p,{nodes},100g,64g,64;rbd,vms,{pool};rbd,fast,3g"])
    pairs = tuple(replace(pair, min=replace(pair.min, disk_size=1)) for pair in cluster.ipolicy.minmax)
    policy = replace(cluster.ipolicy, minmax=pairs)
    return derive(replace(cluster, groups=tuple(replace(each, ipolicy=policy) for each in cluster.groups)))


def site(state: State) -> AllocationScope:
    return chosen_scope(state, PlacementOptions(capacity=False))


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_pool_is_one_for_all_nodes(nodes: int) -> None:
    here = state(nodes=nodes)
    found = standard(here, KIND, InstanceSize(128, 1024, 1), site(here), None)
    assert found.placed == 9
    assert found.failures == dict.fromkeys(Fail, 0) | {Fail.DISK: nodes}
    assert site(here).pools.free_after(found.state)[VMS] == 1024


def test_what_is_saved_has_no_room_that_new_instances_took() -> None:
    here = state()
    found = standard(here, KIND, InstanceSize(128, 1024, 1), site(here), 4)
    saved = derive(found.state.to_cluster())
    assert site(saved).pools.free_after(saved) == site(here).pools.free_after(found.state)
    assert standard(saved, KIND, InstanceSize(128, 1024, 1), site(saved), None).placed == 5
    assert derive(saved.to_cluster()).cluster == saved.cluster


def test_a_limit_below_the_room_is_kept_to() -> None:
    here = state()
    assert standard(here, KIND, InstanceSize(128, 1024, 1), site(here), 3).placed == 3


def test_nodes_may_be_full_before_the_pool() -> None:
    here = state("1t")
    found = standard(here, KIND, InstanceSize(20480, 1024, 1), site(here), None)
    assert (found.placed, found.failures[Fail.MEM], found.failures[Fail.DISK]) == (6, 2, 0)


def test_in_tiers_the_disk_shrinks_to_what_the_pool_has_left() -> None:
    here = state()
    found = tiered(here, KIND, [InstanceSize(128, 4096, 1)], site(here), None)
    sizes = [size.dsk for size, number in found.tiers for _ in range(number)]
    assert sizes[:2] == [4096, 4096]
    assert sizes[2:] == [1792, 256 - 1 + 1][: len(sizes) - 2]
    assert sum(sizes) < 10 * 1024
    assert found.failures[Fail.DISK] == len(np.flatnonzero(~here.columns.offline))


def test_nodes_that_do_not_see_the_pool_are_no_reason() -> None:
    cluster = state(nodes=6).cluster
    nodes = (*cluster.nodes[:2], *(replace(node, storage=()) for node in cluster.nodes[2:]))
    here = derive(replace(cluster, nodes=nodes))
    size, scope = InstanceSize(60 * 1024, 1024, 1), site(here)
    for found in (standard(here, KIND, size, scope, None), tiered(here, KIND, [size], scope, None)):
        assert (found.failures[Fail.MEM], found.failures[Fail.DISK]) == (2, 0)
