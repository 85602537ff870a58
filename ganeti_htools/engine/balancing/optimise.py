"""Better plans than the greedy one: better final places, and a shorter way there (``hbal --optimise``).

A greedy plan ends where no single move gains. From there a move that loses is made, the one that loses
least first, and then whatever gains: at first without the instance just moved, so that the answer is
not the way back. Two instances that change places are such a move and the answer to it. Where this ends
better than it began, it is kept and gone on from; otherwise it is taken back and the next move is tried.

From where they are at first, instances then go to their final places directly; those that are alike
share their final places out so that little is copied. Where no such way is found, all moves are made as
they were found.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ganeti_htools.engine.balancing.balance import (
    Balancing,
    Step,
    allowed,
    candidates,
    gains,
    optimal_score,
    rebalance,
    score_of,
    search_of,
)
from ganeti_htools.engine.balancing.batches import Batch, batches_of
from ganeti_htools.engine.balancing.relocate import settle, tried
from ganeti_htools.engine.balancing.search import Search
from ganeti_htools.engine.balancing.ways import Place, first_moves, goals_of, shared_out, shortest, volume_of
from ganeti_htools.engine.rules import settling
from ganeti_htools.engine.rules.move_kinds import RANK, MoveKind
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.state import State

DIGITS = 8  # of scores that are compared, as many as are shown
MOST = 1 << 14  # moves listed at a time

Move = tuple[int, MoveKind, int]  # rows of an instance and of the new node (NOWHERE for a failover)


@dataclass(frozen=True, slots=True)
class RatedPlan:
    """Steps, the score they lead to, what they copy (MiB), and the state in the end."""

    steps: tuple[Step, ...]
    score: float
    volume: int
    after: State = field(compare=False)

    @property
    def rank(self) -> tuple[float, int, int]:
        """Lower is better."""
        return round(self.score, DIGITS), self.volume, len(self.steps)


def optimise(
    state: State, scope: Bools, options: Balancing, movable: Bools | None, going: Callable[[float], bool]
) -> tuple[RatedPlan, RatedPlan]:
    """The greedy plan and the best one found, which may be the same.

    Both keep to the options. ``going``, given the best score so far, tells whether to look for one more move;
    with the same answers the plans are the same.
    """
    found, steps = rebalance(state, scope, options, movable)
    volume = sum(volume_of(state, step.instance, step.kind) for step in steps)
    greedy = RatedPlan(tuple(steps), score_of(found, scope), volume, found.copy())
    concerned = candidates(state, scope, movable)
    if options.evacuation:
        offline = state.columns.offline
        concerned &= offline[state.pnode] | ((state.snode != NOWHERE) & offline[state.snode])
    made: list[Move] = [(step.instance, step.kind, step.node) for step in steps]
    history: list[tuple[list[Move], dict[int, Place]]] = [(list(made), goals_of(state, found))]
    for more in _improvements(state, found, scope, options, concerned, going):
        made += more
        history.append((list(made), goals_of(state, found)))
    for done, goals in reversed(history):
        plan = _plan(state, scope, options, concerned, done, goals)
        if plan and plan.rank < greedy.rank:
            return greedy, plan
    return greedy, greedy


def _improvements(
    state: State,
    found: State,
    scope: Bools,
    options: Balancing,
    concerned: Bools,
    going: Callable[[float], bool],
) -> Iterator[list[Move]]:
    """Make ``found`` better, in place, as often as that is possible; yields what was done each time.

    Better is a lower score or, with the same, less to copy from ``state``.
    """
    limit = optimal_score(found, scope) + options.min_score
    score = score_of(found, scope)
    if not score > limit:
        return
    batches, facts = batches_of(found, concerned)
    # Those that may leave offline nodes may do so for any other node.
    options = replace(options, evacuation=False)
    search = search_of(facts, batches, scope, options)
    way, expected = shortest(state, goals_of(state, found)), 1e-6 * max(score, 1e-3)
    while score > limit:
        staying = _staying(state, found, options)
        for batch, member, kind, node, loss in _least_bad(search, score, staying, expected):
            if not going(score):
                return
            attempt = _Attempt(search)
            if not attempt.make(tried(facts, batch, member, kind, node, search.space.force), kind, node):
                continue
            now = score_of(found, scope)
            for held in (True, False):
                while going(score):
                    barred = _staying(state, found, options)
                    barred[batch.rows[member]] |= held
                    best = search.best(now, barred)
                    if not best or not gains(now, best.score, options):
                        break
                    attempt.make(best.trial, best.kind, best.node)
                    now = best.score
            new = shortest(state, goals_of(state, found))
            lower = round(now, DIGITS) < round(score, DIGITS) and gains(score, now, options)
            same = round(now, DIGITS) == round(score, DIGITS)
            if (lower or (same and new < way)) and (options.max_length < 0 or new[1] <= options.max_length):
                score, way, expected = now, new, loss / 4
                yield attempt.made
                break
            attempt.take_back()
        else:
            return


def _staying(state: State, found: State, options: Balancing) -> Bools:
    """Instances that stay where they are, as the plan is as long as it may get."""
    staying = np.zeros(len(state.pnode), np.bool_)
    if options.max_length >= 0:
        goals = goals_of(state, found)
        if shortest(state, goals)[1] >= options.max_length:
            staying[:] = True
            staying[list(goals)] = False
    return staying


class _Attempt:
    """Moves made on a state that is searched, and the way back."""

    def __init__(self, search: Search) -> None:
        self.search, self.made, self.back = search, list[Move](), list[Trial]()

    def make(self, trial: Trial, kind: MoveKind, node: int) -> bool:
        """Make a move; whether it could be made."""
        if trial.codes[0] != FITS:
            return False
        state, index = self.search.state, trial.asked.index
        self.made.append((index, kind, node))
        touched = tuple(replace(each, old=each.new, new=each.old) for each in trial.changes)
        place = state.pnode[[index]], state.snode[[index]]
        self.back.append(Trial(trial.asked, trial.codes, *place, touched))
        settling.settle(state, trial)
        self.search.note(trial)
        return True

    def take_back(self) -> None:
        """Leave the state as it was."""
        for trial in reversed(self.back):
            settling.settle(self.search.state, trial)
        self.search.note(*self.back)


def _least_bad(
    search: Search, score: float, barred: Bools, loss: float
) -> Iterator[tuple[Batch, int, MoveKind, int, float]]:
    """Moves that are possible, the best first: batch and member, what is done, the new node, and what it may
    lose to be looked at. That is ``loss`` for a start.
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


