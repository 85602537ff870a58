"""Simulated annealing of exchanges that lower the score plus a price on copying (Kirkpatrick et al. 1983).

Many exchanges at random are rated at once (:mod:`.exchanges`). Those that gain are made, and others that lose
little by a noise that falls. The rules have the last word on each: there must be room for every move, and the
score must be good enough.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.balancing.batches import Batch
from ganeti_htools.engine.balancing.exchanges import ExchangeRating, Exchanges
from ganeti_htools.engine.balancing.linear_score import linear_score
from ganeti_htools.engine.balancing.place_scores import place_scores
from ganeti_htools.engine.balancing.visits import Visits
from ganeti_htools.engine.balancing.way_costs import Costs
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE, Floats

ROUND, RATED = 32, 2048  # at most: ratings in a round, and exchanges in a rating
# The noise is at first a part of the loss that this share of the losing exchanges does not reach.
USUAL, COLD = 0.1, 0.01  # and falls to this part of that


class Goal(NamedTuple):
    """A place for an instance, in rows."""

    instance: int
    pnode: int
    snode: int


class Annealing:
    """The search. It changes the state of the visits. Without a linear score it does nothing."""

    def __init__(self, visits: Visits, batches: Sequence[Batch]) -> None:
        self.visits, self.state = visits, visits.state
        self.member = {
            row: (batch, member) for batch in batches for member, row in enumerate(batch.rows.tolist())
        }
        self.random = np.random.RandomState(0)  # its numbers are the same in all versions
        movable = np.zeros(len(self.state.pnode), np.bool_)
        movable[list(self.member)] = True
        self.number = min(ROUND, 4 + len(self.member) // 4), min(RATED, 32 * len(self.member))
        self.rating = None
        if score := linear_score(self.state, visits.space.scope, movable, unmirrored=True):
            self.rows = score.rows
            self.nodes = np.append(score.nodes, NOWHERE)  # the last entry stands for NOWHERE
            self.position = np.full(len(self.state.group) + 1, NOWHERE)
            self.position[score.nodes] = np.arange(len(score.nodes))
            memory, targets = self.state.columns.t_mem[score.nodes], self.position[visits.space.targets]
            self.rating = ExchangeRating(score, memory, targets)

    def round(self, price: float, hot: float) -> Iterator[None]:
        """Make exchanges; yields after each rating. ``hot`` is the first noise, as a part of the usual."""
        noise, visits, (ratings, rated) = 0.0, self.visits, self.number
        for number in range(ratings) if self.rating else ():
            assert self.rating is not None
            pnode, snode = self.state.pnode[self.rows], self.state.snode[self.rows]
            self.rating.at(self.position[pnode], self.position[snode])
            found = self.rating.propose(self.random, rated)
            prices = self._prices(found, price)
            changes = self.rating.changes(found) + prices
            losses = changes[(changes > 0) & (changes < np.inf)]
            if not number and len(losses):
                noise = hot * float(np.quantile(losses, USUAL))
            fallen = noise * COLD ** (number / (ratings - 1))
            bars = -fallen * np.log(self.random.random_sample(len(changes)))
            chosen = np.flatnonzero(changes < bars)
            visits.idle += 1
            self._make(found, chosen[np.argsort(changes[chosen], kind="stable")].tolist(), bars - prices)
            yield

    def _prices(self, found: Exchanges, price: float) -> Floats:
        """Compute the prices of exchanges; infinite beyond the limits."""
        visits, homes, rows = self.visits, self.visits.homes, self.rows[found.instances]
        counts = np.stack([np.ones(rows.shape[1], np.bool_), rows[0] != rows[1]])
        was = rows, self.state.pnode[rows], self.state.snode[rows]
        goal = rows, self.nodes[found.pnode], self.nodes[found.snode]
        added = homes.charge(*goal) - homes.charge(*was)
        prices: Floats = price * added.sum(axis=0, where=counts)
        if visits.limited:
            figures = zip(visits.total, homes.costs(*was), homes.costs(*goal), strict=True)
            then = (total + (cost - now).sum(axis=0, where=counts) for total, now, cost in figures)
            prices = np.where(Costs(*then).within(visits.limits), prices, np.inf)
        return prices

    def _make(self, found: Exchanges, chosen: Sequence[int], bars: Floats) -> None:
        """Make some exchanges that lose less than their bars, each on nodes that no other touches."""
        touched, number = {NOWHERE}, 0
        for which in chosen:
            rows = dict.fromkeys(self.rows[found.instances[:, which]].tolist())
            places = self.nodes[found.pnode[:, which]], self.nodes[found.snode[:, which]]
            goals = list(map(Goal, rows, places[0].tolist(), places[1].tolist()))
            nodes = {node for goal in goals for node in goal[1:]}
            nodes |= {int(nodes[row]) for row in rows for nodes in (self.state.pnode, self.state.snode)}
            if number < self.visits.at_once and not (nodes - {NOWHERE}) & touched:
                touched |= nodes
                worst = self.visits.score + float(bars[which])
                number += any(self._exchange(order, worst) for order in itertools.permutations(goals))

    def _exchange(self, goals: Sequence[Goal], worst: float) -> bool:
        """Move instances one after the other, if all can and that leaves less than the ``worst`` score."""
        visits, back = self.visits, list[Trial]()
        for goal in goals:
            batch, member = self.member[goal.instance]
            targets = np.array([node for node in goal[1:] if node != NOWHERE])
            space = visits.space._replace(targets=targets)
            block = place_scores(space, visits.baseline, batch.take(np.array([member])))
            place = 0, len(targets) - 1
            if not block.scores[0, *place] < (worst if goal is goals[-1] else np.inf):
                visits.settle(*reversed(back))
                return False
            own = int(self.state.pnode[goal.instance]), int(self.state.snode[goal.instance])
            trial = block.trial(0, *place)
            back.append(trial.reverse(*own))
            visits.settle(trial)
        visits.keep()
        return True
