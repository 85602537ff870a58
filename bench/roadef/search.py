"""The search: the strategies of :mod:`ganeti_htools.engine.balancing.place_search` on an assignment."""

import math
import time
from functools import partial

from bench.roadef.exchanges import ProcessExchanges, ProcessMove, ProcessMoves
from bench.roadef.placement import Placement
from bench.roadef.problem import Problem
from bench.roadef.terms import terms_of
from ganeti_htools.engine.balancing.annealing import Annealing
from ganeti_htools.engine.balancing.place_search import wander
from ganeti_htools.engine.balancing.tabu_search import TabuSearch
from ganeti_htools.model.columns import Ints

# Prices on violations. Annealing begins with the lowest one, at which it finds its way between full machines.
PRICES = 1e7, 2000.0, 300.0
ROUNDS = 3  # of annealing, in the time of a search
TRIAL = 64  # ratings after which their time is known
POLISH = 0.05  # the part of the time for a tabu search at the end


def search(problem: Problem, seconds: float, seed: int = 0) -> list[int]:
    """Search for so many seconds of a processor; returns the machines of processes."""
    end, terms = time.process_time() + seconds, terms_of(problem)

    def going(_: float, left: float = 0.0) -> bool:
        return time.process_time() < end - left * seconds

    def annealing(ratings: int) -> Annealing:
        return Annealing(ProcessExchanges(Placement(terms, terms.home), ratings), seed)

    def tabu(start: Ints) -> TabuSearch[ProcessMove]:
        return TabuSearch(ProcessMoves(Placement(terms, start)), seed)

    trial, began = annealing(TRIAL), time.process_time()
    for _ in trial.round(PRICES[-1], 1.0):
        pass
    ratings = max(TRIAL, int(seconds / ROUNDS / (time.process_time() - began) * TRIAL))
    found, *_ = wander(
        tabu(terms.home), annealing(ratings), PRICES, partial(going, left=POLISH), patience=math.inf
    )
    polish = tabu(found.pnode)
    while going(0.0):
        polish.step(PRICES[0])
    return list(map(int, polish.visits.best[0].pnode))
