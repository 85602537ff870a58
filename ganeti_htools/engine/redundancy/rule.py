"""The rule of global N+1 redundancy: what happens to each instance when its node is lost.

Mirrored instances fail over to their secondaries. Instances on shared storage then go one by one to the node
of the group that leaves it best balanced. The rest are created anew without their data, those with most
memory first, on the best node. Only what exists limits (memory, disk, spindles, migration tags, policy), not
what balances. The rule is that of Ganeti's htools (``GlobalN1.hs``, ``hcheck(1)``).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from ganeti_htools.engine.rules import choice, placement_rules, settling
from ganeti_htools.engine.rules.class_limits import refused_amounts
from ganeti_htools.engine.rules.limits import SECONDARY
from ganeti_htools.engine.rules.node_rules import CODE
from ganeti_htools.engine.rules.placements import allocate_one
from ganeti_htools.engine.rules.relocate import move
from ganeti_htools.engine.rules.resources import declared_limits
from ganeti_htools.engine.rules.storage_limits import disk_limits
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE, Bools, Ints, availability, sorted_unique
from ganeti_htools.model.figures import TEMPLATE_CODE
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.policy import Demand, violation
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate, Fail

DRBD = TEMPLATE_CODE[DiskTemplate.DRBD]
SURVIVES = np.array([template.survives_node for template in DiskTemplate])


class Means(Enum):
    """The way an instance of a lost node comes back: by its mirror, its shared disks, or without its data."""

    FAILOVER = "failover"
    MOVE = "move"
    RECREATE = "recreate"


@dataclass(frozen=True, slots=True)
class Recovery:
    """The node (row) on which an instance (row) of a lost node comes back, NOWHERE if it does not.

    ``rules`` are the tags that alone keep it from coming back, if all instances were looked at.
    """

    instance: int
    kind: Means
    node: int
    rules: str = ""


def can_be_lost(state: State, node: int, scope: Bools) -> bool:
    """Whether all instances of a node find a place when the node is lost; the state is not changed."""
    return all(recovery.node != NOWHERE for recovery in recover(state.copy(), node, scope))


def recover(
    state: State, node: int, scope: Bools, up: Bools | None = None, every: bool = False
) -> Iterator[Recovery]:
    """Find a place for each instance of a lost node, one after the other, on this state, in place.

    ``up`` are the nodes that take instances, all unless given: ``hcheck(1)`` does not ask whether nodes are
    offline. Instances that are :func:`bound_to_nodes` are left out unless ``every`` is set.
    """
    mates = scope & (state.group == state.group[node])
    others = mates.copy() if up is None else mates & up
    others[node] = False
    targets = np.flatnonzero(others)
    mirrored, displaced = instances_of(state, node, None if every else scope)
    for row in mirrored:
        asked, secondary = state.instance(row), int(state.snode[row])
        trial = None
        if secondary != NOWHERE and (up is None or up[secondary]):
            trial = move(state, asked, MoveKind.FAILOVER, None, mates, force=True)
        rules = _refusing_rules(state, trial) if every else ""
        yield Recovery(row, Means.FAILOVER, _settled(state, trial, mates), rules)
    for row in displaced:
        asked = state.instance(row)
        kind, counted = Means.RECREATE, scope
        if asked.row.template.survives_node:
            kind, counted = Means.MOVE, mates
        trial = None
        if len(targets):
            if kind is Means.MOVE:
                trial = move(state, asked, MoveKind.FAILOVER_TO, targets, counted, force=True)
            else:
                trial = allocate_one(state, asked, targets, counted, force=True)
        rules, found = _refusing_rules(state, trial) if every else "", _settled(state, trial, counted)
        if kind is Means.RECREATE and state.rules is not None:  # the old one is in nobody's way
            gone = state.rules.instances.take(np.array([row]))
            state.rules.count(gone, *state.node_pair(row), -1)
        yield Recovery(row, kind, found, rules)


def _refusing_rules(state: State, trial: Trial | None) -> str:
    """Return the rules of tags that refuse all candidates; empty if there are other reasons."""
    if trial is None or state.rules is None or (trial.codes != CODE[Fail.RULE]).any():
        return ""
    return ", ".join(placement_rules.refusals(state, trial.asked, trial.pnode, trial.pnode[:0]))


def bound_to_nodes(state: State, rows: Ints, scope: Bools) -> Bools:
    """Whether each of these instances (rows) cannot come back after the loss of its node, whatever is free.

    No other node of its group has the storage units, or sees the pools, that its disks want, or gives the
    amounts of resource classes that it takes to one instance. A mirrored instance needs that of its own
    nodes. The default unit is exempt. Or rules of tags leave no other node of the group. Or the mirror is on
    a node in maintenance, and comes back with it. No room can be kept for such instances, so redundancy is
    judged by the others.
    """
    shape, mirrored = state.columns.shape, state.template[rows] == DRBD
    ruled = placement_rules.bound_by_rules(state, rows, scope)
    if state.in_maintenance is not None:
        secondary = state.snode[rows]
        ruled |= mirrored & (secondary != NOWHERE) & state.in_maintenance[secondary]
    if not shape.binds:
        return ruled
    refused = refused_amounts(state, rows) if shape.classes or shape.limited else None
    p, s = state.pnode[rows], state.snode[rows]
    return ruled | bound(state, state.wants[rows], refused, p, s, mirrored, scope)


def bound(
    state: State, wants: Bools, refused: Bools | None, p: Ints, s: Ints, mirrored: Any, scope: Bools
) -> Bools:
    """The same as :func:`bound_to_nodes`, for instances with these wants (:attr:`.State.wants`) and nodes.

    ``refused`` marks the nodes that refuse their amounts (instances by nodes), None if nodes limit none.
    """
    has, groups = availability(state.columns), state.group[p]
    elsewhere = np.zeros((len(has), len(p)), np.int64)
    for group in sorted_unique(groups).tolist():
        in_group = has[:, scope & (state.group == group)].sum(axis=1)
        elsewhere[:, groups == group] = in_group[:, np.newaxis]
    elsewhere -= has[:, p] & scope[p]
    found: Any = np.where(mirrored, has[:, p] & has[:, s], elsewhere > 0)
    lacks: Bools = (wants.T & ~found)[1:].any(axis=0)
    return lacks if refused is None else lacks | _refused(state, refused, p, s, mirrored, scope)


def _refused(state: State, refused: Bools, p: Ints, s: Ints, mirrored: Any, scope: Bools) -> Bools:
    """Whether no node to which an instance may come gives its amounts; arguments as in :func:`bound`."""
    each, takers = np.arange(len(p)), scope & (state.group[p][:, np.newaxis] == state.group)
    takers[each, p] = False
    both = ~refused[each, s] & (~refused[each, p] | state.columns.offline[p])
    return np.asarray(~np.where(mirrored, both, (takers & ~refused).any(axis=1)))


def instances_of(state: State, node: int, scope: Bools | None) -> tuple[list[int], list[int]]:
    """Rows of the instances of a lost node in the order in which they move: those that fail over, and others.

    With a scope, instances that are :func:`bound_to_nodes` are left out.
    """
    here = state.primaries_of(node)
    if scope is not None and state.binds:
        here = here[~bound_to_nodes(state, here, scope)]
    template, rows = state.template[here], state.cluster.instances
    mirrored, survives = template == DRBD, SURVIVES[template]
    recreated = sorted(here[~mirrored & ~survives].tolist(), key=lambda row: -rows[row].mem)
    return here[mirrored].tolist(), [*here[survives].tolist(), *recreated]


def _settled(state: State, trial: Trial | None, scope: Bools) -> int:
    """Carry out the best candidate, if any; the node on which the instance runs then."""
    candidate = choice.best(state, trial, scope, exact=False) if trial else None
    if trial is None or candidate is None:
        return NOWHERE
    chosen = trial.only(candidate)
    settling.settle(state, chosen)
    return int(chosen.pnode[0])


def fatal_losses(state: State, settled: Bools, mirrored: Ints, scope: Bools) -> Bools:
    """The nodes with an instance that cannot come back anywhere.

    Only the ``settled`` instances (a mask) count; ``mirrored`` are the rows of those with a secondary.
    """
    columns, fatal = state.columns, np.zeros(len(state.group), np.bool_)
    fatal[state.pnode[mirrored[_held(state, mirrored)]]] = True
    fatal[state.pnode[settled & (state.template == DRBD) & (state.snode == NOWHERE)]] = True
    exclusive = columns.excl_stor[state.pnode[mirrored]] | columns.excl_stor[state.snode[mirrored]]
    for index in mirrored[exclusive].tolist():
        if state.instance(index).spindles is None:
            fatal[state.pnode[index]] = True
    return fatal | _against_policy(state, settled, scope)


def _held(state: State, mirrored: Ints) -> Bools:
    """Whether each mirrored instance cannot fail over: one of its nodes breaks a hard limit already."""
    columns, held = state.columns, np.zeros(len(mirrored), np.bool_)
    lost, partners = state.pnode[mirrored], state.snode[mirrored]
    for limit in declared_limits(columns.shape):
        if limit.of is None or limit.soft or limit.fixed:
            continue
        full = limit.broken_now(columns)
        if full.any():
            here = full & ~columns.offline if limit in disk_limits(columns.shape) else full
            here = here if SECONDARY in limit.roles else np.zeros_like(here)
            held |= (full[partners] | here[lost]) & state.wants[mirrored, limit.of]
    return held


def _against_policy(state: State, settled: Bools, scope: Bools) -> Bools:
    """The nodes with an instance to be created anew that the policy of its group refuses everywhere."""
    refused = np.zeros(len(state.group), np.bool_)
    recreated = np.flatnonzero(settled & (state.template != DRBD) & ~SURVIVES[state.template])
    recreated = recreated[recreated < len(state.figures.rows)]  # what is placed anew has been checked
    nodes, wants = state.pnode[recreated], state.figures.values["demand"][recreated]
    demands = list(state.figures.demands)
    keys = state.group[nodes] * len(demands) + wants
    rules: dict[int, list[Callable[[int], bool]]] = {}
    for group in sorted_unique(state.group[nodes]).tolist():
        kinds = sorted_unique(state.columns.excl_stor[scope & (state.group == group)]).tolist()
        rules[group] = [_refuses(state, group, kind, demands) for kind in kinds]
    for key in sorted_unique(keys).tolist():
        group, demand = divmod(key, len(demands))
        if all(refuses(demand) for refuses in rules[group]):
            refused[nodes[keys == key]] = True
    return refused


def _refuses(state: State, group: int, exclusive: bool, demands: list[Demand]) -> Callable[[int], bool]:
    """A function that tells whether the policy of a group refuses a demand; it remembers with the figures."""
    policy = state.policies[group]
    known = state.figures.verdicts.setdefault((policy, exclusive), {})

    def refuses(demand: int) -> bool:
        if demand not in known:
            known[demand] = violation(demands[demand], policy, exclusive) is not None
        return known[demand]

    return refuses
