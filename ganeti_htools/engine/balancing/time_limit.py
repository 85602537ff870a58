"""Steps that gain too little for the time they take (``hbal --avoid-long-solutions``).

A plan that takes less than a threshold may go on in any case. Otherwise a step has to divide the score,
above the best one possible, by more than a factor times what the plan takes then, in thresholds
(Ganeti's design "migration speed accounting in hbal").
"""

import numpy as np

from ganeti_htools.engine.balancing.search import Search
from ganeti_htools.engine.balancing.ties import BestMove
from ganeti_htools.engine.balancing.traffic import bandwidths, seconds
from ganeti_htools.model.state import State

NEGLIGIBLE = 0.01  # factors below this make no difference


class TimeLimit:
    """What a plan that is being made takes so far, and what it may take: seconds."""

    def __init__(self, state: State, threshold: float, factor: float, optimum: float) -> None:
        self.state, self.speeds = state, bandwidths(state)
        self.threshold, self.factor, self.optimum = threshold, factor, optimum
        self.spent = 0.0

    def best(self, search: Search, current: float) -> BestMove | None:
        """The best of all moves that are an instance's best one and do not take too long."""
        barred = np.zeros(len(self.state.pnode), np.bool_)
        while best := search.best(current, barred):
            if not self._too_long(current, best.score, self.spent + self._takes(best)):
                return best
            if self._too_long(current, best.score, self.spent):
                return None  # all others gain less
            barred[best.trial.asked.index] = True
        return None

    def note(self, best: BestMove) -> None:
        """Take note of a move that is about to be made."""
        self.spent += self._takes(best)

    def _takes(self, best: BestMove) -> float:
        return seconds(self.state, self.speeds, best.trial.asked.index, best.kind, best.node)

    def _too_long(self, current: float, score: float, time: float) -> bool:
        if time < self.threshold or score == self.optimum:
            return False
        improvement = (current - self.optimum) / (score - self.optimum)
        return not improvement * self.threshold > self.factor * time
