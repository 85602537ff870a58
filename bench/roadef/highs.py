"""The challenge as a mixed-integer program, for HiGHS (``highspy``): what it finds and what it proves."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import highspy
import numpy as np

from bench.roadef.problem import Problem


class Solved(NamedTuple):
    """The least cost that HiGHS has found, the lower bound that it has proved, and the machines."""

    cost: float
    bound: float
    assignment: list[int]


def solve(problem: Problem, seconds: float) -> Solved:
    """Solve a small problem. Within the time, cost and bound may differ."""
    model = _Model(problem)
    model.highs.setOptionValue("time_limit", seconds)
    model.highs.setOptionValue("mip_rel_gap", 0.0)
    model.highs.run()
    info, values = model.highs.getInfo(), np.array(model.highs.getSolution().col_value)
    places = values[: model.places].reshape(len(problem.processes), -1)
    return Solved(info.objective_function_value, info.mip_dual_bound, places.argmax(axis=1).tolist())


class _Model:
    """The program: a binary variable for each process on each machine, and continuous ones for costs."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.highs = problem, highspy.Highs()
        self.highs.setOptionValue("output_flag", False)
        self.width, self.number = len(problem.machines), 0
        self.places = len(problem.processes) * self.width
        home, weights = problem.initial, problem.weights
        costs = [
            weights.machine * problem.machines[home[number]].move_costs[machine]
            + weights.process * process.move_cost * (machine != home[number])
            for number, process in enumerate(problem.processes)
            for machine in range(self.width)
        ]
        self._variables(costs, 1.0, integer=True)
        for number in range(len(problem.processes)):
            self._row(1, 1, [(self._at(number, machine), 1) for machine in range(self.width)])
        self._machines()
        self._services()

    def _at(self, process: int, machine: int) -> int:
        return process * self.width + machine

    def _machines(self) -> None:
        """Add capacities, costs of load, and costs of balance."""
        problem, processes = self.problem, list(enumerate(self.problem.processes))
        for number, machine in enumerate(problem.machines):
            for which, resource in enumerate(problem.resources):
                usage = [(self._at(each, number), process.requirement[which]) for each, process in processes]
                stays = [
                    amount for (_, amount), home in zip(usage, problem.initial, strict=True) if home == number
                ]
                limit, held = machine.capacity[which], sum(stays)
                come = [pair for pair, home in zip(usage, problem.initial, strict=True) if home != number]
                if resource.transient:
                    self._row(-np.inf, limit - held, come)
                else:
                    self._row(-np.inf, limit, usage)
                over = self._variables([resource.load_weight], np.inf)
                self._row(-np.inf, machine.safety_capacity[which], [*usage, (over, -1)])
            for balance in problem.balances:
                first, second = balance.first, balance.second
                usage = [
                    (
                        self._at(each, number),
                        process.requirement[second] - balance.target * process.requirement[first],
                    )
                    for each, process in processes
                ]
                over = self._variables([balance.weight], np.inf)
                limit = machine.capacity[second] - balance.target * machine.capacity[first]
                self._row(-np.inf, limit, [*usage, (over, -1)])

    def _services(self) -> None:
        """Add the rules of services, and the cost of the service that has moved most."""
        problem = self.problem
        most = self._variables([problem.weights.service], np.inf)
        members = [list[int]() for _ in problem.services]
        for each, process in enumerate(problem.processes):
            members[process.service].append(each)
        groups = [
            [[at for at, each in enumerate(problem.machines) if key(each) == name] for name in names]
            for key in (attrgetter("location"), attrgetter("neighbourhood"))
            for names in [sorted({key(each) for each in problem.machines})]
        ]
        for number, (own, service) in enumerate(zip(members, problem.services, strict=True)):
            stay = [(self._at(each, problem.initial[each]), 1) for each in own]
            self._row(len(own), np.inf, [*stay, (most, 1)])
            for machine in range(self.width):
                self._row(-np.inf, 1, [(self._at(each, machine), 1) for each in own])
            if service.spread > 1:
                first = self._variables([0.0] * len(groups[0]), 1.0)
                for offset, location in enumerate(groups[0]):
                    some = [(self._at(each, machine), 1) for each in own for machine in location]
                    self._row(0, np.inf, [*some, (first + offset, -1)])
                self._row(service.spread, np.inf, [(first + at, 1) for at in range(len(groups[0]))])
            for other in set(service.needs) - {number}:
                for neighbourhood in groups[1]:
                    there = [
                        (self._at(each, machine), 1) for each in members[other] for machine in neighbourhood
                    ]
                    for each in own:
                        here = [(self._at(each, machine), -1) for machine in neighbourhood]
                        self._row(0, np.inf, [*there, *here])

    def _variables(self, costs: Sequence[float], most: float, integer: bool = False) -> int:
        """Add variables from zero on; returns the number of the first."""
        first, size = self.number, len(costs)
        self.highs.addVars(size, np.zeros(size), np.full(size, min(most, highspy.kHighsInf)))
        columns = np.arange(first, first + size, dtype=np.int32)
        self.highs.changeColsCost(size, columns, np.array(costs, np.float64))
        if integer:
            kinds = np.full(size, highspy.HighsVarType.kInteger)
            self.highs.changeColsIntegrality(size, columns, kinds)
        self.number += size
        return first

    def _row(self, low: float, high: float, entries: Sequence[tuple[int, float]]) -> None:
        used: list[Any] = [entry for entry in entries if entry[1]]
        columns = np.array([column for column, _ in used], np.int32)
        self.highs.addRow(low, high, len(used), columns, np.array([value for _, value in used], np.float64))
