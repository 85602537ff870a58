"""A machine reassignment problem, as the challenge's files have it. All figures are whole numbers.

Source: "Google ROADEF/EURO challenge 2011-2012: Machine Reassignment".
"""

from collections.abc import Sequence
from typing import NamedTuple


class Resource(NamedTuple):
    """A resource. Processes that move use a ``transient`` one on both machines."""

    transient: bool
    load_weight: int


class Machine(NamedTuple):
    """A machine; amounts are by resource, ``move_costs`` by the machine to which a process moves."""

    neighbourhood: int
    location: int
    capacity: Sequence[int]
    safety_capacity: Sequence[int]
    move_costs: Sequence[int]


class Service(NamedTuple):
    """A service runs in at least ``spread`` locations, and only in neighbourhoods of those it needs."""

    spread: int
    needs: Sequence[int]


class Process(NamedTuple):
    """A process of a service; it needs so much of each resource."""

    service: int
    requirement: Sequence[int]
    move_cost: int


class Balance(NamedTuple):
    """For each free unit of the first resource, ``target`` units of the second one should be free."""

    first: int
    second: int
    target: int
    weight: int


class Weights(NamedTuple):
    """The weights of costs of moves."""

    process: int
    service: int
    machine: int


class Problem(NamedTuple):
    """All of a model file, and the machines that processes have at first (by process)."""

    resources: Sequence[Resource]
    machines: Sequence[Machine]
    services: Sequence[Service]
    processes: Sequence[Process]
    balances: Sequence[Balance]
    weights: Weights
    initial: Sequence[int]
