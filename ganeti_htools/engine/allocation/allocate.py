"""Places for new instances: in the group asked for, or in the best group.

The rules are those of ``hail(1)``: only online nodes; pairs within a group for mirrored instances; of several
groups the best by allocation policy, then by score.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ganeti_htools.engine.allocation.exclusive_storage import with_fewest_losses
from ganeti_htools.engine.allocation.one_node import on_nodes
from ganeti_htools.engine.allocation.pairs import on_pairs
from ganeti_htools.engine.allocation.reporter import SILENT, Reporter
from ganeti_htools.engine.allocation.solution import GroupOutcome, Solution
from ganeti_htools.engine.redundancy.assessment import assess, excusing
from ganeti_htools.engine.redundancy.checks import Check
from ganeti_htools.engine.rules import choice
from ganeti_htools.model.columns import Bools, Ints, sorted_unique
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import AllocPolicy

LACKS_NETWORK = "group lacks a network"


def usable_nodes(state: State, scope: Bools, restrict_to: Sequence[str] | None) -> Ints:
    """Return the rows of the online nodes in scope (a mask); ``restrict_to`` are the only allowed names."""
    usable = scope & ~state.columns.offline
    if restrict_to is not None:
        allowed = np.zeros_like(usable)
        allowed[[state.nodes[name] for name in restrict_to if name in state.nodes]] = True
        usable &= allowed
    return np.flatnonzero(usable)


def in_scope(
    state: State,
    asked: RequestedInstance,
    count: int,
    nodes: Ints,
    scope: Bools,
    options: PlacementOptions,
    redundancy: Check | None,
    reporter: Reporter = SILENT,
) -> Solution:
    """Find a place for a new instance on one of ``nodes`` (rows), or with ``count`` 2 on a pair of them.

    Scores are those of the nodes in ``scope``. Raises RequestFailed if there are too few nodes.
    """
    _check_number(count, nodes, reporter)
    if count == 1:
        return on_nodes(state, asked, nodes, scope, options, redundancy, reporter)
    base = choice.base(state, scope)
    return on_pairs(state, asked, nodes, nodes, base, options, redundancy, reporter)


def _check_number(count: int, nodes: Ints, reporter: Reporter) -> None:
    """Check that an instance on ``count`` nodes, 1 or 2, has enough nodes. Raises RequestFailed."""
    if count not in (1, 2):
        raise RequestFailed("Unsupported number of nodes, only one or two  supported")
    if not len(nodes) and count == 1:
        raise RequestFailed("No online nodes")
    if len(nodes) < count:
        reporter.rejecting(nodes, "no other node")
        raise RequestFailed("Not enough online nodes")


def _check_networks(
    state: State, group: int, asked: RequestedInstance, nodes: Ints, reporter: Reporter
) -> None:
    """Check that the only group to try has the instance's networks. Raises RequestFailed."""
    if lacks_network(state, group, asked):
        reporter.rejecting(nodes, LACKS_NETWORK)
        name = state.cluster.groups[group].name
        raise RequestFailed(
            f"The group {name} is not connected to a network required by instance {asked.row.name}"
        )


def lacks_network(state: State, group: int, asked: RequestedInstance) -> bool:
    networks = state.cluster.groups[group].networks
    return any(nic.network is not None and nic.network not in networks for nic in asked.row.nics)


def _candidates_by_group(
    state: State, groups: Sequence[int], options: PlacementOptions, reporter: Reporter
) -> Iterator[tuple[int, Ints]]:
    """Yield the groups (rows) that have nodes, in input order, each with its candidates; the reporter gets
    them.
    """
    for group in sorted_unique(state.group).tolist():
        if group in groups:
            nodes = usable_nodes(state, state.group == group, options.restrict_to)
            reporter.trying(group, nodes)
            yield group, nodes


