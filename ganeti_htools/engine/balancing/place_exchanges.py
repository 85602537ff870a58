"""Exchanges of instances of a cluster, for annealing (:mod:`.annealing`), with their prices."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.balancing.batches import Batch
from ganeti_htools.engine.balancing.exchanges import ExchangeRating, ProposedExchanges
from ganeti_htools.engine.balancing.linear_score import linear_score
from ganeti_htools.engine.balancing.place_scores import place_scores
from ganeti_htools.engine.balancing.visits import Visits
from ganeti_htools.engine.balancing.way_costs import Costs
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE, Floats

USUAL = 0.1  # This share of the losing exchanges loses less than usual.
ROUND, RATED = 32, 2048  # at most: ratings in a round, and exchanges in a rating


class Goal(NamedTuple):
    """A place for an instance, in rows."""

    instance: int
    pnode: int
    snode: int


class PlaceExchanges:
    """The exchanges from the present places of a search. Without a linear score there are none."""

    cold = 0.01
    best_first = True

    def __init__(self, visits: Visits, batches: Sequence[Batch]) -> None:
        self.visits, self.state = visits, visits.state
        self.member = {
            row: (batch, member) for batch in batches for member, row in enumerate(batch.rows.tolist())
        }
        movable = np.zeros(len(self.state.pnode), np.bool_)
        movable[list(self.member)] = True
        self.number = 0, 0
        if score := linear_score(self.state, visits.space.scope, movable, unmirrored=True):
            self.number = min(ROUND, 4 + len(self.member) // 4), min(RATED, 32 * len(self.member))
            self.rows = score.rows
            self.nodes = np.append(score.nodes, NOWHERE)  # the last entry stands for NOWHERE
            self.position = np.full(len(self.state.group) + 1, NOWHERE)
            self.position[score.nodes] = np.arange(len(score.nodes))
            memory, targets = self.state.columns.t_mem[score.nodes], self.position[visits.space.targets]
            self.rating = ExchangeRating(score, memory, targets)

    def propose(self, random: np.random.RandomState, number: int, price: float) -> "PricedExchanges":
        """Propose up to so many exchanges."""
        pnode, snode = self.state.pnode[self.rows], self.state.snode[self.rows]
        self.rating.at(self.position[pnode], self.position[snode])
        found = self.rating.propose(random, number)
        return PricedExchanges(self, found, self._prices(found, price))

    def _prices(self, found: ProposedExchanges, price: float) -> Floats:
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

    def goals(self, found: ProposedExchanges, which: int) -> list[Goal]:
        """Return the places to which an exchange leads."""
        rows = dict.fromkeys(self.rows[found.instances[:, which]].tolist())
        places = self.nodes[found.pnode[:, which]], self.nodes[found.snode[:, which]]
        return list(map(Goal, rows, places[0].tolist(), places[1].tolist()))

    def exchange(self, goals: Sequence[Goal], worst: float) -> bool:
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


class PricedExchanges:
    """Proposed exchanges with their ``changes`` of the score plus price."""

    def __init__(self, places: PlaceExchanges, found: ProposedExchanges, prices: Floats) -> None:
        self.places, self.found, self.prices = places, found, prices
        self.changes = places.rating.changes(found) + prices

    @property
    def usual(self) -> float:
        """The usual loss: small, but not of the smallest ones."""
        losses = self.changes[(self.changes > 0) & (self.changes < np.inf)]
        return float(np.quantile(losses, USUAL)) if len(losses) else 0.0

    def nodes(self, which: int) -> set[int]:
        """Return the nodes that an exchange touches, in rows."""
        goals, state = self.places.goals(self.found, which), self.places.state
        nodes = {node for goal in goals for node in goal[1:]}
        nodes |= {int(own[goal.instance]) for goal in goals for own in (state.pnode, state.snode)}
        return nodes - {NOWHERE}

    def make(self, which: int, bar: float) -> bool:
        """Make an exchange, if there is room for each move and the change is below the bar."""
        goals = self.places.goals(self.found, which)
        worst = self.places.visits.score + (bar - float(self.prices[which]))
        return any(self.places.exchange(order, worst) for order in itertools.permutations(goals))
