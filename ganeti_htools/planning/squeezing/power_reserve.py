"""Resources that ``hsqueeze`` keeps free on nodes: a multiple of the standard instance of their group."""

import math

from ganeti_htools.engine.squeezing.power_plan import AllowedMoves
from ganeti_htools.model.cluster import MAX_MIB, Disk, Instance
from ganeti_htools.model.policy import ISpec
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate


def kept_free(state: State, factor: float, allowed: AllowedMoves) -> list[Instance]:
    """Return for each group the instance that must fit on each of its nodes, by the group's own policy.

    The instance has disk if instances with disks on nodes may move.
    """
    disk = allowed is not AllowedMoves.POOLS
    return [_instance(policy.std, factor, disk) for policy in state.policies]


def _instance(spec: ISpec, factor: float, disk: bool) -> Instance:
    """Return a multiple of the standard instance, on external storage unless with ``disk``."""

    def times(figure: int) -> int:
        return math.floor(min(factor * figure, MAX_MIB))

    return Instance(
        "targetInstance",
        mem=times(spec.memory_size),
        dsk=times(spec.disk_size) if disk else 0,
        disks=(Disk(times(spec.disk_size)),) if disk else (),
        vcpus=times(spec.cpu_count),
        auto_balance=False,
        template=DiskTemplate.PLAIN if disk else DiskTemplate.EXT,
        spindle_use=times(spec.spindle_use),
    )
