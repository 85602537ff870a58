"""Rebalancing: make the best single move repeatedly, until no move helps (``hbal(1)``).

With ``--avoid-long-solutions`` steps that gain too little for their time are left out. A plan below a
threshold goes on in any case. Otherwise a step must divide the score by more than a given factor. The score
counts from the best one possible. The factor is a constant times the plan's time then, in thresholds
(Ganeti's design "migration speed accounting in hbal").
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ganeti_htools.engine.balancing.baseline import Baseline
from ganeti_htools.engine.balancing.new_nodes import NewNodes
from ganeti_htools.engine.balancing.own_nodes import KeptBounds, May, OwnNodesByKind
from ganeti_htools.engine.balancing.scoring import MoveCandidates, SearchSpace, weighted_location_exclusion
from ganeti_htools.engine.balancing.sets import SetSearch
from ganeti_htools.engine.balancing.step_search import (
    CLOSE,
    LEAST,
    BestMove,
    MoveReport,
    StepSearch,
    best_of,
    clearly_lower,
)
from ganeti_htools.engine.moving.traffic import bandwidths, seconds
from ganeti_htools.engine.rules import affinity, choice, placement_rules, settling
from ganeti_htools.engine.rules.batches import Batch, NodeFacts, batches_of
from ganeti_htools.engine.rules.components import INDEX, WEIGHTS
from ganeti_htools.engine.rules.score import statistics
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.moves import KINDS, Move, MoveKind, Operation
from ganeti_htools.model.options import BalancingOptions, CopyingOptions
from ganeti_htools.model.state import State


class Search:
    """The search for the best move, repeated as moves are made. ``may`` selects the allowed moves.

    For each batch it keeps the changes of the instances' own nodes (``own``) and of new nodes (``new``: as
    secondaries and as primaries, see :attr:`MoveKind.to_primary`).
    """

    @np.errstate(invalid="ignore", divide="ignore", over="ignore")  # nodes that report nothing
    def __init__(
        self, facts: NodeFacts, batches: Sequence[Batch], scope: Bools, force: bool, may: May
    ) -> None:
        self.state, offline = facts.state, facts.state.columns.offline
        self.space = SearchSpace.of(facts, scope, force)
        parts, targets = self.space.parts, self.space.targets
        forces = [force] if force or not (scope & offline).any() else [False, True]
        self.batches, self.own, self.new = list(batches), list[OwnNodesByKind](), list[dict[bool, NewNodes]]()
        for batch in batches:
            kinds = KINDS[batch.mirror]
            first_of = {kind.to_primary: kind for kind in reversed(kinds) if kind.takes_node and len(targets)}
            new = {
                to_primary: NewNodes(facts, parts, batch, kind, targets, forces)
                for to_primary, kind in first_of.items()
            }
            self.new.append(new)
            self.own.append(OwnNodesByKind(facts, parts, batch, kinds, force, may, new))
        self.share = LEAST  # of the highest possible gain, where the next step begins
        self.baseline: Baseline | None = None  # once it is needed
        self.bounds = KeptBounds(self.own, self.new, sum(len(batch.rows) for batch in batches))

    def note(self, *trials: Trial) -> None:
        """Update the search after moves that have been settled."""
        nodes = np.array(sorted({int(node.rows[0]) for trial in trials for node in trial.changes}))
        self.space.facts.refresh(nodes)
        self.baseline = None
        concerned = np.zeros(len(self.space.scope) + 1, np.bool_)  # the last entry stands for NOWHERE
        concerned[nodes] = True
        there = concerned[self.state.pnode] | concerned[self.state.snode]
        for batch, own, new in zip(self.batches, self.own, self.new, strict=True):
            members = np.flatnonzero(there[batch.rows])
            if len(members):
                own.refresh(members)
            for each in new.values():
                each.refresh(nodes)

    @np.errstate(invalid="ignore", divide="ignore", over="ignore")  # nodes that report nothing
    def score(self) -> float:
        """Compute the present score from nothing."""
        baseline = self.baseline = self.baseline or self.space.baseline()
        columns = self.space.parts.columns()
        return float(statistics(columns, baseline.values, baseline.location_exclusion).score())

    @np.errstate(invalid="ignore", divide="ignore", over="ignore")  # nodes that report nothing
    def best(
        self,
        current: float,
        barred: Bools | None = None,
        report: MoveReport | None = None,
        rough: bool = False,
        enough: float | None = None,
    ) -> BestMove | None:
        """Find the move that leaves the lowest score below the ``current`` one; of equal ones the first.

        The order is that of instances; a failover comes before all other moves, then new nodes in order, and
        for each new node the kinds in the order of their table. Instances that are ``barred`` stay.
        ``report`` gets each move. With ``rough``, ``current`` is right to about 1e-8 only. So is the score of
        a single best move that is clearly better than ``enough``.
        """
        baseline = self.baseline = self.baseline or self.space.baseline()
        self.bounds.update(baseline)
        search = StepSearch(self.space, baseline, current, CLOSE if rough else 0.0, report, self.share)
        found = search.moves(list(self.candidates(barred)))
        self.bounds.passed += search.scored
        self.share = search.share
        return best_of(self.space, baseline, found, search.limit, enough)

    def candidates(self, barred: Bools | None = None) -> Iterator[MoveCandidates]:
        """Yield all moves that may be made now, by batch and kind."""
        for batch, own, new in zip(self.batches, self.own, self.new, strict=True):
            exclusion = weighted_location_exclusion(self.space, batch)
            for kind, nodes in own.kinds.items():
                may, free = nodes.may, nodes.free
                if barred is not None:
                    may, free = may & ~barred[batch.rows], free & ~barred[batch.rows]
                arriving = new.get(kind.to_primary) if kind.takes_node else None
                yield MoveCandidates(batch, kind, may, free, nodes, arriving, exclusion)


NEGLIGIBLE = 0.01  # factors below this make no difference


class TimeLimit:
    """The time of a growing plan and its limit, in seconds."""

    def __init__(
        self, state: State, threshold: float, factor: float, optimum: float, copying: CopyingOptions
    ) -> None:
        self.state, self.speeds, self.copying = state, bandwidths(state, 0), copying
        self.threshold, self.factor, self.optimum = threshold, factor, optimum
        self.spent = 0.0

    def best(self, search: Search, current: float) -> BestMove | None:
        """Find the best move, of each instance's best ones, that does not take too long."""
        barred = np.zeros(len(self.state.pnode), np.bool_)
        while best := search.best(current, barred):
            if self.admits(current, (best,)):
                return best
            if self._too_long(current, best.score, self.spent):
                return None  # all other moves gain less
            barred[best.trial.asked.index] = True
        return None

    def admits(self, current: float, moves: Sequence[BestMove]) -> bool:
        """Whether moves that are made together do not take too long for what they gain."""
        return not self._too_long(current, moves[-1].score, self.spent + sum(map(self._takes, moves)))

    def note(self, *moves: BestMove) -> None:
        """Add the time of moves that are about to be made."""
        self.spent += sum(map(self._takes, moves))

    def _takes(self, best: BestMove) -> float:
        index = best.trial.asked.index
        place = self.state.node_pair(index)
        row = self.state.cluster.instances[index]
        usual = self.copying.speed(row.template.value)
        return seconds(row, self.speeds, place, best.kind.parts(best.node), usual)

    def _too_long(self, current: float, score: float, time: float) -> bool:
        if time < self.threshold or score == self.optimum:
            return False
        improvement = (current - self.optimum) / (score - self.optimum)
        return not improvement * self.threshold > self.factor * time


