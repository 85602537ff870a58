"""Better places than those where a greedy plan ends.

A greedy plan ends where no single move gains. The search then makes a move that loses, beginning with the
smallest loss, and after that all moves that gain. At first the instance just moved stays, so that the next
move is not the way back. An exchange of two instances consists of such a move and its answer. If the result
is better, the search goes on from there; otherwise the moves are taken back and the next one is tried.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from ganeti_htools.engine.balancing.balance import gains, optimal_score, score_of, search_of
from ganeti_htools.engine.balancing.batches import Batch, batches_of
from ganeti_htools.engine.balancing.relocate import try_move
from ganeti_htools.engine.balancing.replay import DIGITS, MoveRows
from ganeti_htools.engine.balancing.search import Search
from ganeti_htools.engine.balancing.ways import goals_of, shortest
from ganeti_htools.engine.rules import settling
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import Bools
from ganeti_htools.model.moves import RANK, MoveKind
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State

MOST = 1 << 14  # moves listed at a time


def improvements(
    state: State,
    found: State,
    scope: Bools,
    options: BalancingOptions,
    concerned: Bools,
    going: Callable[[float], bool],
) -> Iterator[list[MoveRows]]:
    """Improve ``found`` in place, as often as possible; yields the moves of each improvement.

    An improvement has a lower score or, with the same score, less to copy from ``state``.
    """
    limit = optimal_score(found, scope) + options.min_score
    score = score_of(found, scope)
    if not score > limit:
        return
    batches, facts = batches_of(found, concerned)
    # Instances that may leave offline nodes may go to any other node.
    options = replace(options, evacuation=False)
    search = search_of(facts, batches, scope, options)
    way, expected = shortest(state, goals_of(state, found)), 1e-6 * max(score, 1e-3)
    while score > limit:
        staying = _staying(state, found, options)
        for batch, member, kind, node, loss in _least_bad(search, score, staying, expected):
            if not going(score):
                return
            moves = TentativeMoves(search)
            if not moves.make(try_move(facts, batch, member, kind, node, search.space.force), kind, node):
                continue
            now = score_of(found, scope)
            for held in (True, False):
                while going(score):
                    barred = _staying(state, found, options)
                    barred[batch.rows[member]] |= held
                    best = search.best(now, barred)
                    if not best or not gains(now, best.score, options):
                        break
                    moves.make(best.trial, best.kind, best.node)
                    now = best.score
            new = shortest(state, goals_of(state, found))
            lower = round(now, DIGITS) < round(score, DIGITS) and gains(score, now, options)
            same = round(now, DIGITS) == round(score, DIGITS)
            if (lower or (same and new < way)) and (options.max_length < 0 or new[1] <= options.max_length):
                score, way, expected = now, new, loss / 4
                yield moves.made
                break
            moves.take_back()
        else:
            return


def _staying(state: State, found: State, options: BalancingOptions) -> Bools:
    """Find the instances that must stay because the plan has reached its maximum length."""
    staying = np.zeros(len(state.pnode), np.bool_)
    if options.max_length >= 0:
        goals = goals_of(state, found)
        if shortest(state, goals)[1] >= options.max_length:
            staying[:] = True
            staying[list(goals)] = False
    return staying


class TentativeMoves:
    """Moves made on a state that is searched, and the way back."""

    def __init__(self, search: Search) -> None:
        self.search, self.made, self.back = search, list[MoveRows](), list[Trial]()

    def make(self, trial: Trial, kind: MoveKind, node: int) -> bool:
        """Make a move; returns whether it is possible."""
        if trial.codes[0] != FITS:
            return False
        state, index = self.search.state, trial.asked.index
        self.made.append(MoveRows(index, kind, node))
        self.back.append(trial.reverse(int(state.pnode[index]), int(state.snode[index])))
        settling.settle(state, trial)
        self.search.note(trial)
        return True

    def take_back(self) -> None:
        """Restore the state before the moves."""
        for trial in reversed(self.back):
            settling.settle(self.search.state, trial)
        self.search.note(*self.back)


def _least_bad(
    search: Search, score: float, barred: Bools, loss: float
) -> Iterator[tuple[Batch, int, MoveKind, int, float]]:
    """Find possible moves, the best first: batch and member, kind, new node, and the allowed loss at that
    time.

    The allowed loss begins with ``loss`` and doubles.
    """
    seen = 0
    while loss < 100 * max(score, 1.0):
        found = search.within(score, loss, barred, MOST)
        ranked = sorted(
            (value, int(each.batch.rows[member]), node, RANK[each.kind], which, member)
            for which, each in enumerate(found)
            for value, member, node in zip(
                each.scores.tolist(), each.members.tolist(), each.new.tolist(), strict=True
            )
        )
        for _, _, node, _, which, member in ranked[seen:]:
            yield found[which].batch, member, found[which].kind, node, loss
        loss, seen = 2 * loss, max(seen, len(ranked))
