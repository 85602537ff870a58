"""What ``hsqueeze`` keeps free on nodes: so many times the standard instance of their group."""

import math

from ganeti_htools.engine.squeezing.power_plan import Allowed
from ganeti_htools.model.cluster import MAX_MIB, Disk, Instance
from ganeti_htools.model.policy import ISpec
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate


def kept_free(state: State, factor: float, allowed: Allowed) -> list[Instance]:
    """What has to be free on each node of a group, by the standard size of the group's own policy.

    Disk as well if instances move that take some.
    """
    disk = allowed is not Allowed.POOLS
    return [_instance(policy.std, factor, disk) for policy in state.policies]


def _instance(spec: ISpec, factor: float, disk: bool) -> Instance:
    """An instance that many times as large as the standard one, on external storage unless with ``disk``."""

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