def rebalance(
    state: State, scope: Bools, options: BalancingOptions, movable: Bools | None = None
) -> tuple[State, list[Move]]:
    """Balance the nodes in scope; returns the state afterwards, and the steps.

    Instances with their primary in scope move, unless ``movable`` excludes them or they are not to be
    balanced automatically.
    """
    state = state.copy()
    return state, list(stepwise(state, scope, options, movable))


def stepwise(
    state: State,
    scope: Bools,
    options: BalancingOptions,
    movable: Bools | None = None,
    rough: bool = False,
    copying: CopyingOptions | None = None,
) -> Iterator[Move]:
    """Balance the nodes in scope, in place; yields each step once it has been made.

    With ``rough``, scores of steps are right to about 1e-8 only. ``copying`` has the speed of copying.
    """
    limit = optimal_score(state, scope) + options.min_score
    current = score_of(state, scope)
    if not current > limit:
        return
    concerned = candidates(state, scope, movable)
    together = placement_rules.in_sets(state)
    batches, facts = batches_of(state, concerned & ~together, options.unmirrored)
    sets = None
    if (concerned & together).any():
        sets = SetSearch(state, scope, concerned, options.ignore_soft_errors, options.unmirrored)

    search, time_limit, cheap = search_of(facts, batches, scope, options), None, None
    factor = 1.0 if options.disk_moves_factor is None else options.disk_moves_factor
    if options.long_factor >= NEGLIGIBLE:
        time_limit = TimeLimit(
            state,
            options.long_threshold,
            options.long_factor,
            optimal_score(state, scope),
            copying or CopyingOptions(),
        )
    without_copies = replace(options, disk_moves=False)
    if options.disk_moves and (options.disk_moves_factor is not None or time_limit):
        cheap = search_of(facts, batches, scope, without_copies)

    # Without a second choice, the score of a step is computed once the step has been made.
    later = not (rough or cheap or time_limit or sets)

    def best_of(search: Search, options: BalancingOptions) -> tuple[BestMove, ...]:
        if time_limit:
            best = time_limit.best(search, current)
        else:
            enough = sufficient_score(current, options) if later else current if rough else None
            best = search.best(current, rough=rough, enough=enough)
        if sets is None:
            return (best,) if best else ()
        left = math.inf if options.max_length < 0 else options.max_length - number
        rival = best.score if best else current
        admits = partial(time_limit.admits, current) if time_limit else None
        return sets.best(rival, may_of(facts, options), left, admits) or ((best,) if best else ())

    number = 0
    while (options.max_length < 0 or number < options.max_length) and current > limit:
        best = best_of(search, options)
        if cheap and (time_limit or any(move.kind.copies_disks for move in best)):
            other = best_of(cheap, without_copies)
            if other and (not best or current - best[-1].score <= (current - other[-1].score) * factor):
                best = other
        if best and rough and not clearly_lower(best[-1].score, current):
            current = score_of(state, scope)
        if not best or not gains(current, best[-1].score, options):
            return
        if time_limit:
            time_limit.note(*best)
        trials = [move.trial for move in best]
        for trial in trials:
            settling.settle(state, trial)
        search.note(*trials)
        for each in (cheap, sets):
            if each:
                each.note(*trials)
        current = search.score() if later else best[-1].score
        number += len(best)
        for move in best:
            score = current if move is best[-1] else move.score
            parts, trial = move.kind.parts(move.node), move.trial
            yield Move(trial.asked.index, parts, trial.nodes, score, move is not best[-1])


