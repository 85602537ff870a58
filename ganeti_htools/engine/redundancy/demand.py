"""The demand of instances that lose their node, in sums over each node.

Instances that fail over need memory and custom classes on their secondary (:class:`ClassLoad`). All others
have to find room elsewhere (:class:`DisplacedDemand`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.redundancy.rule import DRBD, SURVIVES
from ganeti_htools.engine.rules import placement_rules
from ganeti_htools.engine.rules.class_limits import refused_amounts
from ganeti_htools.engine.rules.resources import DISK, MEMORY, SPINDLES, check_hard
from ganeti_htools.model.cluster import MAX_MIB
from ganeti_htools.model.columns import Bools, Columns, Ints, of_class, sorted_unique
from ganeti_htools.model.state import RequestedInstance, State


class FailoverLoad(NamedTuple):
    """Memory (MiB) by pair of nodes, the lost one and a partner, for the few pairs that share instances.

    ``size`` is the number of nodes. ``keys`` number the pairs, in ascending order. The last entry is beyond
    all pairs and needs nothing, so that each search ends within the arrays.
    """

    size: int
    keys: Ints
    memory: Ints

    @classmethod
    def of(cls, lost: Ints, partners: Ints, memory: Ints, size: int) -> "FailoverLoad":
        """Add up the memory of instances with these nodes."""
        pairs = lost * size + partners
        keys = np.append(sorted_unique(pairs), size * size)
        total = np.zeros(len(keys), np.int64)
        np.add.at(total, np.searchsorted(keys, pairs), memory)
        return cls(size, keys, total)

    @property
    def pairs(self) -> tuple[Ints, Ints, Ints]:
        """The lost node and the partner (rows) of each pair, and the memory."""
        return self.keys[:-1] // self.size, self.keys[:-1] % self.size, self.memory[:-1]

    def between(self, lost: Any, targets: Any) -> Ints:
        """Return the memory that instances of lost nodes need on targets (rows that broadcast)."""
        wanted = lost * self.size + targets
        at = np.searchsorted(self.keys, wanted)
        found: Ints = np.where(self.keys[at] == wanted, self.memory[at], 0)
        return found


# More spindles than any node has.
UNKNOWN = 1 << 32

# The limits whose amounts are added up here; a property test compares them with what RESOURCES declares.
check_hard((MEMORY, DISK, SPINDLES), "the demand of lost nodes")


@dataclass(frozen=True, slots=True)
class Amounts:
    """Amounts of one resource that instances take, as arrays over the nodes they are on.

    ``total`` is that of all together, ``largest`` and ``least`` that of one instance. ``unit`` is the
    greatest common divisor of all amounts, 0 if all are 0.
    """

    total: Ints
    largest: Ints
    least: Ints
    unit: Ints

    def joined(self, amount: int, nodes: Ints) -> "Amounts":
        """The amounts with one instance more on each of these nodes, which may repeat."""
        new = Amounts(self.total.copy(), self.largest.copy(), self.least.copy(), self.unit.copy())
        np.add.at(new.total, nodes, amount)
        new.largest[nodes] = np.maximum(amount, self.largest[nodes])
        new.least[nodes] = np.minimum(amount, self.least[nodes])
        new.unit[nodes] = np.gcd(amount, self.unit[nodes])
        return new


@dataclass(frozen=True, slots=True)
class DisplacedDemand:
    """The demand of instances that need room on another node after a loss; arrays over the lost nodes.

    ``number`` counts the instances. ``memory`` and ``disk`` (on each storage unit) are in MiB. ``spindles``
    are those of exclusive storage, UNKNOWN if an instance does not say. ``shared`` tells whether any instance
    is on shared storage, so that migration tags matter, ``recreated`` whether any is not, so that policies
    matter. ``pools`` tells whether any is on a pool that some nodes do not see (pools by nodes). ``classes``
    are the amounts of each custom class. ``refused`` marks the nodes that refuse any instance for its amounts
    or its rules of tags (lost nodes by nodes), None if there are no such limits.
    """

    number: Ints
    memory: Amounts
    disk: tuple[Amounts, ...]
    spindles: Amounts
    shared: Bools
    recreated: Bools
    pools: Bools
    classes: tuple[Amounts, ...] = ()
    refused: Bools | None = None

    def joined(
        self, asked: RequestedInstance, nodes: Ints, refused: Bools | None = None
    ) -> "DisplacedDemand":
        """The demand with one instance more on each of these nodes, which may repeat.

        ``refused`` marks the nodes that refuse its amounts.
        """
        number, shared, recreated = self.number.copy(), self.shared.copy(), self.recreated.copy()
        np.add.at(number, nodes, 1)
        (shared if asked.row.template.survives_node else recreated)[nodes] = True
        pools = self.pools.copy()
        pools[:, nodes] |= np.array(asked.wants[len(asked.disk) :][: len(pools)], np.bool_)[:, np.newaxis]
        return DisplacedDemand(
            number,
            self.memory.joined(asked.record_mem, nodes),
            tuple(each.joined(taken, nodes) for each, taken in zip(self.disk, asked.disk, strict=True)),
            self.spindles.joined(spindles_of(asked.spindles), nodes),
            shared,
            recreated,
            pools,
            tuple(each.joined(taken, nodes) for each, taken in zip(self.classes, asked.classes, strict=True)),
            self._joined_refusals(nodes, refused),
        )

    def _joined_refusals(self, nodes: Ints, refused: Bools | None) -> Bools | None:
        if self.refused is None or refused is None:
            return self.refused
        found = self.refused.copy()
        found[nodes] |= refused
        return found


def displaced_demand(state: State, settled: Bools) -> DisplacedDemand:
    """The demand of the ``settled`` instances (a mask) that do not fail over."""
    size = len(state.group)
    rows = np.flatnonzero(settled & (state.template != DRBD))
    nodes = state.pnode[rows]

    def amounts(values: Iterable[int]) -> Amounts:
        taken = np.asarray(values)
        total, largest, unit = np.zeros((3, size), np.int64)
        least = np.full(size, MAX_MIB)
        np.add.at(total, nodes, taken)
        np.maximum.at(largest, nodes, taken)
        np.minimum.at(least, nodes, taken)
        np.gcd.at(unit, nodes, taken)
        return Amounts(total, largest, least, unit)

    spindles = np.zeros(len(rows), np.int64)
    if state.columns.excl_stor.any():
        instances = state.cluster.instances
        spindles[:] = [spindles_of(instances[row].spindles) for row in rows.tolist()]
    survives, (shared, recreated) = SURVIVES[state.template[rows]], np.zeros((2, size), np.bool_)
    shared[nodes[survives]], recreated[nodes[~survives]] = True, True
    units = range(len(state.units.local))
    pools = np.zeros((len(state.units.pools), size), np.bool_)
    for wanted, pool in zip(state.wants[rows].T[len(units) :], pools, strict=False):  # then classes
        pool[nodes[wanted]] = True
    return DisplacedDemand(
        np.bincount(nodes, minlength=size),
        amounts(state.record_mem[rows]),
        tuple(amounts(state.disk[rows, unit]) for unit in units),
        amounts(spindles),
        shared,
        recreated,
        pools,
        tuple(map(amounts, state.classes[rows].T)),
        _refusals(state, rows),
    )


def _refusals(state: State, rows: Ints) -> Bools | None:
    """The nodes that refuse some of these instances (rows), by lost nodes."""
    if not (state.columns.shape.classes or state.columns.shape.limited or state.rules):
        return None
    refused = np.zeros((len(state.group), len(state.group)), np.bool_)
    each = refused_amounts(state, rows) | ~placement_rules.allowed_primaries(state, rows)
    np.logical_or.at(refused, state.pnode[rows], each)
    return refused


def spindles_of(spindles: int | None) -> int:
    """The number of spindles, UNKNOWN if the instance does not say."""
    return UNKNOWN if spindles is None else spindles


@dataclass(frozen=True, slots=True)
class ClassLoad:
    """The amount of a custom class (by position) that fails over.

    Instances of ``p`` need ``load[p, s]`` on ``s`` after the loss of ``p``.
    """

    which: int
    load: Ints

    def missing(self, columns: Columns, lost: Ints, partners: Ints) -> Ints:
        """The amount that partners lack for what would fail over to them; at most 0 if they have enough."""
        needed = self.load[lost, partners]
        return np.where(needed > 0, needed - self._free(columns)[partners], 0)

    def holds(self, columns: Columns, asked: RequestedInstance, checked: Bools) -> Bools:
        """Whether each node has enough for all that fails over to it with a new instance as primary."""
        expected = self.load[checked].max(axis=0, initial=0)
        return np.asarray((expected == 0) | (self._free(columns) - self._taken(asked) >= expected))

    def takes_over(
        self, columns: Columns, asked: RequestedInstance, primaries: Any, secondaries: Any
    ) -> Bools:
        """Whether a new instance can fail over together with others (rows of nodes that broadcast)."""
        left = self._free(columns)[secondaries] - self.load[primaries, secondaries]
        taken = self._taken(asked)
        return np.asarray((left >= taken) | (taken == 0))

    def room(
        self,
        columns: Columns,
        lost: Ints,
        targets: Ints,
        asked: RequestedInstance | None = None,
        primaries: Sequence[int] = (),
    ) -> Ints:
        """The room on targets after failovers off each lost node, as :class:`.packing_bounds.TargetRoom` has
        it.

        A new mirrored instance may have failed over to any target.
        """
        free, moved = self._free(columns).copy(), 0
        if asked is not None:
            np.subtract.at(free, primaries, self._taken(asked))
            moved = self._taken(asked) if asked.mirrored else 0
        found = free[targets] - self.load[lost, targets] - moved * np.isin(lost, primaries)
        return found + 1

    def _free(self, columns: Columns) -> Ints:
        free: Ints = getattr(columns, of_class("f", self.which))
        return free

    def _taken(self, asked: RequestedInstance) -> int:
        return 0 if asked.forthcoming else int(asked.classes[self.which])


def class_loads(state: State, mirrored: Ints) -> tuple[ClassLoad, ...]:
    """The amounts of each class that mirrored instances (rows) need where they fail over."""
    size, found = len(state.group), []
    for which, amounts in enumerate(state.classes[mirrored].T):
        load = np.zeros((size, size), np.int64)
        np.add.at(load, (state.pnode[mirrored], state.snode[mirrored]), amounts)
        found.append(ClassLoad(which, load))
    return tuple(found)
