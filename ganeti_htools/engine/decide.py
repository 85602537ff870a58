"""Decision of one request on one state."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ganeti_htools.engine.allocation import allocate
from ganeti_htools.engine.allocation.evacuate import Evacuation, change_group, evacuate_nodes, relocate_off
from ganeti_htools.engine.allocation.exclusive_storage import is_dedicated
from ganeti_htools.engine.allocation.pairs import on_pairs
from ganeti_htools.engine.allocation.reporter import SILENT, Reporter
from ganeti_htools.engine.allocation.shortage import explain
from ganeti_htools.engine.allocation.solution import GroupOutcome, Metric
from ganeti_htools.engine.allocation.wording import outcome_line, solution_line
from ganeti_htools.engine.redundancy.assessment import assess, excusing
from ganeti_htools.engine.redundancy.checks import SecondaryCheck
from ganeti_htools.engine.rules import choice, settling
from ganeti_htools.engine.rules.pools import NO_POOLS, PoolRoom, full_pool, pool_room
from ganeti_htools.model import request as wanted
from ganeti_htools.model import tags
from ganeti_htools.model.cluster import Cluster, Instance, template_not_enabled
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.resource_classes import no_node_has
from ganeti_htools.model.state import RequestedInstance, State


@dataclass(frozen=True, slots=True)
class PlacedInstance:
    """The place of one new instance, also in words; ``nodes`` are rows, empty without a place.

    ``metric`` is the minimised figure: the score of the cluster, or lost allocations. ``ranked`` are the
    places in all groups that can take the instance, the best first, which is the chosen one.
    """

    instance: str
    nodes: tuple[int, ...]
    info: str
    metric: float | Metric | None = None
    ranked: tuple[GroupOutcome, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of a request, and the state afterwards.

    ``result`` has a place for each instance of an allocation, or is an evacuation.
    """

    result: tuple[PlacedInstance, ...] | Evacuation
    state: State


def decide(
    state: State, request: wanted.Request, options: PlacementOptions, reporter: Reporter = SILENT
) -> Decision:
    """Decide a request; the reporter gets what is judged.

    An allocation of an existing instance with its disks keeps to its group: Ganeti recreates them, and has
    locks of this group's nodes only (``LUInstanceRecreateDisks``).

    Raises RequestFailed with the reason for Ganeti's administrator.
    """
    indices = state.rows_by_name()
    match request:
        case wanted.Allocate(placement):
            if options.restrict_to is None:
                options = replace(options, restrict_to=request.restrict_to)
            there = indices.get(placement.instance.name)
            if placement.group is None and there is not None:
                row = state.cluster.instances[there]
                if (row.template, row.dsk) == (placement.instance.template, placement.instance.dsk):
                    group = state.cluster.groups[int(state.group[state.pnode[there]])]
                    placement = replace(placement, group=group.uuid)
            pools, state = pool_room(state), state.copy()
            placed = place_instance(state, placement, options, is_dedicated(state, request), reporter, pools)
            if not placed.nodes:
                raise RequestFailed(placed.info)
            return Decision((placed,), state)
        case wanted.MultiAllocate(placements):
            pools, state = pool_room(state), state.copy()
            dedicated = is_dedicated(state, request)
            places = tuple(
                place_instance(state, each, options, dedicated, reporter, pools) for each in placements
            )
            return Decision(places, state)
        case wanted.AllocateSecondary(name):
            return _secondary(state, indices[name], options, reporter)
        case wanted.Relocate(name, count, leaving):
            rows = [state.nodes[node] for node in leaving]
            moved = relocate_off(state, indices[name], count, rows, options, reporter)
        case wanted.NodeEvacuate(names, mode):
            evacuate = evacuate_nodes
            if options.inter_group:
                from ganeti_htools.engine.groups.evacuation import evacuate_over_groups  # rarely needed

                evacuate = evacuate_over_groups
            moved = evacuate(state, [indices[name] for name in names], mode, options, reporter)
        case wanted.ChangeGroup(names, uuids):
            rows = [_group_row(state, uuid) for uuid in uuids]
            moved = change_group(state, [indices[name] for name in names], rows, options, reporter)
    return Decision(moved, moved.state)


