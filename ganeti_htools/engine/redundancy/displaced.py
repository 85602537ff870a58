"""What the loss of a node displaces, in sums: all that does not fail over has to find room elsewhere."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ganeti_htools.engine.rules.resources import DISK, MEMORY, SPINDLES, check_hard
from ganeti_htools.model.cluster import MAX_MIB
from ganeti_htools.model.columns import Bools, Ints
from ganeti_htools.model.figures import TEMPLATE_CODE
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import DiskTemplate

DRBD = TEMPLATE_CODE[DiskTemplate.DRBD]
SURVIVES = np.array([template.survives_node for template in DiskTemplate])

# More spindles than any node has.
UNKNOWN = 1 << 32

# What is summed up here. The amounts are those that RESOURCES declares for the figures of these limits:
# ``test_sums_take_what_resources_declare`` compares them.
check_hard((MEMORY, DISK, SPINDLES), "what lost nodes displace")


@dataclass(frozen=True, slots=True)
class Amounts:
    """What instances take of one resource; arrays over the nodes on which they are.

    ``total`` of all together, ``largest`` and ``least`` of one, and ``unit``, the greatest common divisor of
    what each takes, 0 if all take none.
    """

    total: Ints
    largest: Ints
    least: Ints
    unit: Ints

    def joined(self, amount: int, nodes: Ints) -> "Amounts":
        """With one instance more on each of some nodes, which may be the same."""
        new = Amounts(self.total.copy(), self.largest.copy(), self.least.copy(), self.unit.copy())
        np.add.at(new.total, nodes, amount)
        new.largest[nodes] = np.maximum(amount, self.largest[nodes])
        new.least[nodes] = np.minimum(amount, self.least[nodes])
        new.unit[nodes] = np.gcd(amount, self.unit[nodes])
        return new


@dataclass(frozen=True, slots=True)
class Displaced:
    """What has to find room when a node is lost and does not fail over; arrays over nodes.

    How many instances; their memory, and disk on each storage unit (MiB), and spindles, which are those of
    exclusive storage, UNKNOWN if an instance does not say. ``shared`` tells whether any is on shared storage,
    so that migration tags matter, ``recreated`` whether any is not, so that policies matter; ``pools`` tells
    whether any is on a pool that some nodes do not see (pools by nodes). ``classes`` is what they take of
    each custom class.
    """

    number: Ints
    memory: Amounts
    disk: tuple[Amounts, ...]
    spindles: Amounts
    shared: Bools
    recreated: Bools
    pools: Bools
    classes: tuple[Amounts, ...] = ()

    def joined(self, asked: RequestedInstance, nodes: Ints) -> "Displaced":
        """With one more on each of some nodes, which may be the same."""
        number, shared, recreated = self.number.copy(), self.shared.copy(), self.recreated.copy()
        np.add.at(number, nodes, 1)
        (shared if asked.row.template.survives_node else recreated)[nodes] = True
        pools = self.pools.copy()
        pools[:, nodes] |= np.array(asked.wants[len(asked.disk) :][: len(pools)], np.bool_)[:, np.newaxis]
        return Displaced(
            number,
            self.memory.joined(asked.record_mem, nodes),
            tuple(each.joined(taken, nodes) for each, taken in zip(self.disk, asked.disk, strict=True)),
            self.spindles.joined(spindles_of(asked.spindles), nodes),
            shared,
            recreated,
            pools,
            tuple(each.joined(taken, nodes) for each, taken in zip(self.classes, asked.classes, strict=True)),
        )


def displaced_by_node(state: State, settled: Bools) -> Displaced:
    """What each node displaces of the instances that count, those ``settled``."""
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
    return Displaced(
        np.bincount(nodes, minlength=size),
        amounts(state.record_mem[rows]),
        tuple(amounts(state.disk[rows, unit]) for unit in units),
        amounts(spindles),
        shared,
        recreated,
        pools,
        tuple(map(amounts, state.classes[rows].T)),
    )


def spindles_of(spindles: int | None) -> int:
    """Spindles, UNKNOWN if nobody says how many."""
    return UNKNOWN if spindles is None else spindles
