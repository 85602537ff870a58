"""Moves of instances to the best of their places, for a tabu search (:mod:`.place_plans`)."""

from collections.abc import Sequence
from operator import add
from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.balancing.place_scores import PlaceScores, place_scores
from ganeti_htools.engine.balancing.visits import Visits
from ganeti_htools.engine.balancing.way_costs import Costs
from ganeti_htools.engine.rules.batches import Batch
from ganeti_htools.model.columns import NOWHERE, Bools, Floats, Ints

NEAR, OTHERS = 64, 16  # instances in a step: on the nodes of the last move, and others at random
PLACES = 1 << 20  # places in a step; on clusters of many nodes it looks at fewer instances


class PlaceMove(NamedTuple):
    """The best other place of a member of a block: score plus price, and the positions of its nodes."""

    value: float
    block: PlaceScores
    member: int
    primary: int
    secondary: int

    @property
    def instance(self) -> int:
        return int(self.block.batch.rows[self.member])

    @property
    def nodes(self) -> list[int]:
        """The nodes that it leaves and those that it comes to."""
        state = self.block.space.facts.state
        own = state.node_pair(self.instance)
        return [node for node in (*self.block.nodes(*self[3:]), *own) if node != NOWHERE]


class PlaceMoves:
    """The moves from the present places of a search."""

    def __init__(self, visits: Visits, batches: Sequence[Batch]) -> None:
        self.visits, self.batches, self.state = visits, batches, visits.state
        self.size, targets = (len(self.state.pnode), len(self.state.group)), visits.space.targets
        self.batch, self.member = np.full(self.size[0], NOWHERE), np.zeros(self.size[0], np.int64)
        for number, batch in enumerate(batches):
            self.batch[batch.rows], self.member[batch.rows] = number, np.arange(len(batch.rows))
        self.movable = np.flatnonzero(self.batch != NOWHERE) if len(targets) else np.zeros(0, np.int64)
        fraction = min(1.0, PLACES / (NEAR + OTHERS) / max(1, len(targets)) ** 2)
        self.number = max(1, int(fraction * NEAR)), max(1, int(fraction * OTHERS))
        self.position = np.full(self.size[1] + 1, NOWHERE)  # the last entry stands for NOWHERE
        self.position[targets] = np.arange(len(targets))

    def on(self, rows: Ints, nodes: Bools) -> Bools:
        """Mark the instances (rows) with a primary or secondary on marked nodes."""
        marked: Bools = nodes[self.state.pnode[rows]] | nodes[self.state.snode[rows]]
        return marked

    def best(self, rows: Ints, price: float) -> list[PlaceMove]:
        """Find the best place of each of some instances other than the present one; the best first."""
        found = list[PlaceMove]()
        for number in np.unique(self.batch[rows]).tolist():
            members = self.member[rows[self.batch[rows] == number]]
            block = place_scores(self.visits.space, self.visits.baseline, self.batches[number].take(members))
            values = block.scores + self._prices(block, price)
            places = values.reshape(len(values), -1)
            best = places.argmin(axis=1)
            found += [
                PlaceMove(value, block, member, *divmod(place, values.shape[2]))
                for member, (value, place) in enumerate(
                    zip(places[np.arange(len(best)), best].tolist(), best.tolist(), strict=True)
                )
                if value < np.inf
            ]
        return sorted(found, key=lambda move: move.value)

    def make(self, moves: Sequence[PlaceMove]) -> None:
        """Make moves that touch different nodes."""
        self.visits.settle(*(move.block.trial(*move[2:]) for move in moves))
        self.visits.keep()

    def _prices(self, block: PlaceScores, price: float) -> Floats:
        """Compute the prices of places of a block; infinite for present ones, and beyond the limits."""
        visits, rows = self.visits, block.batch.rows
        p, s = self.state.pnode[rows], self.state.snode[rows]
        targets, members = visits.space.targets, (slice(None), np.newaxis, np.newaxis)
        secondaries = targets if block.secondary is not None else np.array([NOWHERE])
        way = rows[members], (p[members], s[members]), (targets[:, np.newaxis], secondaries)
        prices: Floats = price * visits.homes.added_charge(*way)
        if visits.limited:
            then = map(add, visits.total, visits.homes.change(*way))
            prices = np.where(Costs(*then).within(visits.limits), prices, np.inf)
        at = self.position[p], self.position[s] if block.secondary is not None else np.zeros_like(s)
        here = np.flatnonzero((at[0] >= 0) & (at[1] >= 0))
        prices[here, at[0][here], at[1][here]] = np.inf
        return prices
