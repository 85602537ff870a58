"""Whether the instances that a lost node displaces find room, as far as sums tell.

Whatever the order and choice: an instance that is placed takes room on one node only, so if as many nodes as
there are instances have room for the largest of them, there is always one left. And an instance finds no room
only if every node is filled until less than its size is left; so if the room beyond the largest adds up to
more than all the others take, that cannot happen. (Sizes are multiples of some unit; what is left and less
than that does not count.)
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.redundancy.displaced import Amounts, Displaced
from ganeti_htools.model.columns import Bools, Ints

# By how much a sum of shares may be off.
ROUNDING = 1e-9


class Free(NamedTuple):
    """What nodes have free: memory, and disk on each storage unit (MiB), and spindles; and of custom classes
    one more than that, for of these nothing need stay free.
    """

    memory: Ints
    disk: tuple[Ints, ...]
    spindles: Ints
    classes: tuple[Ints, ...] = ()

    def on(self, nodes: Ints, memory: Ints, classes: tuple[Ints, ...] = ()) -> "Free":
        """What some nodes have free, with other figures for memory and custom classes."""
        return Free(memory, tuple(room[nodes] for room in self.disk), self.spindles[nodes], classes)


def surely_found(displaced: Displaced, rows: Ints, reach: Bools, free: Free, exclusive: Bools) -> Bools:
    """Whether what each of the rows displaces finds room on some targets (columns), whatever goes where.

    ``reach`` are the targets that count for a row, ``free.memory`` and ``free.classes`` what they have left
    for it; other figures are the same for all rows, and spindles count on ``exclusive`` targets. A target
    with less left than the largest needs has taken a share of what the others need. It may be full of
    anything: it must not be possible that some are full of disk, spindles or a custom class, and all others
    of memory.
    """
    share = np.where(reach, shares(free.memory, displaced.memory, rows), 0.0)
    room, full = share > 0, np.zeros(len(rows))
    for other in _other_shares(displaced, rows, free, exclusive):
        room = room & (other > 0)
        if (other <= 1 + ROUNDING).any():
            full = full + largest_sum(share, other)
    enough = np.count_nonzero(room, axis=1) >= displaced.number[rows]
    return np.asarray(enough | (share.sum(axis=1) - full > 1 + ROUNDING))


def _other_shares(displaced: Displaced, rows: Ints, free: Free, exclusive: Bools) -> Iterator[Any]:
    """The shares of all but memory of which any is wanted; infinite where none is (rows by targets)."""
    amounts = zip((*free.disk, *free.classes), (*displaced.disk, *displaced.classes), strict=True)
    for place, (left, taken) in enumerate(amounts):
        wanted = (taken.largest[rows] > 0)[:, np.newaxis]
        if not wanted.any():
            continue
        yield np.where(wanted, shares(left, taken, rows), np.inf)
        if place == 0 and exclusive.any():  # spindles are those of the default unit
            spindles = free.spindles + 1  # none need be left
            yield np.where(wanted & exclusive, shares(spindles, displaced.spindles, rows, 1), np.inf)


def surely_missing(displaced: Displaced, node: int, free: Free) -> bool:
    """Whether the largest instance that a node displaces fits on none of some nodes with this much free, or
    there are more instances than there is room for. Nodes without room for the smallest take none.
    """
    takes = free.memory > displaced.memory.least[node]
    disks = list(zip(free.disk, displaced.disk, strict=True))
    for room, amounts in disks:
        if amounts.least[node]:
            takes &= room > amounts.least[node]
    number = int(displaced.number[node])
    return _missing(free.memory[takes], displaced.memory, node, number) or any(
        amounts.largest[node] and _missing(room[takes], amounts, node, number) for room, amounts in disks
    )


def _missing(left: Ints, amounts: Amounts, node: int, number: int) -> bool:
    figures = (amounts.total, amounts.largest, amounts.least, amounts.unit)
    return lacking(left.tolist(), Wanted(number, *(int(figure[node]) for figure in figures)))


class Wanted(NamedTuple):
    """What some instances take of one resource: their ``number``, and the rest as in :class:`.Amounts`."""

    number: int
    total: int
    largest: int
    least: int
    unit: int

    def joined(self, amount: int) -> "Wanted":
        """With one instance more."""
        if not self.number:
            return wanted([amount])
        number, total, largest, least, unit = self
        return Wanted(
            number + 1, total + amount, max(largest, amount), min(least, amount), math.gcd(unit, amount)
        )


def wanted(amounts: Sequence[int]) -> Wanted:
    """What instances that take these amounts take together."""
    return Wanted(
        len(amounts), sum(amounts), max(amounts, default=0), min(amounts, default=0), math.gcd(*amounts)
    )


def lacking(left: Iterable[int], wanted: Wanted) -> bool:
    """Whether nodes with so much left certainly have no room for some instances together."""
    number, total, largest, least, unit = wanted
    unit, room, places, fits = max(unit, 1), 0, 0 if least else number, False
    for free in left:  # a few nodes are often enough
        here = (free - 1) // unit * unit  # as in usable()
        if here > 0:
            room += here
            places += here // max(least, 1)
        fits = fits or free > largest
        if fits and room >= total and places >= number:
            return False
    return bool(number)


def usable(free: Any, unit: Any) -> Any:
    """How much of what is free can be taken by sizes that are multiples of a unit; something stays free."""
    unit = np.maximum(unit, 1)
    return (free - 1) // unit * unit


def shares(free: Any, amounts: Amounts, rows: Ints, unit: Any = None) -> Any:
    """What has to go to a node before the largest of a row does not fit there, as a share of all others.

    Amounts are multiples of ``unit``, of their own unless given.
    """
    lost = rows[:, np.newaxis]
    total, largest = amounts.total[lost], amounts.largest[lost]
    unit = np.maximum(amounts.unit[lost] if unit is None else unit, 1)
    return np.maximum(usable(free, unit) - largest + unit, 0) / np.maximum(total - largest, 0.5)


def largest_sum(values: Any, weights: Any) -> Any:
    """At least the largest sum of values of each row whose weights add up to 1; parts of a value count."""
    values, weights = np.where(weights > 1 + ROUNDING, 0.0, values), np.minimum(weights, 1 + ROUNDING)
    order = np.argsort(-values / np.maximum(weights, ROUNDING), axis=1)
    values, weights = (np.take_along_axis(each, order, axis=1) for each in (values, weights))
    before = np.add.accumulate(weights, axis=1) - weights
    parts = np.clip((1 + ROUNDING - before) / np.maximum(weights, ROUNDING), 0.0, 1.0)
    return (values * parts).sum(axis=1)
