"""Rebalancing: make the best single move repeatedly, until no move helps (``hbal(1)``)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ganeti_htools.engine.balancing.batches import Batch, NodeFacts, batches_of
from ganeti_htools.engine.balancing.search import Search
from ganeti_htools.engine.balancing.ties import BestMove, clearly_lower
from ganeti_htools.engine.balancing.time_limit import NEGLIGIBLE, TimeLimit
from ganeti_htools.engine.rules import affinity, choice, settling
from ganeti_htools.engine.rules.components import INDEX, WEIGHTS
from ganeti_htools.model.columns import NOWHERE, Bools
from ganeti_htools.model.moves import MoveKind
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State


@dataclass(frozen=True, slots=True)
class Step:
    """A move of a plan: rows of the instance, of its new node (NOWHERE for a failover), and of primary and
    secondary afterwards, with the score then.
    """

    instance: int
    kind: MoveKind
    node: int
    pnode: int
    snode: int
    score: float


def rebalance(
    state: State, scope: Bools, options: BalancingOptions, movable: Bools | None = None, rough: bool = False
) -> tuple[State, list[Step]]:
    """Balance the nodes in scope; returns the state afterwards, and the steps.

    Instances with their primary in scope move, unless ``movable`` excludes them or they are not to be
    balanced automatically. With ``rough``, scores of steps are right to about 1e-8 only.
    """
    state = state.copy()
    return state, list(stepwise(state, scope, options, movable, rough))


def stepwise(
    state: State, scope: Bools, options: BalancingOptions, movable: Bools | None = None, rough: bool = False
) -> Iterator[Step]:
    """Balance the nodes in scope, in place; yields each step once it has been made."""
    limit = optimal_score(state, scope) + options.min_score
    current = score_of(state, scope)
    if not current > limit:
        return
    batches, facts = batches_of(state, candidates(state, scope, movable), options.unmirrored)

    search, time_limit, cheap = search_of(facts, batches, scope, options), None, None
    factor = 1.0 if options.disk_moves_factor is None else options.disk_moves_factor
    if options.long_factor >= NEGLIGIBLE:
        time_limit = TimeLimit(
            state, options.long_threshold, options.long_factor, optimal_score(state, scope)
        )
    if options.disk_moves and (options.disk_moves_factor is not None or time_limit):
        cheap = search_of(facts, batches, scope, replace(options, disk_moves=False))

    def best_of(search: Search) -> BestMove | None:
        return time_limit.best(search, current) if time_limit else search.best(current, rough=rough)

    number = 0
    while (options.max_length < 0 or number < options.max_length) and current > limit:
        best = best_of(search)
        if cheap and (time_limit or (best and best.kind.copies_disks)):
            other = best_of(cheap)
            if other and (not best or current - best.score <= (current - other.score) * factor):
                best = other
        if best and rough and not clearly_lower(best.score, current):
            current = score_of(state, scope)
        if best is None or not gains(current, best.score, options):
            return
        instance, trial = best.trial.asked.index, best.trial
        if time_limit:
            time_limit.note(best)
        settling.settle(state, trial)
        search.note(trial)
        if cheap:
            cheap.note(trial)
        current = best.score
        number += 1
        yield Step(instance, best.kind, best.node, int(trial.pnode[0]), int(trial.snode[0]), current)


def search_of(facts: NodeFacts, batches: Sequence[Batch], scope: Bools, options: BalancingOptions) -> Search:
    """Build the search for moves of the batches that the options allow, to nodes in scope."""
    force = options.ignore_soft_errors
    return Search(facts, batches, scope, force, lambda batch, kind: allowed(facts, batch, kind, options))


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
    reserved = float(state.peers[:, scope].sum())
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
    usable = ~offline[s] & options.instance_moves
    free_to_migrate = lost if options.restricted_migration else np.ones_like(lost)
    may = {
        MoveKind.FAILOVER: usable,
        MoveKind.REPLACE_SECONDARY: np.full_like(lost, options.disk_moves),
        MoveKind.REPLACE_AND_FAILOVER: free_to_migrate & (options.disk_moves and options.instance_moves),
        MoveKind.REPLACE_PRIMARY: usable & (options.disk_moves and not options.restricted_migration),
        MoveKind.FAILOVER_AND_REPLACE: usable & free_to_migrate & options.disk_moves,
    }[kind]
    return may & (lost | offline[s]) if options.evacuation else may
