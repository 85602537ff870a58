"""Rebalancing to the end on storage that every node sees: the steps of :func:`.balance.rebalance`, sooner.

To find nodes that can be powered down, a cluster is balanced many times. A step of :func:`.balance.rebalance`
has fixed costs; here a state is a small table, and a step a few operations on it. Candidates whose scores lie
too close together are scored afresh, by the same functions. A property test compares all steps and states
with :func:`.balance.rebalance`.
"""

from dataclasses import replace

import numpy as np

from ganeti_htools.engine.balancing.balance import score_of
from ganeti_htools.engine.balancing.shared_instances import PER_LOST, SharedInstances
from ganeti_htools.engine.balancing.shared_table import SharedTable
from ganeti_htools.engine.balancing.ties import CLOSE
from ganeti_htools.engine.rules import choice
from ganeti_htools.engine.rules.relocate import relocate
from ganeti_htools.engine.rules.score import node_values
from ganeti_htools.model.columns import NOWHERE, Bools, Floats, Ints
from ganeti_htools.model.moves import Move, MoveKind
from ganeti_htools.model.state import State


def rebalance(state: State, scope: Bools, instances: SharedInstances) -> tuple[State, list[Move]]:
    """Balance the nodes in scope to the end; returns the state and the steps (scores to about 1e-9).

    Precondition: the instances are all in scope.
    """
    if not len(instances.rows):
        return state.copy(), []
    table = SharedTable(state.copy(), scope, instances)
    rest = score_of(state, scope) - table.score()  # constant part
    steps = []
    while (found := best(table)) is not None:
        table.move(*found)
        row, node = int(instances.rows[found[0]]), int(table.nodes[found[1]])
        steps.append(Move(row, MoveKind.FAILOVER_TO.parts(node), (node,), table.score() + rest))
    return table.settled(), steps


def best(table: SharedTable) -> tuple[int, int] | None:
    """Find the instance and the position of the node that leave the lowest score; None if
    no move lowers it.
    """
    lost = np.flatnonzero(table.place == NOWHERE)
    found: list[tuple[Ints, Floats, float]] = []
    if len(lost):
        rows = _unlike(table, lost)
        scores = table.scores(rows, True)
        found.append((rows, scores, -PER_LOST))
    # No gain of evenness equals a lost instance that comes back.
    if not found or not found[0][1].min(initial=np.inf) - PER_LOST + CLOSE < 0:
        rows = _unlike(table, np.flatnonzero(table.place != NOWHERE))
        found.append((rows, table.scores(rows, False), 0.0))
    lowest = min(float(scores.min(initial=np.inf)) + bonus for _, scores, bonus in found)
    if lowest == np.inf:
        return None
    slack = CLOSE * (1.0 + abs(lowest))
    near = [
        (int(rows[i]), int(node))
        for rows, scores, bonus in found
        for i, node in np.argwhere(scores + bonus <= lowest + slack).tolist()
    ]
    clear = abs(lowest - table.current) > slack
    if clear and lowest > table.current:
        return None
    if clear and len(near) == 1:
        return near[0]
    best, score = _exactly(table, near)
    gains = clear or score < score_of(table.state, table.scope)
    return best if gains else None


def _unlike(table: SharedTable, members: Ints) -> Ints:
    """Select the first of equal members in the same place; all offline nodes are one place."""
    keys = table.instances.alike[members] * (len(table.nodes) + 1) + table.place[members]
    return np.sort(members[np.unique(keys, return_index=True)[1]])


def _exactly(table: SharedTable, near: list[tuple[int, int]]) -> tuple[tuple[int, int], float]:
    """Find, of candidates close to the lowest score, the first that is lowest computed
    afresh, and its score.
    """
    state, here, instances = table.settled(), np.flatnonzero(table.scope), table.instances
    assert instances.batch is not None
    pairs = np.array(sorted(near))
    batch, new = instances.batch.take(pairs[:, 0]), table.nodes[pairs[:, 1]]
    facts = replace(instances.facts, state=state)
    changes, _ = relocate(facts, batch, MoveKind.FAILOVER_TO, True, new)
    columns, nobody = state.columns.take(here), np.zeros(len(pairs))
    scores = choice.fresh_scores(changes, here, columns, node_values(columns), nobody)
    best = int(np.argmin(scores))
    return (int(pairs[best, 0]), int(pairs[best, 1])), float(scores[best])
