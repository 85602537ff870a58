"""The room and the redundancy that a squeezed group keeps."""

import numpy as np

from ganeti_htools.engine.redundancy.health import bad_nodes
from ganeti_htools.engine.redundancy.recoverability import unrecoverable_rows
from ganeti_htools.engine.redundancy.rule import bound_to_nodes
from ganeti_htools.engine.rules import node_rules
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.squeezing.power_plan import ReserveByGroup
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import Bools, sorted_unique
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


def holds_n1(state: State, scope: Bools, before: State | None = None) -> bool:
    """Whether the group in scope holds N+1: its nodes keep memory for their mirrors, and any node can be
    lost.

    Instances do not count if ``before``, in the same state unless given, no other node of the group, online
    or not, had the storage units that they need.
    """
    if bad_nodes(state, scope).any():
        return False
    lost, before = unrecoverable_rows(state, scope), before or state
    return all(bound_to_nodes(before, np.array([row]), scope).all() for row in lost)


def is_empty(wanted: Instance) -> bool:
    """Whether nothing is kept free, and so no N+1 either (``--target-resources=0``)."""
    return not (wanted.mem or wanted.vcpus or wanted.dsk)
