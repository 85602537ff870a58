"""Instance policies: the sizes and disk templates that a node group accepts (``gnt-cluster(8)``,
"ipolicy").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ganeti_htools.model.types import DiskTemplate, Fail


@dataclass(frozen=True, slots=True)
class ISpec:
    """One bound of a policy. Sizes in MiB."""

    memory_size: int
    cpu_count: int
    disk_size: int
    disk_count: int
    nic_count: int
    spindle_use: int


@dataclass(frozen=True, slots=True)
class MinMax:
    """One interval of a policy."""

    min: ISpec
    max: ISpec


@dataclass(frozen=True, slots=True)
class IPolicy:
    """Intervals (an instance must match one of them), the standard size, allowed templates and ratios."""

    minmax: tuple[MinMax, ...]
    std: ISpec
    disk_templates: tuple[DiskTemplate, ...]
    vcpu_ratio: float
    spindle_ratio: float


DEFAULT_IPOLICY = IPolicy(
    minmax=(MinMax(ISpec(128, 1, 1024, 1, 1, 1), ISpec(32768, 8, 1024 * 1024, 16, 8, 12)),),
    std=ISpec(128, 1, 1024, 1, 1, 1),
    disk_templates=tuple(DiskTemplate),
    vcpu_ratio=4.0,
    spindle_ratio=32.0,
)


class Demand(NamedTuple):
    """Figures of an instance that a policy limits. ``spindles`` (of all disks) is None if unknown."""

    memory: int
    vcpus: int
    disk_sizes: tuple[int, ...]
    template: DiskTemplate
    spindle_use: int
    spindles: int | None


def _outside(demand: Demand, bound: ISpec, sign: int, exclusive: bool) -> Fail | None:
    """Return the first figure beyond ``bound``: above it with ``sign`` 1, below it with -1."""

    def beyond(value: int, limit: int) -> bool:
        return (value - limit) * sign > 0

    if beyond(demand.memory, bound.memory_size):
        return Fail.MEM
    if any(beyond(size, bound.disk_size) for size in demand.disk_sizes):
        return Fail.DISK
    if beyond(demand.vcpus, bound.cpu_count):
        return Fail.CPU
    spindles = demand.spindles if exclusive else demand.spindle_use
    if spindles is None or beyond(spindles, bound.spindle_use):
        return Fail.SPINDLES
    if demand.template is not DiskTemplate.DISKLESS and beyond(len(demand.disk_sizes), bound.disk_count):
        return Fail.DISK_COUNT
    return None


def violation(demand: Demand, policy: IPolicy, exclusive: bool) -> Fail | None:
    """Return the reason why ``policy`` refuses an instance, or None.

    With ``exclusive`` storage the spindles of disks count, otherwise the spindle use. If no interval
    matches, the reason is that of the first interval.
    """
    reasons: Sequence[Fail | None] = [
        _outside(demand, pair.min, -1, exclusive) or _outside(demand, pair.max, 1, exclusive)
        for pair in policy.minmax
    ]
    if reasons and None not in reasons:
        return reasons[0]
    return None if demand.template in policy.disk_templates else Fail.DISK