def place_instance(
    state: State,
    placement: wanted.Placement,
    options: PlacementOptions,
    dedicated: bool = False,
    reporter: Reporter = SILENT,
    pools: PoolRoom = NO_POOLS,
    remarks: bool = True,
) -> PlacedInstance:
    """Place a new instance, in place: by score, or by lost allocations if all nodes are ``dedicated``.

    ``pools`` are the pools' free space before the request. With ``remarks`` refusals name what is missing.
    Raises RequestFailed if no group can be tried.
    """
    asked, count = state.requested_instance(placement.instance), placement.count
    if placement.group is not None:
        groups: Sequence[int] = [_group_row(state, placement.group)]
    else:
        groups = range(len(state.cluster.groups))
    made, left = [state.with_disk_defaults(group, asked) for group in groups], pools.free_after(state)
    alike = len({each.row for each in made}) == 1
    if alike:
        asked = made[0]
    full = [full_pool(left, state, each.row) for each in made]
    refusal = refused_everywhere(state, asked.row)
    if refusal is None and full and all(full):
        refusal = f"No valid allocation solutions, most missing: {full[0]}"
    if refusal is not None:
        reporter.starting(state, asked, state.everywhere, not dedicated)
        if placement.group is None:
            raise RequestFailed(refusal)
        return _settled(state, asked, None, refusal, reporter)
    if placement.group is not None:
        outcome = allocate.in_group(state, asked, count, groups[0], options, reporter, dedicated)
        info = outcome_line(state, outcome, asked.row.name)
        if remarks and (not outcome.solution or not outcome.solution.trial):
            info += _why(state, asked, count, [outcome], options)
        return _settled(state, asked, outcome, info, reporter, (outcome,))
    roomy = [group for group, lacks in zip(groups, full, strict=True) if lacks is None]
    outcomes = allocate.in_groups(state, asked, count, options, roomy, reporter, dedicated)
    lines = [outcome_line(state, outcome, asked.row.name) for outcome in outcomes]
    ranked = allocate.ranked(state, outcomes)
    if not ranked:
        if outcomes and not alike:  # each group lacks something else; explain the first
            asked, outcomes = made[outcomes[0].group], outcomes[:1]
        remark = _why(state, asked, count, outcomes, options) if remarks else ""
        raise RequestFailed(", ".join(lines) + remark)
    names = [state.cluster.groups[outcome.group].name for outcome in ranked]
    info = ", ".join([f"Selected group: {names[0]}", *lines])
    if len(names) > 1:
        info += f"; next best group: {names[1]}"
    return _settled(state, asked, ranked[0], info, reporter, tuple(ranked))


def refused_everywhere(state: State, row: Instance) -> str | None:
    """Describe why a new instance cannot be placed whatever is free; None if nothing is known against it."""
    return not_enabled(state.cluster, row) or _unknown_class(state, row)


def not_enabled(cluster: Cluster, row: Instance) -> str | None:
    """Describe that the cluster does not enable the disk template of a new instance; None if it does.

    Requests for recreated disks look like those for a new instance (``gnt-instance recreate-disks``), but the
    template stays.
    """
    refusal = template_not_enabled(cluster, row.template)
    if refusal is None or any(row.name == each.name for each in cluster.instances):
        return None
    return refusal


def _unknown_class(state: State, row: Instance) -> str | None:
    """Describe a demand of a new instance for a custom class that no node has; None without one.

    Without inventories of custom classes nothing is known about demands. An instance whose disks are
    recreated is no new one.
    """
    known = state.units.classes
    unknown = [name for name in tags.demands(row.tags) if name not in known] if known else []
    if not unknown or any(row.name == each.name for each in state.cluster.instances):
        return None
    return no_node_has(unknown[0], known)


def _why(
    state: State,
    asked: RequestedInstance,
    count: int,
    outcomes: Sequence[GroupOutcome],
    options: PlacementOptions,
    primary: int = NOWHERE,
) -> str:
    remark = explain(state, asked, count, outcomes, options, primary)
    return f"; {remark}" if remark else ""


def _group_row(state: State, name: str) -> int:
    """Return the row of the group with that name or UUID. Raises RequestFailed."""
    for row, group in enumerate(state.cluster.groups):
        if name in (group.name, group.uuid):
            return row
    raise RequestFailed(f"Couldn't find group with name or UUID {name}")


def _settled(
    state: State,
    asked: RequestedInstance,
    outcome: GroupOutcome | None,
    info: str,
    reporter: Reporter,
    ranked: tuple[GroupOutcome, ...] = (),
) -> PlacedInstance:
    solution = outcome.solution if outcome else None
    if solution is None or solution.trial is None:
        reporter.failed(info)
        return PlacedInstance(asked.row.name, (), info)
    settling.settle(state, solution.trial)
    reporter.placed(solution.nodes)
    return PlacedInstance(asked.row.name, solution.nodes, info, solution.metric, ranked)


def _secondary(state: State, index: int, options: PlacementOptions, reporter: Reporter) -> Decision:
    """Find a secondary, in its group, for an instance that has none and is going to be mirrored."""
    if state.snode[index] != NOWHERE:
        raise RequestFailed("Instance already has a secondary")
    primary = int(state.pnode[index])
    everyone = state.everywhere
    assessment = excusing(assess(state, everyone, options)) if options.capacity else None
    state = settling.without_primary(state, index)
    redundancy = SecondaryCheck(assessment, state) if assessment else None
    group = int(state.group[primary])
    asked = state.with_disk_defaults(group, state.requested_instance(state.cluster.instances[index]))
    asked = replace(asked, index=index, spare=state.units.creation_spare(asked.row))
    targets = np.flatnonzero(state.group == group)
    targets = targets[targets != primary]
    reporter.starting(state, asked, everyone)
    reporter.trying(group, targets, primary)
    base = choice.base(state, everyone)
    rows = np.array([primary])
    solution = on_pairs(state, asked, rows, targets, base, options, redundancy, reporter)
    info = solution_line(state, solution)
    if solution.trial is None:
        outcome = GroupOutcome(group, solution)
        raise RequestFailed(info + _why(state, asked, 2, [outcome], options, primary))
    settling.settle(state, replace(solution.trial, asked=asked))
    reporter.placed(solution.nodes)
    return Decision((PlacedInstance(asked.row.name, solution.nodes[1:], info, solution.metric),), state)
