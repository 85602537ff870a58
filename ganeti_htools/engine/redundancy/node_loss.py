"""A node is lost: where each of its instances comes back.

Mirrored instances fail over to their secondaries, instances on shared storage go one by one to the node of
the group that leaves it best balanced, and the rest are created anew without their data, those with most
memory first, on the best node. Only what exists limits (memory, disk, spindles, migration tags, policy), not
what balances. The rule is that of Ganeti's htools (``GlobalN1.hs``, ``hcheck(1)``).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Any

import numpy as np

from ganeti_htools.engine.redundancy.arrivals import Arrivals
from ganeti_htools.engine.redundancy.lost_nodes import LostNode, lost_node
from ganeti_htools.engine.rules import choice, placements, settling
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE, Bools, Ints, availability, sorted_unique
from ganeti_htools.model.figures import TEMPLATE_CODE
from ganeti_htools.model.state import State
from ganeti_htools.model.types import DiskTemplate

DRBD = TEMPLATE_CODE[DiskTemplate.DRBD]
SURVIVES = np.array([template.survives_node for template in DiskTemplate])


class Means(Enum):
    """How an instance of a lost node comes back: by its mirror, its shared disks, or without its data."""

    FAILOVER = "failover"
    MOVE = "move"
    RECREATE = "recreate"


@dataclass(frozen=True, slots=True)
class Recovery:
    """Where an instance (row) of a lost node comes back: a node (row), NOWHERE if it does not."""

    instance: int
    kind: Means
    node: int


def can_be_lost(state: State, node: int, scope: Bools, known: Arrivals | None = None) -> bool:
    """Whether all instances of a node find a place should it be lost, by trying; the state is not changed.

    ``known`` has the quicker simulation used for those that do not fail over, where it can tell.
    """
    if known is not None:
        lost = failed_over(state, node, scope, known)
        if lost is not None:
            return lost.survived()
    return all(each.node != NOWHERE for each in recover(state.copy(), node, scope))


def failed_over(
    state: State, node: int, scope: Bools, known: Arrivals, others: Sequence[LostNode | None] = ()
) -> LostNode | None:
    """A lost node whose mirrored instances have failed over; the state must not change any more.

    None if one cannot, or if the quicker simulation cannot tell about the others. ``others`` are lost nodes
    of the same state.
    """
    mirrored, displaced = _instances(state, node, scope)
    if mirrored:
        state = state.copy()
        if any(each.node == NOWHERE for each in islice(recover(state, node, scope), len(mirrored))):
            return None
    return lost_node(known, state, node, displaced, scope, others)


def all_can_be_lost(survived: Callable[[int], bool], nodes: list[int], suspects: list[int]) -> bool:
    """Whether the loss of each of some nodes would be ``survived``.

    Those that failed before (``suspects``) are tried first; the one that fails now is put before them.
    """
    for node in [*(n for n in suspects if n in nodes), *(n for n in nodes if n not in suspects)]:
        if not survived(node):
            suspects[:] = [node, *(n for n in suspects if n != node)]
            return False
    return True


def recover(
    state: State, node: int, scope: Bools, up: Bools | None = None, every: bool = False
) -> Iterator[Recovery]:
    """Find a place for each instance of a lost node, one after the other, on this state, in place.

    ``up`` tells which nodes take instances; all unless given, for the rule of ``hcheck(1)`` does not
    look at whether nodes are offline. Unless ``every`` instance is to be told of, those that are
    :func:`bound_to_units` are left out.
    """
    mates = scope & (state.group == state.group[node])
    others = mates.copy() if up is None else mates & up
    others[node] = False
    targets = np.flatnonzero(others)
    mirrored, displaced = _instances(state, node, None if every else scope)
    for row in mirrored:
        asked, secondary = state.instance(row), int(state.snode[row])
        trial = None
        if secondary != NOWHERE and (up is None or up[secondary]):
            trial = placements.failover(state, asked, mates, force=True)
        yield Recovery(row, Means.FAILOVER, _settled(state, trial, mates))
    for row in displaced:
        asked = state.instance(row)
        kind, counted = Means.RECREATE, scope
        if asked.row.template.survives_node:
            kind, counted = Means.MOVE, mates
        trial = None
        if len(targets):
            move = placements.failover_to if kind is Means.MOVE else placements.allocate_one
            trial = move(state, asked, targets, counted, force=True)
        yield Recovery(row, kind, _settled(state, trial, counted))


def bound_to_units(state: State, rows: Ints, scope: Bools) -> Bools:
    """Which instances cannot come back after the loss of their node, whatever room there is.

    No other node of their group has the storage units, or sees the pools, that their disks want, or a node
    of a mirrored one does not report its unit; the default unit aside. No room can be kept for them, so that
    redundancy is judged by the others.
    """
    mirrored = state.template[rows] == DRBD
    return bound(state, state.wants[rows], state.pnode[rows], state.snode[rows], mirrored, scope)


def bound(state: State, wants: Bools, p: Ints, s: Ints, mirrored: Any, scope: Bools) -> Bools:
    """Which instances cannot come back (:func:`bound_to_units`), given what they want (:attr:`.State.wants`)
    and their nodes.
    """
    has, groups = availability(state.columns), state.group[p]
    elsewhere = np.zeros((len(has), len(p)), np.int64)
    for group in sorted_unique(groups).tolist():
        there = has[:, scope & (state.group == group)].sum(axis=1)
        elsewhere[:, groups == group] = there[:, np.newaxis]
    elsewhere -= has[:, p] & scope[p]
    found: Any = np.where(mirrored, has[:, p] & has[:, s], elsewhere > 0)
    # Of the default unit the rule of Ganeti's htools holds.
    return np.asarray((wants.T & ~found)[1:].any(axis=0))


def _instances(state: State, node: int, scope: Bools | None) -> tuple[list[int], list[int]]:
    """Rows of the instances of a node in the order in which they move: those that fail over, and others.

    With a scope only those that may come back.
    """
    here = state.primaries_of(node)
    if scope is not None and state.columns.shape.binds:
        here = here[~bound_to_units(state, here, scope)]
    template, rows = state.template[here], state.cluster.instances
    mirrored, survives = template == DRBD, SURVIVES[template]
    recreated = sorted(here[~mirrored & ~survives].tolist(), key=lambda row: -rows[row].mem)
    return here[mirrored].tolist(), [*here[survives].tolist(), *recreated]


def _settled(state: State, trial: Trial | None, scope: Bools) -> int:
    """Carry out the best candidate, if any; the node on which the instance runs then."""
    candidate = choice.best(state, trial, scope, exact=False) if trial else None
    if trial is None or candidate is None:
        return NOWHERE
    chosen = trial.only(candidate)
    settling.settle(state, chosen)
    return int(chosen.pnode[0])
