"""The best of moves whose scores lie close together, scored afresh as Ganeti's htools do it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.balancing.baseline import TINY, Baseline
from ganeti_htools.engine.balancing.scoring import ScoredMoves, SearchSpace
from ganeti_htools.engine.rules import choice
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import Floats, Ints
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
    enough: float | None = None,
) -> BestMove | None:
    """Find the best move by scores computed from nothing, among moves with a score of at most ``limit``.

    A single best move that is clearly better than ``enough`` keeps the given score.
    """
    state, near = space.facts.state, _near(space, baseline, found, limit)
    if enough is not None and len(near) == 1 and len(near[0][0].members) == 1:
        ((moves, trial),) = near
        score = float(moves.scores[0])
        if trial.codes[0] == FITS and clearly_lower(score, enough):
            asked = state.instance(int(moves.batch.rows[moves.members[0]]))
            return BestMove(replace(trial, asked=asked), moves.kind, int(moves.new[0]), score)
    nodes, columns = space.parts.rows, space.parts.columns()
    lowest: tuple[float, int, int, int] = (np.inf, 0, 0, 0)
    best: BestMove | None = None
    for moves, trial in near:
        rows = moves.batch.rows[moves.members]
        exclusion = np.broadcast_to(baseline.location_exclusion + trial.location_exclusion, trial.codes.shape)
        scores = choice.fresh_scores(trial.changes, nodes, columns, baseline.values, exclusion)
        scores = np.where(trial.codes == FITS, scores, np.inf)
        least = np.fmin.reduce(scores)
        ranks = [
            ((float(least), int(rows[i]), int(moves.new[i]), RANK[moves.kind]), i)
            for i in np.flatnonzero(scores == least).tolist()
        ]
        if ranks and np.isfinite(least) and min(ranks)[0] < lowest:
            lowest, i = min(ranks)
            trial = replace(trial.only(i), asked=state.instance(int(rows[i])))
            best = BestMove(trial, moves.kind, int(moves.new[i]), lowest[0])
    return best


def clearly_lower(score: float, current: float) -> bool:
    """Whether a score is lower whatever the last bits of both are."""
    return score < current - CLOSE * (1.0 + abs(current))


def _near(
    space: SearchSpace, baseline: Baseline, found: Sequence[ScoredMoves], limit: float
) -> list[tuple[ScoredMoves, Trial]]:
    """Select the moves that only a fresh score can distinguish from the best, and try them."""
    near = [each for each in (moves.take(moves.scores <= limit) for moves in found) if len(each.members)]
    if sum(len(each.members) for each in near) > 1:
        near = _ties(baseline, near, max(1, TIES // len(space.parts.rows)))
    return [(each, each.trial(space)) for each in near]


def _ties(baseline: Baseline, near: Sequence[ScoredMoves], most: int) -> list[ScoredMoves]:
    """Select the moves that may be the best.

    Of more than ``most`` ties, which are between equivalent moves, the first ones suffice.
    """
    sizes = [len(each.members) for each in near]
    owner, ranks = (np.repeat(values, sizes) for values in (range(len(near)), [RANK[m.kind] for m in near]))
    scores, new, rows = (
        np.concatenate(values)
        for values in zip(*((m.scores, m.new, m.batch.rows[m.members]) for m in near), strict=True)
    )
    changes, squares = (np.hstack(values) for values in zip(*(each[5:] for each in near), strict=True))
    rounding, doubts = TINY * np.abs(scores), baseline.score_doubts(changes, squares)
    ties = _lowest(scores, rounding + doubts.sum(axis=0))
    if len(ties) > 1:
        ties = ties[np.lexsort((owner[ties], ranks[ties], new[ties], rows[ties]))[:most]]
        # A spread that none of them changes is the same for all.
        changing = changes[:, ties].any(axis=1) | squares[:, ties].any(axis=1)
        ties = ties[_lowest(scores[ties], (rounding + doubts[changing].sum(axis=0))[ties])]
    starts = np.cumsum([0, *sizes[:-1]])
    chosen = [np.sort(ties[owner[ties] == which]) - start for which, start in enumerate(starts)]
    return [each.take(at) for each, at in zip(near, chosen, strict=True) if len(at)]


def _lowest(scores: Floats, doubts: Floats) -> Ints:
    """Find the scores that may be the lowest."""
    return np.flatnonzero(scores - doubts <= (scores + doubts).min(initial=np.inf))
