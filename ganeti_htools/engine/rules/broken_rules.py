"""Rules of tags that instances break where they are now."""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.placement_rules import PlacementRules
from ganeti_htools.model.placement_tags import TOGETHER, against, placement_tags, tag_of
from ganeti_htools.model.state import State


class BrokenRule(NamedTuple):
    """A broken rule, as a tag: the instances (rows) that break it, and the nodes (rows) on which they do."""

    rule: str
    instances: tuple[int, ...]
    nodes: tuple[int, ...]


def broken_rules(state: State) -> list[BrokenRule]:
    """Find the broken rules: of single instances, of those too close to each other, of separated sets."""
    rules = state.rules
    if rules is None:
        return []
    return [*_on_wrong_nodes(state, rules), *_too_close(state, rules), *_separated(state, rules)]


def _on_wrong_nodes(state: State, rules: PlacementRules) -> Iterator[BrokenRule]:
    for row in np.flatnonzero((rules.instances.choice > 0) & (state.pnode != NOWHERE)).tolist():
        choice = placement_tags(state.cluster.instances[row].tags).choice
        wrong = defaultdict[str, list[int]](list)
        for node in (int(node) for node in (state.pnode[row], state.snode[row]) if node != NOWHERE):
            for rule in against(choice, state.cluster.nodes[node]):
                wrong[rule].append(node)
        yield from (BrokenRule(rule, (row,), tuple(nodes)) for rule, nodes in wrong.items())


def _too_close(state: State, rules: PlacementRules) -> Iterator[BrokenRule]:
    for distance, which in rules.distances.items():
        left = _members(state, rules.instances.distances, which)
        near = rules.near[rules.near_of[which]]
        while len(left):
            here = _reached(near, state.pnode[left])
            if np.count_nonzero(here) > 1:
                rows = left[here]
                yield BrokenRule(tag_of(distance), tuple(rows.tolist()), _different(state.pnode[rows]))
            left = left[~here]


def _reached(near: Bools, hosts: Ints) -> Bools:
    """Mark the hosts that are near the first one, or near another that is marked."""
    found: Bools = np.arange(len(hosts)) == 0
    while True:
        more = found | near[np.ix_(hosts, hosts[found])].any(axis=1)
        if (more == found).all():
            return found
        found = more


def _separated(state: State, rules: PlacementRules) -> Iterator[BrokenRule]:
    for name, which in rules.sets.items():
        rows = _members(state, rules.instances.sets, which)
        primaries, secondaries = (_different(hosts[rows]) for hosts in (state.pnode, state.snode))
        if len(primaries) > 1:
            yield BrokenRule(f"{TOGETHER}{name}", tuple(rows.tolist()), primaries)
        elif len(secondaries) > 1:
            yield BrokenRule(f"{TOGETHER}{name}", tuple(rows.tolist()), secondaries)


def _members(state: State, of: Ints, which: int) -> Ints:
    return np.flatnonzero((of == which).any(axis=1) & (state.pnode != NOWHERE))


def _different(nodes: Ints) -> tuple[int, ...]:
    """Return the different nodes (rows) in order, without NOWHERE."""
    return tuple(sorted(set(nodes[nodes != NOWHERE].tolist())))


# What breaks a rule: an instance on a node, or two instances; rows, after the kind of rule and its number.
Breach = tuple[str, int, int, int]


def breaches(state: State) -> frozenset[Breach]:
    """Find all single breaches of rules: of an instance and a node, or of two instances."""
    if state.rules is None:
        return frozenset()
    rows = np.flatnonzero(state.pnode != NOWHERE).tolist()
    places = ((row, *state.node_pair(row)) for row in rows)
    return frozenset(breach for place in places for breach in breaches_at(state, *place))


def breaches_at(state: State, row: int, pnode: int, snode: int) -> Iterator[Breach]:
    """Find the breaches of an instance (row) if it was on these nodes, and all others where they are."""
    rules = state.rules
    assert rules is not None
    eligible = rules.eligible[rules.instances.choice[row]]
    yield from (("node", 0, row, node) for node in (pnode, snode) if node != NOWHERE and not eligible[node])
    for which in _numbers(rules.instances.distances[row]):
        others = _others(state, rules.instances.distances, which, row)
        close = rules.near[rules.near_of[which], pnode, state.pnode[others]]
        yield from (("distance", which, *_pair(row, other)) for other in others[close].tolist())
    for which in _numbers(rules.instances.sets[row]):
        others = _others(state, rules.instances.sets, which, row)
        away = others[state.pnode[others] != pnode]
        yield from (("primary", which, *_pair(row, other)) for other in away.tolist())
        mirrors = state.snode[others]
        away = others[(mirrors != NOWHERE) & (snode != NOWHERE) & (mirrors != snode)]
        yield from (("secondary", which, *_pair(row, other)) for other in away.tolist())


def _numbers(rules: Ints) -> list[int]:
    found: list[int] = rules[rules != NOWHERE].tolist()
    return found


def _others(state: State, of: Ints, which: int, row: int) -> Ints:
    members = _members(state, of, which)
    others: Ints = members[members != row]
    return others


def _pair(one: int, other: int) -> tuple[int, int]:
    return min(one, other), max(one, other)
