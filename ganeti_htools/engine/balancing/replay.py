"""A plan made from the start: moves, each checked on the state that the moves before it leave.

Instances go to their final places directly; equal instances exchange final places so that little is copied.
If no such way is found, all moves are made as they were found.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ganeti_htools.engine.balancing.balance import allowed, score_of
from ganeti_htools.engine.balancing.ways import NodePair, exchanged_goals, first_moves, volume_of
from ganeti_htools.engine.rules.batches import batches_of
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.relocate import settle_and_refresh, try_move
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.moves import Move, MoveKind
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State

DIGITS = 8  # decimals of compared scores, as many as reports show


@dataclass(frozen=True, slots=True)
class RatedPlan:
    """Steps, the score at the end, the data they copy (MiB), and the state at the end."""

    steps: tuple[Move, ...]
    score: float
    volume: int
    after: State = field(compare=False)

    @property
    def rank(self) -> tuple[float, int, int]:
        """The rank of the plan; lower is better."""
        return round(self.score, DIGITS), self.volume, len(self.steps)


class Replay:
    """Moves made one after the other on a copy of a state, each only if it is possible then."""

    def __init__(self, state: State, scope: Bools, options: BalancingOptions, concerned: Bools) -> None:
        self.start, self.state, self.concerned = state, state.copy(), concerned
        self.scope, self.options, self.steps = scope, options, list[Move]()
        self.batches, self.facts = batches_of(self.state, concerned, options.unmirrored)
        self.targets = np.flatnonzero(scope & ~state.columns.offline).tolist()
        self.member = {
            index: (batch, member)
            for batch in self.batches
            for member, index in enumerate(batch.rows.tolist())
        }

    def make(self, index: int, kind: MoveKind, node: int, with_next: bool = False) -> bool:
        """Make a move; returns whether it is possible."""
        batch, member = self.member[index]
        if not allowed(self.facts, batch.take(np.array([member])), kind, self.options)[0]:
            return False
        trial = try_move(self.facts, batch, member, kind, node, self.options.ignore_soft_errors)
        if trial.codes[0] != FITS:
            return False
        settle_and_refresh(self.facts, trial)
        score = score_of(self.state, self.scope)
        self.steps.append(Move(index, kind.parts(node), trial.nodes, score, with_next))
        return True

    def remake(self, move: Move) -> bool:
        """Make a move of another plan; returns whether it is possible."""
        return self.make(move.instance, move.kind, move.node, move.with_next)

    def lead(self, index: int, goal: NodePair) -> bool:
        """Move an instance to a place, or half the way; returns whether it has arrived."""
        while (place := self.place(index)) != goal:
            if not any(self.make(index, kind, node) for kind, node in first_moves(self.state, place, goal)):
                return False
        return True

    def lead_all(self, waiting: list[int], goals: Mapping[int, NodePair]) -> list[int]:
        """Move instances to their places, in this order where possible; returns those that did not arrive."""
        before = -1
        while waiting and before < len(self.steps):
            before = len(self.steps)
            waiting = [index for index in waiting if not self.lead(index, goals[index])]
        return waiting

    def sidestep(self, index: int, goal: NodePair) -> bool:
        """Move an instance that cannot go to its place directly to another one; returns whether there is one.

        It makes as much of the way as possible.
        """
        own = self.place(index)
        others = [node for node in self.targets if node not in own]
        if own[1] == NOWHERE:
            moves = [(MoveKind.FAILOVER_TO, node) for node in others]
        else:
            half = [(MoveKind.REPLACE_AND_FAILOVER, goal[0]), (MoveKind.REPLACE_SECONDARY, goal[1])]
            moves = [move for move in half if move[1] in others]
            moves += [(MoveKind.FAILOVER, NOWHERE), *((MoveKind.REPLACE_SECONDARY, node) for node in others)]
        return any(self.make(index, kind, node) for kind, node in moves)

    def place(self, index: int) -> NodePair:
        return self.state.node_pair(index)

    def plan(self) -> RatedPlan:
        volume = sum(volume_of(self.start, step.instance, step.kind) for step in self.steps)
        return RatedPlan(tuple(self.steps), score_of(self.state, self.scope), volume, self.state)


def plan_of(
    state: State,
    scope: Bools,
    options: BalancingOptions,
    concerned: Bools,
    made: Sequence[Move],
    goals: Mapping[int, NodePair],
) -> RatedPlan | None:
    """Build a plan that leads to some places: by the shortest ways, or else by all moves
    as they were found.
    """
    replay = Replay(state, scope, options, concerned)
    shared = exchanged_goals(state, replay.batches, goals)
    # The first moves gained most.
    waiting = [index for index in dict.fromkeys(move.instance for move in made) if index in shared]
    if not replay.lead_all(waiting, shared):
        return replay.plan()
    replay = Replay(state, scope, options, concerned)
    return replay.plan() if all(replay.remake(move) for move in made) else None
