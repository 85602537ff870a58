"""Placements carried out after a trial: the only functions that change a state, in place."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ganeti_htools.engine.rules import affinity, node_rules, placement_rules
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.cluster import Instance
from ganeti_htools.model.columns import NOWHERE, Ints
from ganeti_htools.model.figures import TEMPLATE_CODE
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import DiskTemplate


def settle(state: State, trial: Trial) -> int:
    """Carry out a trial with one candidate, in place; returns the row. A new instance gets a row."""
    asked = trial.asked
    pnode, snode = int(trial.pnode[0]), int(trial.snode[0])
    if asked.forthcoming:
        state.columns = state.columns.with_forthcoming_apart()
    for node in trial.changes:
        state.columns = state.columns.apart(node.new.aliases)
        state.columns.put(int(node.rows[0]), node.new)
    index = asked.index
    if index == NOWHERE:
        index = _append(state, asked, (asked.row,))
    elif state.pnode[index] != NOWHERE:
        _count(state, asked, *state.node_pair(index), -1)
    set_nodes(state, [index], [pnode], [snode])
    _count(state, asked, pnode, snode, 1)
    return index


def set_nodes(state: State, rows: Any, pnodes: Sequence[int] | Ints, snodes: Sequence[int] | Ints) -> None:
    """Write the nodes of instances that were placed in this order, in place; rows may repeat."""
    state.pnode[rows], state.snode[rows] = pnodes, snodes
    state.stamp[rows] = state.stamp.max() + np.arange(1, len(pnodes) + 1)


def without_primary(state: State, index: int) -> State:
    """Copy a state without an instance that has a primary only, to place it anew as mirrored."""
    state = state.copy()
    asked, node = state.instance(index), int(state.pnode[index])
    conflicts = affinity.tag_conflicts(state, asked)[[node]]
    location = affinity.location_score(state, asked) + affinity.unmet_locations(state, asked)[node]
    old = state.columns.take([node])
    state.columns.put(node, node_rules.remove_primary(old, asked, conflicts, location))
    _count(state, asked, node, NOWHERE, -1)
    state.pnode[index] = NOWHERE
    state.template = state.template.copy()
    state.template[index] = TEMPLATE_CODE[DiskTemplate.DRBD]
    rows = list(state.cluster.instances)
    rows[index] = replace(rows[index], template=DiskTemplate.DRBD)
    state.cluster = replace(state.cluster, instances=tuple(rows))
    return state


def _count(state: State, asked: RequestedInstance, pnode: int, snode: int, sign: int) -> None:
    """Count the tags of an instance that comes (1) or leaves (-1), and what its secondary keeps free.

    Also its place, for the rules of others.
    """
    state.tag_counts[asked.tags, pnode] += sign
    if asked.forthcoming:
        state.forthcoming_tag_counts[asked.tags, pnode] += sign
    if snode != NOWHERE:
        reserve(state, asked, pnode, snode, sign)
    if state.rules is not None:
        state.rules.count(placement_rules.rules_of(state, asked), pnode, snode, sign)


def reserve(state: State, asked: RequestedInstance, pnode: int, snode: int, sign: int = 1) -> None:
    """Count what a secondary keeps free in case its primary fails, in place; -1 takes it off."""
    if asked.forthcoming:
        return
    if not state.peers.flags.writeable:
        state.peers, state.class_peers = state.peers.copy(), tuple(map(np.copy, state.class_peers))
    state.peers[pnode, snode] += sign * asked.secondary_mem
    for peers, kept in zip(state.class_peers, asked.secondary_classes, strict=True):
        peers[pnode, snode] += sign * kept


def add_rows(
    state: State, asked: RequestedInstance, rows: Sequence[Instance], nodes: Sequence[tuple[int, int]]
) -> None:
    """Append rows for new instances like ``asked``; the figures of their nodes (primary, secondary) include
    them.
    """
    if rows:
        first = _append(state, asked, rows)
        set_nodes(state, slice(first, None), *np.array(nodes).T)


def _append(state: State, asked: RequestedInstance, rows: Sequence[Instance]) -> int:
    """Append rows for instances like ``asked``; returns the first row."""
    first, number = len(state.pnode), len(rows)
    state.cluster = replace(state.cluster, instances=(*state.cluster.instances, *rows))
    for name, value in (
        ("pnode", NOWHERE),
        ("snode", NOWHERE),
        ("stamp", 0),
        ("record_mem", asked.record_mem),
        ("dsk", asked.row.dsk),
        ("template", TEMPLATE_CODE[asked.row.template]),
        ("forthcoming", asked.forthcoming),
    ):
        known = getattr(state, name)
        setattr(state, name, np.append(known, np.full(number, value, known.dtype)))
    state.disk = np.concatenate([state.disk, np.tile(np.array(asked.disk, np.int64), (number, 1))])
    state.classes = np.concatenate([state.classes, np.tile(np.array(asked.classes, np.int64), (number, 1))])
    state.wants = np.concatenate([state.wants, np.tile(np.array(asked.wants, np.bool_), (number, 1))])
    if state.load is not None:
        state.load = state.load.followed_by([each.sums for each in asked.hours], number)
    if state.rules is not None:
        state.rules = state.rules.followed_by(rows)
    return first
