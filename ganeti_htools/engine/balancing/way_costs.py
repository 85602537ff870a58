"""The cost of places: data that the shortest ways of instances from their homes copy.

A home is the place before the plan. The cost of a place does not depend on how a search got there, so an
instance that has left its home may go on to another place, or return, for the difference.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ganeti_htools.engine.balancing.batches import Batch
from ganeti_htools.model import tags
from ganeti_htools.model.columns import NOWHERE, Floats, Ints
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.state import State

# Stands for any node that is not a home.
ELSEWHERE = NOWHERE - 1


# Prices of the moves of a kind by members of a batch.
Prices = Callable[[Batch, MoveKind], "MovePrices"]


class Costs(NamedTuple):
    """Costs of places: MiB to copy, ``charge`` with weights and factors of instances, and moves."""

    copied: Any
    charge: Any
    moves: Any

    def within(self, limits: "Costs") -> Any:
        """Mark the costs within some limits."""
        return (self.copied <= limits.copied) & (self.moves <= limits.moves)


class Weights(NamedTuple):
    """Weights of a MiB of disks, a MiB of memory, and a failover of an instance that does not run."""

    disk: float = 1.0
    memory: float = 1.0
    failover: float = 1024.0


class Homes:
    """The homes of all instances, and the costs of other places."""

    def __init__(self, state: State, weights: Weights) -> None:
        rows = state.cluster.instances
        self.pnode, self.snode = state.pnode.copy(), state.snode.copy()
        self.weights, self.disk = weights, np.array([row.dsk for row in rows], np.float64)
        running = np.array([row.status.running for row in rows], np.bool_)
        self.memory = np.where(running, np.array([row.mem for row in rows], np.float64), 0.0)
        self.migration = np.where(running, weights.memory * self.memory, weights.failover)
        self.factor = np.array([tags.price_factor(row.tags) for row in rows], np.float64)
        self.lost = state.columns.offline[self.pnode] & (self.pnode != NOWHERE)

    def costs(self, rows: Ints, pnode: Ints, snode: Ints) -> Costs:
        """Compute the costs of places of instances (rows)."""
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


class MovePrices(NamedTuple):
    """Prices of moves of one kind by members of a batch, in points of score; infinite beyond the budget.

    The prices of moves to any node, and to the home's primary and secondary; ``homes`` has the rows of these.
    """

    homes: tuple[Ints, Ints]
    anywhere: Floats
    to_homes: tuple[Floats, Floats]

    @property
    def lowest(self) -> Floats:
        """The lowest price of each member's moves."""
        lowest: Floats = np.minimum(self.anywhere, np.minimum(*self.to_homes))
        return lowest

    def of(self, members: Ints, new: Ints) -> Floats:
        """Return the prices of moves of members to new nodes (NOWHERE for failovers)."""
        prices = self.anywhere[members]
        for home, price in zip(self.homes, self.to_homes, strict=True):
            prices = np.where((new == home[members]) & (new != NOWHERE), price[members], prices)
        return prices


class Pricing:
    """Prices of all moves in a search, by the costs of the present places."""

    def __init__(self, homes: Homes, state: State) -> None:
        self.homes, self.state = homes, state
        self.now = homes.costs(np.arange(len(state.pnode)), state.pnode, state.snode)
        self.total = Costs(*(figures.sum() for figures in self.now))

    def at(self, price: float, limits: Costs) -> Prices:
        """Return the prices of moves at a price for each MiB, within some limits."""

        def prices(batch: Batch, kind: MoveKind) -> MovePrices:
            rows = batch.rows
            homes = self.homes.pnode[rows], self.homes.snode[rows]
            new = np.stack([np.full(len(rows), ELSEWHERE), *homes])
            anywhere, primary, secondary = costs(rows, kind, new)
            return MovePrices(homes, anywhere, (primary, secondary))

        def costs(rows: Ints, kind: MoveKind, new: Ints) -> Floats:
            place = np.broadcast_arrays(*kind.nodes(self.state.pnode[rows], self.state.snode[rows], new), new)
            then = self.homes.costs(rows, *place[:2])
            after = Costs(
                *(total - now[rows] + one for total, now, one in zip(self.total, self.now, then, strict=True))
            )
            charge = price * (then.charge - self.now.charge[rows])
            found: Floats = np.where(after.within(limits), charge, np.inf)
            return found

        return prices
