"""Simulated annealing of exchanges that lower the score plus a price (Kirkpatrick et al. 1983).

Many exchanges at random are rated at once. Those that gain are made, and others that lose little by a noise
that falls. Exchanges made after one rating touch different nodes. Each exchange changes the worth of others,
so fewer are rated while many are good enough.
"""

from collections.abc import Generator, Sequence

import numpy as np

from ganeti_htools.engine.balancing.place_exchanges import PlaceExchanges, PricedExchanges

COLD = 0.03  # the noise falls to this part of the first one
FEWEST, MOST = 32, 256  # exchanges in a rating
SCARCE = 2  # good exchanges; after fewer the next rating is twice as large


class Annealing:
    """The search. It changes the state of the visits."""

    def __init__(self, exchanges: PlaceExchanges, seed: int = 0) -> None:
        self.exchanges, self.visits = exchanges, exchanges.visits
        self.random = np.random.RandomState(seed)  # its numbers are the same in all versions

    def round(self, price: float, hot: float, length: int = 1) -> Generator[None, None, None]:
        """Make exchanges; yields after each rating. ``hot`` is the first noise, in usual losses.

        ``length`` multiplies the ratings. A round that is closed ends where it is.
        """
        self.visits.idle += 1
        if not self.exchanges.ratings:
            return
        self.exchanges.begin()
        try:
            yield from self._ratings(price, hot, length * self.exchanges.ratings)
        finally:
            self.exchanges.end()

    def _ratings(self, price: float, hot: float, ratings: int) -> Generator[None, None, None]:
        noise, rated = 0.0, FEWEST
        for number in range(ratings):
            found = self.exchanges.propose(self.random, rated, price)
            changes = found.changes
            noise = noise if number else hot * found.usual
            fallen = noise * COLD ** (number / (ratings - 1))
            bars = -fallen * np.log(self.random.random_sample(len(changes)))
            chosen = np.flatnonzero(changes < bars)
            chosen = chosen[np.argsort(changes[chosen], kind="stable")]
            made = self._make(found, chosen.tolist())
            if len(chosen) > 2 * made:
                rated = max(FEWEST, rated // 2)
            elif len(chosen) < SCARCE:
                rated = min(MOST, 2 * rated)
            yield

    def _make(self, found: PricedExchanges, chosen: Sequence[int]) -> int:
        """Make some exchanges, each on nodes that no other touches, and return how many."""
        touched, number = set[int](), 0
        for which in chosen:
            nodes = found.nodes(which)
            if number < self.visits.at_once and not nodes & touched:
                touched |= nodes
                found.make(which)
                number += 1
        return number
