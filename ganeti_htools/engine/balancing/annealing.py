"""Simulated annealing of exchanges that lower the score plus a price (Kirkpatrick et al. 1983).

Many exchanges at random are rated at once. Those that gain are made, and others that lose little by a noise
that falls. Exchanges made after one rating touch different nodes. Each exchange changes the worth of others,
so fewer are rated while many are good enough.
"""

from collections.abc import Generator, Sequence, Set
from typing import Protocol

import numpy as np

from ganeti_htools.engine.balancing.visits import Visited
from ganeti_htools.model.columns import Floats

SCARCE = 2  # good exchanges; after fewer the next rating is twice as large


class Proposals(Protocol):
    """Exchanges at random, rated: ``changes`` of the score plus price, infinite beyond the limits."""

    changes: Floats

    @property
    def usual(self) -> float:
        """A loss that exchanges often have, which is the unit of noise."""

    def nodes(self, which: int) -> Set[int]:
        """Return numbers of the nodes that an exchange touches."""

    def make(self, which: int) -> None:
        """Make an exchange."""


class Exchanges(Protocol):
    """What the search asks of a problem."""

    ratings: int  # in a round
    number: tuple[int, int]  # exchanges in a rating, at least and at most
    cold: float  # the noise falls to this part of the first one
    best_first: bool  # whether the best exchanges of a rating are made first, not those first proposed

    @property
    def visits(self) -> Visited:
        """The places that the search visits."""

    def begin(self) -> None:
        """Begin a round."""

    def propose(self, random: np.random.RandomState, number: int, price: float) -> Proposals:
        """Propose up to so many exchanges."""

    def end(self) -> None:
        """End a round: visit its last places."""


class Annealing:
    """The search. It changes the state of the visits."""

    def __init__(self, exchanges: Exchanges, seed: int = 0) -> None:
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
        noise, (fewest, most) = 0.0, self.exchanges.number
        rated = fewest
        for number in range(ratings):
            found = self.exchanges.propose(self.random, rated, price)
            changes = found.changes
            noise = noise if number else hot * found.usual
            fallen = noise * self.exchanges.cold ** (number / (ratings - 1))
            bars = -fallen * np.log(self.random.random_sample(len(changes)))
            chosen = np.flatnonzero(changes < bars)
            if self.exchanges.best_first:
                chosen = chosen[np.argsort(changes[chosen], kind="stable")]
            made = self._make(found, chosen.tolist())
            if len(chosen) > 2 * made:
                rated = max(fewest, rated // 2)
            elif len(chosen) < SCARCE:
                rated = min(most, 2 * rated)
            yield

    def _make(self, found: Proposals, chosen: Sequence[int]) -> int:
        """Make some exchanges, each on nodes that no other touches, and return how many."""
        touched, number = set[int](), 0
        for which in chosen:
            nodes = found.nodes(which)
            if number < self.visits.at_once and not nodes & touched:
                touched |= nodes
                found.make(which)
                number += 1
        return number
