"""The limits and costs of the challenge as data: what the search knows of a problem.

The sums of amounts on a machine are kept by columns. What a sum exceeds zero counts with a weight: as a cost
where usage exceeds the safety capacity or a balance its target, as a violation where it exceeds the capacity.
Machines form groups: single machines, locations, neighbourhoods. A service has at most one process in each of
the first, some in at least ``spread`` of the second, and in each of the third only beside what it ``needs``.
"""

from typing import NamedTuple

import numpy as np

from bench.roadef.problem import Problem
from ganeti_htools.model.columns import Floats, Ints


class Terms(NamedTuple):
    """Limits and costs. P processes, M machines, C columns of sums, S services."""

    home: Ints  # P: the machines that processes have at first
    service: Ints  # P
    added: Floats  # P by C: what a process adds to its machine
    transient: Floats  # P by C: the part of it that stays at home when the process leaves
    base: Floats  # M by C: the sums of empty machines
    weights: Floats  # 2 by C: of costs, of violations
    process_cost: Ints  # P: of leaving home
    machine_cost: Ints  # M by M
    service_cost: int  # for each process that the service with most moves has moved
    location: Ints  # M
    neighbourhood: Ints  # M
    spread: Ints  # S
    needs: list[list[int]]  # S
    needed_by: list[list[int]]  # S


def terms_of(problem: Problem) -> Terms:
    """Declare the limits and costs of a problem."""
    processes, machines, resources = problem.processes, problem.machines, problem.resources
    amounts = np.array([each.requirement for each in processes], np.float64)
    capacity = np.array([each.capacity for each in machines], np.float64)
    safety = np.array([each.safety_capacity for each in machines], np.float64)
    first, second, target, weight = np.array(problem.balances, np.int64).reshape(-1, 4).T
    # A balance: target * (capacity - usage) of the first less (capacity - usage) of the second.
    added = [amounts, amounts[:, second] - target * amounts[:, first], amounts]
    base = [-safety, target * capacity[:, first] - capacity[:, second], -capacity]
    transient = [np.zeros((len(processes), len(resources) + len(weight)))]
    transient.append(amounts * [each.transient for each in resources])
    costs = np.append([each.load_weight for each in resources], weight).astype(np.float64)
    limits = np.ones(len(resources))
    needs = [sorted({*each.needs} - {number}) for number, each in enumerate(problem.services)]
    needed_by = [list[int]() for _ in problem.services]
    for number, others in enumerate(needs):
        for other in others:
            needed_by[other].append(number)
    return Terms(
        home=np.array(problem.initial, np.int64),
        service=np.array([each.service for each in processes], np.int64),
        added=np.concatenate(added, axis=1),
        transient=np.concatenate(transient, axis=1),
        base=np.concatenate(base, axis=1),
        weights=np.stack([np.append(costs, 0 * limits), np.append(0 * costs, limits)]),
        process_cost=problem.weights.process * np.array([each.move_cost for each in processes], np.int64),
        machine_cost=problem.weights.machine * np.array([each.move_costs for each in machines], np.int64),
        service_cost=problem.weights.service,
        location=_numbered([each.location for each in machines]),
        neighbourhood=_numbered([each.neighbourhood for each in machines]),
        spread=np.array([each.spread for each in problem.services], np.int64),
        needs=needs,
        needed_by=needed_by,
    )


def _numbered(names: list[int]) -> Ints:
    """Number groups from 0 on, by the order of their names."""
    return np.unique(np.array(names, np.int64), return_inverse=True)[1]
