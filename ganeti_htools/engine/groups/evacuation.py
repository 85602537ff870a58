"""Evacuate nodes; instances without a place in their group go to another group.

(Ganeti's design "Synchronising htools to Ganeti 2.3", node evacuation changes.)
"""

from collections.abc import Sequence

import numpy as np

from ganeti_htools.engine.allocation.evacuate import Evacuation, evacuate_nodes, nodes_to_leave
from ganeti_htools.engine.allocation.reporter import SILENT, Reporter
from ganeti_htools.engine.groups.bottleneck import no_room
from ganeti_htools.engine.groups.regrouping import Regrouping
from ganeti_htools.engine.groups.rules import RegroupingRules
from ganeti_htools.engine.rules.placement_rules import mates
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import EvacMode


def evacuate_over_groups(
    state: State,
    instances: Sequence[int],
    mode: EvacMode,
    options: PlacementOptions,
    reporter: Reporter = SILENT,
) -> Evacuation:
    """Move instances like :func:`.evacuate_nodes`, then those without a place to other groups.

    Each goes to the best place in the best group, never into a group with an evacuated node. The reporter
    sees only the places in their own groups.
    """
    inside = evacuate_nodes(state, instances, mode, options, reporter)
    if not inside.failed:
        return inside
    others = set(state.group.tolist()) - set(state.group[nodes_to_leave(state, instances, mode)].tolist())
    everyone = np.ones(len(state.pnode), np.bool_)
    now = Regrouping(inside.state, RegroupingRules(everyone, frozenset(others)))
    stuck = dict(inside.failed)
    left = dict[int, str]()
    waiting = list[int]()
    while waiting != list(stuck):  # what leaves may make way for what could not leave before
        waiting = list(stuck)
        for index in waiting:
            after = now.after_leaving_group(index) if _lacks_room(now, index, mode) else None
            if after is not None:
                now, left[index] = after, stuck.pop(index)
    failed = [
        (index, f"{why}; {_refusals(now, index)}" if _lacks_room(now, index, mode) else why)
        for index, why in stuck.items()
    ]
    return Evacuation((*inside.moved, *now.moved), tuple(failed), now.state, tuple(left.items()))


def _lacks_room(now: Regrouping, index: int, mode: EvacMode) -> bool:
    """Whether only a lack of room keeps an instance where it is."""
    if mates(now.state, index):
        return False  # it would leave the group without them
    without_secondary = mode is EvacMode.SECONDARY and not now.state.instance(index).mirrored
    return now.obstacle(index) is None and not without_secondary


def _refusals(now: Regrouping, index: int) -> str:
    refusals = {group: now.refusal(index, group) for group in sorted(now.rules.groups)}
    full = no_room(now, index, [group for group, why in refusals.items() if why is None])
    return ", ".join(filter(None, (full, *dict.fromkeys(refusals.values())))) or "there is no other group"
