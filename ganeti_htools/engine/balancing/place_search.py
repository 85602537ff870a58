"""The search of final places that lower the score plus a price on the copying of the ways there.

A tabu search and simulated annealing take turns, each from its own places. The tabu search finds exchanges
where single moves lose much, annealing finds more where many small exchanges help. The price falls and rises:
a low price leads to even clusters, a high price to those that copy little.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

from ganeti_htools.engine.balancing.annealing import Annealing
from ganeti_htools.engine.balancing.tabu_search import TabuSearch
from ganeti_htools.engine.balancing.visits import Visit, Visits, unbeaten

STEPS, LONGEST = 4, 8  # steps at each price in the first round, doubled until the longest one
LENGTHIEST = 1 / 8  # rounds of annealing grow as well: at most this length, for each instance
HOT = (1.0, 0.3, 0.1)  # noise of annealing, by rounds
# Usually a search ends after so many steps for each instance, or so many in all, without anything better.
PATIENCE, FEWEST = 16, 256
RATINGS = 8  # ratings of annealing that count as a step; a step of the tabu search takes about as long


def wander(
    tabu: TabuSearch,
    annealing: Annealing,
    prices: Sequence[float],
    going: Callable[[float], bool],
) -> Iterator[list[Visit]]:
    """Search until so many steps have found nothing better.

    Yields the places that none beats after each round and at last. ``going`` gets the score before each step.
    """
    most = max(FEWEST, PATIENCE * len(tabu.movable))
    steps, length, idle = STEPS, 1, 0.0

    def found() -> list[Visit]:
        return unbeaten([*tabu.visits.best, *annealing.visits.best])

    def goes_on(visits: Visits) -> bool:
        nonlocal idle
        idle = idle + 1 if visits.idle else 0.0
        return idle <= most and going(visits.score)

    for hot in itertools.cycle(HOT if len(tabu.movable) else ()):
        for price in (*prices, *prices[::-1]):
            for _ in range(steps):
                if not goes_on(tabu.visits):
                    yield found()
                    return
                tabu.step(price)
        steps = min(2 * steps, LONGEST, max(STEPS, len(tabu.movable)))
        for price in prices[::-1]:
            with closing(annealing.round(price, hot, length)) as ratings:
                ended = not all(going(annealing.visits.score) for _ in ratings)
            if ended:
                yield found()
                return
            rated = length * annealing.exchanges.ratings / RATINGS
            idle = idle + rated if annealing.visits.idle else 0.0
        length = min(2 * length, max(1, int(LENGTHIEST * len(tabu.movable))))
        yield found()
    yield found()
