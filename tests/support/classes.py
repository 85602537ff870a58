"""Custom resource classes for clusters: what nodes have of them, what instances demand."""

from dataclasses import replace
from random import Random

from ganeti_htools.model.cluster import Cluster, Instance
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.resource_classes import MEMORY, SPINDLES, VCPU

# The least and most memory of one instance (MiB), and its steps.
MEMORY_LIMITS = ((), (), (256,), (1, 512), (128, None, 512))
GPU, LICENCE = "CUSTOM_GPU", "CUSTOM_LICENCE"


def demanding(rng: Random, row: Instance) -> Instance:
    """The instance, perhaps with demands of custom classes."""
    amounts = {GPU: rng.choice((0, 0, 1, 1, 2, 3)), LICENCE: rng.choice((0, 0, 0, 5, 10))}
    tags = tuple(f"htools:resource:{name}:{amount}" for name, amount in amounts.items() if amount)
    return replace(row, tags=row.tags + tags)


def _inventories(rng: Random, own: bool) -> tuple[tuple[str, Inventory], ...]:
    """Inventories of a node, and with ``own`` reservations and limits of what Ganeti itself counts."""
    found = {}
    if rng.random() < 0.8:
        most, step = rng.choice((None, None, 2)), rng.choice((1, 1, 1, 2))
        found[GPU] = Inventory(rng.choice((1, 2, 4, 8)), rng.choice((0, 0, 1)), 1, most, step)
    if rng.random() < 0.6:
        ratio = rng.choice((1.0, 1.5))
        found[LICENCE] = Inventory(
            rng.choice((5, 20, 60)), min_unit=rng.choice((1, 10)), allocation_ratio=ratio
        )
    if own and rng.random() < 0.5:
        least, most, step = rng.choice(((1, None, 1), (1, None, 1), (1, 2, 1), (2, None, 1)))
        found |= {
            MEMORY: Inventory(0, rng.choice((50, 400)), *rng.choice(MEMORY_LIMITS)),
            VCPU: Inventory(0, 1, least, most, step),
            SPINDLES: Inventory(0, 1, *rng.choice(((), (), (1, 2)))),
        }
        disk = Inventory(0, 700, *rng.choice(((), (), (1, 2000), (1, None, 4), (1000,))))
        found["CUSTOM_DISK_MIB_LVM_VG"] = found["CUSTOM_DISK_MIB_LVM_VG_XENVG"] = disk
    return tuple(found.items())


def with_classes(rng: Random, described: Cluster) -> Cluster:
    """The cluster with custom resource classes, and perhaps others that are reserved and limited."""
    own = rng.random() < 0.5
    nodes = tuple(replace(node, inventories=_inventories(rng, own)) for node in described.nodes)
    return replace(
        described, nodes=nodes, instances=tuple(demanding(rng, row) for row in described.instances)
    )
