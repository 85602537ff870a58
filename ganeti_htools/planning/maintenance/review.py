"""Review of the rest of a maintenance plan: other runs on its nodes, and moves that are impossible now."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ganeti_htools.engine.maintenance import returning
from ganeti_htools.engine.maintenance.following import follow
from ganeti_htools.engine.moving.named_moves import remaining_move
from ganeti_htools.engine.redundancy.recoverability import describe_lost
from ganeti_htools.engine.rules import placement_rules
from ganeti_htools.execution.jobs import Jobsets
from ganeti_htools.model.cluster import Node
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.maintenance_tags import maintenance_of, run_tag
from ganeti_htools.model.moves import MovePart, NamedMove
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import State


def marks(nodes: Iterable[Node]) -> frozenset[str]:
    return frozenset(mark for node in nodes for mark in maintenance_of(node.tags).runs)


def mark_of(run: str) -> str:
    return run_tag(run).removeprefix(run_tag(""))


def other_run(nodes: Iterable[Node], run: str, rest: Jobsets, seen: frozenset[str]) -> str | None:
    """Return why a run must leave its nodes to another one, or None.

    Of two that began at the same time the one with the first mark goes on. ``seen`` marks were there when
    the run was planned.
    """
    own = mark_of(run)
    ahead = {op["name"] for jobs in rest for job in jobs for op in job.opcodes if _marks_node(op, run)}
    for node in nodes:
        there = marks([node])
        others = sorted(there - seen - {own})
        if node.name in ahead and others:
            return f"another run is at work on node {node.name}: {others[0]}"
        if node.name not in ahead and own not in there:
            return f"another run has taken over node {node.name}"
        if others and others[0] < own:
            return f"another run began first on node {node.name}: {others[0]}"
    return None


def _marks_node(opcode: Mapping[str, Any], run: str) -> bool:
    return opcode["OP_ID"] == "OP_TAGS_SET" and opcode["kind"] == "node" and run_tag(run) in opcode["tags"]


def follow_rest(
    state: State, rest: Jobsets, shut: Bools, options: PlacementOptions
) -> tuple[State, set[int]] | str:
    """Make the remaining moves. Returns the state afterwards and who moves (rows), or the first obstacle.

    ``shut`` nodes take no instances.
    """
    rows = state.rows_by_name()
    after, moving = state.copy(), set[int]()
    for move in [job.step for jobs in rest for job in jobs]:
        if move is None:
            continue
        index = rows.get(move.instance)
        why = "it is gone" if index is None else _follow(state, after, index, move, shut, options)
        if why is not None or index is None:
            return f"instance {move.instance}: {why}"
        moving.add(index)
    for index in np.flatnonzero(placement_rules.apart(after, state)).tolist():
        return (
            f"instance {state.cluster.instances[index].name}: {placement_rules.reason_to_stay(state, index)}"
        )
    return after, moving


def _follow(
    now: State, after: State, index: int, move: NamedMove, shut: Bools, options: PlacementOptions
) -> str | None:
    """Make the rest of a move, in place; return why it is impossible, or None."""
    left = remaining_move(now, index, move)
    if left is None:
        return f"it is not on {', '.join(move.was)} any more"
    gone = [node for _, node in left.parts if node is not None and node not in now.nodes]
    if gone:
        return f"node {gone[0]} is gone"
    parts = [MovePart(operation, now.nodes[node] if node else NOWHERE) for operation, node in left.parts]
    return follow(after, index, parts, shut, options)


def newly_lost(after: State, leaving: Bools, accepted: frozenset[str]) -> str | None:
    """Describe instances without redundancy that are not ``accepted`` (names); None if there are none.

    Instances on nodes that are to be emptied do not count: their mirror is gone, or they stop with the node.
    """
    away = leaving[after.pnode] | (leaving[after.snode] & (after.snode != NOWHERE))
    lost = np.flatnonzero(returning.lost_now(after) & ~away).tolist()
    new = [index for index in lost if after.cluster.instances[index].name not in accepted]
    return describe_lost(after, new) if new else None
