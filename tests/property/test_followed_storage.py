"""Between two polls the known free space of units equals the nodes' free space, whatever moves."""

from contextlib import suppress
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ganeti_htools.backends import ganeti_storage
from ganeti_htools.luxi.opcodes import STORAGE_FIELDS
from ganeti_htools.model.cluster import Cluster, Disk, Group, Instance, Node
from ganeti_htools.model.known_storage import units_to_query
from ganeti_htools.model.storage import DRBD_META, DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.simulator.logical_units import carry_out
from ganeti_htools.simulator.opcodes import OpcodeError
from ganeti_htools.simulator.storage_units import query_disks, query_storage
from ganeti_htools.simulator.world import World, initial_world
from htoolsd.sync.node_storage import (
    KnownStorage,
    add_reports,
    revise_storage,
    used_storage,
    with_current_storage,
)
from tests.support.worlds import instance, migrate, node, replace_disks

GROUPS = ("hdd", "ssd", "nvme")
NODES = ("one", "two", "three")
KINDS = st.sampled_from([DesiredUnit(StorageType.LVM_VG, name) for name in GROUPS])
DISKS = st.lists(
    st.builds(Disk, st.integers(1, 300), unit=KINDS, metavg=st.none() | st.sampled_from(GROUPS)),
    min_size=1,
    max_size=3,
)
STEPS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([None, *NODES])), max_size=8)


def world(rows: list[list[Disk]]) -> World:
    """Return instances with these disks on the first two nodes; all nodes have large groups."""
    units = tuple(Unit(DesiredUnit(StorageType.LVM_VG, name), 9000, 5000) for name in GROUPS)
    nodes = tuple(node(name, storage=units) for name in NODES)
    placed = [
        replace(
            instance(f"web{place}", DiskTemplate.DRBD, "one", "two"),
            disks=tuple(disks),
            dsk=sum(disk.size + DRBD_META for disk in disks),
        )
        for place, disks in enumerate(rows)
    ]
    return initial_world(Cluster((Group("default", "uuid"),), nodes, tuple(placed)))


def plain(now: World) -> Cluster:
    """Return a world as LUXI reports it, with the default units only."""

    def bare(row: Instance) -> Instance:
        return replace(row, disks=tuple(Disk(disk.size) for disk in row.disks))

    def single(row: Node) -> Node:
        return replace(row, storage=None)

    return replace(
        now.cluster,
        nodes=tuple(map(single, now.cluster.nodes)),
        instances=tuple(map(bare, now.cluster.instances)),
        default_units=now.units.defaults,
        enabled_templates=(DiskTemplate.DRBD,),
    )


@given(st.lists(DISKS, min_size=1, max_size=4), STEPS)
def test_free_space_equals_that_of_the_nodes(
    rows: list[list[Disk]], steps: list[tuple[int, str | None]]
) -> None:
    start = world(rows)
    found = ganeti_storage.queried_disks(query_disks(start, {}), start.units.defaults, {})
    known = revise_storage(KnownStorage(), disks=found.disks, complete=True)
    told = query_storage(start, {"output_fields": STORAGE_FIELDS, "storage_type": "lvm-vg"})
    taken = used_storage(with_current_storage(plain(start), known))
    rooms, _ = ganeti_storage.reports({StorageType.LVM_VG: told})
    known = revise_storage(known, reports=add_reports(known, NODES, rooms, (taken, taken), 0.0))
    now = start
    for place, target in steps:
        name = f"web{place}"
        with suppress(OpcodeError):
            now, _ = carry_out(now, migrate(name) if target is None else replace_disks(name, target))
    cluster = with_current_storage(plain(now), known)
    named = units_to_query(cluster)
    for ours, theirs in zip(cluster.nodes, now.cluster.nodes, strict=True):
        there = {unit for unit in theirs.storage or () if unit.desired in named}
        assert set(ours.storage or ()) == there
    assert [row.pnode for row in cluster.instances] == [row.pnode for row in now.cluster.instances]
