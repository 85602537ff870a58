"""What a simulated Ganeti tells of storage, asked by jobs, is what its cluster has."""

import random

import pytest
from trio.testing import MockClock

from ganeti_htools.backends import luxi
from ganeti_htools.luxi import queries
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.units_in_use import units_in_use, units_of_disks
from ganeti_htools.simulator.world import initial_world
from ganeti_htools.sources import storage_jobs
from tests.support.clusters import Shape, cluster
from tests.support.plain_storage import default_unit, free_on, listed
from tests.support.rows import rows
from tests.support.seeds import one_by_one
from tests.support.simulated import simulated
from tests.support.storage_units import with_units

SHAPE = Shape(nodes=4, instances=12, templates={"drbd": 3, "plain": 2, "ext": 1}, down=0)


def groups(described: Cluster) -> dict[str, dict[DesiredUnit, int]]:
    """What online nodes have free of the volume groups that disks name, and of the default one."""
    wanted = {unit for unit in units_of_disks(described.instances) if unit.type is StorageType.LVM_VG}
    wanted |= {default_unit(described, StorageType.LVM_VG)}
    return {
        node.name: {unit: free for unit, free in free_on(described, node).items() if unit in wanted}
        for node in described.nodes
        if not node.offline
    }


@pytest.mark.parametrize("seed", one_by_one(25))
async def test_simulated_volume_groups_and_disk_locations_are_read_back(
    seed: int, autojump_clock: MockClock
) -> None:
    served = rows(with_units(cluster(seed, SHAPE), random.Random(seed)))
    if any(unit.type is StorageType.DRBD for unit in listed(served)):
        return  # Ganeti cannot tell which groups are for mirrored disks only
    async with simulated(initial_world(served)) as (_, client):
        plain = luxi.parse(await queries.whole_cluster(client))
        asked = await storage_jobs.with_storage(client, plain, lambda line: pytest.fail(line))
    assert groups(asked) == groups(served)
    before, after = (
        {row.name: units.needs(row) for row in each.instances if row.template.local_storage}
        for each in (served, asked)
        for units in (units_in_use(each),)
    )
    assert after == before
