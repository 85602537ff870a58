"""What is chosen is not refused for storage by the simulator, which checks what Ganeti does."""

import random
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ganeti_htools.backends import iallocator
from ganeti_htools.deciding.decision import state_for
from ganeti_htools.engine.allocation.evacuate import Evacuation
from ganeti_htools.engine.balancing.balance import rebalance
from ganeti_htools.engine.decide import decide
from ganeti_htools.engine.moving.named_moves import named
from ganeti_htools.execution.work import opcodes_of
from ganeti_htools.luxi import opcodes
from ganeti_htools.model.cluster import Cluster, Instance
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.options import BalancingOptions, PlacementOptions
from ganeti_htools.model.request import Allocate, AllocateSecondary, MultiAllocate, Placement, Request
from ganeti_htools.model.state import State
from ganeti_htools.model.storage import StorageType
from ganeti_htools.model.types import DiskTemplate, Status
from ganeti_htools.model.units_in_use import units_in_use
from ganeti_htools.simulator.logical_units import carry_out
from ganeti_htools.simulator.opcodes import OpcodeError, check
from ganeti_htools.simulator.world import World, initial_world
from tests.support.cases import TYPES
from tests.support.seeds import few
from tests.support.storage_units import any_state, case_with_units
from tests.support.worlds import opcode

OF_STORAGE = re.compile("vg |[Vv]olume group|block device")
METADATA = ("xenvg", "ssdvg", "hddvg", None)


def creation(row: Instance, nodes: list[str]) -> dict[str, Any]:
    """How an instance is made on nodes."""
    disks = [
        {"size": disk.size}
        | ({"sunit": [disk.unit.type.value, disk.unit.key]} if disk.unit else {})
        | ({"metavg": disk.metavg} if disk.metavg else {})
        for disk in row.disks
    ]
    nodes = [*nodes, ""][:2]
    return opcode(
        "INSTANCE_CREATE",
        instance_name=row.name,
        disk_template=row.template.value,
        disks=disks,
        beparams={"maxmem": row.mem, "vcpus": row.vcpus},
        pnode=nodes[0],
        snode=nodes[1] or None,
        forthcoming=row.forthcoming,
    )


def refusal(world: World, jobs: Iterable[Any]) -> tuple[int, str]:
    """How many opcodes were carried out until one was refused, and why it was."""
    done = 0
    for each in jobs:
        try:
            world, _ = carry_out(world, check({"reason": [["test", "", 1]], **each}))
        except OpcodeError as refused:
            return done, str(refused)
        done += 1
    return done, ""


def made_by(state: State, request: Request, result: Any) -> list[Any]:
    """The opcodes by which a decision is carried out."""
    cluster = state.cluster
    if isinstance(result, Evacuation):
        names = [node.name for node in cluster.nodes]
        return [
            opcodes.opcode_of(part.operation, row.name, names[part.node], row.forthcoming)
            for moved in result.moved
            for row in [cluster.instances[moved.instance]]
            for part in moved.parts
        ]
    match request:
        case Allocate(placement, _):
            placements = (placement,)
        case MultiAllocate(placements):
            pass
        case AllocateSecondary(name):
            node = state.names(result[0].nodes)[0]
            fields = {"disk_template": "drbd", "remote_node": node}
            return [opcode("INSTANCE_SET_PARAMS", instance_name=name, **fields)]
        case _:
            raise AssertionError(request)
    pairs = zip(placements, result, strict=True)
    return [creation(wish.instance, state.names(found.nodes)) for wish, found in pairs if found.nodes]


def with_metadata(rng: random.Random, cluster: Cluster) -> Cluster:
    """The cluster as the daemon knows it: groups say where the metadata of new disks goes."""
    group = units_in_use(cluster).default(StorageType.LVM_VG).key
    groups = (replace(each, metavg=rng.choice(METADATA) or group) for each in cluster.groups)
    return replace(cluster, groups=tuple(groups))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("seeds", few(range(60), 80))
def test_decided_requests_are_not_refused(kind: str, seeds: range) -> None:
    carried = 0
    for seed in seeds:
        message = iallocator.read(case_with_units(seed, kind).text.encode())
        cluster, request = with_metadata(random.Random(seed), message.cluster), message.request
        if any(node.excl_stor for node in cluster.nodes):
            continue
        if isinstance(request, AllocateSecondary):  # disks are converted of instances that are down
            rows = (replace(row, status=Status.DOWN) for row in cluster.instances)
            cluster = replace(cluster, instances=tuple(rows))
        state = state_for(cluster, request, PlacementOptions())
        try:
            decided = decide(state, request, PlacementOptions(capacity=False))
        except RequestFailed:
            continue
        jobs = made_by(state, request, decided.result)
        done, why = refusal(initial_world(cluster), jobs)
        assert not OF_STORAGE.search(why), (seed, why)
        carried += done
    assert carried > 1


@pytest.mark.parametrize("free", [128, 129, 256, 257, 1024, 5248, 5249, 5376, 5377])
def test_placed_instances_are_not_refused_on_nearly_full_units(free: int) -> None:
    carried = 0
    for seed in range(30):
        rng, state = random.Random(seed), any_state(seed)
        disks, cluster = rng.choice(([5120], [1024, 128])), with_metadata(rng, state.cluster)
        nodes = tuple(
            replace(
                node,
                f_dsk=node.f_dsk if node.storage is not None else free,
                storage=node.storage
                and tuple(each._replace(total=9000, free=rng.choice((free, 9000))) for each in node.storage),
            )
            for node in cluster.nodes
        )
        cluster = replace(cluster, nodes=nodes)
        row = state.cluster.instances[0]
        units = [
            each for each in (*state.units.local, None) if each is None or each.type is StorageType.LVM_VG
        ]
        made = tuple(replace(row.disks[0], size=size, unit=rng.choice(units), metavg=None) for size in disks)
        new = replace(
            row,
            name="new",
            template=DiskTemplate.DRBD,
            disks=made,
            dsk=sum(disks) + 128 * len(disks),
            pnode="",
            snode=None,
        )
        request = Allocate(Placement(new, 2, None), None)
        state = state_for(cluster, request, PlacementOptions())
        try:
            decided = decide(state, request, PlacementOptions(capacity=False))
        except RequestFailed:
            continue
        done, why = refusal(initial_world(cluster), made_by(state, request, decided.result))
        assert not OF_STORAGE.search(why), (seed, why)
        carried += done
    assert carried > 0


@pytest.mark.parametrize("seeds", few(range(5), 20))
def test_balancing_moves_are_not_refused(seeds: range) -> None:
    carried = 0
    for seed in seeds:
        state = any_state(seed)
        _, steps = rebalance(state, np.ones(len(state.group), np.bool_), BalancingOptions(min_gain=0))
        reservations = {row.name for row in state.cluster.instances if row.forthcoming}
        jobs = [
            each for step in named(state, steps) for each in opcodes_of(step, step.instance in reservations)
        ]
        done, why = refusal(initial_world(state.cluster), jobs)
        assert not OF_STORAGE.search(why), (seed, why)
        carried += done
    assert carried > 25
