"""The search of final places, by score plus a price on the copying of the ways there, and plans to them.

A tabu search and simulated annealing take turns, each from its own places. The tabu search finds exchanges
where single moves lose much, annealing finds more where many small exchanges help. The price falls and rises:
a low price leads to even clusters, a high price to those that copy little.
"""

import itertools
import math
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from operator import itemgetter
from typing import Protocol

import numpy as np

from ganeti_htools.engine.balancing.balance import allowed, candidates, score_of
from ganeti_htools.engine.balancing.baseline import Baseline
from ganeti_htools.engine.balancing.place_exchanges import PlaceExchanges, PricedExchanges
from ganeti_htools.engine.balancing.place_scores import PlaceMove, PlaceMoves
from ganeti_htools.engine.balancing.replay import Replay
from ganeti_htools.engine.balancing.scoring import SearchSpace, exact
from ganeti_htools.engine.balancing.visits import Visit, Visits, unbeaten
from ganeti_htools.engine.balancing.way_costs import Costs, Homes, weights_of
from ganeti_htools.engine.balancing.ways import NodePair, exchanged_goals, first_moves, goals_of
from ganeti_htools.engine.moving.traffic import bandwidths
from ganeti_htools.engine.rules.batches import Batch
from ganeti_htools.engine.rules.relocate import try_move
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.moves import Move
from ganeti_htools.model.options import BalancingOptions, CopyingOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate


class SearchPatience(Protocol):
    """Decides whether to go on. Equal answers lead to equal plans."""

    def searches(self, score: float) -> bool:
        """Whether the search, with this present score, makes one more step."""

    def plans(self) -> bool:
        """Whether one more plan is made, or tried in another order; the question comes right before it."""


COLD = 0.03  # the noise falls to this part of the first one
FEWEST_RATED, MOST_RATED = 32, 256  # exchanges in a rating
SCARCE = 2  # good exchanges; after fewer the next rating is twice as large


