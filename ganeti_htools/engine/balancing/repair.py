"""Moves that repair broken rules of tags, and no others (``hbal --repair-rules``).

Each move ends a breach and begins none. The plan leaves the fewest breaches, then has the fewest moves, then
copies least. It is found best first: a state is rated by the moves and data so far, and by lower bounds of
those that are still needed. After :data:`PATIENCE` moves the best state is continued by the move that repairs
most, again and again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.balancing.balance import candidates, score_of
from ganeti_htools.engine.balancing.instance_moves import InstanceMove, moves_of
from ganeti_htools.engine.moving.traffic import copied
from ganeti_htools.engine.rules import choice, settling
from ganeti_htools.engine.rules.broken_rules import Breach, breaches, breaches_at
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.score import Statistics
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.moves import KINDS, Move, MoveKind
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State
from ganeti_htools.model.types import MirrorType

PATIENCE = 8_000  # moves that are rated


class _Move(NamedTuple):
    """A move: what is left and copied (MiB) afterwards, and the score then."""

    kind: MoveKind
    node: int
    trial: Trial
    left: frozenset[Breach]
    volume: int
    score: float


@dataclass(frozen=True, slots=True)
class _Way:
    """A state on the way, the steps to it, the breaches that are left and the data copied (MiB)."""

    state: State
    steps: tuple[Move, ...]
    left: frozenset[Breach]
    volume: int

    @property
    def rank(self) -> tuple[int, int, int]:
        """The rank as a plan; lower is better."""
        return len(self.left), len(self.steps), self.volume

    def after(self, move: _Move, scope: Bools) -> "_Way":
        settling.settle(state := self.state.copy(), move.trial)
        trial, score = move.trial, score_of(state, scope)
        step = Move(trial.asked.index, move.kind.parts(move.node), trial.nodes, score)
        return _Way(state, (*self.steps, step), move.left, move.volume)


def repair(
    state: State, scope: Bools, options: BalancingOptions, movable: Bools
) -> tuple[State, tuple[Move, ...]]:
    """Find the moves of instances in scope that repair broken rules; returns the state afterwards too."""
    start = best = _Way(state.copy(), (), breaches(state), 0)
    number, seen = count(), set[bytes]()
    waiting: list[tuple[tuple[int, int], int, float, int, _Way, _Move | None]] = []
    heappush(waiting, ((0, 0), 0, 0.0, next(number), start, None))
    while waiting and next(number) < PATIENCE:
        *_, before, made = heappop(waiting)
        way = before if made is None else before.after(made, scope)
        places = way.state.pnode.tobytes() + way.state.snode.tobytes()
        if places in seen:
            continue
        seen.add(places)
        best = min(best, way, key=lambda each: each.rank)
        if not way.left:
            return way.state, way.steps
        for move in _moves(way, scope, options, movable):
            moves, volume = _needed(way.state, move.left)
            rating, depth = (len(way.steps) + 1 + moves, move.volume + volume), len(way.steps) + 1
            heappush(waiting, (rating, -depth, move.score, next(number), way, move))
    while waiting and (found := list(_moves(best, scope, options, movable))):
        best = best.after(min(found, key=lambda move: (len(move.left), move.volume, move.score)), scope)
    return best.state, best.steps


def _needed(state: State, left: frozenset[Breach]) -> tuple[int, int]:
    """Compute lower bounds of the moves and the data (MiB) that end all breaches.

    A move takes an instance off one node at most, and breaches without a common instance need a move each.
    """
    used, moves, volume = set[int](), 0, 0
    for breach in sorted(left, key=lambda each: (each[0] != "node", each)):
        kind, _, *rows = breach
        if kind == "node":
            row, node = rows
            moves, volume = moves + 1, volume + _least(state, row, int(state.pnode[row] != node), True)
            used.add(row)
        elif used.isdisjoint(rows):
            role = int(kind == "secondary")
            moves, volume = moves + 1, volume + min(_least(state, row, role) for row in rows)
            used.update(rows)
    return moves, volume


def _least(state: State, row: int, role: int, leaves: bool = False) -> int:
    """Compute the least data (MiB) that a move copies which changes the node of an instance (row) in a role:
    0 for its primary, 1 for its secondary. ``leaves``: the instance leaves the node altogether.
    """
    instance = state.cluster.instances[row]
    kinds = _changing(instance.template.mirror, role, leaves)
    return min((sum(copied(kind, instance)) for kind in kinds), default=0)


@cache
def _changing(mirror: MirrorType, role: int, leaves: bool) -> list[MoveKind]:
    """Return the kinds of moves that change the node in a role, or leave it."""
    own = ("primary", "secondary")
    after = {kind: kind.nodes(*own, "new") for kind in KINDS[mirror]}
    return [
        kind
        for kind, nodes in after.items()
        if (own[role] not in nodes if leaves else nodes[role] != own[role])
    ]


def _instances(breach: Breach) -> set[int]:
    return {breach[2]} if breach[0] == "node" else {breach[2], breach[3]}


def _moves(way: _Way, scope: Bools, options: BalancingOptions, movable: Bools) -> Iterator[_Move]:
    """Yield the possible moves that end a breach and begin none, by instance, kind and new node."""
    if 0 <= options.max_length <= len(way.steps):
        return
    state = way.state
    concerned = np.isin(np.arange(len(state.pnode)), [row for each in way.left for row in _instances(each)])
    base = choice.base(state, scope)
    for each in moves_of(state, scope, options, candidates(state, scope, movable) & concerned):
        yield from _to(way, each, options, base)


def _to(way: _Way, each: InstanceMove, options: BalancingOptions, base: Statistics) -> Iterator[_Move]:
    if not len(nodes := each.nodes):
        return
    state, index, trial = way.state, each.index, each.trial(options)
    scores = np.broadcast_to(trial.scores(base), trial.codes.shape)
    others = frozenset(breach for breach in way.left if index not in _instances(breach))
    for at in np.flatnonzero(trial.codes == FITS).tolist():
        move = trial.only(at)
        left = others.union(breaches_at(state, index, int(move.pnode[0]), int(move.snode[0])))
        if left < way.left:
            volume = way.volume + each.volume
            yield _Move(each.kind, int(nodes[at]), move, left, volume, float(scores[at]))
