"""The states of nodes follow from their flags and tags."""

from dataclasses import replace
from typing import Any

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.derive import derive
from ganeti_htools.model.node_state import NodeState
from tests.support import by_hand

CHANGES: dict[NodeState, dict[str, Any]] = {
    NodeState.DRAINED: {"offline": True, "drained": True},
    NodeState.STANDBY: {"offline": True, "tags": ("htools:standby:1",)},
    NodeState.MAINTENANCE: {"tags": ("htools:maintenance",), "offline": True, "drained": True},
    NodeState.OFFLINE: {"offline": True},
    NodeState.SILENT: {"offline": True, "silent": True, "tags": ("htools:standby:1",)},
    NodeState.IN_USE: {"tags": ("htools:standby:1",)},
}


def in_all_states() -> Cluster:
    """A cluster with a node in each state."""
    made = by_hand.cluster({state.name.lower(): 1000 for state in CHANGES}, [])
    nodes = (replace(node, **change) for node, change in zip(made.nodes, CHANGES.values(), strict=True))
    return replace(made, nodes=tuple(nodes))


def test_state_follows_from_flags_and_tags() -> None:
    state = derive(in_all_states())
    assert [node.state for node in state.cluster.nodes] == list(CHANGES)
    assert [state.node_state(row) for row in range(len(CHANGES))] == list(CHANGES)


def test_plan_that_powers_nodes_down_or_up_changes_their_state() -> None:
    state, rows = derive(in_all_states()), {each: row for row, each in enumerate(CHANGES)}
    state.columns.offline[[rows[NodeState.IN_USE], rows[NodeState.STANDBY]]] = True, False
    assert state.node_state(rows[NodeState.IN_USE]) is NodeState.STANDBY
    assert state.node_state(rows[NodeState.STANDBY]) is NodeState.IN_USE
