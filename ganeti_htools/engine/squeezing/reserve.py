"""What has to stay free on nodes, and what redundancy a group has to keep."""

from dataclasses import replace

import numpy as np

from ganeti_htools.engine.redundancy.check import fragile_nodes
from ganeti_htools.engine.redundancy.global_n1 import unproved
from ganeti_htools.engine.redundancy.n1 import bad_nodes
from ganeti_htools.engine.redundancy.node_loss import recover
from ganeti_htools.engine.rules import node_rules
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.squeezing.power_plan import ReserveByGroup
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import NOWHERE, Bools, sorted_unique
from ganeti_htools.model.state import State


def room_on_all(state: State, scope: Bools, wanted: ReserveByGroup) -> bool:
    """Whether each single online node in scope could take what its group wants to be free.

    Nodes that are offline say nothing about the room of the others, and have no figures on a live cluster.
    """
    online = scope & ~state.columns.offline
    for group in sorted_unique(state.group[online]).tolist():
        _, codes = node_rules.add_primary(state.columns, state.requested_instance(wanted[group]), 0, 0)
        if not (codes == FITS)[online & (state.group == group)].all():
            return False
    return True


def redundant(state: State, scope: Bools) -> bool:
    """Whether the group in scope holds N+1: its nodes keep what their mirrors need, and any can be lost.

    Unlike with ``hcheck(1)`` nodes that are offline take nothing. Those of them with instances can be lost,
    too. Where instances are bound to storage units, the only other node that has one must not go. Instances
    leave a lost node in the order in which they will be read, whichever came to it first.
    """
    state = replace(state, stamp=np.arange(len(state.pnode)))
    online = scope & ~state.columns.offline
    if bad_nodes(state, scope).any() or fragile_nodes(state, online).any():
        return False
    hosts = scope & (state.columns.primaries > 0)
    tried = np.flatnonzero(hosts if state.columns.shape.binds else hosts & ~online)
    return all(
        recovery.node != NOWHERE
        for node in unproved(state, tried, np.flatnonzero(online)).tolist()
        for recovery in recover(state.copy(), node, scope, ~state.columns.offline)
    )


def is_empty(wanted: Instance) -> bool:
    """Whether nothing at all is to be kept free, and so no N+1 either (``--target-resources=0``)."""
    return not (wanted.mem or wanted.vcpus or wanted.dsk)
