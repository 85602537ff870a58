"""One request decided on one state."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ganeti_htools.engine.allocation import allocate, exclusive_storage
from ganeti_htools.engine.allocation.allocate import Outcome, Solution
from ganeti_htools.engine.allocation.evacuate import Evacuation, change_group, evacuate_nodes, relocate
from ganeti_htools.engine.allocation.options import Options
from ganeti_htools.engine.allocation.wording import outcome_line, solution_line
from ganeti_htools.engine.explaining.shortage import explain
from ganeti_htools.engine.redundancy.global_n1 import Unmirrored, assess
from ganeti_htools.engine.rules import affinity, choice, settling
from ganeti_htools.engine.rules.score import Statistics
from ganeti_htools.model import request as wanted
from ganeti_htools.model.columns import NOWHERE, Ints
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.state import Asked, State
from ganeti_htools.model.types import DiskTemplate


@dataclass(frozen=True, slots=True)
class Placed:
    """Where one new instance goes, in words too; ``nodes`` are rows, none if it finds no place.

    ``metric`` is what the place was chosen by: the score of the cluster, or lost allocations.
    """

    instance: str
    nodes: tuple[int, ...]
    info: str
    metric: float | tuple[tuple[int, ...], int] | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided, and the state it leads to.

    ``result`` is a list of places for allocations (with ``single`` just one was asked for), or an
    evacuation.
    """

    result: tuple[Placed, ...] | Evacuation
    state: State


def decide(state: State, request: wanted.Request, options: Options) -> Decision:
    """Decide. Raises RequestFailed with the reason, as Ganeti's administrator is to read it."""
    indices = {row.name: index for index, row in enumerate(state.cluster.instances)}
    match request:
        case wanted.Allocate(placement):
            options = restricted(request, options)
            state = state.copy()
            placed = _place(state, placement, options, is_dedicated(state, request))
            if not placed.nodes:
                raise RequestFailed(placed.info)
            return Decision((placed,), state)
        case wanted.MultiAllocate(placements):
            state = state.copy()
            special = is_dedicated(state, request)
            return Decision(tuple(_place(state, each, options, special) for each in placements), state)
        case wanted.AllocateSecondary(name):
            return _secondary(state, indices[name], options)
        case wanted.Relocate(name, count, leaving):
            rows = [state.nodes[node] for node in leaving]
            moved = relocate(state, indices[name], count, rows, options)
        case wanted.NodeEvacuate(names, mode):
            moved = evacuate_nodes(state, [indices[name] for name in names], mode, options)
        case wanted.ChangeGroup(names, uuids):
            rows = [group_row(state, uuid) for uuid in uuids]
            moved = change_group(state, [indices[name] for name in names], rows, options)
    return Decision(moved, moved.state)


def restricted(request: wanted.Allocate, options: Options) -> Options:
    """The options with the nodes that the request allows, unless they say which."""
    return options if options.restrict_to is not None else replace(options, restrict_to=request.restrict_to)


def is_dedicated(state: State, request: wanted.Request) -> bool:
    """Whether new instances are placed by lost allocations: all nodes concerned have exclusive storage."""
    match request:
        case wanted.Allocate(placement, _):
            return exclusive_storage.is_dedicated(state, placement.group)
        case wanted.MultiAllocate(placements):
            groups = {each.group for each in placements if each.group is not None}
            return exclusive_storage.is_dedicated(state, groups.pop() if len(groups) == 1 else None)
        case _:
            return False


def _place(state: State, placement: wanted.Placement, options: Options, special: bool) -> Placed:
    """Place a new instance, in place. Raises RequestFailed where no group can be tried."""
    asked = state.ask(placement.instance)
    if placement.group is not None:
        group = group_row(state, placement.group)
        if special:
            outcome = Outcome(
                group, exclusive_storage.in_group(state, asked, placement.count, group, options)
            )
        else:
            outcome = allocate.in_group(state, asked, placement.count, group, options)
        info = outcome_line(state, outcome, asked.row.name)
        if not outcome.solution or not outcome.solution.trial:
            info += _why(state, asked, placement.count, [outcome], options)
        return _settle(state, asked, outcome.solution, info)
    find = exclusive_storage.in_best_group if special else allocate.in_best_group
    best, outcomes = find(state, asked, placement.count, options)
    lines = [outcome_line(state, outcome, asked.row.name) for outcome in outcomes]
    if best is None:
        raise RequestFailed(", ".join(lines) + _why(state, asked, placement.count, outcomes, options))
    chosen = f"Selected group: {state.cluster.groups[best.group].name}"
    return _settle(state, asked, best.solution, ", ".join([chosen, *lines]))


def _why(
    state: State,
    asked: Asked,
    count: int,
    outcomes: Sequence[Outcome],
    options: Options,
    primary: int = NOWHERE,
) -> str:
    remark = explain(state, asked, count, outcomes, options, primary)
    return f"; {remark}" if remark else ""


def group_row(state: State, name: str) -> int:
    """The row of the group with that name or UUID. Raises RequestFailed."""
    for row, group in enumerate(state.cluster.groups):
        if name in (group.name, group.uuid):
            return row
    raise RequestFailed(f"Couldn't find group with name or UUID {name}")


def _settle(state: State, asked: Asked, solution: Solution | None, info: str) -> Placed:
    if solution is None or solution.trial is None:
        return Placed(asked.row.name, (), info)
    settling.settle(state, solution.trial)
    return Placed(asked.row.name, solution.nodes, info, solution.metric)


@dataclass(frozen=True, slots=True)
class Mirroring:
    """An instance taken off a state to be placed anew as mirrored, with its ``primary`` (row) as it is.

    ``targets`` are the rows of possible secondaries, ``base`` the statistics without it.
    """

    state: State
    asked: Asked
    primary: int
    targets: Ints
    base: Statistics
    redundancy: Unmirrored | None


def mirroring(state: State, index: int, options: Options) -> Mirroring:
    """An instance that has no secondary and is to get one in its group. Raises RequestFailed if it has."""
    if state.snode[index] != NOWHERE:
        raise RequestFailed("Instance already has a secondary")
    primary = int(state.pnode[index])
    everyone = np.ones(len(state.group), np.bool_)
    redundancy = Unmirrored(assess(state, everyone, options)) if options.capacity else None
    state = settling.taken_off(state, index)
    asked = state.ask(replace(state.cluster.instances[index], template=DiskTemplate.DRBD))
    targets = np.flatnonzero(state.group == state.group[primary])
    targets = targets[targets != primary]
    base = choice.base(state, everyone, affinity.crowding(state, everyone))
    return Mirroring(state, asked, primary, targets, base, redundancy)


def _secondary(state: State, index: int, options: Options) -> Decision:
    """A secondary for an instance that has none and is to become mirrored, in its group."""
    found = mirroring(state, index, options)
    state, asked, primary = found.state, found.asked, found.primary
    solution = allocate.on_pairs(
        state, asked, np.array([primary]), found.targets, found.base, options, found.redundancy
    )
    info = solution_line(state, solution)
    if solution.trial is None:
        outcome = Outcome(int(state.group[primary]), solution)
        raise RequestFailed(info + _why(state, asked, 2, [outcome], options, primary))
    settling.settle(state, replace(solution.trial, asked=replace(asked, index=index)))
    return Decision((Placed(asked.row.name, solution.nodes[1:], info, solution.metric),), state)
