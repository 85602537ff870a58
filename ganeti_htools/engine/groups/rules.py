"""Rules for moves between groups, independent of room."""

from dataclasses import dataclass

from ganeti_htools.engine.rules import placement_rules
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.state import State
from ganeti_htools.model.types import MirrorType


@dataclass(frozen=True, slots=True)
class RegroupingRules:
    """The instances that may move (``movable``, a mask) and the groups (rows) that give and take.

    ``mirrored``: also instances whose disks DRBD has to copy. ``plain``: also those that are stopped while
    their disks are copied.
    """

    movable: Bools
    groups: frozenset[int]
    mirrored: bool = True
    plain: bool = False


def obstacle_to_moving(state: State, rules: RegroupingRules, index: int) -> str | None:
    """Return the reason why an instance must not leave any of its nodes; None if it may."""
    offline = state.columns.offline
    lost, mirror = offline[state.pnode[index]], state.cluster.instances[index].template.mirror
    if not rules.movable[index]:
        return placement_rules.reason_to_stay(state, index) or "it must not be moved"
    if mirror is MirrorType.INTERNAL and state.snode[index] == NOWHERE:
        return "it has no secondary node"
    if mirror is MirrorType.INTERNAL and lost and offline[state.snode[index]]:
        return "both its nodes are offline"
    if mirror is MirrorType.NONE and lost:
        return "its disks are on an offline node"
    return None


def obstacle_to_leaving(state: State, rules: RegroupingRules, index: int) -> str | None:
    """Return the reason why an instance must not leave its group; None if it may."""
    template = state.cluster.instances[index].template
    why = obstacle_to_moving(state, rules, index)
    if why is None and template.mirror is MirrorType.INTERNAL and not rules.mirrored:
        return "its disks must not be moved"
    if why is None and template.mirror is MirrorType.NONE and not rules.plain:
        return f"{template.value} instances only move with --allow-plain"
    return why
