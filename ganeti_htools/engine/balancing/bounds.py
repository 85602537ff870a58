"""Lower bounds of the scores that moves lead to, found without scoring the moves."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ganeti_htools.engine.balancing.new_nodes import BLOCK
from ganeti_htools.engine.balancing.scoring import MoveCandidates, SearchSpace
from ganeti_htools.engine.rules.relocate import leave_lost
from ganeti_htools.model.columns import Bools, Floats, Ints

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
