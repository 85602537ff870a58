"""The rest of a plan to power nodes down or up, on a cluster that may have changed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ganeti_htools.engine.balancing import recheck
from ganeti_htools.engine.balancing.recheck import NamedStep
from ganeti_htools.engine.squeezing import reserve
from ganeti_htools.engine.squeezing.candidates import lacks_master_candidates, online_candidates
from ganeti_htools.engine.squeezing.power_group import TO_THE_END, switched
from ganeti_htools.engine.squeezing.power_plan import Action, Wanted
from ganeti_htools.model.columns import Bools, sorted_unique
from ganeti_htools.model.state import State


@dataclass(frozen=True, slots=True)
class NamedPhase:
    """What is left of a phase: nodes that are still to be powered down, or up, and the steps."""

    nodes: Sequence[str]
    steps: Sequence[NamedStep]


def obstacle(
    state: State,
    action: Action,
    phases: Sequence[NamedPhase],
    wanted: Wanted | None,
    movable: Bools,
) -> str | None:
    """Why the rest of a plan cannot be carried out on a state; None if it can.

    Nodes that are powered down have to be empty in the end. There has to be room for ``wanted`` on all nodes
    of their groups that remain, or on all nodes once others are powered up; if it is None, the plan does not
    promise any.
    """
    nodes = [name for phase in phases for name in phase.nodes]
    gone = [name for name in nodes if name not in state.nodes]
    if gone:
        return f"node {gone[0]} is gone"
    rows = [state.nodes[name] for name in nodes]
    down = action is Action.OFFLINE
    for name, row in zip(nodes, rows, strict=True):
        if down and state.cluster.nodes[row].master:
            return f"node {name} is the master"
        if down and state.columns.offline[row]:
            return f"node {name} is offline or drained"
        if not down and row not in online_candidates(state):
            return f"node {name} is not offline with a standby tag"
    for step in (step for phase in phases for step in phase.steps):
        touched = [state.nodes[name] for name in (*step.was, *step.now) if name in state.nodes]
        if len(set(state.group[touched].tolist())) > 1:
            return f"instance {step.instance} would leave its group"
    marked, everywhere = state, np.ones(len(state.group), np.bool_)
    for phase in phases:
        marked = switched(marked, [state.nodes[name] for name in phase.nodes], down)
        problem = recheck.obstacle(marked, everywhere, phase.steps, TO_THE_END, movable)
        if problem:
            return problem
    if not down:
        enough = wanted is None or reserve.room_on_all(marked, everywhere, wanted)
        return None if enough else "nodes would not have the minimal resources free"
    emptied = np.isin(marked.pnode, rows) | np.isin(marked.snode, rows)
    for left in np.flatnonzero(emptied & ~marked.forthcoming).tolist():
        return f"instance {state.cluster.instances[left].name} would be left on a node that is powered down"
    if lacks_master_candidates(state, ~marked.columns.offline):
        return "too few nodes would be left that can be master candidates"
    groups = np.isin(marked.group, marked.group[rows])
    if wanted is None:
        return None
    if not reserve.room_on_all(marked, groups, wanted):
        return "nodes would not keep the target resources free"
    for group in sorted_unique(marked.group[rows]).tolist():
        if not reserve.nothing_kept(wanted[group]) and not reserve.redundant(marked, marked.group == group):
            return f"group {marked.cluster.groups[group].name} would not hold N+1"
    return None
