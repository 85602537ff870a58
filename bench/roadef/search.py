"""The search: annealing from the first assignment, a few times, then the best one's machines are refilled.

The noise of annealing falls, while the price on violations rises in waves. At a low price processes find
their way between full machines, at a high one they settle within the limits. The lowest price of a wave rises
too.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial

from bench.roadef.exchanges import ProcessExchanges, ProcessMoves
from bench.roadef.placement import Placement
from bench.roadef.problem import Problem
from bench.roadef.terms import Terms, terms_of
from ganeti_htools.engine.balancing.annealing import Annealing
from ganeti_htools.engine.balancing.tabu_search import TabuSearch
from ganeti_htools.engine.balancing.visits import Visit

ANNEALED, STARTS = 0.6, 3  # the part of the time for annealing, and how often it begins anew
HOT, COLD = 10.0, 0.01  # the first noise, in usual losses, and the part of it that is left at the end
CHEAP, DEAR = (20.0, 1e4), 1e6  # lowest prices of the first and the last wave, and the highest price
WAVES, RISING = 8, 0.8  # waves of prices, and the part of a wave in which the price rises
HARDER = 3.0  # a misplaced process counts so much more if a wave has left one
RATINGS = 16  # at one noise and price


def search(problem: Problem, seconds: float, seed: int = 0) -> list[int]:
    """Search for so many seconds of a processor; returns the machines of processes."""
    began, terms = time.process_time(), terms_of(problem)

    def parts(first: float, last: float) -> Iterator[float]:
        while (part := ((time.process_time() - began) / seconds - first) / (last - first)) < 1:
            yield max(0.0, part)

    length, found = ANNEALED / STARTS, list[Visit]()
    for start in range(STARTS):
        time_left = parts(start * length, (start + 1) * length)
        found.append(_annealed(terms, time_left, STARTS * seed + start))
    placement = Placement(terms, min(found, key=lambda visit: visit.score).pnode)
    improve = _improvement(placement, seed)
    for _ in parts(ANNEALED, 1.0):
        improve()
    return list(map(int, placement.best[0].pnode))


def price(part: float) -> float:
    """Compute the price on violations after a part of the time of annealing."""
    low = CHEAP[0] * (CHEAP[1] / CHEAP[0]) ** part
    return float(low * (DEAR / low) ** min(1.0, part * WAVES % 1 / RISING))


def _annealed(terms: Terms, parts: Iterator[float], seed: int) -> Visit:
    """Find the best assignment that annealing visits."""
    placement, wave = Placement(terms, terms.home), 0
    annealing = Annealing(ProcessExchanges(placement, RATINGS), seed)
    for part in parts:
        if int(part * WAVES) > wave:
            wave += 1
            placement.unit *= HARDER if placement.misplaced else 1.0
        for _ in annealing.round(price(part), HOT * COLD**part):
            pass
    return placement.best[0]


def _improvement(placement: Placement, seed: int) -> Callable[[], None]:
    """Return a step that improves the placement: machines refilled, or a tabu search without HiGHS."""
    try:
        from bench.roadef.refill import Refill
    except ImportError:
        return partial(TabuSearch(ProcessMoves(placement), seed).step, DEAR)
    return Refill(placement, seed).step
