"""A limit for steps that gain too little for their time (``hbal --avoid-long-solutions``).

A plan below a threshold goes on in any case. Otherwise a step must divide the score by more than a given
factor. The score counts from the best one possible. The factor is a constant times the plan's time then, in
thresholds (Ganeti's design "migration speed accounting in hbal").
"""

from collections.abc import Sequence

import numpy as np

from ganeti_htools.engine.balancing.search import Search
from ganeti_htools.engine.balancing.ties import BestMove
from ganeti_htools.engine.moving.traffic import bandwidths, seconds
from ganeti_htools.model.state import State

NEGLIGIBLE = 0.01  # factors below this make no difference


class TimeLimit:
    """The time of a growing plan and its limit, in seconds."""

    def __init__(self, state: State, threshold: float, factor: float, optimum: float) -> None:
        self.state, self.speeds = state, bandwidths(state)
        self.threshold, self.factor, self.optimum = threshold, factor, optimum
        self.spent = 0.0

    def best(self, search: Search, current: float) -> BestMove | None:
        """Find the best move, of each instance's best ones, that does not take too long."""
        barred = np.zeros(len(self.state.pnode), np.bool_)
        while best := search.best(current, barred):
            if self.admits(current, (best,)):
                return best
            if self._too_long(current, best.score, self.spent):
                return None  # all other moves gain less
            barred[best.trial.asked.index] = True
        return None

    def admits(self, current: float, moves: Sequence[BestMove]) -> bool:
        """Whether moves that are made together do not take too long for what they gain."""
        return not self._too_long(current, moves[-1].score, self.spent + sum(map(self._takes, moves)))

    def note(self, *moves: BestMove) -> None:
        """Add the time of moves that are about to be made."""
        self.spent += sum(map(self._takes, moves))

    def _takes(self, best: BestMove) -> float:
        index = best.trial.asked.index
        place = int(self.state.pnode[index]), int(self.state.snode[index])
        return seconds(self.state.cluster.instances[index], self.speeds, place, best.kind, best.node)

    def _too_long(self, current: float, score: float, time: float) -> bool:
        if time < self.threshold or score == self.optimum:
            return False
        improvement = (current - self.optimum) / (score - self.optimum)
        return not improvement * self.threshold > self.factor * time
