"""A node group as a small state of its own."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ganeti_htools.engine.allocation.one_node import on_nodes
from ganeti_htools.engine.allocation.pairs import on_pairs
from ganeti_htools.engine.allocation.solution import Solution
from ganeti_htools.engine.redundancy.assessment import Assessment, assess
from ganeti_htools.engine.redundancy.checks import Check, NoLossCheck
from ganeti_htools.engine.redundancy.recoverability import unrecoverable
from ganeti_htools.engine.rules import choice, settling
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.disk_defaults import with_disk_defaults
from ganeti_htools.model.instance_kinds import InstanceKind, InstanceSize
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import RequestedInstance, State


@dataclass(frozen=True, slots=True)
class GroupState:
    """A node group as a state of its own; ``nodes`` and ``instances`` are its rows in the whole cluster.

    ``lost`` marks its instances that are :func:`.unrecoverable`. ``check`` keeps the redundancy of the group.
    ``known`` caches the places found.
    """

    state: State
    nodes: Ints
    instances: Ints
    lost: Bools
    check: Check
    known: dict[Any, Solution | None] = field(default_factory=dict)

    @property
    def redundant(self) -> bool:
        """Whether the group is proved redundant, also with less placed on it."""
        return isinstance(self.check, Assessment) and self.check.bounds.proves_all


def group_state(whole: State, group: int) -> GroupState:
    """Return a group (row) of a cluster with the instances that have all their nodes in the group."""
    scope = whole.group == group
    here = scope[whole.pnode] & ((whole.snode == NOWHERE) | scope[whole.snode])
    nodes, instances = np.flatnonzero(scope), np.flatnonzero(here)
    return _detached(whole.part(nodes, instances), nodes, instances)


def _detached(state: State, nodes: Ints, instances: Ints) -> GroupState:
    redundancy = assess(state, ~state.columns.offline, PlacementOptions())
    lost = unrecoverable(state, np.ones(len(nodes), np.bool_), redundancy)
    check: Check = NoLossCheck(redundancy, lost) if lost.any() else redundancy
    return GroupState(state, nodes, instances, lost, check)


def best_place(
    alone: GroupState, asked: RequestedInstance, first: Ints, check: Check | None
) -> Solution | None:
    """Return the best place for an instance with its primary on one of these nodes (the group's rows)."""
    state, everyone = alone.state, np.ones(len(alone.nodes), np.bool_)
    nodes = np.flatnonzero(~state.columns.offline)
    if not len(first) or len(nodes) < asked.row.template.required_nodes:
        return None
    if not asked.mirrored:
        return on_nodes(state, asked, first, everyone, PlacementOptions(), check)
    base = choice.base(state, everyone)
    return on_pairs(state, asked, first, nodes, base, PlacementOptions(), check)


def has_room(alone: GroupState, group: int, number: int) -> bool:
    """Whether this number of standard instances, by the policy of the group (row), can be placed.

    They get the first disk template of the policy whose storage unit the group has.
    """
    if not number:
        return True
    policy = alone.state.policies[group]
    template = next((each for each in policy.disk_templates if not alone.state.lacks_unit(each)), None)
    if template is None:
        return False
    kind = InstanceKind(template, policy.std.spindle_use)
    size = InstanceSize(policy.std.memory_size, policy.std.disk_size, policy.std.cpu_count)
    row = with_disk_defaults(alone.state.cluster.groups[group], kind.instance(size))
    for _ in range(number):
        online = np.flatnonzero(~alone.state.columns.offline)
        solution = best_place(alone, alone.state.requested_instance(row), online, alone.check)
        if solution is None or solution.trial is None:
            return False
        state = alone.state.copy()
        settling.settle(state, solution.trial)
        alone = _detached(state, alone.nodes, alone.instances)
    return True
