"""Problems from a seed, after the challenge's description of its own.

Processes are put on machines first, as many as the rules of services allow. The capacities follow from what
they use, so the first assignment keeps to all limits; a service depends on others that are beside it already.
"""

import random
from collections import defaultdict
from typing import NamedTuple

from bench.roadef.problem import Balance, Machine, Problem, Process, Resource, Service, Weights

FULL, SAFE = (0.6, 0.98), 0.82  # parts of the capacity: in use at first, safe
LARGEST = 40_000  # the amounts of processes are between 1 and this, most of them small


class Size(NamedTuple):
    """The size of a problem. The last resource is transient. Services have room for one process a machine."""

    machines: int
    processes: int
    services: int
    resources: int = 3
    neighbourhoods: int = 3
    locations: int = 4
    dependencies: int = 5
    balances: int = 1


def generated(seed: int, size: Size) -> Problem:
    """Generate a problem."""
    rng, initial = random.Random(seed), list[int]()
    machines = range(size.machines)
    location = [number % size.locations for number in machines]
    neighbourhood = [number % size.neighbourhoods for number in machines]
    taken, processes = defaultdict[int, list[int]](list), list[Process]()
    for number in range(size.processes):
        service = number if number < size.services else rng.randrange(size.services)
        while len(taken[service]) == size.machines:
            service = (service + 1) % size.services
        machine = rng.choice([each for each in machines if each not in taken[service]])
        taken[service].append(machine)
        initial.append(machine)
        requirement = [int(LARGEST ** rng.random()) for _ in range(size.resources)]
        processes.append(Process(service, requirement, rng.choice((1, 1, 1, 10, 100))))
    used = [[0] * size.resources for _ in machines]
    for process, machine in zip(processes, initial, strict=True):
        for resource, amount in enumerate(process.requirement):
            used[machine][resource] += amount
    capacities = [[int((1 + amount) / rng.uniform(*FULL)) for amount in usage] for usage in used]
    near = [{neighbourhood[machine] for machine in taken[service]} for service in range(size.services)]
    pairs = [(one, two) for one in range(size.services) for two in range(size.services) if one != two]
    needs = defaultdict[int, list[int]](list)
    possible = [(one, two) for one, two in pairs if near[one] <= near[two]]
    for one, two in rng.sample(possible, min(size.dependencies, len(possible))):
        needs[one].append(two)
    return Problem(
        [Resource(number == size.resources - 1, 10) for number in range(size.resources)],
        [
            Machine(
                neighbourhood[number], location[number], capacities[number],
                [int(SAFE * amount) for amount in capacities[number]],
                [0 if other == number else rng.choice((1, 2, 5)) for other in machines],
            )
            for number in machines
        ],
        [
            Service(rng.randint(0, len({location[machine] for machine in taken[number]})), needs[number])
            for number in range(size.services)
        ],
        processes,
        [
            Balance(first, second, rng.randint(1, 2), 10)
            for first, second in (rng.sample(range(size.resources), 2) for _ in range(size.balances))
        ],
        Weights(1, 10, 100),
        initial,
    )  # fmt: skip
