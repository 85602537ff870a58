"""Machines emptied and refilled: the best places of some processes, all others staying, by HiGHS.

Half of the machines are those with the highest costs, by chance, the others any. All their processes are free
to go to each of them, or only a part of the processes, mostly large ones, on more machines. The number of
processes follows from what HiGHS finishes in time. The time grows when nothing is found.
"""

import time

import numpy as np

from bench.roadef.highs import solve_part
from bench.roadef.placement import Placement
from ganeti_htools.model.columns import Floats, Ints

SHARES = 1.0, 0.3, 0.1  # of the processes on the machines
FIRST, FEWEST = 30, 8  # processes: in the first part, in any
GROWTH = 1.1  # of the number after a part proved best in half of its time; a part without proof lowers it
SECONDS, LONGEST = 0.2, 3.0  # the time of a part: at first, and at most
IDLE = 40  # parts without a gain, after which the time doubles
GAP = 1e-4  # between the cost and the bound of a part


class Refill:
    """The search. It changes a placement that breaks no rule; the cost never rises."""

    def __init__(self, placement: Placement, seed: int = 0) -> None:
        self.visits, self.random = placement, np.random.RandomState(seed)
        limited = placement.terms.weights[1] > 0
        capacity = -placement.terms.base[:, limited].mean(axis=0)
        self.bulk: Floats = (placement.terms.added[:, limited] / np.maximum(capacity, 1)).sum(axis=1)
        self.sizes, self.seconds, self.idle = dict.fromkeys(SHARES, float(FIRST)), SECONDS, 0

    def step(self) -> None:
        """Find the best places of a part of the processes."""
        share, score = SHARES[self.random.randint(len(SHARES))], self.visits.score
        free, machines = self.choose(share, int(self.sizes[share]))
        if not len(free):
            return
        began, present = time.monotonic(), self.visits.at[free]
        solved = solve_part(self.visits, free, machines, self.seconds, GAP)
        self._move(free, solved.assignment)
        if self.visits.violation or self.visits.score > score:  # HiGHS has tolerances
            self._move(free, present)
        self.visits.keep()
        if not solved.proved:
            self.sizes[share] = max(FEWEST, self.sizes[share] / GROWTH)
        elif time.monotonic() - began < self.seconds / 2:
            self.sizes[share] = min(len(self.bulk), self.sizes[share] * GROWTH)
        self.idle = self.idle + 1 if self.visits.score == score else 0
        if self.idle == IDLE:
            self.seconds, self.idle = min(LONGEST, 2 * self.seconds), 0

    def _move(self, processes: Ints, machines: Ints) -> None:
        """Move processes to machines."""
        for process, machine in zip(processes.tolist(), machines.tolist(), strict=True):
            if machine != self.visits.at[process]:
                self.visits.move(process, machine)

    def choose(self, share: float, size: int) -> tuple[Ints, Ints]:
        """Choose up to so many processes, a share of those on some machines; returns both."""
        at, costs, random = self.visits.at, self.visits.figures[0], self.random
        number = len(costs)
        order = np.stack([np.argsort(-costs * random.random_sample(number)), random.permutation(number)], 1)
        order = order.ravel()[np.sort(np.unique(order, return_index=True)[1])]
        counts = np.cumsum(np.bincount(at, minlength=number)[order])
        machines = np.sort(order[: max(2, np.searchsorted(share * counts, size, "right"))])
        marked = np.zeros(number, np.bool_)
        marked[machines] = True
        rows = np.flatnonzero(marked[at])
        chosen = np.argsort(-self.bulk[rows] * random.random_sample(len(rows)))[:size]
        return np.sort(rows[chosen]), machines
