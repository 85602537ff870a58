"""Moving instances off nodes and out of groups, one after the other, each to the best place then.

The rules are those of ``hail(1)`` (node evacuation, group change, relocation): targets are the online
nodes of a group that are not to be emptied themselves; scores are those of the target group.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ganeti_htools.engine.allocation.allocate import in_best_group
from ganeti_htools.engine.allocation.options import Options
from ganeti_htools.engine.allocation.reporter import SILENT, Reporter
from ganeti_htools.engine.allocation.solution import GroupOutcome
from ganeti_htools.engine.allocation.wording import outcome_line
from ganeti_htools.engine.rules import affinity, choice, placements, settling
from ganeti_htools.engine.rules.move_kinds import Operation
from ganeti_htools.engine.rules.node_rules import FAIL, FITS, Codes
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.state import Asked, State
from ganeti_htools.model.types import EvacMode, Mirror


@dataclass(frozen=True, slots=True)
class Step:
    """An operation on the way of an instance; ``node`` is the row of the new node, if it takes one."""

    operation: Operation
    node: int = NOWHERE


@dataclass(frozen=True, slots=True)
class Moved:
    """An instance that found a place: rows of itself, its group and nodes, and how it gets there."""

    instance: int
    group: int
    nodes: tuple[int, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Evacuation:
    """What moves, in order; what does not, and why; and the state afterwards."""

    moved: tuple[Moved, ...]
    failed: tuple[tuple[int, str], ...]
    state: State


def evacuate_nodes(
    state: State, instances: Sequence[int], mode: EvacMode, options: Options, reporter: Reporter = SILENT
) -> Evacuation:
    """Move each instance off its primary, its secondary or both, within its group."""
    state, emptied = state.copy(), _emptied(state, instances, mode)

    def move(index: int) -> list[Step]:
        asked, group = state.instance(index), int(state.group[state.pnode[index]])
        usable = (state.group == group) & ~emptied & ~state.columns.offline
        usable[state.pnode[index]] = False
        reporter.starting(state, asked, state.group == group)
        return evacuate(state, asked, mode, group, np.flatnonzero(usable), options, reporter)

    return _one_by_one(state, instances, move, reporter)


def _emptied(state: State, instances: Sequence[int], mode: EvacMode) -> Bools:
    """The nodes that some of the instances are to leave."""
    emptied = np.zeros(len(state.group), np.bool_)
    for index in instances:
        if mode is not EvacMode.SECONDARY:
            emptied[state.pnode[index]] = True
        if mode is not EvacMode.PRIMARY and state.instance(index).mirrored and state.snode[index] != NOWHERE:
            emptied[state.snode[index]] = True
    return emptied


def _one_by_one(
    state: State, instances: Sequence[int], move: Callable[[int], list[Step]], reporter: Reporter
) -> Evacuation:
    """Each instance moved, in place; ``move`` tells the steps or raises RequestFailed."""
    moved, failed = [], []
    for index in instances:
        try:
            steps = move(index)
        except RequestFailed as failure:
            reporter.failed(str(failure))
            failed.append((index, str(failure)))
        else:
            moved.append(_moved(state, index, steps))
            reporter.placed(moved[-1].nodes)
    return Evacuation(tuple(moved), tuple(failed), state)


def change_group(
    state: State,
    instances: Sequence[int],
    targets: Sequence[int],
    options: Options,
    reporter: Reporter = SILENT,
) -> Evacuation:
    """Move each instance to the best of the target groups, of all others if none are given.

    What is reported are the places of a new instance like it, by which the group is chosen.
    """
    left = {int(state.group[state.pnode[index]]) for index in instances}
    allowed = [group for group in (targets or range(len(state.cluster.groups))) if group not in left]
    state = state.copy()

    def move(index: int) -> list[Step]:
        asked = state.instance(index)
        count = asked.row.template.required_nodes
        best, outcomes = in_best_group(state, asked, count, options, allowed, reporter)
        if best is None:
            raise RequestFailed(_no_group(state, asked, allowed, outcomes))
        usable = (state.group == best.group) & ~state.columns.offline
        return evacuate(state, asked, EvacMode.ALL, best.group, np.flatnonzero(usable), Options())

    return _one_by_one(state, instances, move, reporter)


def _no_group(state: State, asked: Asked, allowed: Sequence[int], outcomes: Sequence[GroupOutcome]) -> str:
    if outcomes:
        return ", ".join(outcome_line(state, outcome, asked.row.name) for outcome in outcomes)
    names = [state.cluster.groups[group].name for group in allowed]
    return f"no groups for evacuation: allowed groups was {names}"


def relocate(
    state: State,
    index: int,
    count: int,
    leaving: Sequence[int],
    options: Options,
    reporter: Reporter = SILENT,
) -> Evacuation:
    """Move one instance off the one node named: its secondary if mirrored, else its primary."""
    mode = _relocation_mode(state, index, count, leaving)
    result = evacuate_nodes(state, [index], mode, options, reporter)
    if result.failed:
        raise RequestFailed(result.failed[0][1])
    return result


def _relocation_mode(state: State, index: int, count: int, leaving: Sequence[int]) -> EvacMode:
    """What the one node named is to an instance. Raises RequestFailed if it is not the one to leave."""
    if count != 1:
        raise RequestFailed(f"Exchange {count} nodes mode is not implemented")
    mirror = state.cluster.instances[index].template.mirror
    if mirror is Mirror.NONE:
        raise RequestFailed("Can't relocate non-mirrored instances")
    internal = mirror is Mirror.INTERNAL
    expected = int(state.snode[index] if internal else state.pnode[index])
    if list(leaving) != [expected]:
        role, names = "secondary" if internal else "primary", ", ".join(state.names(leaving)) or "none"
        own = "none" if expected == NOWHERE else state.names([expected])[0]
        raise RequestFailed(
            f"Unsupported request: excluded nodes not equal to instance's {role}({own} versus {names})"
        )
    return EvacMode.SECONDARY if internal else EvacMode.PRIMARY


def _moved(state: State, index: int, steps: list[Step]) -> Moved:
    nodes = [int(state.pnode[index])]
    if state.instance(index).mirrored:
        nodes.append(int(state.snode[index]))
    return Moved(index, int(state.group[nodes[0]]), tuple(nodes), tuple(steps))


def evacuate(
    state: State,
    asked: Asked,
    mode: EvacMode,
    group: int,
    targets: Ints,
    options: Options,
    reporter: Reporter = SILENT,
) -> list[Step]:
    """Move one instance, in place; the steps. Raises RequestFailed if it cannot."""
    operation = _way(state, asked, mode)
    if operation is Operation.FAILOVER:
        _failover(state, asked, options, reporter)
        return [Step(Operation.FAILOVER)]
    reporter.trying(group, targets)
    if operation is None:
        return _both_nodes(state, asked, group, targets, options, reporter)
    return _one_node(state, asked, operation, group, targets, options, reporter)


def _way(state: State, asked: Asked, mode: EvacMode) -> Operation | None:
    """How an instance moves, None if it leaves both its nodes. Raises RequestFailed if it cannot."""
    template = asked.row.template
    if not asked.mirrored:
        if template.mirror is Mirror.NONE:
            raise RequestFailed(f"Instances of type {template.value} cannot be relocated")
        if mode is EvacMode.SECONDARY:
            raise RequestFailed(
                f"Instances with disk template '{template.value}' can't execute change secondary"
            )
        return Operation.FAILOVER_TO
    if state.snode[asked.index] == NOWHERE:
        raise RequestFailed("Instance has no secondary node")
    if mode is EvacMode.PRIMARY:
        return Operation.FAILOVER
    return Operation.REPLACE_SECONDARY if mode is EvacMode.SECONDARY else None


def _failover(state: State, asked: Asked, options: Options, reporter: Reporter = SILENT) -> None:
    trial = placements.failover(state, asked, np.ones(len(state.group), np.bool_), options.ignore_soft_errors)
    reporter.judged(trial.pnode, trial)
    if trial.codes[0] != FITS:
        raise RequestFailed(FAIL[int(trial.codes[0])].value)
    settling.settle(state, trial)


def _one_node(
    state: State,
    asked: Asked,
    operation: Operation,
    group: int,
    targets: Ints,
    options: Options,
    reporter: Reporter,
) -> list[Step]:
    scope, force = state.group == group, options.ignore_soft_errors
    if not len(targets):
        raise RequestFailed("Can't find any good node: ")
    if operation is Operation.FAILOVER_TO:
        trial = placements.failover_to(state, asked, targets, scope, force)
    else:
        trial = placements.replace_secondary(state, asked, targets, force)
    reporter.judged(targets, trial)
    chosen = choice.best(state, trial, scope, affinity.crowding(state, scope))
    if chosen is None:
        reasons = [
            f" Node {name} failed: {FAIL[code].value};"
            for name, code in zip(state.names(targets.tolist()), trial.codes.tolist(), strict=True)
        ]
        raise RequestFailed("Can't find any good node: " + "".join(reasons))
    settling.settle(state, trial.only(chosen))
    return [Step(operation, int(targets[chosen]))]


def _both_nodes(
    state: State, asked: Asked, group: int, targets: Ints, options: Options, reporter: Reporter
) -> list[Step]:
    """Both nodes of a mirrored instance changed; only the better of all pairs is carried out."""
    scope, steps, trying = state.group == group, [], state
    prefix = "Can't find any good nodes for relocation: "
    if len(targets) < 2:
        reporter.rejecting(targets, "no other node")
        raise RequestFailed(prefix + "no nodes available")
    if state.columns.offline[state.pnode[asked.index]]:
        trying = state.copy()
        try:
            _failover(trying, asked, options)
        except RequestFailed as failure:
            reporter.rejecting(targets, "its secondary cannot take over")
            reason = f"Allocation failed: Failing over to the secondary: {failure}"
            raise RequestFailed(prefix + reason) from None
        steps.append(Step(Operation.FAILOVER))
    trial, codes = placements.move_pairs(trying, asked, targets, scope, options.ignore_soft_errors)
    reporter.judged_exchanges(trying, targets, trial)
    apart = targets[:, np.newaxis] != targets
    pair = _best_pair(trying, trial, apart, scope, asked, targets, options)
    if pair is None:
        raise RequestFailed(f"{prefix}Allocation failed: {_last_reason(codes, apart)}")
    steps += _exchange(*pair)
    for step in steps:
        _carry_out(state, asked, step, options)
    return steps


def _exchange(primary: int, secondary: int) -> list[Step]:
    return [
        Step(Operation.REPLACE_SECONDARY, primary),
        Step(Operation.FAILOVER),
        Step(Operation.REPLACE_SECONDARY, secondary),
    ]


def _carry_out(state: State, asked: Asked, step: Step, options: Options) -> None:
    scope, force = np.ones(len(state.group), np.bool_), options.ignore_soft_errors
    if step.operation is Operation.FAILOVER:
        settling.settle(state, placements.failover(state, asked, scope, force))
    else:
        settling.settle(state, placements.replace_secondary(state, asked, np.array([step.node]), force))


def _best_pair(
    state: State, trial: Trial, apart: Bools, scope: Bools, asked: Asked, targets: Ints, options: Options
) -> tuple[int, int] | None:
    """Rows of the pair that leaves the group's nodes with the lowest score; of near ties see choice."""
    fits = np.flatnonzero(((trial.codes == FITS) & apart).ravel())
    if not len(fits):
        return None
    crowding = affinity.crowding(state, scope)
    before = choice.base(state, scope, crowding)
    scores = choice.restricted(trial, scope).scores(before).ravel()[fits]
    near = fits[choice.near_best(scores) if before.rated else [-1]].tolist()
    pairs = [(int(targets[pair // len(targets)]), int(targets[pair % len(targets)])) for pair in near]
    if len(pairs) == 1:
        return pairs[0]
    fresh = []
    for new_primary, new_secondary in pairs:
        tried = state.copy()
        for step in _exchange(new_primary, new_secondary):
            _carry_out(tried, asked, step, options)
        fresh.append(float(choice.base(tried, scope, affinity.crowding(tried, scope)).score()))
    return pairs[int(np.flatnonzero(np.array(fresh) == min(fresh))[-1])]


STEP_NAMES = (
    "Changing secondary to new primary",
    "Failing over to new primary",
    "Changing secondary to final secondary",
)


def _last_reason(codes: Sequence[Codes], apart: Bools) -> str:
    """Why the last of all pairs failed, and at which step."""
    p, s = np.argwhere(apart)[-1]
    for name, code in zip(STEP_NAMES, codes, strict=True):
        reason = int(np.broadcast_to(code, apart.shape)[p, s])
        if reason != FITS:
            return f"{name}: {FAIL[reason].value}"
    raise AssertionError("a pair without reason against it was not chosen")
