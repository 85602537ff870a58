"""Places that a search visits on its way, with their score and what it costs to get there."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.balancing.baseline import Baseline
from ganeti_htools.engine.balancing.scoring import SearchSpace
from ganeti_htools.engine.balancing.way_costs import Costs, Homes
from ganeti_htools.engine.rules import settling
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import Ints

AT_ONCE = 8


class Visit(NamedTuple):
    """Places that a search has visited: the score, the costs, and the nodes of all instances."""

    score: float
    costs: Costs
    pnode: Ints
    snode: Ints


def beaten(score: float, costs: Costs, visits: Iterable[Visit]) -> bool:
    """Whether one of the visits is as good in both score and charge."""
    return any(costs.charge >= each.costs.charge and score >= each.score for each in visits)


def unbeaten(visits: Iterable[Visit]) -> list[Visit]:
    """Select the visits that no other beats in both charge and score, the cheapest first."""
    best = list[Visit]()
    for visit in sorted(visits, key=lambda visit: (visit.costs.charge, visit.score)):
        if not best or visit.score < best[-1].score:
            best.append(visit)
    return best


class Visits:
    """The present places of a search, their ``total`` costs, and the ``best`` visited: those that none beats.

    ``idle`` counts the steps since places were found that none beats. ``at_once`` moves are made together, on
    different nodes.
    """

    def __init__(self, space: SearchSpace, homes: Homes, limits: Costs) -> None:
        self.space, self.homes, self.limits = space, homes, limits
        self.state = space.facts.state
        self.limited = bool(np.isfinite(limits).any())
        # Limits hold for each move by itself.
        self.at_once = 1 if self.limited else AT_ONCE
        self.idle = 0
        self.best = list[Visit]()
        self.baseline, self.total = self._figures()
        self.keep()

    @property
    def score(self) -> float:
        return self.baseline.score

    def settle(self, *trials: Trial) -> None:
        """Make moves, and count what they lead to."""
        self.place(*trials)
        self.baseline, self.total = self._figures()

    def place(self, *trials: Trial) -> None:
        """Make moves on different nodes."""
        for trial in trials:
            settling.settle(self.state, trial)
        touched = {int(change.rows[0]) for trial in trials for change in trial.changes}
        self.space.facts.refresh(np.array(sorted(touched), np.int64))

    def keep(self) -> None:
        """Keep the present places if they are within the limits and no visited ones beat them."""
        if self.total.within(self.limits) and not beaten(self.score, self.total, self.best):
            self.take([Visit(self.score, self.total, self.state.pnode.copy(), self.state.snode.copy())])

    def take(self, visits: Sequence[Visit]) -> None:
        """Take over visits that are not beaten so far."""
        if visits:
            self.best, self.idle = unbeaten([*self.best, *visits]), 0

    def _figures(self) -> tuple[Baseline, Costs]:
        pnode, snode = self.state.pnode, self.state.snode
        costs = self.homes.costs(np.arange(len(pnode)), pnode, snode)
        return self.space.baseline(), Costs(*(float(figures.sum()) for figures in costs))
