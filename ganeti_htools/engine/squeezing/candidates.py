"""Nodes that may be powered down or up at all."""

import numpy as np

from ganeti_htools.model.columns import Ints
from ganeti_htools.model.state import State
from ganeti_htools.model.tags import standby
from ganeti_htools.model.types import DiskTemplate


def staying(state: State, drbd: bool = False) -> dict[int, str]:
    """Why nodes cannot be powered down at all, by their rows; ``drbd`` as in :class:`Wishes`."""
    settled = ~state.forthcoming
    templates = [row.template for row in state.cluster.instances]
    fixed = [each.local_storage and not (drbd and each is DiskTemplate.DRBD) for each in templates]
    local = settled & np.array(fixed, np.bool_)
    hosts = set(state.pnode[local].tolist())
    mirrors = set(state.snode[settled & (state.snode >= 0)].tolist())
    reasons: dict[int, str] = {}
    for row, node in enumerate(state.cluster.nodes):
        if node.master:
            reasons[row] = "is the master"
        elif state.columns.offline[row]:
            reasons[row] = "is offline or drained"
        elif row in hosts:
            reasons[row] = "has instances on its own storage"
        elif row in mirrors and not drbd:
            reasons[row] = "is secondary node of instances"
    return reasons


def offline_candidates(state: State, drbd: bool = False) -> Ints:
    """Nodes that may be powered down, those with most instances first.

    They are online, not the master, secondary of no instance and have only instances without local
    storage; with ``drbd`` they may have DRBD instances as primary or secondary.
    """
    kept = staying(state, drbd)
    rows = np.array([row for row in range(len(state.group)) if row not in kept], np.int64)
    hosted = np.bincount(state.pnode[~state.forthcoming], minlength=len(state.group))
    return rows[np.argsort(-hosted[rows], kind="stable")]


def online_candidates(state: State) -> Ints:
    """Nodes that may be powered up: offline, with a standby tag."""
    tagged = np.array([standby(node.tags) for node in state.cluster.nodes], np.bool_)
    return np.flatnonzero(state.columns.offline & tagged)
