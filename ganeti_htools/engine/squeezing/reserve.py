"""The room and the redundancy that a squeezed group keeps."""

from dataclasses import replace

import numpy as np

from ganeti_htools.engine.redundancy.bounds import unproved_losses
from ganeti_htools.engine.redundancy.health import bad_nodes, fragile_nodes
from ganeti_htools.engine.redundancy.rule import recover
from ganeti_htools.engine.rules import node_rules
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.squeezing.power_plan import ReserveByGroup
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import NOWHERE, Bools, sorted_unique
from ganeti_htools.model.state import State


def room_on_all(state: State, scope: Bools, wanted: ReserveByGroup) -> bool:
    """Whether each single online node in scope has room for its group's wanted instance.

    Offline nodes do not count, and have no figures on a live cluster.
    """
    online = scope & ~state.columns.offline
    for group in sorted_unique(state.group[online]).tolist():
        _, codes = node_rules.add_primary(state.columns, state.requested_instance(wanted[group]), 0, 0)
        if not (codes == FITS)[online & (state.group == group)].all():
            return False
    return True


def redundant(state: State, scope: Bools) -> bool:
    """Whether the group in scope holds N+1: its nodes keep memory for their mirrors, and any node can be
    lost.

    Unlike in ``hcheck(1)`` offline nodes take nothing, and offline nodes with instances can be lost too. If
    instances need certain storage units, the only other node with one must not go. Instances leave a lost
    node in the order in which they will be read.
    """
    state = replace(state, stamp=np.arange(len(state.pnode)))
    online = scope & ~state.columns.offline
    if bad_nodes(state, scope).any() or fragile_nodes(state, online).any():
        return False
    hosts = scope & (state.columns.primaries > 0)
    tried = np.flatnonzero(hosts if state.columns.shape.binds else hosts & ~online)
    return all(
        recovery.node != NOWHERE
        for node in unproved_losses(state, tried, np.flatnonzero(online)).tolist()
        for recovery in recover(state.copy(), node, scope, ~state.columns.offline)
    )


def is_empty(wanted: Instance) -> bool:
    """Whether nothing is kept free, and so no N+1 either (``--target-resources=0``)."""
    return not (wanted.mem or wanted.vcpus or wanted.dsk)
