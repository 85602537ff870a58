"""Instances that would not come back if their node were lost.

The rule of ``hcheck --what-if-lost``, ``hregroup``, ``hsqueeze`` and the daemon's policies. Unlike in
Ganeti's htools, offline and drained nodes take no instances: Ganeti fails nothing over to them
(``CheckNodeNotDrained``).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ganeti_htools.engine.redundancy.assessment import Assessment, assess
from ganeti_htools.engine.redundancy.bounds import unproved_losses
from ganeti_htools.engine.redundancy.rule import DRBD, Recovery, bound_to_nodes, recover
from ganeti_htools.model.columns import NOWHERE, Bools, sorted_unique
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.wording import shorten_names


def unrecoverable(state: State, scope: Bools, redundancy: Assessment | None = None) -> Bools:
    """Mark the instances of a group, in scope, that would not come back after the loss of their primary.

    The loss of an offline node counts as well. Instances leave a lost node in the order in which they will be
    read. ``redundancy`` is that of the group's online nodes, if it is known.
    """
    found = np.zeros(len(state.pnode), np.bool_)
    found[list(unrecoverable_rows(state, scope, redundancy))] = True
    return found


def unrecoverable_rows(state: State, scope: Bools, redundancy: Assessment | None = None) -> Iterator[int]:
    """Yield the rows of the instances that :func:`unrecoverable` marks."""
    state = replace(state.without_load(), stamp=np.arange(len(state.pnode)))
    redundancy = redundancy or assess(state, scope & ~state.columns.offline, PlacementOptions())
    for node in _unproved(state, scope, redundancy):
        for recovery in recoveries(state.copy(), node):
            if recovery.node == NOWHERE:
                yield recovery.instance


def recoveries(state: State, node: int) -> Iterator[Recovery]:
    """Find the recovery of each instance of a lost node, one after the other, on this state, in place."""
    up = ~state.columns.offline
    return recover(state, node, up & (state.group == state.group[node]), up, every=True)


def takers(state: State, node: int) -> Bools:
    """Mark the nodes that take the instances of a lost node."""
    found: Bools = (state.group == state.group[node]) & ~state.columns.offline
    found[node] = False
    return found


def describe_lost(state: State, rows: Sequence[int]) -> str:
    """Describe instances (rows) that lost their redundancy on the way to a state."""
    names = shorten_names(state.instance_names(rows))
    nodes = shorten_names(state.names(sorted({int(state.pnode[row]) for row in rows})))
    return f"{names} would not come back after the loss of {nodes}, unlike now"


def nodes_of_unrecoverable(state: State, scope: Bools, lost: Bools) -> Bools:
    """Mark the online nodes in scope, a group, of ``lost`` instances.

    Instances that cannot come back whatever is free (:func:`.bound_to_nodes`) do not count.
    """
    rows = np.flatnonzero(lost & scope[state.pnode])
    if state.binds:
        rows = rows[~bound_to_nodes(state, rows, scope)]
    found = np.zeros(len(scope), np.bool_)
    found[state.pnode[rows]] = True
    return found & ~state.columns.offline


def _unproved(state: State, scope: Bools, redundancy: Assessment) -> list[int]:
    """Return the nodes with instances of which it is not proved that all come back."""
    online, settled = scope & ~state.columns.offline, scope[state.pnode] & ~state.forthcoming
    unproved = redundancy.fragile()
    mirrors_off = settled & (state.snode != NOWHERE) & ~online[state.snode] & (state.template == DRBD)
    unproved[state.pnode[mirrors_off]] = True
    if state.binds:
        rows = np.flatnonzero(settled)
        unproved[state.pnode[rows[bound_to_nodes(state, rows, online)]]] = True
    hosts = sorted_unique(state.pnode[settled])
    off = hosts[~online[hosts]]
    unproved[unproved_losses(state, off, np.flatnonzero(online))] = True
    return np.flatnonzero(unproved).tolist()
