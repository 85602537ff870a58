"""The search: annealing from the first assignment, a few times, then turns from the best assignment found.

In a turn annealing begins less hot, and then machines are refilled. The noise of annealing falls, while the
price on violations rises in waves. At a low price processes find their way between full machines, at a high
one they settle within the limits. The lowest price of a wave rises too.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from bench.roadef.exchanges import ProcessExchanges, ProcessMoves
from bench.roadef.placement import Placement
from bench.roadef.problem import Problem
from bench.roadef.terms import terms_of
from ganeti_htools.engine.balancing.annealing import Annealing
from ganeti_htools.engine.balancing.tabu_search import TabuSearch
from ganeti_htools.engine.balancing.visits import Visit


class Cooling(NamedTuple):
    """How annealing cools down: the noise, in usual losses, and the lowest price of waves."""

    noise: tuple[float, float]  # at first and in the end
    cheap: float  # the lowest price of the first wave
    waves: int


FIRST, AGAIN = Cooling((10.0, 0.1), 20.0, 8), Cooling((3.0, 0.1), 50.0, 3)
DEAR, LAST = 1e6, 1e4  # the highest price, and the lowest one in the end
RISING = 0.8  # the part of a wave in which the price rises
HARDER = 3.0  # a misplaced process counts so much more if a wave has left one
RATINGS = 16  # at one noise and price
# The parts of the time: of each start, of annealing in each turn, of refilling in each turn.
STARTS, TURNS = 3, 2
START, WARM, REFILL = 0.1, 0.15, 0.2


def search(problem: Problem, seconds: float, seed: int = 0) -> list[int]:
    """Search for so many seconds of a processor; returns the machines of processes."""
    began, terms, ends = time.process_time(), terms_of(problem), 0.0

    def parts(length: float) -> Iterator[float]:
        nonlocal ends
        first, ends = ends, ends + length
        while (part := ((time.process_time() - began) / seconds - first) / length) < 1:
            yield max(0.0, part)

    seeds = itertools.count(seed * (STARTS + TURNS))
    starts = (
        _annealed(Placement(terms, terms.home), FIRST, parts(START), next(seeds)) for _ in range(STARTS)
    )
    best = min(starts, key=lambda visit: visit.score)
    for _ in range(TURNS):
        best = _annealed(Placement(terms, best.pnode), AGAIN, parts(WARM), next(seeds))
        placement = Placement(terms, best.pnode)
        improve = _improvement(placement, seed)
        for _ in parts(REFILL):
            improve()
        best = placement.best[0]
    return list(map(int, best.pnode))


def price(cooling: Cooling, part: float) -> float:
    """Compute the price on violations after a part of the time of annealing."""
    low = cooling.cheap * (LAST / cooling.cheap) ** part
    return float(low * (DEAR / low) ** min(1.0, part * cooling.waves % 1 / RISING))


def _annealed(placement: Placement, cooling: Cooling, parts: Iterator[float], seed: int) -> Visit:
    """Find the best assignment that annealing visits, the first one included."""
    annealing, wave, (hot, cold) = Annealing(ProcessExchanges(placement, RATINGS), seed), 0, cooling.noise
    for part in parts:
        if int(part * cooling.waves) > wave:
            wave += 1
            placement.unit *= HARDER if placement.misplaced else 1.0
        for _ in annealing.round(price(cooling, part), hot * (cold / hot) ** part):
            pass
    return placement.best[0]


def _improvement(placement: Placement, seed: int) -> Callable[[], None]:
    """Return a step that improves the placement: machines refilled, or a tabu search without HiGHS."""
    try:
        from bench.roadef.refill import Refill
    except ImportError:
        return partial(TabuSearch(ProcessMoves(placement), seed).step, DEAR)
    return Refill(placement, seed).step
