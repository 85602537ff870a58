"""Search for the best of all moves of all instances to all nodes, without looking at most moves.

``docs/engine.md`` has an example with numbers.

A move replaces the figures of up to three nodes. The changes of the nodes that are left are known for each
instance, those of new nodes for each class of instances and each node.

A lower bound of each move follows from chords (:mod:`.chords`): the score of a move is at least a part of the
nodes that are left plus a part of the new node. Both parts are kept from step to step. A step computes those
of the nodes that it has touched, and a start for all bounds. The lowest bound of an instance decides whether
any of its moves can be the best. Only those moves are scored, the most promising ones first. Moves whose
scores lie close together are scored afresh, as Ganeti's htools do it.

A new node that has instances in common with the instance's other node keeps memory free for them already. The
bound neglects this, which makes a score lower, but on few nodes it can be higher (see :func:`worth`). Such
moves are scored by the rules if they would win.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.balancing.baseline import TINY, Baseline
from ganeti_htools.engine.balancing.new_nodes import BLOCK
from ganeti_htools.engine.balancing.scoring import (
    MoveCandidates,
    ScoredMoves,
    SearchSpace,
    exact,
    failovers,
    relocations,
)
from ganeti_htools.engine.rules import choice
from ganeti_htools.engine.rules.components import COMPONENTS, COUNT, SPREAD
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.relocate import leave_lost
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE, Bools, Floats, Ints
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
    return np.flatnonzero(scores - doubts <= (scores + doubts).min(initial=np.inf))


BATCH = BLOCK >> 3  # number of promising moves that are scored together


class ScoreBounds(NamedTuple):
    """Lower bounds for candidates: ``least`` for all moves of each member together.

    The bound of one move is the member's part (``base``) plus the new node's part if there is one
    (:attr:`.NewNodes.lines`). ``forced`` marks members for which soft limits do not count.
    """

    candidates: MoveCandidates
    forced: Bools
    base: Floats
    least: Floats

    def promising(self, members: Ints, limit: Callable[[], float] | None) -> Iterator[tuple[Ints, Ints]]:
        """Yield members with places of new nodes among the targets, in portions that are scored together.

        Only moves within the current limit are yielded; without a limit all possible moves.
        """
        new = self.candidates.new
        assert new is not None
        classes = new.classes
        width = max(1, BLOCK // max(1, len(new.targets)))
        found: list[tuple[Ints, Ints]] = []
        for force, lines in new.lines.items():
            some = members[self.forced[members] == force]
            for start in range(0, len(some), width):
                block = some[start : start + width]
                bounds = lines.take(classes[block], axis=0)
                bounds += self.base[block, np.newaxis]
                # Several times as fast as the indices of a matrix.
                flat = np.flatnonzero(bounds <= limit() if limit else np.isfinite(bounds))
                which, places = np.divmod(flat, len(new.targets))
                found.append((block[which], places))
                if sum(len(each) for each, _ in found) >= BATCH:
                    yield _joined(found)
                    found = []
        if found:
            yield _joined(found)


def bounds_of(space: SearchSpace, candidates: MoveCandidates) -> ScoreBounds:
    """Compute the lower bounds of candidates, whose parts have been brought up to date."""
    state, own, new, kind = space.facts.state, candidates.own, candidates.new, candidates.kind
    base = own.base + own.start
    location_exclusion = candidates.location_exclusion
    if location_exclusion is not None and kind.after[0] == "secondary":
        base += location_exclusion[np.arange(len(base)), state.snode[candidates.batch.rows]]
    elif location_exclusion is not None and kind.to_primary:
        base += location_exclusion[:, space.targets].min(axis=1)
    if new is None:
        forced, least = candidates.free, base
    elif len(new.lines) == 1:
        (force,) = new.lines
        forced, least = np.full(len(base), force), base + new.best[force]
    else:
        forced = leave_lost(state, candidates.batch.rows, kind) | space.force
        least = base + np.where(forced, new.best[True], new.best[False])
    if not candidates.free.all():
        least = np.where(candidates.free, least, np.inf)
    return ScoreBounds(candidates, forced, base, least)


def _joined(found: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    chosen, places = zip(*found, strict=True)
    return np.concatenate(chosen), np.concatenate(places)


# Cost of memory kept free, per share of a node's memory: by its spread, and in total.
_EVEN, _TOTAL = (
    sum(each.weight for each in COMPONENTS if each.aggregate is aggregate and each.figures == ("r_mem",))
    for aggregate in (SPREAD, COUNT)
)
# Shares of the highest possible gain of a move: a search begins between both, and goes on with all of it.
LEAST, MOST = 1 / 1024, 1 / 32
AMPLE = 1.5  # times the share that one step needed: where the next one begins


def worth(nodes: float) -> float:
    """Compute the highest gain of a score by each part of its memory that one of so many nodes keeps free.

    Memory kept free costs in total, but may be even: the standard deviation of n values changes by at most
    the change of one value divided by the root of n. On many nodes nothing is gained.
    """
    return max(0.0, _EVEN / math.sqrt(nodes) - _TOTAL)


# Gets moves that were judged, with a trial that has a candidate for each move.
MoveReport = Callable[[ScoredMoves, Trial], None]


class StepSearch:
    """The search for moves that leave a score of at most ``loss`` above the lower of ``current`` and the
    best.

    ``bound`` is the lowest known score. ``share`` is the share of the highest possible gain to begin with,
    and after the search the one for the next step. With a ``report`` no move is ruled out by bounds: each
    allowed move is judged by itself, and reported.
    """

    def __init__(
        self,
        space: SearchSpace,
        baseline: Baseline,
        current: float,
        loss: float = 0.0,
        report: MoveReport | None = None,
        share: float = LEAST,
    ) -> None:
        self.space, self.baseline, self.report, self.share = space, baseline, report, share
        self.bound, self.slack = current, baseline.doubt + TINY * abs(current) + loss
        self.scored = 0
        self.loose = 0.0
        self.found: list[ScoredMoves] = []
        self.doubtful: list[ScoredMoves] = []  # with inexact scores (scoring.relocations)

    @property
    def limit(self) -> float:
        """The highest score of interest."""
        return self.bound + self.slack

    def moves(self, candidates: Sequence[MoveCandidates]) -> list[ScoredMoves]:
        if self.report is not None:
            for each in candidates:
                self._report_all(each, self.report)
        else:
            self._look(candidates)
        return [found.take(found.scores <= self.limit) for found in self.found]

    def _report_all(self, candidates: MoveCandidates, report: MoveReport) -> None:
        """Judge and report each move by itself, even if it is impossible."""
        batch, kind, state = candidates.batch, candidates.kind, self.space.facts.state
        targets = self.space.targets if kind.takes_node else np.array([NOWHERE])
        allowed, width = np.flatnonzero(candidates.may), max(1, BLOCK // max(1, len(targets)))
        for start in range(0, len(allowed), width):
            block = allowed[start : start + width]
            members, new = np.repeat(block, len(targets)), np.tile(targets, len(block))
            rows = batch.rows[members]
            others = (new == NOWHERE) | ((new != state.pnode[rows]) & (new != state.snode[rows]))
            nothing = np.zeros((len(self.baseline.means), len(new)))
            found = ScoredMoves(batch, kind, members, new, nothing[0], nothing, nothing).take(others)
            trial = found.trial(self.space)
            scores, changes, squares = exact(self.space, self.baseline, trial)
            found = found._replace(scores=scores, changes=changes, squares=squares)
            report(found, trial)
            self._keep(found)

    def _look(self, candidates: Sequence[MoveCandidates]) -> None:
        """Score the moves that bounds do not rule out."""
        self.loose = self._looseness(candidates)
        bounds = [
            bounds_of(self.space, each)
            for each in candidates
            if each.free.any() and (not each.kind.takes_node or each.new is not None)
        ]
        if math.isfinite(self.loose):
            self._best_first(bounds)
        else:
            for each_bounds in bounds:
                self._score(each_bounds, np.flatnonzero(each_bounds.candidates.free), np.inf)
            self._settle_doubts()

    def _looseness(self, candidates: Sequence[MoveCandidates]) -> float:
        """Compute by how much a move can be better than its rating; infinite if that is unknown.

        The new secondary may keep more memory free than the rating assumes, by up to the instance's memory.
        """
        gain = worth(self.baseline.numbers.max())
        if not gain:
            return 0.0
        kept = [np.max(each.batch.asked.secondary_mem) for each in candidates if each.kind.mirrored]
        least = self.space.facts.state.columns.t_mem[self.space.targets].min(initial=math.inf)
        known = least > 0 and math.isfinite(self.bound)
        return float(gain * max(kept, default=0) / least) if known else math.inf

    def _keep(self, found: ScoredMoves) -> None:
        least = np.fmin.reduce(found.scores, initial=np.inf)
        self.bound = min(self.bound, float(least))
        if least <= self.limit:
            self.found.append(found.take(found.scores <= self.limit))

    def _best_first(self, bounds: Sequence[ScoreBounds]) -> None:
        """Score the most promising moves first, and more if none is that good."""
        lowest = [float(each.least.min(initial=np.inf)) for each in bounds]
        best_first = sorted(zip(lowest, bounds, strict=True), key=itemgetter(0))
        least = min(lowest, default=np.inf)
        known, hope = list(self.found), self.limit + self.loose - least
        for share in sorted({self.share, MOST, 1.0}) if hope >= 0 else ():
            self.found = list(known)
            limit = least + share * hope
            for low, each in best_first:
                if low <= (most := min(limit, self.limit + self.loose)):
                    self._score(each, np.flatnonzero(each.least <= most), limit)
            self._settle_doubts()
            if self.limit + self.loose <= limit:
                needed = (self.limit + self.loose - least) / hope if hope else 0.0
                self.share = min(MOST, max(LEAST, AMPLE * needed))
                return

    def _score(self, bounds: ScoreBounds, members: Ints, limit: float) -> None:
        """Score the moves of some members that may be as good as ``limit``."""
        if bounds.candidates.new is None:
            self._keep(failovers(self.space, self.baseline, bounds.candidates, members))
            return
        for chosen, places in self._promising(bounds, members, limit):
            self.scored += len(chosen)
            found, doubtful = relocations(self.space, self.baseline, bounds.candidates, chosen, places)
            if doubtful.any():
                self.doubtful.append(found.take(doubtful & self._may_win(found.scores)))
                found = found.take(~doubtful)
            self._keep(found)

    def _settle_doubts(self) -> None:
        """Score doubtful moves by the rules, if they may be the best."""
        for found in self.doubtful:
            found = found.take(self._may_win(found.scores))
            if len(found.members):
                scores, changes, squares = exact(self.space, self.baseline, found.trial(self.space))
                self._keep(found._replace(scores=scores, changes=changes, squares=squares))
        self.doubtful = []

    def _may_win(self, scores: Floats) -> Bools:
        """Find the inexact scores that may be the best; all if the inaccuracy is unknown."""
        return ~(scores > self.limit + self.loose)

    def _promising(self, bounds: ScoreBounds, members: Ints, limit: float) -> Iterator[tuple[Ints, Ints]]:
        if math.isfinite(self.loose):
            return bounds.promising(members, lambda: min(limit, self.limit + self.loose))
        return bounds.promising(members, None)
