"""Rules of instances about their nodes, by tags: the only functions that judge them (``htools-tags(7)``).

A placement must not break a rule anew. An instance may stay on its own nodes and exchange their roles, even
if its rules do not allow them. Force, lost nodes and evacuations change nothing about that.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ganeti_htools.engine.rules.node_rules import CODE, Codes
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.placement_rules import InstanceRules, PlacementRules
from ganeti_htools.model.placement_tags import FIXED, TOGETHER, against, is_fixed, placement_tags, tag_of
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import Fail

_BROKEN = np.int8(CODE[Fail.RULE])


def rules_of(state: State, asked: RequestedInstance) -> InstanceRules:
    """Return the rules of one instance. Precondition: the state has rules."""
    assert state.rules is not None
    if asked.index == NOWHERE:
        return state.rules.of([asked.row])
    return state.rules.instances.take(np.array([asked.index]))


def own_nodes(state: State, asked: RequestedInstance) -> tuple[int, int]:
    """Return the nodes (rows) of an instance, also of one whose disks are made anew under its name."""
    index = asked.index
    if index == NOWHERE:
        rows = enumerate(state.cluster.instances)
        index = next((row for row, instance in rows if instance.name == asked.row.name), NOWHERE)
    return (NOWHERE, NOWHERE) if index == NOWHERE else state.node_pair(index)


def rule_codes(
    state: State,
    asked: RequestedInstance,
    found: Codes,
    primary: Any = None,
    secondary: Any = None,
    passing: bool = False,
) -> Codes:
    """Return the codes of candidates, or the code of a broken rule, which precedes other reasons.

    ``primary`` and ``secondary`` are the candidates' new nodes (rows that broadcast), None if the role stays
    where it is. ``passing``: the instance goes on at once, so it may be without its mates meanwhile.
    """
    if state.rules is None:
        return found
    rules = rules_of(state, asked)
    one = InstanceRules(rules.choice[0], rules.distances[0], rules.sets[0, : 0 if passing else None])
    good = allows(state.rules, one, *own_nodes(state, asked), primary, secondary)
    return np.where(good, found, _BROKEN)


def allows(
    rules: PlacementRules, of: InstanceRules, p: Any, s: Any, primary: Any = None, secondary: Any = None
) -> Any:
    """Whether instances on nodes ``p`` and ``s`` may get other nodes; arrays broadcast.

    Nodes are rows; NOWHERE stands for no node, None for a role that stays where it is.
    """
    good: Any = np.True_
    for node in (primary, secondary):
        if node is not None:
            good = good & (rules.eligible[of.choice, node] | np.equal(node, p) | np.equal(node, s))
    if primary is not None:
        free: Any = np.True_
        for which in range(of.distances.shape[-1]):
            distance = of.distances[..., which]
            own = rules.near[rules.near_of[distance], p, primary] & np.not_equal(p, NOWHERE)
            free = free & ((distance == NOWHERE) | (rules.crowds[distance, primary] <= own))
        free = free & _with_mates(rules.primaries, of, p, primary)
        good = good & (free | np.equal(primary, p))
    if secondary is not None:
        good = good & (_with_mates(rules.secondaries, of, s, secondary) | np.equal(secondary, s))
    return good


def _with_mates(counts: Ints, of: InstanceRules, was: Any, node: Any) -> Any:
    """Whether a node has all members of the sets that are not on the node which the instance leaves."""
    good: Any = np.True_
    members = counts.sum(axis=1)
    for which in range(of.sets.shape[-1]):
        chosen = of.sets[..., which]
        elsewhere = members[chosen] - np.where(np.equal(was, NOWHERE), 0, counts[chosen, was])
        good = good & (counts[chosen, node] >= elsewhere)
    return good


def bound_by_rules(state: State, rows: Ints, scope: Bools) -> Bools:
    """Whether rules alone leave instances (rows) no other primary among the nodes in scope of their group.

    Also mirrored ones that already could not fail over for their rules when the cluster was read: each of
    them would rule out all new instances.
    """
    if state.rules is None:
        return np.zeros(len(rows), np.bool_)
    p = state.pnode[rows, np.newaxis]
    takers = scope & (state.group == state.group[p]) & (np.arange(len(scope)) != p)
    possible = takers & allowed_primaries(state, rows)
    return np.asarray(state.rules.stuck[rows] | (takers.any(axis=1) & ~possible.any(axis=1)))


def allowed_primaries(state: State, rows: Ints) -> Bools:
    """Mark the nodes that rules allow as new primaries (instances by nodes)."""
    shape = len(rows), len(state.group)
    if state.rules is None:
        return np.ones(shape, np.bool_)
    of = state.rules.instances.take(rows)
    each = InstanceRules(of.choice[:, np.newaxis], of.distances[:, np.newaxis], of.sets[:, np.newaxis])
    p, s = state.pnode[rows, np.newaxis], state.snode[rows, np.newaxis]
    return np.broadcast_to(allows(state.rules, each, p, s, np.arange(shape[1])), shape)


def can_fail_over(state: State, rows: Ints) -> Bools:
    """Mark the mirrored instances (rows) that rules allow to fail over."""
    if state.rules is None:
        return np.ones(len(rows), np.bool_)
    p, s = state.pnode[rows], state.snode[rows]
    good = allows(state.rules, state.rules.instances.take(rows), p, s, s, p)
    return np.broadcast_to(good, len(rows))


def eligible(state: State, asked: RequestedInstance) -> Bools:
    """Mark the nodes that the node tags and names of an instance allow."""
    if state.rules is None:
        return state.everywhere
    nodes: Bools = state.rules.eligible[rules_of(state, asked).choice[0]]
    return nodes


def hosts(state: State) -> Bools:
    """Mark the nodes that are primaries of instances with rules about their nodes."""
    found = np.zeros(len(state.group), np.bool_)
    if state.rules is not None:
        found[state.pnode[state.rules.instances.any & (state.pnode != NOWHERE)]] = True
    return found


def is_ruled(state: State, asked: RequestedInstance) -> bool:
    return state.rules is not None and bool(rules_of(state, asked).any[0])


def entangled(state: State) -> tuple[Bools, Bools]:
    """Mark the nodes with primaries of which one that leaves may change what rules allow another.

    Those with unmirrored ones that stay together, each in one set, and all others. Mirrored ones do not
    matter if they fail over to one node and stay together, or to nodes that keep the distance.
    """
    size, rules = len(state.group), state.rules
    together, others = np.zeros((2, size), np.bool_)
    if rules is None:
        return together, others
    placed = (state.pnode != NOWHERE)[:, np.newaxis]
    for of, sets in ((rules.instances.distances, False), (rules.instances.sets, True)):
        rows, at = np.nonzero((of != NOWHERE) & placed)
        members, counted = defaultdict[tuple[int, int], list[int]](list), of[rows, at].tolist()
        for row, which, node in zip(rows.tolist(), counted, state.pnode[rows].tolist(), strict=True):
            members[node, which].append(row)
        for (node, which), found in members.items():
            mirrors = state.snode[found]
            if len(found) < 2:
                continue
            if sets:
                alike, single = (mirrors == mirrors[0]).all(), (of[found] != NOWHERE).sum(axis=1).max() == 1
                together[node] |= alike and mirrors[0] == NOWHERE
                others[node] |= not alike or (mirrors[0] == NOWHERE and not single)
            else:
                near = rules.near[rules.near_of[which]][:, mirrors]
                close = near[mirrors].sum() > len(found) or near[node].any()
                others[node] |= close or (mirrors == NOWHERE).any()
    return together, others


def fixed(state: State) -> Bools:
    """Mark the instances that no tool moves."""
    found = np.zeros(len(state.pnode), np.bool_)
    for row in np.flatnonzero(state.figures.values["ruled"]).tolist():
        found[row] = is_fixed(state.cluster.instances[row].tags)
    return found


def in_sets(state: State) -> Bools:
    """Mark the instances that stay together with at least one other: none of them moves alone."""
    found = np.zeros(len(state.pnode), np.bool_)
    if state.rules is not None and state.rules.sets:
        of, members = state.rules.instances.sets, state.rules.primaries.sum(axis=1)
        found = ((of != NOWHERE) & (members[of] > 1)).any(axis=1)
    return found


def apart(state: State, before: State | None = None) -> Bools:
    """Mark the instances that are not on the nodes of all instances with which they stay together.

    With ``before`` only those that have got such a node since then.
    """
    found = np.zeros(len(state.pnode), np.bool_)
    if state.rules is not None and state.rules.sets:
        of = state.rules.instances.sets
        for counts, role in ((state.rules.primaries, "pnode"), (state.rules.secondaries, "snode")):
            nodes = getattr(state, role)
            elsewhere = (of != NOWHERE) & (counts[of, nodes[:, np.newaxis]] < counts.sum(axis=1)[of])
            new = before is None or nodes != getattr(before, role)
            found |= elsewhere.any(axis=1) & (nodes != NOWHERE) & new
    return found


def staying(state: State) -> Bools:
    """Mark the instances that tools leave where they are: fixed ones, and those that stay with others."""
    return fixed(state) | in_sets(state)


def reason_to_stay(state: State, index: int, sets: bool = False) -> str | None:
    """Return the reason why tools leave an instance (row) where it is, or None.

    With ``sets`` that it stays together with others is none.
    """
    tags = state.cluster.instances[index].tags
    if is_fixed(tags):
        return f"it has the tag {FIXED}"
    if sets or not in_sets(state)[index]:
        return None
    return f"it stays together with others ({', '.join(tag for tag in tags if tag.startswith(TOGETHER))})"


def refusals(state: State, asked: RequestedInstance, primaries: Ints, secondaries: Ints) -> list[str]:
    """Return the rules that refuse some of these nodes (rows), the one that refuses most first."""
    found = [tag for node in primaries.tolist() for tag in broken_by(state, asked, node)]
    found += [tag for node in secondaries.tolist() for tag in broken_by(state, asked, secondary=node)]
    return [tag for tag, _ in Counter(found).most_common()]


def mates(state: State, index: int) -> list[int]:
    """Return the instances (rows) that an instance (row) stays together with, also by way of others."""
    if state.rules is None or not state.rules.sets:
        return []
    of, found = state.rules.instances.sets, {index}
    while True:
        sets = {each for row in found for each in of[row].tolist() if each != NOWHERE}
        more = set(np.flatnonzero(np.isin(of, list(sets)).any(axis=1) & (state.pnode != NOWHERE)).tolist())
        if more | found == found:
            return sorted(found - {index})
        found |= more


def without_rules(state: State, rows: Iterable[int]) -> State:
    """Return a state in which instances (rows) have no rules. It shares the arrays of the other."""
    if state.rules is None:
        return state
    return replace(state, rules=replace(state.rules, instances=state.rules.instances.without([*rows])))


def without_sets(state: State) -> State:
    """Return a state in which instances may be apart. It shares the arrays of the other."""
    if state.rules is None:
        return state
    of = state.rules.instances
    return replace(state, rules=replace(state.rules, instances=replace(of, sets=of.sets[:, :0])))


def broken_by(
    state: State, asked: RequestedInstance, primary: int | None = None, secondary: int | None = None
) -> list[str]:
    """Return the rules of an instance that are against these new nodes (rows), as tags."""
    if state.rules is None:
        return []
    own, parsed, known = own_nodes(state, asked), placement_tags(asked.row.tags), state.rules
    new = [state.cluster.nodes[node] for node in (primary, secondary) if node is not None and node not in own]
    found = [*dict.fromkeys(rule for node in new for rule in against(parsed.choice, node))]
    apart, together = (
        sorted(parsed.apart & known.distances.keys()),
        sorted(parsed.together & known.sets.keys()),
    )
    names = [*map(tag_of, apart), *(f"{TOGETHER}{each}" for each in together)]
    none = [NOWHERE]
    each = InstanceRules(
        np.zeros(len(names), np.int64),
        np.array([known.distances[one] for one in apart] + none * len(together), np.int64)[:, np.newaxis],
        np.array(none * len(apart) + [known.sets[one] for one in together], np.int64)[:, np.newaxis],
    )
    good = np.broadcast_to(allows(known, each, *own, primary, secondary), len(names))
    return found + [name for name, kept in zip(names, good.tolist(), strict=True) if not kept]
