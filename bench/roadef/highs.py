"""The challenge, or a part of it, as a mixed-integer program for HiGHS (``highspy``).

Some processes are free to go to some machines. All others stay: what they do is constant.
"""

from typing import Any, NamedTuple

import highspy
import numpy as np

from bench.roadef.placement import Placement
from bench.roadef.problem import Problem
from bench.roadef.terms import terms_of
from ganeti_htools.model.columns import Ints


class Solved(NamedTuple):
    """The least cost that HiGHS has found, the lower bound that it has proved, and the machines.

    ``proved``: no other assignment costs less.
    """

    cost: float
    bound: float
    assignment: Ints
    proved: bool


def solve(problem: Problem, seconds: float) -> Solved:
    """Solve a small problem. Within the time, cost and bound may differ."""
    terms = terms_of(problem)
    processes, machines = np.arange(len(terms.home)), np.arange(len(terms.base))
    return solve_part(Placement(terms, terms.home), processes, machines, seconds, gap=0.0)


def solve_part(placement: Placement, free: Ints, machines: Ints, seconds: float, gap: float) -> Solved:
    """Find the best of some machines for free processes, which are on some of these machines.

    The placement breaks no rule. The assignment is of the free processes. The cost has no part of what stays.
    """
    program, highs = _Program(placement, free, machines), highspy.Highs()
    options = {"output_flag": False, "threads": 1, "time_limit": seconds, "mip_rel_gap": gap}
    for name, value in options.items():
        highs.setOptionValue(name, value)
    highs.passModel(program.model())
    size, present = program.places.size, placement.at[free][:, None] == machines
    highs.setSolution(size, np.arange(size, dtype=np.int32), present.ravel().astype(np.float64))
    highs.run()
    info, solution = highs.getInfo(), highs.getSolution()
    # The time may end before HiGHS has read the present places.
    values = np.array(solution.col_value)[:size].reshape(present.shape) if solution.value_valid else present
    found = machines[values.argmax(axis=1)]
    proved = highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return Solved(info.objective_function_value, info.mip_dual_bound, found, proved)


