"""The rest of a plan to power nodes down or up, on a cluster that may have changed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ganeti_htools.engine.balancing import recheck
from ganeti_htools.engine.squeezing import reserve
from ganeti_htools.engine.squeezing.candidates import lacks_master_candidates, online_candidates
from ganeti_htools.engine.squeezing.power_group import TO_THE_END, with_power
from ganeti_htools.engine.squeezing.power_plan import Action, ReserveByGroup
from ganeti_htools.model.columns import Bools, sorted_unique
from ganeti_htools.model.moves import NamedStep
from ganeti_htools.model.state import State


@dataclass(frozen=True, slots=True)
class NamedPhase:
    """What is left of a phase: nodes that are still to be powered down, or up, and the steps."""

    action: Action
    nodes: Sequence[str]
    steps: Sequence[NamedStep]


def obstacle(
    state: State,
    phases: Sequence[NamedPhase],
    promised: ReserveByGroup | None,
    target: ReserveByGroup,
    movable: Bools,
) -> str | None:
    """Why the rest of a plan cannot be carried out on a state; None if it can.

    Nodes that are powered down have to be empty then, and all nodes of their groups that remain to have room
    for ``target``. In the end there has to be room on all nodes for what is ``promised``, if anything.
    """
    gone = [name for phase in phases for name in phase.nodes if name not in state.nodes]
    if gone:
        return f"node {gone[0]} is gone"
    everywhere = np.ones(len(state.group), np.bool_)
    for phase in phases:
        rows, down = [state.nodes[name] for name in phase.nodes], phase.action is Action.OFFLINE
        marked = with_power(state, rows, down)
        problem = (
            _not_switched(state, rows, down)
            or _leaving(state, phase.steps)
            or recheck.obstacle(marked, everywhere, phase.steps, TO_THE_END, movable)
            or (_too_few(state, marked, rows, target) if down else None)
        )
        if problem:
            return problem
        state = marked
    enough = promised is None or reserve.room_on_all(state, everywhere, promised)
    return None if enough else "nodes would not have the minimal resources free"


def _not_switched(state: State, rows: Sequence[int], down: bool) -> str | None:
    """Why nodes cannot be powered down, or up."""
    for row in rows:
        node = state.cluster.nodes[row]
        if down and node.master:
            return f"node {node.name} is the master"
        if down and state.columns.offline[row]:
            return f"node {node.name} is offline or drained"
        if not down and row not in online_candidates(state):
            return f"node {node.name} is not offline with a standby tag"
    return None


def _leaving(state: State, steps: Sequence[NamedStep]) -> str | None:
    """Which step leads from one group to another."""
    for step in steps:
        touched = [state.nodes[name] for name in (*step.was, *step.now) if name in state.nodes]
        if len(set(state.group[touched].tolist())) > 1:
            return f"instance {step.instance} would leave its group"
    return None


def _too_few(before: State, state: State, rows: Sequence[int], target: ReserveByGroup) -> str | None:
    """Why nodes must not be powered down: what is left on them, and what others do not have."""
    emptied = np.isin(state.pnode, rows) | np.isin(state.snode, rows)
    for left in np.flatnonzero(emptied & ~state.forthcoming).tolist():
        return f"instance {state.cluster.instances[left].name} would be left on a node that is powered down"
    if lacks_master_candidates(before, ~state.columns.offline):
        return "too few nodes would be left that can be master candidates"
    if not reserve.room_on_all(state, np.isin(state.group, state.group[rows]), target):
        return "nodes would not keep the target resources free"
    for group in sorted_unique(state.group[rows]).tolist():
        if not reserve.is_empty(target[group]) and not reserve.redundant(state, state.group == group):
            return f"group {state.cluster.groups[group].name} would not hold N+1"
    return None
