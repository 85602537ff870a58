"""Moves and exchanges of processes, thousands rated at once: what the strategies ask of the problem."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bench.roadef.placement import Placement
from ganeti_htools.model.columns import Bools, Floats, Ints

FIRST, FEWEST, MOST = 512, 64, 4096  # exchanges in a rating
CHANGE, MADE = 1.1, (0.12, 0.24)  # the number changes unless so many are made, for each machine
SHIFTS, HOME = 0.3, 0.05  # the part of them that moves one process only, and the part that moves one home
USUAL = 0.1  # the usual loss, for each unit of an average process
NEAR, OTHERS = 48, 16  # processes in a step of the tabu search
PLACES = 1 << 15  # and places


class Exchanges(NamedTuple):
    """Exchanges: a process goes to a machine, and another one from there to where the first was, or none.

    No process has the number after the last one.
    """

    one: Ints
    two: Ints
    machine: Ints

    def take(self, which: Ints | Bools) -> "Exchanges":
        """Select some."""
        return Exchanges(self.one[which], self.two[which], self.machine[which])


class Rated:
    """Exchanges with their ``changes`` of the cost plus price on violations."""

    def __init__(self, placement: Placement, found: Exchanges, price: float) -> None:
        self.placement, self.found, self.made = placement, found, 0
        self.changes = changes(placement, found, price)
        self.usual = USUAL * placement.process_size

    def nodes(self, which: int) -> set[int]:
        """Return the machines that an exchange touches."""
        return {int(self.placement.at[self.found.one[which]]), int(self.found.machine[which])}

    def make(self, which: int) -> None:
        """Make an exchange.

        Its change is as rated while nothing else has moved to or from its machines, and no process of its
        services, of those they need, or of those that need them. Annealing ensures only the first.
        """
        placement, one, two = self.placement, int(self.found.one[which]), int(self.found.two[which])
        here = int(placement.at[one])
        placement.move(one, int(self.found.machine[which]))
        if two < len(placement.at):
            placement.move(two, here)
        self.made += 1


class ProcessExchanges:
    """Exchanges at random, for annealing at one noise.

    Exchanges of a rating touch different machines: the fewer are good enough, the more are rated.
    """

    cold = 1.0
    best_first = False  # by far worse where machines are nearly full

    def __init__(self, placement: Placement, ratings: int) -> None:
        self.visits, self.ratings, self.number = placement, ratings, (MOST, MOST)
        self.rated = float(FIRST)
        self.last: Rated | None = None

    def begin(self) -> None:
        """Begin a round."""

    def end(self) -> None:
        """End a round: visit its last places."""
        self.visits.keep()

    def propose(self, random: np.random.RandomState, number: int, price: float) -> Rated:
        """Propose up to so many exchanges."""
        self.visits.keep()
        at, number = self.visits.at, min(number, self._enough())
        one, two = random.randint(len(at), size=(2, number))
        shifts = int(SHIFTS * number)
        machine = at[two]
        machine[:shifts] = random.randint(len(self.visits.sums), size=shifts)
        two[:shifts] = len(at)
        machine[: int(HOME * number)] = self.visits.home[one[: int(HOME * number)]]
        self.last = Rated(self.visits, Exchanges(one, two, machine), price)
        return self.last

    def _enough(self) -> int:
        """Compute how many exchanges to rate, by how many of the last rating were made."""
        if self.last:
            few, many = (part * len(self.visits.sums) for part in MADE)
            factor = CHANGE if self.last.made < few else 1 / CHANGE if self.last.made > many else 1.0
            self.rated = min(MOST, max(FEWEST, self.rated * factor))
        return int(self.rated)


class ProcessMove(NamedTuple):
    """The best other machine of a process, and the cost there."""

    value: float
    instance: int
    nodes: tuple[int, int]


class ProcessMoves:
    """Moves of single processes to all machines, for the tabu search."""

    def __init__(self, placement: Placement) -> None:
        self.visits = placement
        self.size = len(placement.at), len(placement.sums)
        self.movable = np.arange(self.size[0])
        part = min(1.0, PLACES / (NEAR + OTHERS) / self.size[1])
        self.number = max(1, int(part * NEAR)), max(1, int(part * OTHERS))

    def on(self, rows: Ints, nodes: Bools) -> Bools:
        """Mark the processes on marked machines."""
        marked: Bools = nodes[self.visits.at[rows]]
        return marked

    def best(self, rows: Ints, price: float) -> list[ProcessMove]:
        """Find the best other machine of each of some processes; the best first."""
        processes, machines = self.size
        one = np.repeat(rows, machines)
        rated = Rated(
            self.visits,
            Exchanges(one, np.full(len(one), processes), np.tile(np.arange(machines), len(rows))),
            price,
        )
        first, score = dict[int, ProcessMove](), self.visits.score
        order = np.argsort(rated.changes, kind="stable")
        for process, machine, change in zip(
            rated.found.one[order].tolist(),
            rated.found.machine[order].tolist(),
            rated.changes[order].tolist(),
            strict=True,
        ):
            if process not in first and change < np.inf:
                nodes = int(self.visits.at[process]), machine
                first[process] = ProcessMove(score + change, process, nodes)
        return list(first.values())

    def make(self, moves: Sequence[ProcessMove]) -> None:
        """Make moves that touch different machines, one after the other."""
        for move in moves:
            self.visits.move(move.instance, move.nodes[1])
        self.visits.keep()


def changes(placement: Placement, found: Exchanges, price: float) -> Floats:
    """Compute the changes of the cost plus a price on violations.

    Where one service of an exchange needs the other one, its violations are as of two separate moves.
    """
    one, two, there = found
    terms, here = placement.terms, placement.at.take(one)
    weights = terms.weights[0] + price * terms.weights[1]
    net = placement.added.take(one, axis=0)
    net -= placement.added.take(two, axis=0)
    come = placement.sums.take(there, axis=0)
    come += net
    left = placement.sums.take(here, axis=0)
    left -= net
    ways = np.zeros(len(one))
    misplaced, alike = (
        np.zeros(len(one), np.int64),
        placement.service.take(one) == placement.service.take(two),
    )
    moved = list[Ints]()
    for process, old, new, leaves, comes in ((one, here, there, left, come), (two, there, here, come, left)):
        home, real = placement.home.take(process), process < len(placement.at)
        returns, goes = np.flatnonzero((home == new) & real), np.flatnonzero((home == old) & real)
        comes[returns] -= placement.transient[process[returns]]
        leaves[goes] += placement.transient[process[goes]]
        away = np.zeros(len(one), np.int64)
        away[returns] -= 1
        away[goes] += 1
        ways += away * placement.process_cost.take(process)
        ways += real * (terms.machine_cost[home, new] - terms.machine_cost[home, old])
        moved.append(away)
        misplaced += ~alike * _misplaced(placement, placement.service.take(process), old, new)
    figures = np.array([1.0, price]) @ placement.figures
    result: Floats = np.maximum(come, 0, out=come) @ weights + np.maximum(left, 0, out=left) @ weights
    result -= figures.take(there) + figures.take(here)
    result += ways + terms.service_cost * _more_moved(placement, found, moved)
    result += price * placement.unit * misplaced
    return np.where(here == there, np.inf, result)


def _misplaced(placement: Placement, service: Ints, old: Ints, new: Ints) -> Ints:
    """Compute how many violations a process of a service adds if it moves."""
    terms = placement.terms
    found: Ints = (placement.on[service, new] > 0).astype(np.int64) - (placement.on[service, old] > 1)
    was, then = terms.location.take(old), terms.location.take(new)
    lost = (placement.within[service, was] == 1) & (was != then)
    won = (placement.within[service, then] == 0) & (was != then)
    short = placement.spread.take(service) - placement.locations.take(service)
    found += np.maximum(short + lost - won, 0) - np.maximum(short, 0)
    was, then = terms.neighbourhood.take(old), terms.neighbourhood.take(new)
    other = was != then
    found += (other & (placement.near[service, then] == 0)) * placement.lack[service, then]
    found -= (other & (placement.near[service, was] == 1)) * placement.lack[service, was]
    return found


def _more_moved(placement: Placement, found: Exchanges, away: list[Ints]) -> Ints:
    """Compute by how much the largest number of moved processes of a service changes."""
    first, second = placement.service[found.one], placement.service[found.two]
    alike = first == second
    counts = np.maximum(
        placement.moved[first] + away[0] + alike * away[1],
        placement.moved[second] + away[1] + alike * away[0],
    )
    largest = np.argsort(-placement.moved, kind="stable")[:3].tolist()
    others = np.full(len(first), 0)
    for service in reversed(largest):
        others = np.where((first != service) & (second != service), placement.moved[service], others)
    more: Ints = np.maximum(counts, others) - placement.moved.max()
    return more
