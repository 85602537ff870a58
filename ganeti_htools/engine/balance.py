"""Rebalancing: the best single move again and again, until none helps (``hbal(1)``)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ganeti_htools.engine import choice, moves
from ganeti_htools.engine.evacuate import Kind
from ganeti_htools.engine.moves import Touched, Trial
from ganeti_htools.engine.places import FITS, Codes
from ganeti_htools.engine.relocate import (
    MIRRORED,
    Crew,
    Surroundings,
    muster,
    nodes_after,
    relocate,
)
from ganeti_htools.engine.score import CROWDING, Statistics, node_values
from ganeti_htools.model.state import NOWHERE, Bools, Floats, Ints, State

BLOCK = 1 << 15  # candidates looked at together
ORDER = (Kind.FAILOVER, *MIRRORED, Kind.FAILOVER_TO)


@dataclass(frozen=True, slots=True)
class Balancing:
    """Which moves are allowed, and when to stop.

    ``restricted_migration``: migrate off offline nodes only. ``evacuation``: only instances on offline
    nodes. ``ignore_soft_errors``: drop the soft limits. A step has to gain ``min_gain`` once the score
    is no more than ``min_gain_limit``; there are no more than ``max_length`` steps unless that is below
    0, and none once the score is within ``min_score`` of the best that is possible.
    """

    disk_moves: bool = True
    instance_moves: bool = True
    restricted_migration: bool = False
    evacuation: bool = False
    ignore_soft_errors: bool = False
    min_gain: float = 1e-2
    min_gain_limit: float = 1e-1
    min_score: float = 1e-9
    max_length: int = -1


@dataclass(frozen=True, slots=True)
class Step:
    """A move that was made: rows of the instance, of the new node (NOWHERE for a failover), and of
    primary and secondary afterwards; and the score then.
    """

    instance: int
    kind: Kind
    node: int
    pnode: int
    snode: int
    score: float


def rebalance(
    state: State, scope: Bools, options: Balancing, movable: Bools | None = None
) -> tuple[State, list[Step]]:
    """The state after balancing the nodes in scope, and the steps that lead there.

    Instances with their primary in scope move, unless ``movable`` says no or they are not to be
    balanced automatically.
    """
    state = state.copy()
    return state, list(stepwise(state, scope, options, movable))


def stepwise(state: State, scope: Bools, options: Balancing, movable: Bools | None = None) -> Iterator[Step]:
    """The same in place: each step as it is found, when it has been made."""
    auto = np.array([instance.auto_balance for instance in state.cluster.instances], np.bool_)
    here = auto & (state.pnode != NOWHERE) & scope[state.pnode]
    here &= (state.snode == NOWHERE) | scope[state.snode]
    crews, around = muster(state, here if movable is None else here & movable)
    limit = optimal_score(state, scope) + options.min_score
    current = score_of(state, scope)
    number = 0
    while (options.max_length < 0 or number < options.max_length) and current > limit:
        found = _best(around, crews, scope, options)
        if found is None:
            return
        trial, step = found
        gained = step.score < current and (
            current > options.min_gain_limit or current - step.score >= options.min_gain
        )
        if not gained:
            return
        moves.settle(state, trial)
        around.refresh(np.array([int(node.rows[0]) for node in trial.touched]))
        current = step.score
        number += 1
        yield step


def score_of(state: State, scope: Bools) -> float:
    """The score of the nodes in scope; 0 if there are none."""
    if not scope.any():
        return 0.0
    return float(choice.base(state, scope, moves.crowding(state, scope)).score())


def optimal_score(state: State, scope: Bools) -> float:
    """What no distribution of the instances on these nodes can fall below, for memory reserved for
    secondaries (``hbal(1)``, ``--min-score``).
    """
    sizes = state.columns.t_mem[scope].tolist()
    total = sum(sizes)
    rest = total - max(sizes, default=0.0)
    if len(sizes) < 2 or not rest > 0:
        return 0.0
    reserved = float(state.peers[:, scope].sum())
    return float(0.25 * (reserved / rest - reserved / total))


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Moves of one kind: positions in the crew, rows of new nodes (None for failovers), and scores."""

    crew: Crew
    kind: Kind
    members: Ints
    new: Ints | None
    scores: Floats

    def take(self, which: Any) -> "_Candidates":
        new = None if self.new is None else self.new[which]
        return replace(self, members=self.members[which], new=new, scores=self.scores[which])


def allowed(around: Surroundings, crew: Crew, kind: Kind, options: Balancing) -> Bools:
    """Which members of the crew may move in this way at all."""
    offline = around.state.columns.offline
    p, s = around.state.pnode[crew.rows], around.state.snode[crew.rows]
    lost = offline[p]
    if not crew.asked.mirrored:
        may = np.full(len(crew.rows), kind is Kind.FAILOVER_TO and options.instance_moves)
        return may & (lost | ((s != NOWHERE) & offline[s])) if options.evacuation else may
    if kind is Kind.FAILOVER_TO:
        return np.zeros(len(crew.rows), np.bool_)
    usable = ~offline[s] & options.instance_moves
    free_to_migrate = lost if options.restricted_migration else np.ones_like(lost)
    may = {
        Kind.FAILOVER: usable,
        Kind.REPLACE_SECONDARY: np.full_like(lost, options.disk_moves),
        Kind.REPLACE_AND_FAILOVER: free_to_migrate & (options.disk_moves and options.instance_moves),
        Kind.REPLACE_PRIMARY: usable & (options.disk_moves and not options.restricted_migration),
        Kind.FAILOVER_AND_REPLACE: usable & free_to_migrate & options.disk_moves,
    }[kind]
    return may & (lost | offline[s]) if options.evacuation else may


