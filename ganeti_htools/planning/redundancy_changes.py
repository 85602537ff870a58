"""Instances that gain or lose redundancy by a plan."""

import numpy as np

from ganeti_htools.engine.redundancy.health import groups
from ganeti_htools.engine.redundancy.recoverability import unrecoverable
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.state import State


def redundancy_changes(before: State, after: State) -> dict[str, list[str]]:
    """Name the instances that would come back after the loss of their primary only before or only after.

    The two states have the same instances. As JSON: ``lost`` and ``gained``.
    """
    was, now = _unrecoverable(before), _unrecoverable(after)
    return {"lost": _names(after, now & ~was), "gained": _names(after, was & ~now)}


def _unrecoverable(state: State) -> Bools:
    found = np.zeros(len(state.pnode), np.bool_)
    for group in groups(state):
        found |= unrecoverable(state, state.group == group)
    return found


def _names(state: State, which: Bools) -> list[str]:
    return state.instance_names(np.flatnonzero(which).tolist())
