"""Proofs that the instances of lost nodes find room, or that they do not, whatever goes where.

An instance that is placed takes room on one node only. So if as many nodes as there are instances have room
for the largest of them, one such node is always left. And an instance finds no room only if every node is
filled until less than its size is left. If the room beyond the largest size adds up to more than all others
take, that cannot happen. Sizes are multiples of some unit; what is left and less than that unit does not
count.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.redundancy.demand import Amounts, DisplacedDemand
from ganeti_htools.model.columns import Bools, Columns, Ints, by_unit

# The most by which a sum of shares is off.
ROUNDING = 1e-9


class TargetRoom(NamedTuple):
    """Free memory and disk on each storage unit (MiB), and free spindles, of nodes.

    Of custom classes one more than what is free: nothing of them has to stay free.
    """

    memory: Ints
    disk: tuple[Ints, ...]
    spindles: Ints
    classes: tuple[Ints, ...] = ()

    @classmethod
    def of(cls, columns: Columns) -> "TargetRoom":
        return cls(columns.unallocated, tuple(by_unit(columns, "f_dsk")), columns.f_spindles)

    def on(self, nodes: Ints, memory: Ints, classes: tuple[Ints, ...] = ()) -> "TargetRoom":
        """The room on some nodes, with other figures for memory and custom classes."""
        return TargetRoom(memory, tuple(room[nodes] for room in self.disk), self.spindles[nodes], classes)


def surely_found(
    demand: DisplacedDemand, rows: Ints, reach: Bools, room: TargetRoom, exclusive: Bools
) -> Bools:
    """Whether the demand of each lost node (rows) finds room on its targets (columns), whatever goes where.

    ``reach`` are the targets that count for a row. ``room.memory`` and ``room.classes`` are rows by targets,
    other figures are the same for all rows. Spindles count on ``exclusive`` targets. A target may be full of
    anything: it must not be possible that some are full of disk, spindles or a custom class, and all others
    of memory.
    """
    share = np.where(reach, _shares(room.memory, demand.memory, rows), 0.0)
    fits, full = share > 0, np.zeros(len(rows))
    for other in _other_shares(demand, rows, room, exclusive):
        fits = fits & (other > 0)
        if (other <= 1 + ROUNDING).any():
            full = full + _largest_sum(share, other)
    enough = np.count_nonzero(fits, axis=1) >= demand.number[rows]
    return np.asarray(enough | (share.sum(axis=1) - full > 1 + ROUNDING))


def surely_anywhere(
    demand: DisplacedDemand, rows: Ints, reach: Bools, room: TargetRoom, exclusive: Bools
) -> Bools:
    """Whether each target but the lost node itself takes the whole demand; arguments as above."""
    takes = reach & (_shares(room.memory, demand.memory, rows) >= 1)
    for other in _other_shares(demand, rows, room, exclusive):
        takes = takes & (other >= 1)
    others = reach.shape[1] - 1
    return np.asarray((np.count_nonzero(takes, axis=1) == others) & (others > 0))


def _other_shares(demand: DisplacedDemand, rows: Ints, room: TargetRoom, exclusive: Bools) -> Iterator[Any]:
    """The shares of all wanted resources but memory; infinite where a row wants none (rows by targets)."""
    amounts = zip((*room.disk, *room.classes), (*demand.disk, *demand.classes), strict=True)
    for place, (left, taken) in enumerate(amounts):
        wanted = (taken.largest[rows] > 0)[:, np.newaxis]
        if not wanted.any():
            continue
        yield np.where(wanted, _shares(left, taken, rows), np.inf)
        if place == 0 and exclusive.any():  # spindles are those of the default unit
            spindles = room.spindles + 1  # no spindle has to stay free
            yield np.where(wanted & exclusive, _shares(spindles, demand.spindles, rows, 1), np.inf)


def surely_missing(demand: DisplacedDemand, node: int, room: TargetRoom) -> bool:
    """Whether the demand of a lost node certainly finds no room on nodes.

    The largest instance fits on none of them, or there are more instances than there is room for.
    """
    takes = room.memory > demand.memory.least[node]
    disks = list(zip(room.disk, demand.disk, strict=True))
    for left, amounts in disks:
        if amounts.least[node]:
            takes &= left > amounts.least[node]
    number = int(demand.number[node])
    return _missing(room.memory[takes], demand.memory, node, number) or any(
        amounts.largest[node] and _missing(left[takes], amounts, node, number) for left, amounts in disks
    )


def _missing(left: Ints, amounts: Amounts, node: int, number: int) -> bool:
    """Whether nodes with so much left certainly have no room for all instances of a node."""
    usable, least = np.maximum(_usable(left, amounts.unit[node]), 0), amounts.least[node]
    places = (usable // least).sum() if least else number
    fits = (left > amounts.largest[node]).any()
    return bool(number) and not (fits and usable.sum() >= amounts.total[node] and places >= number)


def _usable(free: Any, unit: Any) -> Any:
    """The part of what is free that sizes can take which are multiples of a unit; something stays free."""
    unit = np.maximum(unit, 1)
    return (free - 1) // unit * unit


def _shares(free: Any, amounts: Amounts, rows: Ints, unit: Any = None) -> Any:
    """The part of all other demand that a target takes before the largest instance of a row does not fit.

    Amounts are multiples of ``unit``, of their own unless given.
    """
    lost = rows[:, np.newaxis]
    total, largest = amounts.total[lost], amounts.largest[lost]
    unit = np.maximum(amounts.unit[lost] if unit is None else unit, 1)
    return np.maximum(_usable(free, unit) - largest + unit, 0) / np.maximum(total - largest, 0.5)


def _largest_sum(values: Any, weights: Any) -> Any:
    """At least the largest sum of values of each row whose weights add up to 1; parts of a value count."""
    values, weights = np.where(weights > 1 + ROUNDING, 0.0, values), np.minimum(weights, 1 + ROUNDING)
    order = np.argsort(-values / np.maximum(weights, ROUNDING), axis=1)
    values, weights = (np.take_along_axis(each, order, axis=1) for each in (values, weights))
    before = np.add.accumulate(weights, axis=1) - weights
    parts = np.clip((1 + ROUNDING - before) / np.maximum(weights, ROUNDING), 0.0, 1.0)
    return (values * parts).sum(axis=1)
