"""The best of moves whose scores lie close together, scored afresh as Ganeti's htools do it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.balancing.baseline import Baseline
from ganeti_htools.engine.balancing.scoring import ScoredMoves, SearchSpace, exact
from ganeti_htools.engine.rules import choice
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.moves import RANK, MoveKind

# Scores that follow from changes cannot be distinguished if they are closer than this.
CLOSE = 3e-8
TIES = 1 << 14  # figures that are computed to settle ties


class BestMove(NamedTuple):
    """The best move: its trial to settle, its kind, its new node (a row), and the score afterwards."""

    trial: Trial
    kind: MoveKind
    node: int
    score: float


def best_of(
    space: SearchSpace,
    baseline: Baseline,
    found: Sequence[ScoredMoves],
    limit: float,
    current: float | None = None,
) -> BestMove | None:
    """Find the best move by scores computed from nothing, among moves with a score of at most ``limit``.

    If only one move is clearly better than ``current``, its score is the given one.
    """
    state = space.facts.state
    if current is not None and (clear := _clear(space, found, limit, current)):
        return clear
    nodes, columns = space.parts.rows, space.parts.columns()
    lowest: tuple[float, int, int, int] = (np.inf, 0, 0, 0)
    best: BestMove | None = None
    for near, trial in _near(space, baseline, found, limit):
        rows = near.batch.rows[near.members]
        exclusion = np.broadcast_to(baseline.location_exclusion + trial.location_exclusion, trial.codes.shape)
        scores = choice.fresh_scores(trial.changes, nodes, columns, baseline.values, exclusion)
        scores = np.where(trial.codes == FITS, scores, np.inf)
        least = np.fmin.reduce(scores)
        ranks = [
            ((float(least), int(rows[i]), int(near.new[i]), RANK[near.kind]), i)
            for i in np.flatnonzero(scores == least).tolist()
        ]
        if ranks and np.isfinite(least) and min(ranks)[0] < lowest:
            lowest, i = min(ranks)
            trial = replace(trial.only(i), asked=state.instance(int(rows[i])))
            best = BestMove(trial, near.kind, int(near.new[i]), lowest[0])
    return best


def clearly_lower(score: float, current: float) -> bool:
    """Whether a score is lower whatever the last bits of both are."""
    return score < current - CLOSE * (1.0 + abs(current))


def _clear(space: SearchSpace, found: Sequence[ScoredMoves], limit: float, current: float) -> BestMove | None:
    """Find the only move with a score near the lowest, if it is clearly lower than the ``current`` one."""
    near = [each for each in (moves.take(moves.scores <= limit) for moves in found) if len(each.members)]
    if len(near) != 1 or len(near[0].members) != 1 or not clearly_lower(float(near[0].scores[0]), current):
        return None
    (move,) = near
    index = int(move.batch.rows[move.members[0]])
    trial = replace(move.trial(space), asked=space.facts.state.instance(index))
    if trial.codes[0] != FITS:
        return None
    return BestMove(trial, move.kind, int(move.new[0]), float(move.scores[0]))


def _near(
    space: SearchSpace, baseline: Baseline, found: Sequence[ScoredMoves], limit: float
) -> list[tuple[ScoredMoves, Trial]]:
    """Select the moves that only a fresh score can distinguish from the best, and try them."""
    near = [each for each in (moves.take(moves.scores <= limit) for moves in found) if len(each.members)]
    trials = [each.trial(space) for each in near]
    if sum(len(each.members) for each in near) < 2:
        return list(zip(near, trials, strict=True))
    figures = [exact(space, baseline, trial) for trial in trials]
    bound = min(float((scores + doubts).min()) for scores, doubts in figures)
    # More ties than this are between equivalent moves: the first ones suffice.
    most = max(1, TIES // len(space.parts.rows))
    places = [np.flatnonzero(scores - doubts <= bound) for scores, doubts in figures]
    owner = np.repeat(np.arange(len(near)), [len(at) for at in places])
    positions, new, rows = (
        np.concatenate(values)
        for values in zip(
            *(
                (at, each.new[at], each.batch.rows[each.members[at]])
                for each, at in zip(near, places, strict=True)
            ),
            strict=True,
        )
    )
    ranks = np.array([RANK[each.kind] for each in near])[owner]
    kept = np.lexsort((owner, ranks, new, rows))[:most]
    chosen = [positions[kept[owner[kept] == which]] for which in range(len(near))]
    return [
        (each.take(at), trial.take(at))
        for each, trial, at in zip(near, trials, chosen, strict=True)
        if len(at)
    ]
