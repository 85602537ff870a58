"""Simulated annealing of exchanges that lower the score plus a price (Kirkpatrick et al. 1983).

Many exchanges at random are rated at once. Those that gain are made, and others that lose little by a noise
that falls. The problem has the last word on each: there must be room for every move, and the score must be
good enough.
"""

from collections.abc import Generator, Sequence, Set
from typing import Protocol

import numpy as np

from ganeti_htools.engine.balancing.visits import Visited
from ganeti_htools.model.columns import Floats

SCARCE = 2  # exchanges to be made, of a rating that should have had more


class Proposals(Protocol):
    """Exchanges at random, rated: ``changes`` of the score plus price, infinite beyond the limits."""

    changes: Floats

    @property
    def usual(self) -> float:
        """A loss that exchanges often have, which is the unit of noise."""

    def nodes(self, which: int) -> Set[int]:
        """Return the nodes that an exchange touches, in rows."""

    def make(self, which: int, bar: float) -> bool:
        """Make an exchange, if there is room and the change is below the bar."""


class Exchanges(Protocol):
    """What the search asks of a problem."""

    number: tuple[int, int, int]  # ratings in a round, and exchanges in a rating, at least and at most
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

        ``length`` multiplies the ratings. A rating has fewer exchanges while many are to be made, since each
        changes what the others are worth. A round that is closed ends where it is.
        """
        ratings, fewest, most = self.exchanges.number
        self.visits.idle += 1
        if not ratings:
            return
        self.exchanges.begin()
        try:
            yield from self._ratings(price, hot, length * ratings, fewest, most)
        finally:
            self.exchanges.end()

    def _ratings(
        self, price: float, hot: float, ratings: int, fewest: int, most: int
    ) -> Generator[None, None, None]:
        noise, rated = 0.0, fewest
        for number in range(ratings):
            found = self.exchanges.propose(self.random, rated, price)
            changes = found.changes
            noise = noise if number else hot * found.usual
            fallen = noise * self.exchanges.cold ** (number / (ratings - 1))
            bars = -fallen * np.log(self.random.random_sample(len(changes)))
            chosen = np.flatnonzero(changes < bars)
            if self.exchanges.best_first:
                chosen = chosen[np.argsort(changes[chosen], kind="stable")]
            made = self._make(found, chosen.tolist(), bars)
            if len(chosen) > 2 * made:
                rated = max(fewest, rated // 2)
            elif len(chosen) < SCARCE:
                rated = min(most, 2 * rated)
            yield

    def _make(self, found: Proposals, chosen: Sequence[int], bars: Floats) -> int:
        """Make some exchanges that lose less than their bars, each on nodes that no other touches."""
        touched, number = set[int](), 0
        for which in chosen:
            nodes = found.nodes(which)
            if number < self.visits.at_once and not nodes & touched:
                touched |= nodes
                number += found.make(which, float(bars[which]))
        return number
