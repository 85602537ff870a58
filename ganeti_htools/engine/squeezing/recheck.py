"""Recheck the rest of a power plan on a cluster that may have changed."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ganeti_htools.engine.balancing import recheck
from ganeti_htools.engine.redundancy.recoverability import describe_lost, unrecoverable
from ganeti_htools.engine.squeezing import reserve
from ganeti_htools.engine.squeezing.candidates import lacks_master_candidates, online_candidates
from ganeti_htools.engine.squeezing.power_group import TO_THE_END, drained_nodes, with_power
from ganeti_htools.engine.squeezing.power_plan import Action, ReserveByGroup
from ganeti_htools.model.columns import Bools, sorted_unique
from ganeti_htools.model.moves import NamedMove
from ganeti_htools.model.state import State


@dataclass(frozen=True, slots=True)
class NamedPhase:
    """The rest of a phase: nodes still to be powered down or up, and steps, by name; see :class:`.Phase`."""

    action: Action
    nodes: Sequence[str]
    steps: Sequence[NamedMove]
    late: Collection[str] = ()


def obstacle(
    state: State,
    phases: Sequence[NamedPhase],
    promised: ReserveByGroup | None,
    target: ReserveByGroup,
    movable: Bools,
    soon: int,
) -> str | None:
    """Return the reason why the rest of a plan cannot be carried out on a state, or None.

    Nodes to be powered down must be empty by then, and each remaining node of their groups must have room
    for ``target``. In the end each node must have room for ``promised``, if given. None of the ``soon`` first
    steps may take an instance's redundancy, nor may a whole phase.
    """
    gone = [name for phase in phases for name in phase.nodes if name not in state.nodes]
    if gone:
        return f"node {gone[0]} is gone"
    everywhere = np.ones(len(state.group), np.bool_)
    for phase in phases:
        rows, down = [state.nodes[name] for name in phase.nodes], phase.action is Action.OFFLINE
        marked = with_power(state, rows, down)
        late = np.isin(np.arange(len(everywhere)), [state.nodes[name] for name in phase.late])
        problem = (
            _not_switched(state, rows, down)
            or _leaving(state, phase.steps)
            or recheck.obstacle(
                marked,
                everywhere,
                phase.steps,
                TO_THE_END,
                movable,
                _Losses(marked, phase.steps, late, target, soon),
            )
            or (_too_few(state, marked, rows, target) if down else None)
        )
        if problem:
            return problem
        state, soon = marked, max(0, soon - len(phase.steps))
    enough = promised is None or reserve.room_on_all(state, everywhere, promised)
    return None if enough else "nodes would not have the minimal resources free"


class _Losses:
    """The redundancy of the instances of each group, after each of the ``soon`` first steps of a phase. The
    steps of a set that stays together count as one.

    After the other steps it is only compared in the end: each of them is among the first ones of a later
    review. ``late`` nodes take instances as long as they have mirrored ones.
    """

    def __init__(
        self, state: State, steps: Sequence[NamedMove], late: Bools, target: ReserveByGroup, soon: int
    ) -> None:
        self._state, self._late, self._target = state, late, target
        self._left, self._soon = (sum(not step.with_next for step in some) for some in (steps, steps[:soon]))
        touched = {name for step in steps for name in step.was} & state.nodes.keys()
        groups = {int(state.group[state.nodes[name]]) for name in touched}
        self._lost = {group: self._unrecoverable(group) for group in groups}

    def __call__(self, row: int) -> str | None:
        """Describe who has lost redundancy up to a step of the instance (row); None if nobody has."""
        self._left, self._soon = self._left - 1, self._soon - 1
        if self._soon < 0 < self._left:
            return None
        group = int(self._state.group[self._state.pnode[row]])
        for each in [group] if self._soon >= 0 else list(self._lost):
            before = self._lost[each]
            now = self._lost[each] = self._unrecoverable(each)
            rows = np.flatnonzero(now & ~before).tolist()
            if rows:
                return describe_lost(self._state, rows)
        return None

    def _unrecoverable(self, group: int) -> Bools:
        if reserve.is_empty(self._target[group]):
            return np.zeros(len(self._state.pnode), np.bool_)
        drained = drained_nodes(self._state, self._late)
        columns = self._state.columns._replace(offline=drained)
        return unrecoverable(replace(self._state, columns=columns), self._state.group == group)


def _not_switched(state: State, rows: Sequence[int], down: bool) -> str | None:
    """Return the reason why nodes cannot be powered down, or up."""
    for row in rows:
        node = state.cluster.nodes[row]
        if down and node.master:
            return f"node {node.name} is the master"
        if down and state.columns.offline[row]:
            return f"node {node.name} is offline or drained"
        if not down and row not in online_candidates(state):
            return f"node {node.name} is not offline with a standby tag"
    return None


def _leaving(state: State, steps: Sequence[NamedMove]) -> str | None:
    """Return a step that leads out of its group, in words."""
    for step in steps:
        touched = [state.nodes[name] for name in (*step.was, *step.now) if name in state.nodes]
        if len(set(state.group[touched].tolist())) > 1:
            return f"instance {step.instance} would leave its group"
    return None


def _too_few(before: State, state: State, rows: Sequence[int], target: ReserveByGroup) -> str | None:
    """Return the reason against powering nodes down: instances left on them, or too little on the others."""
    emptied = np.isin(state.pnode, rows) | np.isin(state.snode, rows)
    for left in np.flatnonzero(emptied & ~state.forthcoming).tolist():
        return f"instance {state.cluster.instances[left].name} would be left on a node that is powered down"
    if lacks_master_candidates(before, ~state.columns.offline):
        return "too few nodes would be left that can be master candidates"
    if not reserve.room_on_all(state, np.isin(state.group, state.group[rows]), target):
        return "nodes would not keep the target resources free"
    for group in sorted_unique(state.group[rows]).tolist():
        if not (reserve.is_empty(target[group]) or reserve.redundant(state, state.group == group, before)):
            return f"group {state.cluster.groups[group].name} would not hold N+1"
    return None