class Annealing:
    """Simulated annealing of exchanges that lower the score plus a price (Kirkpatrick et al. 1983).

    It changes the state of the visits. Many exchanges at random are rated at once. Those that gain are made,
    and others that lose little by a noise that falls. Exchanges made after one rating touch different nodes.
    Each exchange changes the worth of others, so fewer are rated while many are good enough.
    """

    def __init__(self, exchanges: PlaceExchanges) -> None:
        self.exchanges, self.visits = exchanges, exchanges.visits
        self.random = np.random.RandomState(0)  # its numbers are the same in all versions

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
        noise, rated = 0.0, FEWEST_RATED
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
                rated = max(FEWEST_RATED, rated // 2)
            elif len(chosen) < SCARCE:
                rated = min(MOST_RATED, 2 * rated)
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


# Steps for which a moved instance stays, at least; a varying number breaks cycles.
STAY, VARIATION = 8, 5


class TabuSearch:
    """A tabu search (Glover 1989) of places that lower the score plus a price.

    It changes the state of the visits. Each step makes the best move, even if that loses. Instances that have
    just moved stay, so the next steps answer the move instead of taking it back. An exchange of instances
    consists of such a move and its answer. A step looks at all places of the instances on the nodes of the
    last move, and of a few others.
    """

    def __init__(self, moves: PlaceMoves) -> None:
        self.moves, self.visits, self.movable = moves, moves.visits, moves.movable
        size, nodes = moves.size
        self.until, self.stay = np.zeros(size, np.int64), min(STAY, len(self.movable) // 3)
        self.near = np.zeros(nodes + 1, np.bool_)  # nodes of the last moves
        self.random = np.random.RandomState(0)  # its numbers are the same in all versions
        self.clock = 0

    def step(self, price: float) -> None:
        """Make the best move of an instance that need not stay, and others that gain on other nodes."""
        visits = self.visits
        free = self.movable[self.until[self.movable] <= self.clock]
        rows = (free[self.moves.on(free, self.near)], free)
        chosen = [
            self.random.permutation(some)[:most] for some, most in zip(rows, self.moves.number, strict=True)
        ]
        moves = self.moves.best(np.unique(np.concatenate(chosen)), price)
        self.clock += 1
        visits.idle += 1
        gaining = [move for move in moves if move.value < visits.score]
        self.near[:] = False
        made = list(self._apart(gaining or moves[:1]))
        if made:
            self.until[[move.instance for move in made]] = self.clock + self.stay + self.clock % VARIATION
            self.moves.make(made)

    def _apart(self, moves: Sequence[PlaceMove]) -> Iterator[PlaceMove]:
        """Yield moves in order, a few, each on nodes that no other touches, and note the nodes."""
        number = 0
        for move in moves:
            nodes = list(move.nodes)
            if number < self.visits.at_once and not self.near[nodes].any():
                self.near[nodes] = True
                number += 1
                yield move


STEPS, LONGEST = 4, 8  # steps at each price in the first round, doubled until the longest one
LENGTHIEST = 1 / 8  # rounds of annealing grow as well: at most this length, for each instance
HOT = (1.0, 0.3, 0.1)  # noise of annealing, by rounds
# Usually a search ends after so many steps for each instance, or so many in all, without anything better.
PATIENCE, FEWEST = 16, 64
RATINGS = 8  # ratings of annealing that count as a step; a step of the tabu search takes about as long


def wander(
    tabu: TabuSearch, annealing: Annealing, prices: Sequence[float], going: Callable[[float], bool]
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


# The price of a search that looks at copying only where scores are equal.
FREE = sys.float_info.min
# At a low price, copying as much as the usual plan costs this part of the usual plan's score.
NEGLIGIBLE = 0.02
ATTEMPTS = 4  # orders in which a plan is tried


class PlacePlans:
    """A search of final places within the options, and plans that lead to places."""

    def __init__(
        self,
        state: State,
        scope: Bools,
        options: BalancingOptions,
        copying: CopyingOptions,
        movable: Bools | None,
    ) -> None:
        concerned = candidates(state, scope, movable)
        if options.evacuation:
            offline = state.columns.offline
            concerned &= offline[state.pnode] | ((state.snode != NOWHERE) & offline[state.snode])
        self.state, self.scope, self.options, self.concerned = state, scope, options, concerned
        # Instances that may leave offline nodes may go to any other node.
        self.anywhere = replace(options, evacuation=False)
        self.home = Replay(state, scope, self.anywhere, concerned)
        self.homes = Homes(state, weights_of(copying), _reachable(self.home))
        self.limits = _limits(state, copying, options)
        self.ranks = dict[tuple[int, NodePair], tuple[bool, float]]()

    def plans(
        self,
        begun: Sequence[Move],
        prices: Sequence[float],
        patience: SearchPatience,
        choose: Callable[[list[Visit]], Iterable[Visit]],
    ) -> Iterator[tuple[Visit, Replay]]:
        """Search places from where some steps end, and yield places with plans that lead there.

        The most even places get a plan before the search and after each round, which also shows how long one
        takes. At last come those that ``choose`` yields of the places that none beats (the cheapest first).
        """

        def start() -> tuple[Visits, Sequence[Batch]]:
            replay = Replay(self.state, self.scope, self.anywhere, self.concerned)
            for step in begun:
                replay.remake(step)
            space = SearchSpace.of(replay.facts, self.scope, self.options.ignore_soft_errors)
            return Visits(space, self.homes, self.limits), replay.batches

        tabu, annealing = TabuSearch(PlaceMoves(*start())), Annealing(PlaceExchanges(*start()))

        def promising() -> Iterator[Visit]:
            found = tabu.visits.best
            yield from found
            for found in wander(tabu, annealing, prices, patience.searches):
                yield from found[-1:]
            yield from choose(found)

        made = list[Visit]()
        for visit in promising():
            if not any(visit is each for each in made) and patience.plans():
                made.append(visit)
                yield visit, self.replay(visit, patience)

    def replay(self, visit: Visit, patience: SearchPatience) -> Replay:
        """Make a plan to places. Instances that could not go there go first in another attempt."""
        goals = exchanged_goals(self.state, self.home.batches, goals_of(self.state, visit))
        order = sorted(goals, key=lambda index: (self._rank(index, goals[index]), index))
        attempts = list[tuple[int, Replay]]()
        while True:
            replay, stuck = self._attempt(order, goals)
            attempts.append((len(stuck), replay))
            if not stuck or len(attempts) == ATTEMPTS or not patience.plans():
                break
            order = [*stuck, *(index for index in order if index not in stuck)]
        return min(attempts, key=itemgetter(0))[1]

    def _attempt(self, order: list[int], goals: Mapping[int, NodePair]) -> tuple[Replay, list[int]]:
        """Make a plan, and return the instances that stay. Those that cannot go directly sidestep once."""
        replay = Replay(self.state, self.scope, self.options, self.concerned)
        stuck, tried = replay.lead_all(order, goals), set[int]()
        while waiting := [index for index in stuck if index not in tried]:
            tried.add(waiting[0])
            if replay.sidestep(waiting[0], goals[waiting[0]]):
                stuck = replay.lead_all(stuck, goals)
        return replay, stuck

    @cached_property
    def _before(self) -> tuple[SearchSpace, Baseline, float]:
        space = SearchSpace.of(self.home.facts, self.scope, self.options.ignore_soft_errors)
        return space, space.baseline(), score_of(self.state, self.scope)

    def _rank(self, index: int, goal: NodePair) -> tuple[bool, float]:
        """Order ways by the gain of the first move alone for what the way copies, the best first."""
        if (index, goal) not in self.ranks:
            self.ranks[index, goal] = self._rated(index, goal)
        return self.ranks[index, goal]

    def _rated(self, index: int, goal: NodePair) -> tuple[bool, float]:
        home, (space, baseline, score) = self.home, self._before
        kind, node = first_moves(home.state, home.place(index), goal)[0]
        trial = try_move(home.facts, *home.member[index], kind, node, self.options.ignore_soft_errors)
        gain = score - float(exact(space, baseline, trial)[0][0])
        cost = max(float(self.homes.charge(*(np.array([each]) for each in (index, *goal)))[0]), FREE)
        return not gain > 0, -(gain / cost if gain > 0 else gain)


def _reachable(home: Replay) -> Bools:
    """Find the places that the options allow (instances by roles of primary and secondary at home)."""
    found = np.zeros((len(home.state.pnode), 3, 3), np.bool_)
    found[:, 0, 1] = True
    for batch in home.batches:
        mirrored, state = batch.asked.mirrored, home.state
        place = 0, 1 if mirrored else NOWHERE  # any two nodes stand for the home's, two more for others
        for primary, secondary in itertools.product(range(3), range(3)):
            goal = primary, (secondary, secondary, 3)[secondary] if mirrored else NOWHERE
            moves = first_moves(state, place, goal) if goal != place else []
            may = [allowed(home.facts, batch, kind, home.options) for kind, _ in moves]
            found[batch.rows, primary, secondary] = np.any(may, axis=0) if may else True
    return found


def _limits(state: State, copying: CopyingOptions, options: BalancingOptions) -> Costs:
    """Return the limits of a search of places. Time is limited by what the fastest network copies."""
    speeds = bandwidths(state, 0)
    fastest = [speeds.max(), *(copying.speed(each.value) for each in DiskTemplate if not speeds.all())]
    by_time = copying.max_time * float(max(fastest)) / 8
    copies = [limit for limit in (copying.max_copy, by_time) if limit >= 0]
    moves = [limit for limit in (copying.max_moves, options.max_length) if limit >= 0]
    return Costs(min(copies, default=math.inf), math.inf, min(moves, default=math.inf))
