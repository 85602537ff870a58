"""Sizes of instances, and how one is made smaller by what it lacks (``hspace(1)``, tiered allocation)."""

from dataclasses import dataclass

from ganeti_htools.model.instance_kinds import InstanceSize
from ganeti_htools.model.types import Fail

Failures = dict[Fail, int]

# What policies call these amounts.
BOUNDED = {
    Fail.MEM: "memory_size",
    Fail.DISK: "disk_size",
    Fail.CPU: "cpu_count",
    Fail.SPINDLES: "spindle_use",
}


@dataclass(frozen=True, slots=True)
class SizeRun:
    """Sizes that were tried in vain, all for the same reasons: ``largest``, and each made smaller by the
    most frequent one, ``number`` in all.
    """

    largest: InstanceSize
    failures: Failures
    number: int = 1

    def __getitem__(self, at: int) -> InstanceSize:
        return self.largest.less(worst(self.failures), at) if at else self.largest


def ranked(failures: Failures) -> list[Fail]:
    """Reasons, the most frequent first, of equal ones the last. (``failures`` are in the order of Fail.)"""
    latest_first = list(failures)[::-1]
    return sorted(latest_first, key=failures.__getitem__, reverse=True)


def worst(failures: Failures) -> Fail:
    """The most frequent reason, of equal ones the last."""
    return max(reversed(failures), key=failures.__getitem__)