def search_of(facts: NodeFacts, batches: Sequence[Batch], scope: Bools, options: BalancingOptions) -> Search:
    """Build the search for moves of the batches that the options allow, to nodes in scope."""
    return Search(facts, batches, scope, options.ignore_soft_errors, may_of(facts, options))


def may_of(facts: NodeFacts, options: BalancingOptions) -> May:
    """Return the function that selects the members of a batch which the options allow to move in a way."""
    return lambda batch, kind: allowed(facts, batch, kind, options)


def candidates(state: State, scope: Bools, movable: Bools | None) -> Bools:
    """Find the instances to be balanced: those with all their nodes in scope."""
    auto = np.array([instance.auto_balance for instance in state.cluster.instances], np.bool_)
    here: Bools = auto & (state.pnode != NOWHERE) & scope[state.pnode]
    here &= (state.snode == NOWHERE) | scope[state.snode]
    return here if movable is None else here & movable


def gains(current: float, score: float, options: BalancingOptions) -> bool:
    """Whether a step from one score to another is worth making."""
    enough = current > options.min_gain_limit or current - score >= options.min_gain
    return score < current and enough


def sufficient_score(current: float, options: BalancingOptions) -> float:
    """Compute the score below which a step gains enough."""
    return current if current > options.min_gain_limit else current - max(0.0, options.min_gain)


def score_of(state: State, scope: Bools) -> float:
    """Compute the score of the nodes in scope; 0 if none is online."""
    if not (scope & ~state.columns.offline).any():
        return 0.0
    return float(choice.base(state, scope, affinity.location_exclusion(state, scope)).score())


def optimal_score(state: State, scope: Bools) -> float:
    """Compute a lower bound of the score of any distribution of the instances on these nodes.

    It follows from the memory that is reserved for secondaries (``hbal(1)``, ``--min-score``).
    """
    sizes = state.columns.t_mem[scope].tolist()
    total = sum(sizes)
    rest = total - max(sizes, default=0.0)
    if len(sizes) < 2 or not rest > 0:
        return 0.0
    reserved = float(state.peers.sum(axis=0)[scope].sum())
    return float(WEIGHTS[INDEX["reserved_mem_rtotal"]] * (reserved / rest - reserved / total))


def allowed(facts: NodeFacts, batch: Batch, kind: MoveKind, options: BalancingOptions) -> Bools:
    """Find the members of the batch that may move in this way at all."""
    offline = facts.state.columns.offline
    p, s = facts.state.pnode[batch.rows], facts.state.snode[batch.rows]
    lost = offline[p]
    if kind.mirror is not batch.mirror:
        return np.zeros(len(batch.rows), np.bool_)
    if kind is MoveKind.MOVE:
        return lost & (options.unmirrored and options.instance_moves and options.disk_moves)
    if kind is MoveKind.FAILOVER_TO:
        may = np.full(len(batch.rows), options.instance_moves)
        return may & (lost | ((s != NOWHERE) & offline[s])) if options.evacuation else may
    failovers = kind.operations.count(Operation.FAILOVER)
    wanted = (options.disk_moves or not kind.copies_disks) and (options.instance_moves or not failovers)
    may = np.full(len(lost), wanted)
    if kind.operations[0] is Operation.FAILOVER:
        may &= ~offline[s]
    if options.restricted_migration and failovers and kind.copies_disks:
        may &= lost & (failovers == 1)
    return may & (lost | offline[s]) if options.evacuation else may
