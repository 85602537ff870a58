"""The rules and costs of the challenge in plain loops; they judge what the search finds.

Nothing here is shared with the search, and nothing is incremental.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench.roadef.problem import Problem


class Costs(NamedTuple):
    """The costs of an assignment, with their weights."""

    load: int
    balance: int
    process_moves: int
    service_moves: int
    machine_moves: int

    @property
    def total(self) -> int:
        """What the challenge minimises."""
        return sum(self)


def costs(problem: Problem, assignment: Sequence[int]) -> Costs:
    """Compute the costs of an assignment."""
    used, load, balance = _used(problem, assignment), 0, 0
    for machine, usage in zip(problem.machines, used, strict=True):
        for resource, amount, safe in zip(problem.resources, usage, machine.safety_capacity, strict=True):
            load += resource.load_weight * max(0, amount - safe)
        free = [capacity - amount for capacity, amount in zip(machine.capacity, usage, strict=True)]
        for each in problem.balances:
            balance += each.weight * max(0, each.target * free[each.first] - free[each.second])
    moved, process_moves, machine_moves = Counter[int](), 0, 0
    for process, old, new in zip(problem.processes, problem.initial, assignment, strict=True):
        machine_moves += problem.machines[old].move_costs[new]
        if new != old:
            process_moves += process.move_cost
            moved[process.service] += 1
    weights = problem.weights
    return Costs(
        load,
        balance,
        weights.process * process_moves,
        weights.service * max(moved.values(), default=0),
        weights.machine * machine_moves,
    )


def violations(problem: Problem, assignment: Sequence[int]) -> Iterator[str]:
    """Yield what breaks the rules, in words."""
    used = _used(problem, assignment)
    for process, old, new in zip(problem.processes, problem.initial, assignment, strict=True):
        for number, resource in enumerate(problem.resources):
            if resource.transient and new != old:
                used[old][number] += process.requirement[number]
    for number, (machine, usage) in enumerate(zip(problem.machines, used, strict=True)):
        for which, (amount, capacity) in enumerate(zip(usage, machine.capacity, strict=True)):
            if amount > capacity:
                yield f"machine {number}: {amount} of resource {which} exceed {capacity}"
    machines, neighbourhoods = defaultdict[int, list[int]](list), defaultdict[int, set[int]](set)
    for process, new in zip(problem.processes, assignment, strict=True):
        machines[process.service].append(new)
        neighbourhoods[process.service].add(problem.machines[new].neighbourhood)
    for number, service in enumerate(problem.services):
        for machine_number, count in Counter(machines[number]).items():
            if count > 1:
                yield f"service {number}: {count} processes on machine {machine_number}"
        locations = {problem.machines[each].location for each in machines[number]}
        if len(locations) < service.spread:
            yield f"service {number}: {len(locations)} locations instead of {service.spread}"
        for other in service.needs:
            for neighbourhood in sorted(neighbourhoods[number] - neighbourhoods[other]):
                yield f"service {number}: service {other} is not in neighbourhood {neighbourhood}"


def _used(problem: Problem, assignment: Sequence[int]) -> list[list[int]]:
    """Compute what processes use (by machine and resource)."""
    used = [[0] * len(problem.resources) for _ in problem.machines]
    for process, machine in zip(problem.processes, assignment, strict=True):
        for number, amount in enumerate(process.requirement):
            used[machine][number] += amount
    return used