def _best(
    around: Surroundings, crews: list[Crew], scope: Bools, options: Balancing
) -> tuple[Trial, Step] | None:
    """The move that leaves the lowest score, of equal ones the first; None if there is none."""
    state, force = around.state, options.ignore_soft_errors
    targets = np.flatnonzero(scope & ~state.columns.offline)
    base = choice.base(state, scope, moves.crowding(state, scope))
    best: list[_Candidates] = []
    lowest = np.inf
    for crew in crews:
        for kind in ORDER:
            members = np.flatnonzero(allowed(around, crew, kind, options))
            width = 1 if kind is Kind.FAILOVER else len(targets)
            for start in range(0, len(members), max(1, BLOCK // max(1, width))):
                some = members[start : start + max(1, BLOCK // max(1, width))]
                chosen, new = some, None
                if kind is not Kind.FAILOVER:
                    chosen, new = np.repeat(some, width), np.tile(targets, len(some))
                    p, s = state.pnode[crew.rows[chosen]], state.snode[crew.rows[chosen]]
                    apart = (new != p) & (new != s)
                    chosen, new = chosen[apart], new[apart]
                taken = crew.take(chosen)
                touched, codes = relocate(around, taken, kind, force, new)
                scores = _scores(around, taken, kind, new, touched, codes, base, scope)
                near = np.flatnonzero(
                    scores
                    <= min(lowest, np.fmin.reduce(scores, initial=np.inf))
                    + choice.CLOSE * max(1.0, lowest if np.isfinite(lowest) else 1.0)
                )
                near = near[np.isfinite(scores[near])]
                if len(near):
                    lowest = min(lowest, float(scores[near].min()))
                    best.append(_Candidates(crew, kind, chosen, new, scores).take(near))
    return _settle_ties(around, best, lowest, scope, options)


def _scores(
    around: Surroundings,
    crew: Crew,
    kind: Kind,
    new: Ints | None,
    touched: list[Touched],
    codes: Codes,
    base: Statistics,
    scope: Bools,
) -> Floats:
    """Scores by update of the statistics; infinite where the move must not be."""
    change = crowding_change(around, crew, kind, new, scope)
    sums = list(base.sums)
    sums[CROWDING] = sums[CROWDING] + change
    base = replace(base, sums=tuple(sums))
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        for node in touched:
            old = node_values(node.old)
            base = base.replaced(old, node_values(node.new, (node.old, old)), node.old.offline)
        scores = np.broadcast_to(base.score(), codes.shape)
    return np.where(codes == FITS, scores, np.inf)


def crowding_change(around: Surroundings, crew: Crew, kind: Kind, new: Ints | None, scope: Bools) -> Any:
    """How the location exclusion score changes with each move."""
    state = around.state
    if kind is Kind.REPLACE_SECONDARY or not state.location_rows or crew.asked.forthcoming:
        return 0.0
    tagged = np.flatnonzero(crew.tags)
    if not len(tagged):
        return 0.0
    change = np.zeros(len(crew.rows))
    goal = nodes_after(state, crew, kind, new)[0]
    for row in sorted(set(crew.rows[tagged].tolist())):
        which = np.flatnonzero(crew.rows == row)
        change[which] = moves.crowding_change(state, state.instance(row), goal[which], scope)
    return change


def _settle_ties(
    around: Surroundings, best: list[_Candidates], lowest: float, scope: Bools, options: Balancing
) -> tuple[Trial, Step] | None:
    """Of the candidates close to the lowest score, the one that is lowest when computed afresh."""
    state, winner = around.state, None
    rank: tuple[float, ...] = (np.inf,)
    crowding = moves.crowding(state, scope)
    for candidates in best:
        near = candidates.take(candidates.scores <= lowest + choice.CLOSE * max(1.0, lowest))
        for position in range(len(near.members)):
            one = near.take([position])
            crew = one.crew.take(one.members)
            touched, codes = relocate(around, crew, one.kind, options.ignore_soft_errors, one.new)
            p, s = nodes_after(state, crew, one.kind, one.new)
            change = crowding_change(around, crew, one.kind, one.new, scope)
            trial = Trial(state.instance(int(crew.rows[0])), codes, p, s, tuple(touched), change)
            score = choice.afresh(state, trial, 0, scope, crowding)
            row, node = int(crew.rows[0]), NOWHERE if one.new is None else int(one.new[0])
            this = (score, row, node, ORDER.index(one.kind))
            if this < rank:
                step = Step(row, one.kind, node, int(p[0]), int(s[0]), score)
                winner, rank = (trial, step), this
    return winner
