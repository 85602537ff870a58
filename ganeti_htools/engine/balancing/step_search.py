"""The search for one step: the moves that may be the best, of all moves that may be made now."""

import math
from collections.abc import Callable, Iterator, Sequence
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
from ganeti_htools.engine.rules.components import COMPONENTS, COUNT, SPREAD
from ganeti_htools.engine.rules.relocate import leave_lost
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE, Bools, Floats, Ints

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
