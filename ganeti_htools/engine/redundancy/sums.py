"""What sums prove of global N+1 redundancy.

What mirrored instances need follows from sums, and :mod:`.room` proves for most nodes that the others find
room for what their loss displaces, or that they do not.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ganeti_htools.engine.redundancy.class_loads import ClassLoad
from ganeti_htools.engine.redundancy.displaced import Displaced, spindles_of
from ganeti_htools.engine.redundancy.node_loss import bound
from ganeti_htools.engine.redundancy.room import Free, surely_found, surely_missing
from ganeti_htools.engine.rules.resources import DISK, MEMORY, SPINDLES, check_hard
from ganeti_htools.model.columns import NOWHERE, Bools, Columns, Ints, availability, by_unit, sorted_unique
from ganeti_htools.model.state import RequestedInstance, State

# Sums are made of these. The property tests of redundancy compare what follows from sums with simulations.
check_hard((MEMORY, DISK, SPINDLES), "global N+1 redundancy")

# How many of a group's roomiest nodes are looked at before all are.
ROOMIEST = 8


@dataclass(frozen=True, slots=True)
class Sums:
    """What holds for every placement on a state.

    ``looked`` are the nodes whose loss counts, ``broken`` those whose loss cannot be survived.
    ``load[p, s]`` is the memory (MiB) that instances of ``p`` need on ``s`` should ``p`` be lost;
    ``pairs`` are the rows of the ``p`` and ``s`` between which there are any, ``mirrored`` those of the
    instances, ``classes`` what fails over of custom classes. ``doubtful`` tells of groups which losses only
    simulation can tell of.
    """

    state: State
    scope: Bools
    looked: Bools
    broken: Bools
    free: Ints
    load: Ints
    pairs: tuple[Ints, Ints]
    mirrored: Ints
    displaced: Displaced
    classes: tuple[ClassLoad, ...] = ()
    doubtful: dict[int, Ints] = field(default_factory=dict)

    @property
    def missing(self) -> bool:
        """Whether a loss certainly cannot be survived, so that nothing may be placed at all."""
        return bool((self.broken & self.looked).any())

    @property
    def expected(self) -> Ints:
        """The most memory that instances of one node need on each other should it be lost (MiB); less than
        nothing where there are none.
        """
        expected = np.full(len(self.free), np.iinfo(np.int64).min)
        lost, partners = self.pairs
        counts = self.looked[lost]
        np.maximum.at(expected, partners[counts], self.load[lost, partners][counts])
        return expected

    def admits(self, asked: RequestedInstance, primaries: Ints, secondaries: Ints | None) -> Bools:
        """As :class:`.global_n1.Check` says, for a new instance."""
        size = len(self.free)
        if self.missing:
            return np.zeros(
                (len(primaries),) if secondaries is None else (len(primaries), len(secondaries)), np.bool_
            )
        lost, partners = self.pairs
        counts = self.looked[lost]
        good: Bools = self.free - asked.record_mem > self.expected
        if not asked.local:  # takes spindles all the same, and may leave too few for others to fail over
            columns = self.state.columns
            left = -1 if asked.spindles is None else columns.f_spindles - asked.spindles
            good &= ~(columns.excl_stor & (left < 0) & self._paired)
        for each in self.classes:
            good &= each.bears(self.state.columns, asked, self.looked)
        if secondaries is None:
            # Without its mirror, DRBD is lost with its node.
            return good[primaries] & ~(self.looked[primaries] & (asked.mirrored and not asked.forthcoming))
        room = self.free > asked.record_mem
        admitted = good[primaries, np.newaxis] & (room[secondaries] | ~self.looked[primaries, np.newaxis])
        # Where the secondary would also have to take over others of the same primary:
        row, column = np.full(size, NOWHERE), np.full(size, NOWHERE)
        row[primaries], column[secondaries] = np.arange(len(primaries)), np.arange(len(secondaries))
        tight = counts & (row[lost] != NOWHERE) & (column[partners] != NOWHERE)
        tight &= self.free[partners] - self.load[lost, partners] <= asked.record_mem
        admitted[row[lost[tight]], column[partners[tight]]] = False
        if self.state.allowed_migrations is not None and not asked.forthcoming:
            admitted &= (
                self.state.allowed_migrations[primaries[:, np.newaxis], secondaries]
                | ~self.looked[primaries, np.newaxis]
            )
        for each in self.classes:
            taken = each.takes_over(self.state.columns, asked, primaries[:, np.newaxis], secondaries)
            admitted &= taken | ~self.looked[primaries, np.newaxis]
        return admitted

    def _after(
        self, asked: RequestedInstance | None, primary: int, joins: bool = True
    ) -> tuple[Displaced, Free]:
        """What is displaced and what is free with an instance placed; its secondary may be anywhere.

        It takes what RESOURCES declares: ``test_sums_take_what_resources_declare`` compares them. Unless it
        ``joins``, what is displaced stays as it was, for callers who do not look at its primary's loss.
        """
        displaced, columns = self.displaced, self.state.columns
        free = free_on(columns)
        if asked is None or asked.forthcoming:
            return displaced, free
        if joins and not asked.mirrored and not self._bound(asked, primary):
            displaced = displaced.joined(asked, np.array([primary]))
        everywhere = slice(None) if asked.mirrored else primary
        return displaced, Free(
            _less(free.memory, primary, asked.record_mem),
            tuple(
                _less(room, everywhere, taken) if taken else room
                for room, taken in zip(free.disk, asked.disk, strict=True)
            ),
            _less(free.spindles, everywhere, spindles_of(asked.spindles)),
        )

    def _bound(self, asked: RequestedInstance, primary: int) -> bool:
        """Whether a new instance with that primary only could not come back anyway, for its storage units."""
        if not self.state.columns.shape.binds:
            return False
        wants, row = np.array([asked.wants], np.bool_), np.array([primary])
        return bool(bound(self.state, wants, row, row, False, self.scope)[0])

    @property
    def _paired(self) -> Bools:
        """Nodes with a mirrored instance that takes spindles, of a node whose loss counts."""
        state, paired = self.state, np.zeros(len(self.free), np.bool_)
        rows = self.mirrored[state.wants[self.mirrored, SPINDLES.of]]
        rows = rows[self.looked[state.pnode[rows]]]
        paired[state.pnode[rows]] = paired[state.snode[rows]] = True
        return paired

    def unsettled(self, asked: RequestedInstance | None = None, primary: int = NOWHERE) -> Ints:
        """Nodes of which only simulation tells whether their loss is survived, after a placement or as is."""
        found = []
        for group in sorted_unique(self.state.group[self.scope]).tolist():
            if asked is None or group != self.state.group[primary]:
                if group not in self.doubtful:
                    self.doubtful[group] = self._doubtful(group, None, NOWHERE)
                found.append(self.doubtful[group])
            else:
                found.append(self._doubtful(group, asked, primary))
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def _doubtful(self, group: int, asked: RequestedInstance | None, primary: int) -> Ints:
        """The same for one group; a placement makes a difference to the nodes of its own group only."""
        displaced, free = self._after(asked, primary)
        moved_mem = asked.record_mem if asked is not None and asked.mirrored else 0
        mates = np.flatnonzero(self.scope & (self.state.group == group))
        rows = mates[(displaced.number[mates] > 0) & self.looked[mates]]
        # What some nodes of a group take by its policy others may not, if only some have exclusive storage.
        exclusive = self.state.columns.excl_stor
        mixed = len(sorted_unique(exclusive[mates])) > 1
        unsure = displaced.recreated[rows] & mixed
        unknown, rows = rows[unsure], rows[~unsure]
        roomiest = mates[np.argsort(free.memory[mates])[-ROOMIEST:]]
        for targets in (roomiest, mates) if len(mates) > ROOMIEST else (mates,):
            if len(rows):
                lost = rows[:, np.newaxis]
                # A new mirrored instance may fail over to any node.
                left = free.memory[targets] - self.load[lost, targets] - moved_mem * (lost == primary)
                classes = tuple(
                    each.left(self.state.columns, displaced, lost, targets, asked, primary)
                    for each in self.classes
                )
                rows = rows[~proved(self.state, displaced, rows, targets, free, left, classes)]
        return np.concatenate([unknown, rows])

    def certain(self) -> bool:
        """Whether sums prove that the state is redundant.

        With less placed on it they would prove it as well: what is free is more then, what is displaced less.
        """
        return not self.missing and not len(self.unsettled())

    def rejects(self, asked: RequestedInstance, primary: int, suspects: Sequence[int]) -> bool:
        """Whether the node that failed last certainly fails with this unmirrored instance as well."""
        if asked.mirrored or asked.forthcoming or not suspects or not self.looked[suspects[0]]:
            return False
        joins = suspects[0] == primary and not self._bound(asked, primary)
        if not joins and not self.displaced.number[suspects[0]]:
            return False
        return self._without_room(asked, primary, NOWHERE, suspects[:1]) is not None

    def _without_room(
        self, asked: RequestedInstance, primary: int, secondary: int, lost: Sequence[int]
    ) -> int | None:
        """The first of some nodes whose instances certainly find no room after a placement."""
        displaced, free = self._after(asked, primary, primary in lost)
        away = free
        if asked.mirrored and not asked.forthcoming:
            before = free_on(self.state.columns).disk
            pairs = zip(before, asked.disk, strict=True)
            disk = tuple(_less(_less(room, primary, taken), secondary, taken) for room, taken in pairs)
            free = free._replace(disk=disk)
            # What it takes when its primary is lost:
            away = free._replace(memory=_less(self.free, secondary, asked.record_mem))
        return next(
            (node for node in lost if self.lacks(node, displaced, away if node == primary else free)), None
        )

    def lacks(self, node: int, displaced: Displaced, free: Free) -> bool:
        """Whether what a lost node displaces certainly does not all find what it needs in its group."""
        mates = self.scope & (self.state.group == self.state.group[node])
        mates[node] = False
        left = free.memory - self.load[node]
        return surely_missing(displaced, node, free.on(np.flatnonzero(mates), left[mates]))


def _less(values: Ints, row: int | slice, amount: int) -> Ints:
    values = values.copy()
    values[row] -= amount
    return values


def proved(
    state: State,
    displaced: Displaced,
    rows: Ints,
    targets: Ints,
    free: Free,
    left: Ints,
    classes: tuple[Ints, ...],
) -> Bools:
    """Whether sums prove that what each of the rows displaces finds room on targets, which have so much
    memory ``left`` for it, and so much of custom ``classes`` (:meth:`.ClassLoad.left`; rows by targets).
    """
    lost = rows[:, np.newaxis]
    reach = targets != lost
    if state.allowed_migrations is not None:
        reach &= state.allowed_migrations[lost, targets] | ~displaced.shared[lost]
    seen = availability(state.columns)[len(free.disk) :][: len(displaced.pools)]
    for sees, wanted in zip(seen, displaced.pools, strict=True):
        reach &= sees[targets] | ~wanted[lost]
    there = free.on(targets, left, classes)
    return surely_found(displaced, rows, reach, there, state.columns.excl_stor[targets])


def free_on(columns: Columns) -> Free:
    """What nodes have free."""
    return Free(columns.unallocated, tuple(by_unit(columns, "f_dsk")), columns.f_spindles)
