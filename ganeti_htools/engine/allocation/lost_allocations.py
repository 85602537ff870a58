"""Later allocations that a new instance costs on nodes with exclusive storage (``hail(1)``)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ganeti_htools.engine.allocation.solution import Metric
from ganeti_htools.engine.rules import node_rules
from ganeti_htools.engine.rules.batches import with_amounts
from ganeti_htools.engine.rules.node_rules import FITS, Codes
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import Bools, Columns, Ints
from ganeti_htools.model.policy import IPolicy
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import DiskTemplate

MOST = 1 << 20  # upper bound of the instances of one size that a node takes


def smallest_instances(state: State, policy: IPolicy) -> list[RequestedInstance]:
    """Return the smallest instance of each interval of the policy, largest disk first."""
    smallest = sorted((pair.min for pair in policy.minmax), key=lambda spec: -spec.disk_size)
    return [
        state.requested_instance(
            Instance(
                "smallest",
                spec.memory_size,
                spec.disk_size,
                (),
                spec.cpu_count,
                auto_balance=False,
                template=DiskTemplate.PLAIN,
                spindle_use=spec.spindle_use,
            )
        )
        for spec in smallest
    ]


def capacities(columns: Columns, samples: Sequence[RequestedInstance], shape: tuple[int, ...]) -> Ints:
    """Count how many more instances like each sample each node takes (samples by nodes, these in ``shape``).

    The largest number that fits is found by bisection, below ``MOST``.
    """
    result = []
    for sample in samples:
        fits, fails = np.zeros(shape, np.int64), np.full(shape, MOST)
        while (fails - fits > 1).any():
            many: Any = (fits + fails) // 2
            together = with_amounts(sample, partial(np.multiply, many))
            _, codes = node_rules.add_primary(columns, together, np.int64(0), np.int64(0))
            fits, fails = np.where(codes == FITS, many, fits), np.where(codes == FITS, fails, many)
        result.append(fits)
    return np.array(result, np.int64).reshape(-1, *shape)


@dataclass(frozen=True, slots=True)
class LostAllocations:
    """A new instance tried on all nodes, or on all pairs of nodes; the arrays are primaries by secondaries.

    * For an instance with one node there is one column of secondaries, which is NOWHERE.
    * ``codes``: reasons against a candidate. ``real`` is false for a node paired with itself.
    * ``lost``: the later instances of the smallest size that a candidate costs. Its first axis is that of the
      intervals of the instance policy, largest disks first.
    * ``disk``: free disk of the candidate's nodes afterwards (MiB).
    """

    primaries: Ints
    secondaries: Ints
    codes: Codes
    real: Bools
    lost: Ints
    disk: Ints

    @property
    def fits(self) -> Bools:
        """The candidates without a reason against them."""
        return np.asarray(self.real & (self.codes == FITS))

    def best(self, some: Bools) -> tuple[int, int]:
        """Find the position of the candidate that loses least, then leaves least disk, then is last."""
        flat = np.flatnonzero(some.ravel())
        lost, disk = self.lost.reshape(len(self.lost), self.disk.size), self.disk.ravel()
        order = np.lexsort((-flat, disk[flat], *lost[::-1, flat]))
        return divmod(int(flat[order[0]]), len(self.secondaries))

    def metric(self, row: int, column: int) -> Metric:
        return tuple(self.lost[:, row, column].tolist()), int(self.disk[row, column])


def lost_allocations(
    trial: Trial, primaries: Ints, secondaries: Ints, samples: Sequence[RequestedInstance]
) -> LostAllocations:
    """Compute the costs of the candidates of a trial, summed up over the nodes that they change."""
    pairs = trial.codes.ndim == 2
    shape = (len(primaries), len(secondaries)) if pairs else (len(primaries),)
    lost, disk = np.zeros((len(samples), *shape), np.int64), np.zeros(shape, np.int64)
    for node in trial.changes:
        # A secondary's reservation may differ for each primary.
        wide = np.broadcast_shapes(node.old.r_mem.shape, node.new.r_mem.shape, (1,) * len(shape))
        lost += capacities(node.old, samples, wide) - capacities(node.new, samples, wide)
        disk += node.new.f_dsk
    whole = len(primaries), len(secondaries)
    return LostAllocations(
        primaries,
        secondaries,
        np.broadcast_to(trial.codes, shape).reshape(whole),
        primaries[:, np.newaxis] != secondaries,
        lost.reshape(len(samples), *whole),
        disk.reshape(whole),
    )
