"""Node groups that can exchange instances (Ganeti's design "Synchronising htools to Ganeti 2.3").

Groups form a partition for each storage method that they share. A storage method is a storage unit on nodes
of both groups, for mirrored and plain instances, or a pool that nodes of both see. A group may be in
several partitions.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ganeti_htools.engine.allocation.allocate import lacks_network
from ganeti_htools.engine.groups.rules import RegroupingRules
from ganeti_htools.engine.rules import instance_policy, placement_rules
from ganeti_htools.engine.rules.node_rules import FAIL, FITS
from ganeti_htools.model import tags
from ganeti_htools.model.columns import Ints, availability
from ganeti_htools.model.placement_tags import placement_tags
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import AllocPolicy
from ganeti_htools.model.units_in_use import known_pools

SHARED = "shared storage"  # every node sees it, as far as known


def members(state: State, group: int) -> Ints:
    """The online nodes (rows) of a group."""
    return np.flatnonzero((state.group == group) & ~state.columns.offline)


def methods(state: State, group: int) -> frozenset[str]:
    """Return the storage methods of a group: the units of its online nodes, and the pools they see."""
    rows = members(state, group)
    if not len(rows):
        return frozenset()
    units = state.units
    local = [str(unit) for unit in units.local]
    names = [*local, *map(str, units.pools)]
    has = availability(state.columns)[: len(names), rows].any(axis=1)
    found = {name for name, there in zip(names, np.array(has), strict=True) if there}
    everywhere = {str(pool) for pool in known_pools(state.cluster, units)} - set(names)
    return frozenset(found | (everywhere if units.reported else {SHARED}))


@dataclass(frozen=True, slots=True)
class Exchange:
    """Whether a group (row) may give instances to another one (row).

    ``methods`` are the storage methods of both groups. ``obstacle`` is the reason why not, or None.
    """

    source: int
    target: int
    methods: frozenset[str]
    obstacle: str | None


def exchanges(state: State) -> Iterator[Exchange]:
    """Yield each pair of different groups with nodes, in both directions."""
    present_groups = sorted(set(state.group.tolist()))
    found = {group: methods(state, group) for group in present_groups}
    for source in present_groups:
        for target in present_groups:
            if source != target:
                common = found[source] & found[target]
                yield Exchange(source, target, common, _obstacle(state, source, target, common))


def _obstacle(state: State, source: int, target: int, common: frozenset[str]) -> str | None:
    groups = state.cluster.groups
    if tags.NO_INTERGROUP in state.cluster.tags:
        return f"the cluster has the tag {tags.NO_INTERGROUP}"
    for group in (source, target):
        if tags.NO_INTERGROUP in groups[group].tags:
            return f"group {groups[group].name} has the tag {tags.NO_INTERGROUP}"
    if groups[target].alloc_policy is AllocPolicy.UNALLOCABLE:
        return f"group {groups[target].name} is unallocable"
    if not len(members(state, target)):
        return f"group {groups[target].name} has no online node"
    if common or not len(members(state, source)):
        return None  # without online nodes a group's storage is unknown; instances have needs of their own
    return "they share no storage unit and no pool"


def group_refusal(state: State, asked: RequestedInstance, group: int) -> str | None:
    """Return the reason why a group can never take an instance, whatever its room; None if it can."""
    name, rows = state.cluster.groups[group].name, members(state, group)
    if not len(rows):
        return f"group {name} has no online node"
    if lacks_network(state, group, asked):
        return f"group {name} lacks a network of it"
    has = availability(state.columns)[:, rows]
    wants = np.array(asked.wants, np.bool_)
    if not has[wants].all(axis=0).any():
        names = [str(unit) for unit in (*state.units.local, *state.units.pools, *state.units.classes)]
        missing = [
            each
            for each, wanted, there in zip(names, wants, np.array(has.any(axis=1)), strict=True)
            if wanted and not there
        ]
        return (
            f"group {name} has no {', '.join(missing)}"
            if missing
            else f"no node of group {name} has all its storage{' and classes' * any(asked.classes)}"
        )
    if not placement_rules.eligible(state, asked)[rows].any():
        rules = ", ".join(placement_rules.broken_by(state, asked, int(rows[0])))
        return f"no node of group {name} is allowed by its tags ({rules})"
    codes = instance_policy.policy_codes(state, asked, rows)
    if not (codes == FITS).any():
        return f"the policy of group {name} refuses it ({FAIL[int(codes[0])].value})"
    return None


class GroupTargets:
    """The groups open to instances by the rules. Moves do not change them, so results are cached."""

    def __init__(self, state: State, rules: RegroupingRules) -> None:
        self._state, self._groups = state, rules.groups
        self._exchanges = {(each.source, each.target): each for each in exchanges(state)}
        self._kinds: dict[Any, int] = {}
        self._kind_of: dict[int, int] = {}
        self._refused: dict[tuple[int, int], str | None] = {}
        self._targets: dict[tuple[tuple[int, ...], int], list[int]] = {}

    def refusal(self, index: int, home: int, group: int) -> str | None:
        """Return the reason why an instance of group ``home`` cannot be in ``group`` (rows), or None."""
        pair = self._exchanges.get((home, group))
        if group not in self._groups or (pair is None and group != home):
            return "it is left out"
        if group == home:
            return None
        return (pair and pair.obstacle) or self._refusal(index, group)

    def _refusal(self, index: int, group: int) -> str | None:
        key = group, self._kind(index)
        if key not in self._refused:
            self._refused[key] = group_refusal(self._state, self._state.instance(index), group)
        return self._refused[key]

    def _kind(self, index: int) -> int:
        """Return a number shared by instances that the same groups refuse."""
        if index not in self._kind_of:
            row = self._state.cluster.instances[index]
            networks = frozenset(nic.network for nic in row.nics)
            rules = self._state.rules and placement_tags(row.tags).choice
            kind = self._state.wants[index].tobytes(), row.demand, networks, rules
            self._kind_of[index] = self._kinds.setdefault(kind, len(self._kinds))
        return self._kind_of[index]

    def of(self, index: int, homes: tuple[int, ...]) -> list[int]:
        """Return the groups (rows) open to an instance with nodes in the groups ``homes``.

        An instance between two groups may go to either of them as well.
        """
        key = homes, self._kind(index)
        if key not in self._targets:
            others = sorted(self._groups - set(homes[:1] if len(homes) < 2 else ()))
            found = [group for group in others if self.refusal(index, homes[0], group) is None]
            self._targets[key] = found
        return list(self._targets[key])

    def neighbours(self, group: int) -> list[int]:
        """Return the groups (rows) that may take instances of a group (row)."""
        return [
            each.target
            for each in self._exchanges.values()
            if each.source == group and each.obstacle is None and each.target in self._groups
        ]
