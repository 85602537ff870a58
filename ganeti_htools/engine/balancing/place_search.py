"""The search of final places that lower the score plus a price on the copying of the ways there.

Two searches take turns, each from its own places. Both look at all places of some instances at once
(:mod:`.place_scores`).

* In a tabu search (Glover 1989) each step makes the best move, even if that loses. Instances that have just
  moved stay, so the next steps answer the move instead of taking it back. An exchange of instances consists
  of such a move and its answer.
* Annealing goes over all instances again and again. An instance goes to the place with the lowest sum of
  score, price, and noise that falls from sweep to sweep.

A tabu search finds exchanges where single moves lose much, annealing finds more where many small moves help.
The price falls and rises: a low price leads to even clusters, a high price to those that copy little.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.balancing.batches import Batch
from ganeti_htools.engine.balancing.place_scores import PlaceScores, place_scores
from ganeti_htools.engine.balancing.scoring import SearchSpace
from ganeti_htools.engine.balancing.way_costs import Costs, Homes
from ganeti_htools.engine.rules import settling
from ganeti_htools.model.columns import NOWHERE, Floats, Ints

# Steps for which a moved instance stays, at least; a varying number breaks cycles.
STAY, VARIATION = 8, 5
# Instances in a step of a tabu search: those on the nodes of the last move, and others at random.
NEAR, OTHERS = 64, 16
STEPS, LONGEST = 4, 32  # steps at each price in the first round, doubled until the longest one
BLOCK = 32  # instances in a step of annealing
SWEEPS = 5  # for each price; the noise falls from the first to the last one
HOT, COLD = (
    (0.3, 1.0, 0.1),
    0.1,
)  # noise, by rounds, as a part of the usual loss of a losing move, and its fall
AT_ONCE = 8  # moves of a step, on different nodes
# A search ends after so many steps for each instance, or so many in all, without anything better.
PATIENCE, FEWEST = 16, 512


class Visit(NamedTuple):
    """Places that a search has visited: the score, the costs, and the nodes of all instances."""

    score: float
    costs: Costs
    pnode: Ints
    snode: Ints


class PlaceOption(NamedTuple):
    """The best place of a member of a block: score plus price, with noise, and the places of its nodes."""

    value: float
    block: PlaceScores
    member: int
    primary: int
    secondary: int

    @property
    def nodes(self) -> tuple[int, int]:
        """Rows of the nodes (secondary: NOWHERE without a mirror)."""
        return self.block.nodes(self.primary, self.secondary)


def unbeaten(visits: Iterable[Visit]) -> list[Visit]:
    """Select the visits that no other beats in both charge and score, the cheapest first."""
    best = list[Visit]()
    for visit in sorted(visits, key=lambda visit: (visit.costs.charge, visit.score)):
        if not best or visit.score < best[-1].score:
            best.append(visit)
    return best


def wander(
    start: Callable[[], "PlaceSearch"], prices: Sequence[float], going: Callable[[float], bool]
) -> list[Visit]:
    """Search until nothing better has been found for a while; returns the places that none beats.

    Both searches begin at a new ``start``. ``going`` gets the score before each step.
    """
    tabu, annealing = start(), start()
    steps, most = STEPS, max(FEWEST, PATIENCE * len(tabu.movable))
    rounds = zip(itertools.cycle(HOT), itertools.cycle(prices[::-1]), strict=False)

    def goes_on(search: PlaceSearch) -> bool:
        found = tabu.idle <= most or annealing.idle <= most // 4
        return found and going(search.score)

    for hot, hot_price in rounds if len(tabu.movable) else ():
        for price in (*prices, *prices[::-1]):
            for _ in range(steps):
                if not goes_on(tabu):
                    return unbeaten([*tabu.best, *annealing.best])
                tabu.exchange(price)
        steps = min(2 * steps, LONGEST, max(STEPS, len(tabu.movable)))
        for _ in annealing.anneal(hot_price, hot):
            if not goes_on(annealing):
                return unbeaten([*tabu.best, *annealing.best])
    return tabu.best


class PlaceSearch:
    """A search. It changes the state of the space. ``best`` are the places that none beats."""

    def __init__(self, space: SearchSpace, batches: Sequence[Batch], homes: Homes, limits: Costs) -> None:
        self.space, self.batches, self.homes, self.limits = space, batches, homes, limits
        self.state = space.facts.state
        size, nodes = len(self.state.pnode), len(self.state.group)
        self.batch, self.member = np.full(size, NOWHERE), np.zeros(size, np.int64)
        for number, batch in enumerate(batches):
            self.batch[batch.rows], self.member[batch.rows] = number, np.arange(len(batch.rows))
        self.movable = np.flatnonzero(self.batch != NOWHERE)
        self.position = np.full(nodes + 1, NOWHERE)  # the last entry stands for NOWHERE
        self.position[space.targets] = np.arange(len(space.targets))
        self.until, self.stay = np.zeros(size, np.int64), min(STAY, len(self.movable) // 3)
        self.near = np.zeros(nodes + 1, np.bool_)  # nodes of the last moves
        self.random = np.random.RandomState(0)  # its numbers are the same in all versions
        self.clock, self.idle = 0, 0  # steps, and those since something was found
        self.best = list[Visit]()
        self._look()

    def exchange(self, price: float) -> None:
        """Make the best move of an instance that need not stay, and others that gain on other nodes."""
        free = self.movable[self.until[self.movable] <= self.clock]
        near = free[self.near[self.state.pnode[free]] | self.near[self.state.snode[free]]]
        chosen = [self.random.permutation(near)[:NEAR], self.random.permutation(free)[:OTHERS]]
        options = self._options(np.unique(np.concatenate(chosen)), price, 0.0)
        gaining = [option for option in options if option.value < self.score]
        moved = self._make(gaining or options[:1])
        self.until[moved] = self.clock + self.stay + self.clock % VARIATION

    def anneal(self, price: float, hot: float) -> Iterator[None]:
        """Move instances to the places that are best with noise; yields after each block of them."""
        losses = [
            option.value - self.score
            for start in range(0, len(self.movable), BLOCK)
            for option in self._options(self.movable[start : start + BLOCK], price, 0.0)
        ]
        loss = float(np.median([each for each in losses if each > 0] or [0.0]))
        for sweep in range(SWEEPS):
            noise = loss * hot * COLD ** (sweep / (SWEEPS - 1))
            order = self.random.permutation(self.movable)
            for start in range(0, len(order), BLOCK):
                rows = order[start : start + BLOCK]
                stays = self.score - noise * self._noise(len(rows))
                options = zip(self._options(rows, price, noise), stays.tolist(), strict=False)
                self._make(option for option, stay in options if option.value < stay)
                yield

    def _noise(self, *shape: int) -> Floats:
        noise: Floats = self.random.gumbel(size=shape)
        return noise

    def _options(self, rows: Ints, price: float, noise: float) -> list[PlaceOption]:
        """Find the best place of each of some instances other than the present one; the best first."""
        found = list[PlaceOption]()
        baseline = self.baseline
        for number in np.unique(self.batch[rows]).tolist():
            members = self.member[rows[self.batch[rows] == number]]
            block = place_scores(self.space, baseline, self.batches[number].take(members))
            values = block.scores + self._prices(block, price)
            if noise:
                values -= noise * (
                    self._noise(*values.shape[:2], 1) + self._noise(len(values), 1, values.shape[2])
                )
            places = values.reshape(len(values), -1)
            best = places.argmin(axis=1)
            found += [
                PlaceOption(value, block, member, *divmod(place, values.shape[2]))
                for member, (value, place) in enumerate(
                    zip(places[np.arange(len(best)), best].tolist(), best.tolist(), strict=True)
                )
                if value < np.inf
            ]
        return sorted(found, key=lambda option: option.value)

    def _prices(self, block: PlaceScores, price: float) -> Floats:
        """Compute the prices of places of a block; infinite for present ones, and beyond the limits."""
        rows = block.batch.rows
        p, s = self.state.pnode[rows], self.state.snode[rows]
        was = rows[:, np.newaxis, np.newaxis], p[:, np.newaxis, np.newaxis], s[:, np.newaxis, np.newaxis]
        targets = self.space.targets
        secondaries = targets if block.secondary is not None else np.array([NOWHERE])
        goal = was[0], targets[:, np.newaxis], secondaries
        prices: Floats = price * (self.homes.charge(*goal) - self.homes.charge(*was))
        if any(np.isfinite(self.limits)):
            figures = zip(self.total, self.homes.costs(*was), self.homes.costs(*goal), strict=True)
            then = Costs(*(total - now + cost for total, now, cost in figures))
            prices = np.where(then.within(self.limits), prices, np.inf)
        at = self.position[p], self.position[s] if block.secondary is not None else np.zeros_like(s)
        here = np.flatnonzero((at[0] >= 0) & (at[1] >= 0))
        prices[here, at[0][here], at[1][here]] = np.inf
        return prices

    def _make(self, options: Iterable[PlaceOption]) -> list[int]:
        """Make moves in order, a few, each on nodes that no other touches; returns the instances."""
        self.clock, self.idle = self.clock + 1, self.idle + 1
        moved = list[int]()
        touched: set[int] = set()
        for option in options:
            index = int(option.block.batch.rows[option.member])
            nodes = {*option.nodes, int(self.state.pnode[index]), int(self.state.snode[index])} - {NOWHERE}
            if not nodes & touched:
                touched |= nodes
                settling.settle(self.state, option.block.trial(*option[2:]))
                moved.append(index)
            if len(moved) == AT_ONCE:
                break
        self.near[:] = False
        if moved:
            rows = np.array(sorted(touched))
            self.near[rows] = True
            self.space.facts.refresh(rows)
            self._look()
        return moved

    def _look(self) -> None:
        """Compute the score and the costs of the present places, and keep places that none beats."""
        state = self.state
        self.baseline = self.space.baseline()
        self.score = self.baseline.score
        costs = self.homes.costs(np.arange(len(state.pnode)), state.pnode, state.snode)
        self.total = Costs(*(float(figures.sum()) for figures in costs))
        if not any(self.total.charge >= each.costs.charge and self.score >= each.score for each in self.best):
            visit = Visit(self.score, self.total, state.pnode.copy(), state.snode.copy())
            self.best, self.idle = unbeaten([*self.best, visit]), 0
