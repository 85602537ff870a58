"""Reasons why an instance found no place: the constraint that refused most nodes, and the nearest miss."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ganeti_htools.engine.allocation.allocate import usable_nodes
from ganeti_htools.engine.allocation.redundancy_remark import redundancy_remark
from ganeti_htools.engine.allocation.solution import GroupOutcome, count_failures
from ganeti_htools.engine.rules import affinity, instance_policy, node_rules, placement_rules, placements
from ganeti_htools.engine.rules.limits import PRIMARY, SECONDARY, Limit, NodeRole
from ganeti_htools.engine.rules.node_rules import CODE, FITS, Codes
from ganeti_htools.engine.rules.resources import RESERVE, SPINDLES
from ganeti_htools.engine.rules.trial import NodeChange, Trial
from ganeti_htools.model.cluster import MAX_MIB
from ganeti_htools.model.columns import NOWHERE, Bools, Columns, Floats, Ints, availability
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.policy import Demand, IPolicy
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import Fail


@dataclass(frozen=True, slots=True)
class Lack:
    """The amounts, in ``unit``, that nodes (rows) lack of one thing: above 0 where they have too little."""

    thing: str
    unit: str
    nodes: Ints
    amounts: Floats | Ints
    of: int | None = None  # the storage unit, pool or custom class concerned, see Limit

    @property
    def short(self) -> Bools:
        """The nodes that have too little."""
        return np.asarray(self.amounts > 0)


def explain(
    state: State,
    asked: RequestedInstance,
    count: int,
    outcomes: Sequence[GroupOutcome],
    options: PlacementOptions,
    primary: int = NOWHERE,
) -> str | None:
    """Explain why none of the groups tried has a place; None if the counts of reasons suffice.

    With a ``primary`` (row) only a secondary was searched.
    """
    tried = [outcome for outcome in outcomes if outcome.solution is not None]
    counts = [outcome.solution.failures for outcome in outcomes if outcome.solution is not None]
    failures = {fail: sum(count.get(fail, 0) for count in counts) for fail in Fail}
    most = _most(failures)
    if most is None:
        return None
    scope = np.isin(state.group, [outcome.group for outcome in tried])
    if primary == NOWHERE:
        primaries = usable_nodes(state, scope, options.restrict_to)
        secondaries = primaries[: len(primaries) if count == 2 else 0]
    else:
        primaries, secondaries = np.array([primary]), np.setdiff1d(np.flatnonzero(scope), [primary])
    found = remark(state, asked, most, primaries, secondaries, options)
    return found and _counted(found, most, failures)


def explain_move(
    state: State, trial: Trial, targets: Ints, role: NodeRole, options: PlacementOptions
) -> str | None:
    """Explain why an instance can take none of the targets (rows) in a role, as a trial found out.

    None if the reasons suffice.
    """

    def lacks(fail: Fail, force: bool) -> Iterable[Lack]:
        found = dict[str, Lack]()
        for change in trial.changes:
            if np.array_equal(change.rows, targets):
                _add_lacks(found, state, trial.asked, fail, change, role, targets, force)
        return found.values()

    return _explain(state, trial.asked, trial.codes, targets, options, lacks, role)


def explain_pairs(
    state: State, asked: RequestedInstance, codes: Codes, targets: Ints, options: PlacementOptions
) -> str | None:
    """Explain why an instance can move to no pair of targets (rows); ``codes`` has the reason of each pair.

    None if the reasons suffice.
    """

    def lacks(fail: Fail, force: bool) -> Iterable[Lack]:
        return _lacks(state, asked, fail, targets, targets, force)

    return _explain(state, asked, codes, targets, options, lacks)


def _explain(
    state: State,
    asked: RequestedInstance,
    codes: Codes,
    targets: Ints,
    options: PlacementOptions,
    lacks: Callable[[Fail, bool], Iterable[Lack]],
    role: NodeRole | None = None,
) -> str | None:
    """Explain the reason that most codes have. Soft limits do not hold for what leaves an offline node.

    ``role`` is the one that the targets would have, None for both.
    """
    failures = count_failures(codes, 0)
    most = _most(failures)
    nodes = [node for node in (state.pnode[asked.index], state.snode[asked.index]) if node != NOWHERE]
    force = options.ignore_soft_errors or bool(state.columns.offline[nodes].any())
    match most:
        case None:
            return None
        case Fail.TAGS:
            found: str | None = _shared_tags(state, asked, targets)
        case Fail.MIGRATION:
            found = "nodes to which its migration tags allow it to go"
        case Fail.RULE:
            none = targets[:0]
            found = describe_broken_rules(
                state,
                asked,
                none if role is SECONDARY else targets,
                none if role is PRIMARY or not asked.mirrored else targets,
            )
        case _ if role is SECONDARY and state.columns.offline[nodes[0]] and not state.columns.t_mem[nodes[0]]:
            found = f"an online primary to copy from; the primary {_name(state, nodes[0])} is offline"
        case _:
            found = _nearest(state, asked, lacks(most, force), targets)
    return found and _counted(found, most, failures)


def _most(failures: Mapping[Fail, int]) -> Fail | None:
    """Return the reason that refused most candidates; None if no candidate was refused."""
    most = max(Fail, key=lambda fail: failures.get(fail, 0))
    return most if failures.get(most) else None


def _counted(found: str, most: Fail, failures: Mapping[Fail, int]) -> str:
    return f"most missing: {found}; counted as {most.value}: {failures[most]}"


def remark(
    state: State,
    asked: RequestedInstance,
    fail: Fail,
    primaries: Ints,
    secondaries: Ints,
    options: PlacementOptions,
) -> str | None:
    """Describe what most candidates counted as ``fail`` lack, and the node that lacks least."""
    if fail is Fail.N1:
        return redundancy_remark(state, asked, primaries, options)
    refused = primaries[instance_policy.policy_codes(state, asked, primaries) == CODE[fail]]
    if len(refused):
        group = state.cluster.groups[int(state.group[refused[0]])]
        exclusive = bool(state.columns.excl_stor[refused[0]])
        bounds = _policy(asked.row.demand, group.ipolicy, fail, exclusive)
        return f"instance policy; group {group.name} allows {bounds}"
    if fail is Fail.TAGS:
        return _shared_tags(state, asked, primaries)
    if fail is Fail.RULE:
        return describe_broken_rules(state, asked, primaries, secondaries)
    return nearest_miss(state, asked, fail, primaries, secondaries, options.ignore_soft_errors)


def nearest_miss(
    state: State, asked: RequestedInstance, fail: Fail, primaries: Ints, secondaries: Ints, force: bool
) -> str | None:
    """Describe what most nodes counted as ``fail`` lack, in either role, and the node that lacks least."""
    lacks = _lacks(state, asked, fail, primaries, secondaries, force)
    return _nearest(state, asked, lacks, np.union1d(primaries, secondaries))


def describe_broken_rules(state: State, asked: RequestedInstance, primaries: Ints, secondaries: Ints) -> str:
    """Describe the rules of tags against these nodes (rows)."""
    refusals = placement_rules.refusals(state, asked, primaries, secondaries)
    return f"nodes that its tags allow ({', '.join(refusals)})"


def _shared_tags(state: State, asked: RequestedInstance, nodes: Ints) -> str:
    """Describe the node that has fewest instances with an exclusion tag of the instance."""
    row = int(nodes[np.argmin(affinity.tag_conflicts(state, asked)[nodes])])
    tags = [tag for tag, each in state.tag_rows.items() if each in asked.tags and state.tag_counts[each, row]]
    where = f"{_name(state, row)} already has an instance with {', '.join(tags)}"
    return f"a node without instances that share an exclusion tag; closest: {where}"


def _nearest(state: State, asked: RequestedInstance, lacks: Iterable[Lack], nodes: Ints) -> str | None:
    """Describe the thing that most of the nodes lack, and the node that lacks least; None if nothing is."""
    short_of = [lack for lack in lacks if lack.short.any()]
    if not short_of:
        return None
    lack = max(short_of, key=lambda lack: int(lack.short.sum()))
    short, absent = np.flatnonzero(lack.short), _absent(state, lack)
    if absent and absent[1][short].all():
        unknown = _unknown(state, lack)
        if unknown:
            return f"{lack.thing}; {unknown}"
        found = f"{_name(state, int(lack.nodes[short[0]]))} {absent[0]}"
    else:
        if absent:
            short = short[~absent[1][short]]
        closest = short[np.argmin(lack.amounts[short])]
        unit = f" {lack.unit}" if lack.unit else ""
        amount = f"{math.ceil(lack.amounts[closest])}{unit}"
        found = f"closest: {_name(state, int(lack.nodes[closest]))} lacks {amount}"
    having = nodes[~absent[1][np.isin(lack.nodes, nodes)]].tolist() if absent and asked.mirrored else []
    if len(having) == 1:  # Ganeti creates the disks of a mirrored instance on both its nodes
        found += f", and only {_name(state, having[0])} has any: the secondary needs it, too"
    return f"{lack.thing}; {found}"


def _unknown(state: State, lack: Lack) -> str | None:
    """Describe that no node of the cluster has a unit, pool or class; None if one has."""
    has, names, of = availability(state.columns), _names(state), lack.of or 0
    if has[of].any():
        return None
    units = range(len(state.columns.shape.units))
    alike = units if of in units else range(len(units), len(names))
    known = ", ".join(names[each] for each in alike if has[each].any())
    return f"{names[of]} is unknown: no node has it; known: {known or 'none'}"


def describe_lack(
    state: State, asked: RequestedInstance, node: int, secondary: bool = False, fail: Fail = Fail.DISK
) -> str:
    """Describe what a node (row) lacks of the instance's storage units and pools, in either role.

    With ``fail`` RESOURCE: of custom classes. Empty if it lacks nothing, or if nodes differ in free space
    only.
    """
    if not state.columns.shape.binds:
        return ""
    nodes, none = np.array([node]), np.array([], np.int64)
    primaries, secondaries = (none, nodes) if secondary else (nodes, none)
    lacks = _lacks(state, asked, fail, primaries, secondaries, force=False)
    found = [lack for lack in lacks if lack.of is not None]
    return ", ".join(_lack(state, lack) for lack in found if lack.short.any())


def no_source(state: State, asked: RequestedInstance, node: int) -> str:
    """Describe why disks cannot be copied from a node (row); empty if they can."""
    refused = node_rules.copy_codes(state.columns.take([node]), asked)[0] != FITS
    return f"has no {state.columns.shape.units[0]}" if refused else ""


def _lack(state: State, lack: Lack) -> str:
    """Describe the lack of a single node."""
    absent = _absent(state, lack)
    if absent and absent[1].any():
        return absent[0]
    amount = f"{math.ceil(lack.amounts[0])} {lack.unit}".rstrip()
    return f"lacks {amount} of {lack.thing}"


def _absent(state: State, lack: Lack) -> tuple[str, Bools] | None:
    """Describe that nodes do not have a storage unit or custom class, or do not see a pool.

    Also returns those nodes. None if the lack is about another thing.
    """
    shape = state.columns.shape
    if lack.of is None or not (shape.reported or lack.of >= len(shape.units)):
        return None
    pools = range(len(shape.units), len(shape.units) + len(shape.pools))
    verb = "does not see" if lack.of in pools else "has no"
    return f"{verb} {_names(state)[lack.of]}", ~availability(state.columns)[lack.of, lack.nodes]


def _names(state: State) -> tuple[str, ...]:
    """Return the names of storage units, pools and custom classes, by :attr:`.Limit.of`."""
    shape = state.columns.shape
    return (*shape.units, *shape.pools, *shape.classes)


def _name(state: State, row: int) -> str:
    return state.cluster.nodes[row].name


def _lacks(
    state: State, asked: RequestedInstance, fail: Fail, primaries: Ints, secondaries: Ints, force: bool
) -> Iterable[Lack]:
    """Compute the lacks of nodes in either role, for each thing whose limits are counted as ``fail``."""
    everyone, lacks = np.union1d(primaries, secondaries), dict[str, Lack]()
    for role, change, forced in arrivals(state, asked, primaries, secondaries, force):
        _add_lacks(lacks, state, asked, fail, change, role, everyone, forced)
    return lacks.values()


def arrivals(
    state: State, asked: RequestedInstance, primaries: Ints, secondaries: Ints, force: bool
) -> tuple[tuple[NodeRole, NodeChange, bool], ...]:
    """Compute the changes of nodes (rows) when the instance arrives in either role, and whether soft limits
    are dropped.

    The primary of a secondary is assumed to be the one that leaves most to it.
    """
    same, peers = primaries[:, np.newaxis] == secondaries, state.peers[primaries][:, secondaries]
    shared = np.where(same, MAX_MIB, peers).min(axis=0, initial=MAX_MIB)
    old_p, old_s = state.columns.take(primaries), state.columns.take(secondaries)
    new_p, _ = node_rules.add_primary(old_p, asked, np.int64(0), np.int64(0))
    kept = placements.class_peers(state, primaries[:, np.newaxis], secondaries)
    least = [np.where(same, MAX_MIB, each).min(axis=0, initial=MAX_MIB) for each in kept]
    new_s, _ = node_rules.add_secondary(old_s, asked, shared, peers=least)
    # Soft limits hold for secondaries even with force.
    return (
        (PRIMARY, NodeChange(primaries, old_p, new_p), force),
        (SECONDARY, NodeChange(secondaries, old_s, new_s), False),
    )


def _add_lacks(
    lacks: dict[str, Lack],
    state: State,
    asked: RequestedInstance,
    fail: Fail,
    change: NodeChange,
    role: NodeRole,
    everyone: Ints,
    force: bool,
) -> None:
    """Add what nodes lack after a change in a role to the lacks by thing. ``everyone``: rows in order."""
    held = node_rules.limits(state.columns.shape, role, asked.forthcoming, asked.wants, force)
    counted = [(limit, figure) for limit, figure in held if limit.fail is fail]
    for limit, amounts in _missing(counted, change.old, change.new, asked).items():
        nothing = np.full(len(everyone), -np.inf)
        lack = lacks.setdefault(limit.thing, Lack(limit.thing, limit.unit, everyone, nothing, limit.of))
        np.maximum.at(lack.amounts, np.searchsorted(everyone, change.rows), amounts)


def _missing(
    held: Sequence[tuple[Limit, str]], old: Columns, new: Columns, asked: RequestedInstance
) -> dict[Limit, Floats | Ints]:
    """Compute by how much nodes miss each of some limits, given with their figures.

    What nodes must keep free for others is part of the same thing, so its lack is added: N+1 to memory.
    """
    found: dict[Limit, Any] = {}
    for limit, figure in held:
        if limit.settled or (limit is SPINDLES and asked.spindles is None):
            continue  # the number of spindles is unknown
        amounts = limit.missing(getattr(new, figure), old, new, asked)
        if limit.applies is not None:
            amounts = np.where(limit.applies(old), amounts, 0)
        found[limit] = np.maximum(found.get(limit, amounts), amounts)
    for reserve, figure in held:
        if not reserve.settled:
            continue
        missing = reserve.missing(getattr(new, figure), old, new, asked)
        free, kept = _free(old, reserve), reserve.bound(old, old, asked)
        applies = np.True_ if reserve.applies is None else reserve.applies(old)
        for limit, bare in found.items():
            if limit.figure == figure:
                # A node that keeps too little, and still would with the bare amount, may go on so.
                failing = ~applies & (free + np.maximum(bare, 0) < kept)
                found[limit] = np.where(failing, bare, np.maximum(bare, missing))
    return found


def _free(columns: Columns, reserve: Limit) -> Any:
    """Compute what nodes have free for others; unaccounted memory does not count."""
    free = getattr(columns, reserve.figure)
    return free - np.minimum(columns.x_mem, 0) if reserve is RESERVE else free


def _policy(demand: Demand, policy: IPolicy, fail: Fail, exclusive: bool) -> str:
    """Describe the bounds of an instance policy that refused an instance as ``fail``, and the demand."""
    asked: Any
    match fail:
        case Fail.MEM:
            thing, asked = "memory (MiB)", demand.memory
            bounds = [(pair.min.memory_size, pair.max.memory_size) for pair in policy.minmax]
        case Fail.CPU:
            thing, asked = "virtual CPUs", demand.vcpus
            bounds = [(pair.min.cpu_count, pair.max.cpu_count) for pair in policy.minmax]
        case Fail.SPINDLES:
            thing = "spindles" if exclusive else "spindle use"
            asked = demand.spindles if exclusive else demand.spindle_use
            bounds = [(pair.min.spindle_use, pair.max.spindle_use) for pair in policy.minmax]
            asked = "none" if asked is None else asked
        case Fail.DISK_COUNT:
            thing, asked = "disks", len(demand.disk_sizes)
            bounds = [(pair.min.disk_count, pair.max.disk_count) for pair in policy.minmax]
        case _ if demand.template not in policy.disk_templates:
            allowed = ", ".join(template.value for template in policy.disk_templates)
            return f"the disk templates {allowed}, asked for {demand.template.value}"
        case _:
            thing, asked = "size of a disk (MiB)", ", ".join(map(str, demand.disk_sizes))
            bounds = [(pair.min.disk_size, pair.max.disk_size) for pair in policy.minmax]
    ranges = " or ".join(f"{low} to {high}" for low, high in bounds)
    return f"{thing} from {ranges}, asked for {asked}"
