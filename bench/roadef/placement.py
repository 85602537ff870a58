"""The present machines of processes, with all that limits and costs ask of them, kept up to date."""

import numpy as np

from bench.roadef.terms import Terms
from ganeti_htools.engine.balancing.visits import Visit
from ganeti_htools.engine.balancing.way_costs import Costs
from ganeti_htools.model.columns import NOWHERE, Floats, Ints

MISPLACED = 0.001


class Placement:
    """An assignment, which may violate limits: what the search visits. It keeps the best that does not.

    The violations of services are numbers: processes beside another one of their service, locations that are
    missing, and services that are missing in a neighbourhood of one that needs them. Each counts as one
    ``unit``, at first a small part of an average process that finds no room. The last row of services is an
    empty one, that of the empty process in the last row of processes.
    """

    def __init__(self, terms: Terms, assignment: Ints) -> None:
        self.terms, self.at = terms, terms.home.copy()
        services, machines = len(terms.spread), len(terms.base)
        self.service, self.home = np.append(terms.service, services), np.append(terms.home, 0)
        self.process_cost, self.spread = np.append(terms.process_cost, 0), np.append(terms.spread, 0)
        self._service, self._home = terms.service.tolist(), terms.home.tolist()
        self._groups = list(zip(terms.location.tolist(), terms.neighbourhood.tolist(), strict=True))
        self._figures: Floats | None = None
        empty = np.zeros((1, len(terms.base[0])))
        self.added, self.transient = np.append(terms.added, empty, 0), np.append(terms.transient, empty, 0)
        self.process_size = float(terms.added.mean(axis=0) @ terms.weights[1])  # its amounts
        self.unit = MISPLACED * self.process_size
        self.sums = terms.base.copy()
        np.add.at(self.sums, self.at, terms.added)
        self.moved = np.zeros(services + 1, np.int64)  # processes away from home
        self.way_cost = int(terms.machine_cost[self.at, self.at].sum())
        self.on = np.zeros((services + 1, machines), np.int64)
        self.within = np.zeros((services + 1, 1 + int(terms.location.max())), np.int64)
        self.near = np.zeros((services + 1, 1 + int(terms.neighbourhood.max())), np.int64)
        np.add.at(self.on, (terms.service, self.at), 1)
        np.add.at(self.within, (terms.service, terms.location[self.at]), 1)
        np.add.at(self.near, (terms.service, terms.neighbourhood[self.at]), 1)
        # Services that one lacks in a neighbourhood, less those there that need it.
        self.lack = np.zeros_like(self.near)
        for service, (needs, needed_by) in enumerate(zip(terms.needs, terms.needed_by, strict=True)):
            self.lack[service] = (self.near[needs] == 0).sum(axis=0) - (self.near[needed_by] > 0).sum(axis=0)
        self.locations = (self.within > 0).sum(axis=1)
        self.misplaced = 0
        for process in np.flatnonzero(assignment != self.at).tolist():
            self.move(process, int(assignment[process]))
        self.idle, self.at_once, self.best = 0, machines, list[Visit]()
        self.keep()

    @property
    def score(self) -> float:
        """The cost of the assignment."""
        moved = self.terms.service_cost * int(self.moved.max())
        return float(self.figures[0].sum()) + self.way_cost + moved

    @property
    def figures(self) -> Floats:
        """Costs and violations by machine."""
        if self._figures is None:
            self._figures = self.terms.weights @ np.maximum(self.sums, 0).T
        return self._figures

    @property
    def violation(self) -> float:
        """By how much it violates limits."""
        return float(self.figures[1].sum()) + self.unit * self.misplaced

    def keep(self) -> None:
        """Keep the present machines if they keep to the limits, and cost less than the best visited ones."""
        if self.violation:
            return
        score = self.score
        if not self.best or score < self.best[0].score:
            nobody = np.full(len(self.at), NOWHERE)
            self.best, self.idle = [Visit(score, Costs(0, 0, 0), self.at.copy(), nobody)], 0

    def move(self, process: int, new: int) -> None:
        """Move a process to a machine."""
        self._go(process, int(self.at[process]), -1)
        self._go(process, new, 1)
        self.at[process] = new

    def _go(self, process: int, machine: int, sign: int) -> None:
        """Let a process come to a machine (1) or leave it (-1)."""
        terms, service, home = self.terms, self._service[process], self._home[process]
        self._figures = None
        row = self.sums[machine]
        row += sign * self.added[process]
        if machine == home:
            row -= sign * self.transient[process]
        else:
            self.moved[service] += sign
            self.way_cost += sign * int(self.process_cost[process])
        self.way_cost += sign * int(terms.machine_cost[home, machine])
        first = 0 if sign > 0 else 1  # a count before the first one comes, or the last one leaves
        if self.on[service, machine] != first:
            self.misplaced += sign
        self.on[service, machine] += sign
        location, group = self._groups[machine]
        if self.within[service, location] == first:
            self.misplaced -= sign * bool(self.locations[service] < self.spread[service] + first)
            self.locations[service] += sign
        self.within[service, location] += sign
        if self.near[service, group] == first:
            self.misplaced += sign * int(self.lack[service, group])
            for others in (terms.needed_by[service], terms.needs[service]):
                if others:
                    self.lack[others, group] -= sign
        self.near[service, group] += sign
