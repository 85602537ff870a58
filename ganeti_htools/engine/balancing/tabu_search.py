"""A tabu search (Glover 1989) of places that lower the score plus a price on copying.

Each step makes the best move, even if that loses. Instances that have just moved stay, so the next steps
answer the move instead of taking it back. An exchange of instances consists of such a move and its answer. A
step looks at all places of the instances on the nodes of the last move, and of a few others.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.balancing.batches import Batch
from ganeti_htools.engine.balancing.place_scores import PlaceScores, place_scores
from ganeti_htools.engine.balancing.visits import Visits
from ganeti_htools.engine.balancing.way_costs import Costs
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE, Floats, Ints

# Steps for which a moved instance stays, at least; a varying number breaks cycles.
STAY, VARIATION = 8, 5
NEAR, OTHERS = 64, 16  # instances in a step: on the nodes of the last move, and others at random
PLACES = 1 << 20  # places in a step; on clusters of many nodes it looks at fewer instances


class PlaceOption(NamedTuple):
    """The best other place of a member of a block: score plus price, and the positions of its nodes."""

    value: float
    block: PlaceScores
    member: int
    primary: int
    secondary: int


class TabuSearch:
    """The search. It changes the state of the visits."""

    def __init__(self, visits: Visits, batches: Sequence[Batch]) -> None:
        self.visits, self.batches, self.state = visits, batches, visits.state
        size, nodes, targets = len(self.state.pnode), len(self.state.group), visits.space.targets
        self.batch, self.member = np.full(size, NOWHERE), np.zeros(size, np.int64)
        for number, batch in enumerate(batches):
            self.batch[batch.rows], self.member[batch.rows] = number, np.arange(len(batch.rows))
        self.movable = np.flatnonzero(self.batch != NOWHERE)
        fraction = min(1.0, PLACES / (NEAR + OTHERS) / max(1, len(targets)) ** 2)
        self.number = max(1, int(fraction * NEAR)), max(1, int(fraction * OTHERS))
        self.position = np.full(nodes + 1, NOWHERE)  # the last entry stands for NOWHERE
        self.position[targets] = np.arange(len(targets))
        self.until, self.stay = np.zeros(size, np.int64), min(STAY, len(self.movable) // 3)
        self.near = np.zeros(nodes + 1, np.bool_)  # nodes of the last moves
        self.random = np.random.RandomState(0)  # its numbers are the same in all versions
        self.clock = 0

    def step(self, price: float) -> None:
        """Make the best move of an instance that need not stay, and others that gain on other nodes."""
        state, visits = self.state, self.visits
        free = self.movable[self.until[self.movable] <= self.clock]
        near = free[self.near[state.pnode[free]] | self.near[state.snode[free]]]
        rows = (near, free)
        chosen = [self.random.permutation(some)[:most] for some, most in zip(rows, self.number, strict=True)]
        options = self._options(np.unique(np.concatenate(chosen)), price)
        self.clock += 1
        visits.idle += 1
        gaining = [option for option in options if option.value < visits.score]
        self.near[:] = False
        trials = list(self._apart(gaining or options[:1]))
        if trials:
            self.until[[trial.asked.index for trial in trials]] = (
                self.clock + self.stay + self.clock % VARIATION
            )
            visits.settle(*trials)
            visits.keep()

    def _options(self, rows: Ints, price: float) -> list[PlaceOption]:
        """Find the best place of each of some instances other than the present one; the best first."""
        found = list[PlaceOption]()
        for number in np.unique(self.batch[rows]).tolist():
            members = self.member[rows[self.batch[rows] == number]]
            block = place_scores(self.visits.space, self.visits.baseline, self.batches[number].take(members))
            values = block.scores + self._prices(block, price)
            places = values.reshape(len(values), -1)
            best = places.argmin(axis=1)
            found += [
                PlaceOption(value, block, member, *divmod(place, values.shape[2]))
                for member, (value, place) in enumerate(
                    zip(places[np.arange(len(best)), best].tolist(), best.tolist(), strict=True)
                )
                if value < np.inf
            ]
        return sorted(found, key=lambda option: option.value)

    def _prices(self, block: PlaceScores, price: float) -> Floats:
        """Compute the prices of places of a block; infinite for present ones, and beyond the limits."""
        visits, rows = self.visits, block.batch.rows
        p, s = self.state.pnode[rows], self.state.snode[rows]
        was = rows[:, np.newaxis, np.newaxis], p[:, np.newaxis, np.newaxis], s[:, np.newaxis, np.newaxis]
        targets = visits.space.targets
        secondaries = targets if block.secondary is not None else np.array([NOWHERE])
        goal = was[0], targets[:, np.newaxis], secondaries
        prices: Floats = price * (visits.homes.charge(*goal) - visits.homes.charge(*was))
        if visits.limited:
            figures = zip(visits.total, visits.homes.costs(*was), visits.homes.costs(*goal), strict=True)
            then = Costs(*(total - now + cost for total, now, cost in figures))
            prices = np.where(then.within(visits.limits), prices, np.inf)
        at = self.position[p], self.position[s] if block.secondary is not None else np.zeros_like(s)
        here = np.flatnonzero((at[0] >= 0) & (at[1] >= 0))
        prices[here, at[0][here], at[1][here]] = np.inf
        return prices

    def _apart(self, options: Sequence[PlaceOption]) -> Iterator[Trial]:
        """Yield moves in order, a few, each on nodes that no other touches, and note the nodes."""
        number = 0
        for option in options:
            index = int(option.block.batch.rows[option.member])
            own = int(self.state.pnode[index]), int(self.state.snode[index])
            nodes = [node for node in (*option.block.nodes(*option[3:]), *own) if node != NOWHERE]
            if number < self.visits.at_once and not self.near[nodes].any():
                self.near[nodes] = True
                number += 1
                yield option.block.trial(*option[2:])