class _Program:
    """The program: a binary variable for each free process on each machine, and continuous ones for costs."""

    def __init__(self, placement: Placement, free: Ints, machines: Ints) -> None:
        self.terms, self.free, self.machines = placement.terms, free, machines
        self.costs, self.most, self.entries, self.limits = [list[Any]() for _ in range(4)]
        self.width = self.height = 0
        terms, at, home = self.terms, placement.at[free], self.terms.home[free]
        self.service, self.stays = terms.service[free], home[:, None] == machines
        self.services, self.which = np.unique(self.service, return_inverse=True)
        # What the others use, and what free processes use at home when they are elsewhere.
        self.sums, returned = placement.sums.copy(), at == home
        np.subtract.at(self.sums, at, terms.added[free])
        np.add.at(self.sums, at[returned], terms.transient[free[returned]])
        self.on, self.within, self.near, self.moved = (
            each.copy() for each in (placement.on, placement.within, placement.near, placement.moved)
        )
        np.subtract.at(self.on, (self.service, at), 1)
        np.subtract.at(self.within, (self.service, terms.location[at]), 1)
        np.subtract.at(self.near, (self.service, terms.neighbourhood[at]), 1)
        np.subtract.at(self.moved, self.service[~returned], 1)
        self.added = terms.added[free][:, None] - self.stays[..., None] * terms.transient[free][:, None]
        limited = terms.weights[1] > 0
        room = (self.sums[machines][:, limited] + self.added[..., limited] <= 0).all(axis=2)
        ways = terms.machine_cost[home][:, machines] + terms.process_cost[free][:, None] * ~self.stays
        possible = room & (self.on[self.service][:, machines] == 0)
        self.places = self._variables(ways.ravel(), possible.ravel()).reshape(possible.shape)
        self._rows(1, 1, (self.places, 1))
        self._sums()
        self._moved()
        for number, service in enumerate(self.services.tolist()):
            own = self.places[self.which == number]
            if len(own) > 1:
                self._rows(-np.inf, 1, (own.T, 1))
            self._locations(service, own)
        self._needs()

    def _sums(self) -> None:
        """Add the limits and costs of sums on machines."""
        for column, (cost, limit) in enumerate(self.terms.weights.T.tolist()):
            room = -self.sums[self.machines, column]
            blocks = [(self.places.T, self.added[..., column].T)]
            if not limit:
                blocks.append((self._variables(np.full(len(room), cost), np.inf), np.array(-1)))
            if cost or limit:
                self._rows(-np.inf, room, *blocks)

    def _moved(self) -> None:
        """Add the cost of the service that has moved most."""
        most = self._variables(np.array([self.terms.service_cost]), np.inf)
        self._rows(self.moved.max(), np.inf, (most, 1))
        for number, service in enumerate(self.services):
            own = self.which == number
            at_home = self.places[own][self.stays[own]]
            self._rows(self.moved[service] + own.sum(), np.inf, (np.append(at_home, most)[None], 1))

    def _locations(self, service: int, own: Ints) -> None:
        """Add the locations that a service needs beside those of its processes that stay."""
        taken = self.within[service] > 0
        if (missing := self.terms.spread[service] - taken.sum()) > 0:
            location = self.terms.location[self.machines]
            others = np.setdiff1d(location, np.flatnonzero(taken))
            present = self._variables(np.zeros(len(others)), 1)
            for name, variable in zip(others, present, strict=True):
                self._rows(0, np.inf, (own[:, location == name].reshape(1, -1), 1), (variable[None], -1))
            self._rows(missing, np.inf, (present[None], 1))

    def _needs(self) -> None:
        """Let each service be only in neighbourhoods of those that it needs."""
        terms, free = self.terms, self.services.tolist()
        pairs = {(one, other) for one in free for other in terms.needs[one]}
        pairs |= {(one, other) for other in free for one in terms.needed_by[other]}
        groups = terms.neighbourhood[self.machines]
        for one, other in sorted(pairs):
            for group in np.unique(groups[self.near[other, groups] == 0]):
                here, there = (self.places[self.service == each][:, groups == group] for each in (one, other))
                if self.near[one, group]:
                    self._rows(1, np.inf, (there.reshape(1, -1), 1))
                elif here.size:
                    others = np.broadcast_to(there.ravel(), (len(here), there.size))
                    self._rows(0, np.inf, (others, 1), (here, -1))

    def _variables(self, costs: Any, most: Any) -> Ints:
        """Add variables from zero on; returns their numbers."""
        self.costs.append(costs)
        self.most.append(np.broadcast_to(most, len(costs)))
        self.width += len(costs)
        return np.arange(self.width - len(costs), self.width)

    def _rows(self, low: Any, high: Any, *blocks: tuple[Ints, Any]) -> None:
        """Add rows: limits of the sums of variables (rows by terms) times their factors."""
        size = len(blocks[0][0])
        for columns, factors in blocks:
            columns = columns.reshape(size, -1)
            rows = np.arange(self.height, self.height + size)[:, None]
            self.entries.append([each.ravel() for each in np.broadcast_arrays(rows, columns, factors)])
        self.limits.append(np.broadcast_arrays(low, high, np.zeros(size))[:2])
        self.height += size

    def model(self) -> highspy.HighsLp:
        """Write the program as HiGHS reads it."""
        row, column, factor = map(np.concatenate, zip(*self.entries, strict=True))
        order = np.argsort(row, kind="stable")
        order = order[factor[order] != 0]
        low, high = map(np.concatenate, zip(*self.limits, strict=True))
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = self.width, self.height
        model.col_cost_ = np.concatenate(self.costs).astype(np.float64)
        model.col_lower_ = np.zeros(self.width)
        model.col_upper_ = np.concatenate(self.most).astype(np.float64)
        model.row_lower_, model.row_upper_ = low.astype(np.float64), high.astype(np.float64)
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.searchsorted(row[order], np.arange(self.height + 1)).astype(np.int32)
        model.a_matrix_.index_ = column[order].astype(np.int32)
        model.a_matrix_.value_ = factor[order].astype(np.float64)
        binary, other = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
        size = self.places.size
        model.integrality_ = [binary] * size + [other] * (self.width - size)
        return model
