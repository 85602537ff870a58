"""The search of final places that lower the score plus a price on the copying of the ways there.

Each step makes the best move of an instance that has not moved lately, even if it loses: so the search leaves
places where no single move gains. An instance that has moved goes on to another place, or returns home, for
the difference in copying. The price rises and falls: at a low price the search comes by even clusters, at a
high price by those that copy little.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.balancing.search import Search
from ganeti_htools.engine.balancing.way_costs import Costs, Homes, Prices, Pricing
from ganeti_htools.engine.balancing.ways import NodePair
from ganeti_htools.engine.rules import settling

# Steps for which a moved instance stays, at least; a varying number breaks cycles.
STAY, VARIATION = 8, 5
SMALL = 1e-4  # the least allowed loss, as a part of the score
ATTEMPTS, FACTOR = 8, 8.0  # how often, and by what, the allowed loss is multiplied until a move is found
STEPS = 4  # steps at each price in the first round; twice as many in the next one, and so on
LONGEST = 32
# A search ends after so many steps for each instance, or so many in all, without anything better.
PATIENCE, FEWEST = 4, 64


class Visit(NamedTuple):
    """Places that a search has visited: score, costs, and the number of its moves until then."""

    score: float
    costs: Costs
    moves: int


def _unbeaten(visits: Iterable[Visit]) -> list[Visit]:
    """Select the visits that no other beats in both charge and score, the cheapest first."""
    best = list[Visit]()
    for visit in sorted(visits, key=lambda visit: (visit.costs.charge, visit.score, visit.moves)):
        if not best or visit.score < best[-1].score:
            best.append(visit)
    return best


class PlaceSearch:
    """The search. ``made`` are its moves: instances, their nodes. ``best`` are the places that none beats."""

    def __init__(self, search: Search, homes: Homes, limits: Costs) -> None:
        self.search, self.state, self.homes, self.limits = search, search.state, homes, limits
        self.score = score_of(self.state, search.space.scope)
        self.loss = 0.0
        self.until = np.zeros(len(self.state.pnode), np.int64)
        self.movable = sum(len(batch.rows) for batch in search.batches)
        self.stay = min(STAY, self.movable // 3)
        self.clock = 0
        self.made = list[tuple[int, NodePair]]()
        self.best = [self._visit(Pricing(homes, self.state))]

    def wander(self, prices: Sequence[float], going: Callable[[float], bool]) -> None:
        """Go through the prices up and down, at first a few steps at each, later more.

        It ends when nothing better has been found for a while.
        """
        steps, pricing, found = STEPS, Pricing(self.homes, self.state), 0
        while True:
            for price in (*prices, *prices[::-1]):
                for _ in range(steps):
                    if self.clock - found > max(FEWEST, PATIENCE * self.movable) or not going(self.score):
                        return
                    if not self._step(pricing.at(price, self.limits)):
                        break
                    pricing = Pricing(self.homes, self.state)
                    visit = self._visit(pricing)
                    if not any(
                        visit.costs.charge >= each.costs.charge and visit.score >= each.score
                        for each in self.best
                    ):
                        self.best = _unbeaten([*self.best, visit])
                        found = self.clock
            steps = min(2 * steps, LONGEST, max(STEPS, self.movable))

    def _visit(self, pricing: Pricing) -> Visit:
        return Visit(self.score, pricing.total, len(self.made))

    def _step(self, prices: Prices) -> bool:
        """Make the best move of an instance that need not stay; returns whether there is one."""
        self.clock += 1
        barred = self.until > self.clock
        loss = max(self.loss, SMALL * self.score)
        for attempt in range(ATTEMPTS):
            best = self.search.cheapest(self.score + loss * FACTOR**attempt, prices, barred)
            if best is not None:
                break
        else:
            return False
        self.loss = max(2 * (best.score - self.score), self.loss / 2)
        settling.settle(self.state, best.trial)
        self.search.note(best.trial)
        index = best.trial.asked.index
        self.score = score_of(self.state, self.search.space.scope)
        self.until[index] = self.clock + self.stay + self.clock % VARIATION
        self.made.append((index, (int(best.trial.pnode[0]), int(best.trial.snode[0]))))
        return True
