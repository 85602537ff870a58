"""Whether the instances that a lost node displaces find room, as far as sums tell.

Whatever the order and choice: an instance that is placed takes room on one node only, so if as many nodes as
there are instances have room for the largest of them, there is always one left. And an instance finds no room
only if every node is filled until less than its size is left; so if the room beyond the largest adds up to
more than all the others take, that cannot happen. (Sizes are multiples of some unit; what is left and less
than that does not count.)
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ganeti_htools.model.cluster import MAX_MIB
from ganeti_htools.model.columns import Bools, Ints
from ganeti_htools.model.figures import TEMPLATE_CODE
from ganeti_htools.model.state import Asked, State
from ganeti_htools.model.types import DiskTemplate

DRBD = TEMPLATE_CODE[DiskTemplate.DRBD]
SURVIVES = np.array([template.survives_node for template in DiskTemplate])
LOCAL = np.array([template.local_storage for template in DiskTemplate])

# More spindles than any node has.
UNKNOWN = 1 << 32

# By how much a sum of shares may be off.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Displaced:
    """What has to find room when a node is lost and does not fail over; arrays over nodes.

    How many; memory and disk (MiB) of all together, of the largest and the smallest, and the greatest
    common divisor of their sizes, 0 if all are 0. Spindles are those of exclusive storage, UNKNOWN if some
    instance does not say. ``shared`` tells whether any is on shared storage, so that migration tags matter,
    ``recreated`` whether any is not, so that policies matter.
    """

    number: Ints
    mem_total: Ints
    mem_largest: Ints
    mem_least: Ints
    mem_unit: Ints
    dsk_total: Ints
    dsk_largest: Ints
    dsk_least: Ints
    dsk_unit: Ints
    spindles_total: Ints
    spindles_largest: Ints
    shared: Bools
    recreated: Bools

    def joined(self, asked: Asked, node: int) -> "Displaced":
        """With one more, on a node."""
        new = Displaced(*(getattr(self, name).copy() for name in self.__slots__))
        new.number[node] += 1
        new.mem_total[node] += asked.record_mem
        new.mem_largest[node] = max(asked.record_mem, int(self.mem_largest[node]))
        new.mem_least[node] = min(asked.record_mem, int(self.mem_least[node]))
        new.mem_unit[node] = math.gcd(asked.record_mem, int(self.mem_unit[node]))
        dsk = asked.dsk if asked.local else 0
        new.dsk_total[node] += dsk
        new.dsk_largest[node] = max(dsk, int(self.dsk_largest[node]))
        new.dsk_least[node] = min(dsk, int(self.dsk_least[node]))
        new.dsk_unit[node] = math.gcd(dsk, int(self.dsk_unit[node]))
        spindles = spindles_of(asked.spindles)
        new.spindles_total[node] += spindles
        new.spindles_largest[node] = max(spindles, int(self.spindles_largest[node]))
        new.shared[node] |= asked.row.template.survives_node
        new.recreated[node] |= not asked.row.template.survives_node
        return new


def usable(free: Any, unit: Any) -> Any:
    """How much of what is free can be taken by sizes that are multiples of a unit; something stays free."""
    unit = np.maximum(unit, 1)
    return (free - 1) // unit * unit


def shares(free: Any, total: Any, largest: Any, unit: Any) -> Any:
    """What has to go to a node before the largest does not fit there, as a share of all others."""
    room = np.maximum(usable(free, unit) - largest + np.maximum(unit, 1), 0)
    return room / np.maximum(total - largest, 0.5)


def largest_sum(values: Any, weights: Any) -> Any:
    """At least the largest sum of values of each row whose weights add up to 1; parts of a value count."""
    values, weights = np.where(weights > 1 + ROUNDING, 0.0, values), np.minimum(weights, 1 + ROUNDING)
    order = np.argsort(-values / np.maximum(weights, ROUNDING), axis=1)
    values, weights = (np.take_along_axis(each, order, axis=1) for each in (values, weights))
    before = np.add.accumulate(weights, axis=1) - weights
    parts = np.clip((1 + ROUNDING - before) / np.maximum(weights, ROUNDING), 0.0, 1.0)
    return (values * parts).sum(axis=1)


def displaced_by_node(state: State, settled: Bools) -> Displaced:
    size = len(state.group)
    rows = np.flatnonzero(settled & (state.template != DRBD))
    nodes = state.pnode[rows]
    dsk = np.where(LOCAL[state.template[rows]], state.dsk[rows], 0)

    def figures(values: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        total, largest, unit = np.zeros((3, size), np.int64)
        least = np.full(size, MAX_MIB)
        np.add.at(total, nodes, values)
        np.maximum.at(largest, nodes, values)
        np.minimum.at(least, nodes, values)
        np.gcd.at(unit, nodes, values)
        return total, largest, least, unit

    spindles = np.zeros(len(rows), np.int64)
    if state.columns.excl_stor.any():
        instances = state.cluster.instances
        spindles[:] = [spindles_of(instances[row].spindles) for row in rows.tolist()]
    spindles_total, spindles_largest, _, _ = figures(spindles)
    survives, (shared, recreated) = SURVIVES[state.template[rows]], np.zeros((2, size), np.bool_)
    shared[nodes[survives]], recreated[nodes[~survives]] = True, True
    return Displaced(
        np.bincount(nodes, minlength=size),
        *figures(state.record_mem[rows]),
        *figures(dsk),
        spindles_total,
        spindles_largest,
        shared,
        recreated,
    )


def spindles_of(spindles: int | None) -> int:
    return UNKNOWN if spindles is None else spindles