class _Replay:
    """Moves made one after the other on a copy of a state, each only if it may be made then."""

    def __init__(self, state: State, scope: Bools, options: Balancing, concerned: Bools) -> None:
        self.start, self.state = state, state.copy()
        self.scope, self.options, self.steps = scope, options, list[Step]()
        self.batches, self.facts = batches_of(self.state, concerned)
        self.member = {
            index: (batch, member)
            for batch in self.batches
            for member, index in enumerate(batch.rows.tolist())
        }

    def make(self, index: int, kind: MoveKind, node: int) -> bool:
        """Make a move; whether it could be made."""
        batch, member = self.member[index]
        if not allowed(self.facts, batch.take(np.array([member])), kind, self.options)[0]:
            return False
        trial = tried(self.facts, batch, member, kind, node, self.options.ignore_soft_errors)
        if trial.codes[0] != FITS:
            return False
        settle(self.facts, trial)
        place = int(trial.pnode[0]), int(trial.snode[0])
        self.steps.append(Step(index, kind, node, *place, score_of(self.state, self.scope)))
        return True

    def lead(self, index: int, goal: Place) -> bool:
        """Move an instance to a place, or half the way there; whether it has arrived."""
        while (place := self.place(index)) != goal:
            if not any(self.make(index, kind, node) for kind, node in first_moves(self.state, place, goal)):
                return False
        return True

    def place(self, index: int) -> Place:
        """Where an instance is by now."""
        return int(self.state.pnode[index]), int(self.state.snode[index])

    def plan(self) -> RatedPlan | None:
        """The moves made, unless there are more than the options allow."""
        if 0 <= self.options.max_length < len(self.steps):
            return None
        volume = sum(volume_of(self.start, step.instance, step.kind) for step in self.steps)
        return RatedPlan(tuple(self.steps), score_of(self.state, self.scope), volume, self.state)


def _plan(
    state: State,
    scope: Bools,
    options: Balancing,
    concerned: Bools,
    made: Sequence[Move],
    goals: Mapping[int, Place],
) -> RatedPlan | None:
    """A plan that leads to some places: by the shortest ways, or else by all that was done."""
    replay = _Replay(state, scope, options, concerned)
    shared = shared_out(state, replay.batches, goals)
    # Who moved first gained most.
    waiting = [index for index in dict.fromkeys(index for index, _, _ in made) if index in shared]
    before = -1
    while waiting and before < len(replay.steps):
        before = len(replay.steps)
        waiting = [index for index in waiting if not replay.lead(index, shared[index])]
    if not waiting:
        return replay.plan()
    replay = _Replay(state, scope, options, concerned)
    return replay.plan() if all(replay.make(*move) for move in made) else None