def in_group(
    state: State,
    asked: RequestedInstance,
    count: int,
    group: int,
    options: PlacementOptions,
    reporter: Reporter = SILENT,
    dedicated: bool = False,
) -> GroupOutcome:
    """Find a place for a new instance in the group (row) it was asked for; scores are those of this group.

    On ``dedicated`` nodes lost allocations decide instead of the score. Raises RequestFailed if nothing can
    be tried: the group lacks a network, or has too few nodes.
    """
    asked, scope = state.with_disk_defaults(group, asked), state.group == group
    nodes = usable_nodes(state, scope, options.restrict_to)
    reporter.starting(state, asked, scope, not dedicated)
    reporter.trying(group, nodes)
    if dedicated:
        return GroupOutcome(group, _on_dedicated(state, asked, count, group, nodes, options, reporter))
    _check_networks(state, group, asked, nodes, reporter)
    redundancy = excusing(assess(state, scope, options)) if options.capacity else None
    return GroupOutcome(group, in_scope(state, asked, count, nodes, scope, options, redundancy, reporter))


def in_groups(
    state: State,
    asked: RequestedInstance,
    count: int,
    options: PlacementOptions,
    groups: Sequence[int],
    reporter: Reporter = SILENT,
    dedicated: bool = False,
) -> list[GroupOutcome]:
    """Try a new instance in each of some groups (rows), in input order; :func:`ranked` finds the best.

    Groups without nodes are left out. Groups that lack a network come first, but not if all nodes are
    ``dedicated``.
    """
    everyone, redundancy = state.everywhere, None
    reporter.starting(state, asked, everyone, not dedicated)
    if options.capacity and not dedicated:
        redundancy = excusing(assess(state, everyone, options))
    skipped, tried = [], []
    for group, nodes in _candidates_by_group(state, groups, options, reporter):
        if not dedicated and lacks_network(state, group, asked):
            reporter.rejecting(nodes, LACKS_NETWORK)
            skipped.append(GroupOutcome(group, unconnected=True))
            continue
        group_reporter = _reporter_for(state, group, nodes, reporter)
        try:
            made = state.with_disk_defaults(group, asked)
            if dedicated:
                solution = _on_dedicated(state, made, count, group, nodes, options, group_reporter)
            else:
                solution = in_scope(state, made, count, nodes, everyone, options, redundancy, group_reporter)
            tried.append(GroupOutcome(group, solution))
        except RequestFailed as failed:
            tried.append(GroupOutcome(group, error=f"{failed}"))
    return [*skipped, *tried]


def _on_dedicated(
    state: State,
    asked: RequestedInstance,
    count: int,
    group: int,
    nodes: Ints,
    options: PlacementOptions,
    reporter: Reporter,
) -> Solution:
    _check_networks(state, group, asked, nodes, reporter)
    _check_number(count, nodes, reporter)
    return with_fewest_losses(state, asked, count, group, nodes, options, reporter)


def _reporter_for(state: State, group: int, nodes: Ints, reporter: Reporter) -> Reporter:
    """Select the reporter for tries in one of several groups: a silent one if the group is unallocable."""
    if state.cluster.groups[group].alloc_policy is not AllocPolicy.UNALLOCABLE:
        return reporter
    reporter.rejecting(nodes, "group is unallocable")
    return SILENT


def best_outcome(state: State, outcomes: Sequence[GroupOutcome]) -> GroupOutcome | None:
    """Return the best outcome with a place, None if there is none; never in an unallocable group."""
    return next(iter(ranked(state, outcomes)), None)


def ranked(state: State, outcomes: Sequence[GroupOutcome]) -> list[GroupOutcome]:
    """Sort the outcomes with a place, the best first, without unallocable groups.

    A preferred group comes before a last resort. Then the lowest metric wins, of equal ones the last; if no
    metric is a number, the first.
    """
    willing = list(AllocPolicy)

    def rank(outcome: GroupOutcome) -> tuple[Any, ...]:
        assert outcome.solution is not None
        metric, policy = outcome.solution.metric, state.cluster.groups[outcome.group].alloc_policy
        unrated = metric != metric
        return willing.index(policy), unrated, outcome.group if unrated else metric, -outcome.group

    good = [
        outcome
        for outcome in outcomes
        if outcome.solution is not None
        and outcome.solution.trial is not None
        and state.cluster.groups[outcome.group].alloc_policy is not AllocPolicy.UNALLOCABLE
    ]
    return sorted(good, key=rank)
