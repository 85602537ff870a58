"""The cost of places: data that the shortest ways of instances from their homes copy.

A home is the place before the plan. The cost of a place does not depend on how a search got there, so an
instance that has left its home may go on to another place, or return, for the difference.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.model import tags
from ganeti_htools.model.columns import NOWHERE, Bools, Floats, Ints
from ganeti_htools.model.options import CopyingOptions
from ganeti_htools.model.state import State

TIB = 1 << 20  # MiB

# Stands for any node that is not a home.
ELSEWHERE = NOWHERE - 1


class Costs(NamedTuple):
    """Costs of places: MiB to copy, ``charge`` with weights and factors of instances, and moves."""

    copied: Any
    charge: Any
    moves: Any

    def within(self, limits: "Costs") -> Any:
        return (self.copied <= limits.copied) & (self.moves <= limits.moves)


class Weights(NamedTuple):
    """Weights of a MiB of disks, a MiB of memory, and a failover of an instance that does not run."""

    disk: float = 1.0
    memory: float = 1.0
    failover: float = 1024.0


class Homes:
    """The homes of all instances, and the costs of other places.

    Costs are kept by the roles that the nodes of a place have at home: primary, secondary, neither. Places
    that are not ``reachable`` (instances by roles of the primary by roles of the secondary) cost infinitely
    much.
    """

    def __init__(self, state: State, weights: Weights, reachable: Bools | None = None) -> None:
        rows = state.cluster.instances
        self.pnode, self.snode = state.pnode.copy(), state.snode.copy()
        self.weights, self.disk = weights, np.array([row.dsk for row in rows], np.float64)
        running = np.array([row.status.running for row in rows], np.bool_)
        self.memory = np.where(running, np.array([row.mem for row in rows], np.float64), 0.0)
        self.migration = np.where(running, weights.memory * self.memory, weights.failover)
        self.factor = np.array([tags.price_factor(row.tags) for row in rows], np.float64)
        self.migrations = state.allowed_migrations
        self.lost = state.columns.offline[self.pnode] & (self.pnode != NOWHERE)
        roles = np.stack([self.pnode, self.snode, np.full_like(self.pnode, ELSEWHERE)], axis=1)
        places = roles[:, :, np.newaxis], np.where(roles == ELSEWHERE, ELSEWHERE - 1, roles)[:, np.newaxis]
        self._table = self._costs(np.arange(len(rows))[:, np.newaxis, np.newaxis], *places)
        if reachable is not None:
            self._table.charge[~reachable] = np.inf

    def costs(self, rows: Ints, pnode: Ints, snode: Ints) -> Costs:
        """Compute the costs of places of instances (rows); arrays broadcast."""
        where = rows, self.roles(rows, pnode), self.roles(rows, snode)
        return Costs(*(table[where] for table in self._table))

    def charge(self, rows: Ints, pnode: Ints, snode: Ints) -> Floats:
        """Compute the charge of places alone, infinite where instances must not migrate from their homes."""
        charge: Floats = self._table.charge[rows, self.roles(rows, pnode), self.roles(rows, snode)]
        if self.migrations is None:
            return charge
        home = self.pnode[rows]
        return np.where((home == pnode) | self.migrations[home, pnode], charge, np.inf)

    def change(self, rows: Any, was: Sequence[Any], goal: Sequence[Any]) -> Costs:
        """Compute how costs change if instances go from places to others (primaries and secondaries)."""
        figures = zip(self.costs(rows, *was), self.costs(rows, *goal), strict=True)
        return Costs(*(_change(*each) for each in figures))

    def added_charge(self, rows: Ints, was: Sequence[Ints], goal: Sequence[Ints]) -> Floats:
        """Compute the same of the charge alone; infinite for goals as :meth:`charge` has it."""
        return _change(self.charge(rows, *was), self.charge(rows, *goal))

    def roles(self, rows: Ints, nodes: Ints) -> Ints:
        """Return the roles that nodes (rows) have at the homes of instances (rows)."""
        return np.where(nodes == self.pnode[rows], 0, np.where(nodes == self.snode[rows], 1, 2))

    def _costs(self, rows: Ints, pnode: Ints, snode: Ints) -> Costs:
        p, s = self.pnode[rows], self.snode[rows]
        stays, taken = pnode == p, pnode == s
        new_p, new_s = ~(stays | taken), (snode != p) & (snode != s)
        mirrored = s != NOWHERE
        copies = np.where(mirrored, new_p.astype(np.int64) + new_s, 0)
        twice = mirrored & new_p & ((snode == s) | (new_s & self.lost[rows]))
        migrations = np.where(stays, 0, 1 + twice)
        moved = np.where(stays & (snode == s), 0, 1)
        copied = copies * self.disk[rows] + migrations * self.memory[rows]
        weighted = self.weights.disk * copies * self.disk[rows] + migrations * self.migration[rows]
        charge = self.factor[rows] * weighted
        return Costs(copied, charge, moved + (mirrored & new_p & new_s))


def _change(was: Floats, goal: Floats) -> Floats:
    """Compute a change of costs. Only a longer way led to a place out of reach: it is free to leave."""
    change: Floats = goal - np.where(np.isinf(was), 0.0, was)
    return change


def weights_of(copying: CopyingOptions) -> Weights:
    """Return the weights by which copying is charged: points of score if it has a price, otherwise MiB."""
    if not copying.priced:
        return Weights()
    memory, failover = copying.price_memory, copying.price_failover
    return Weights(
        copying.price / TIB,
        (copying.price if memory is None else memory) / TIB,
        copying.price / 1024 if failover is None else failover,
    )
