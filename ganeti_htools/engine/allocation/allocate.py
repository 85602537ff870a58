"""Placing new instances: every node or pair scored at once, the best that keeps the cluster redundant.

The rules are those of ``hail(1)``: only online nodes, for mirrored instances pairs within a group; of
several groups the best by allocation policy, then by score.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ganeti_htools.engine.allocation.options import Options
from ganeti_htools.engine.redundancy.global_n1 import Check, assess
from ganeti_htools.engine.rules import affinity, choice, placements
from ganeti_htools.engine.rules.node_rules import FAIL, FITS, Codes
from ganeti_htools.engine.rules.score import Statistics
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE, Bools, Floats, Ints, sorted_unique
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.state import Asked, State
from ganeti_htools.model.types import AllocPolicy, Fail

# So many candidates are tried one by one for redundancy: where room is scarce, one more instance may
# bring the others into an order in which all find a place. From then on, a node that cannot be lost as
# it is stays so; and a secondary, which needs no memory unless its primary is lost, is taken not to
# matter: one pair speaks for all with the same primary.
PATIENCE = 64


@dataclass(frozen=True, slots=True)
class Solution:
    """What came of trying candidates: how many fit, why others did not, and the trial that was chosen.

    ``metric`` is what was minimised, ``trial`` has the one candidate to settle; both None if none fits.
    """

    failures: dict[Fail, int]
    successes: int
    metric: Any = None
    trial: Trial | None = None

    @property
    def nodes(self) -> tuple[int, ...]:
        """Rows of the chosen nodes, primary first."""
        if self.trial is None:
            return ()
        rows = (int(self.trial.pnode[0]), int(self.trial.snode[0]))
        return tuple(row for row in rows if row != NOWHERE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a node group: a solution, or why it could not be tried.

    ``unconnected`` groups lack a network of the instance.
    """

    group: int
    solution: Solution | None = None
    error: str = ""
    unconnected: bool = False


def candidates(state: State, scope: Bools, restrict_to: Sequence[str] | None) -> Ints:
    """Rows of the online nodes in scope, of those allowed only."""
    usable = scope & ~state.columns.offline
    if restrict_to is not None:
        allowed = np.zeros_like(usable)
        allowed[[state.nodes[name] for name in restrict_to if name in state.nodes]] = True
        usable &= allowed
    return np.flatnonzero(usable)


def on_nodes(
    state: State, asked: Asked, nodes: Ints, scope: Bools, options: Options, redundancy: Check | None
) -> Solution:
    """A new instance on one of ``nodes``. Scores are those of the nodes in ``scope``."""
    trial = placements.allocate_one(state, asked, nodes, scope, options.ignore_soft_errors)
    crowding = affinity.crowding(state, scope)
    fits = trial.codes == FITS
    base = choice.base(state, scope, crowding)
    # Where no score is a number the first will do.
    scores = choice.restricted(trial, scope).scores(base) if base.rated else np.arange(float(len(nodes)))
    scores = np.where(fits, scores, np.inf)
    allowed = redundancy.admits(asked, nodes, None) if redundancy else np.ones_like(fits)
    suspects: list[int] = []
    tries = 0
    while True:
        good = np.flatnonzero(fits & allowed)
        if not len(good):
            dropped = int(fits.sum())
            return Solution(counted(trial.codes, dropped), int(fits.sum()) - dropped)
        near = good[choice.near_best(scores[good])]
        if len(near) > 1:
            fresh = [choice.afresh(state, trial, candidate, scope, crowding) for candidate in near.tolist()]
            scores[near] = fresh
            best = int(near[_last_lowest(np.array(fresh))])
        else:
            best = int(near[0])
        metric = choice.afresh(state, trial, best, scope, crowding)
        if base.rated:
            scores[best] = metric
        chosen = trial.only(best)
        if redundancy is None or redundancy.confirms(chosen, suspects):
            better = (scores < scores[best]) | ((scores == scores[best]) & (np.arange(len(nodes)) > best))
            dropped = int(np.count_nonzero(fits & ~allowed & better))
            return Solution(counted(trial.codes, dropped), int(fits.sum()) - dropped, metric, chosen)
        allowed[best] = False
        tries += 1
        if tries == PATIENCE and redundancy.hopeless(suspects):
            allowed[:] = False


def on_pairs(
    state: State,
    asked: Asked,
    primaries: Ints,
    secondaries: Ints,
    base: Statistics,
    options: Options,
    redundancy: Check | None,
) -> Solution:
    """A new mirrored instance on a pair of different nodes. ``base``: statistics of all nodes that count."""
    shape = len(primaries), len(secondaries)
    force = options.ignore_soft_errors
    trial = placements.allocate_pairs(state, asked, primaries[:, np.newaxis], secondaries, 0, force)
    base = base.repaired()
    scores, codes = np.array(trial.scores(base)), np.array(trial.codes)
    # Few pairs have instances in common already, whose memory the secondary then keeps free too.
    peers = _peers(state, primaries, secondaries)
    if len(peers[0]):
        alone = primaries[peers[0]], secondaries[peers[1]]
        trial = placements.allocate_pairs(state, asked, *alone, state.peers[alone], force)
        codes[peers], scores[peers] = trial.codes, trial.scores(base)
    apart = primaries[:, np.newaxis] != secondaries
    np.copyto(codes, FITS, where=~apart)
    fits = apart & (codes == FITS)
    unrated = float(base.score())
    rated = math.isfinite(unrated)
    if not rated:  # the last primary, of its secondaries the first, or the last if the score is infinite
        rank = np.arange(float(shape[1])) * (1 if math.isnan(unrated) else -1)
        scores = rank - shape[1] * np.arange(shape[0])[:, np.newaxis]
    np.copyto(scores, np.inf, where=~fits)
    number = int(np.count_nonzero(fits))
    allowed = fits & redundancy.admits(asked, primaries, secondaries) if redundancy else fits.copy()
    left = np.where(allowed, scores, np.inf)
    suspects: list[int] = []
    tries = 0
    while allowed.any():
        p, s = divmod(_last_lowest(left.ravel()), shape[1])
        pair = primaries[[p]], secondaries[[s]]
        chosen = placements.allocate_pairs(state, asked, *pair, state.peers[pair], force)
        if redundancy is None or redundancy.confirms(chosen, suspects):
            dropped = _dropped(scores, fits, allowed)
            metric = float(scores[p, s]) if rated else unrated
            return Solution(counted(codes, dropped), number - dropped, metric, chosen)
        tries += 1
        if tries == PATIENCE and redundancy.hopeless(suspects):
            break
        rejected = (p, s) if tries < PATIENCE else (p, slice(None))
        allowed[rejected], left[rejected] = False, np.inf
    return Solution(counted(codes, number), 0)


def _peers(state: State, primaries: Ints, secondaries: Ints) -> tuple[Ints, Ints]:
    """Positions of the pairs that have instances in common, primary for primary."""
    row, column = np.full(len(state.group), NOWHERE), np.full(len(state.group), NOWHERE)
    row[primaries], column[secondaries] = np.arange(len(primaries)), np.arange(len(secondaries))
    doubled = (state.snode != NOWHERE) & (state.pnode != NOWHERE)
    rows, columns = row[state.pnode[doubled]], column[state.snode[doubled]]
    both = (rows != NOWHERE) & (columns != NOWHERE)
    return rows[both], columns[both]


def _last_lowest(scores: Floats) -> int:
    """Position of the lowest score, of equal ones the last."""
    return int(np.flatnonzero(scores == scores.min())[-1])


def _dropped(scores: Floats, fits: Bools, allowed: Bools) -> int:
    """How many pairs would be better than the first redundant one with the same primary."""
    if np.array_equal(fits, allowed):
        return 0
    redundant = np.where(allowed, scores, np.inf)
    best = redundant.min(axis=1, keepdims=True)
    last = scores.shape[1] - 1 - np.argmin(redundant[:, ::-1], axis=1)[:, np.newaxis]
    later = np.arange(scores.shape[1]) > last
    return int(np.count_nonzero(fits & ~allowed & ((scores < best) | ((scores == best) & later))))


def counted(codes: Codes, not_redundant: int) -> dict[Fail, int]:
    """How often each reason kept the instance off, candidates that are not redundant added."""
    counts = np.bincount(codes[codes != FITS], minlength=len(FAIL) + 1)
    failures = {fail: int(counts[code]) for code, fail in FAIL.items()}
    failures[Fail.N1] += not_redundant
    return {fail: number for fail, number in failures.items() if number}


def in_scope(
    state: State,
    asked: Asked,
    count: int,
    nodes: Ints,
    scope: Bools,
    options: Options,
    redundancy: Check | None,
) -> Solution:
    """A new instance on one of ``nodes``, or with ``count`` 2 on a pair of them. Raises RequestFailed."""
    if count == 1:
        if not len(nodes):
            raise RequestFailed("No online nodes")
        return on_nodes(state, asked, nodes, scope, options, redundancy)
    if count == 2:
        if len(nodes) < 2:
            raise RequestFailed("Not enough online nodes")
        base = choice.base(state, scope, affinity.crowding(state, scope))
        return on_pairs(state, asked, nodes, nodes, base, options, redundancy)
    raise RequestFailed("Unsupported number of nodes, only one or two  supported")


def lacks_network(state: State, group: int, asked: Asked) -> bool:
    """Whether the group misses a network that the instance is to be connected to."""
    networks = state.cluster.groups[group].networks
    return any(nic.network is not None and nic.network not in networks for nic in asked.row.nics)


def in_group(state: State, asked: Asked, count: int, group: int, options: Options) -> Outcome:
    """A new instance in the group it was asked for; only this group is looked at and scored."""
    row = state.cluster.groups[group]
    if lacks_network(state, group, asked):
        raise RequestFailed(
            f"The group {row.name} is not connected to a network required by instance {asked.row.name}"
        )
    scope = state.group == group
    nodes = candidates(state, scope, options.restrict_to)
    redundancy = assess(state, scope, options) if options.capacity else None
    return Outcome(group, in_scope(state, asked, count, nodes, scope, options, redundancy))


def in_best_group(
    state: State, asked: Asked, count: int, options: Options, groups: Sequence[int] | None = None
) -> tuple[Outcome | None, list[Outcome]]:
    """A new instance in the best group (of those given), and what came of each in input order.

    Groups without nodes are left out, those that lack a network come first. Of equally good groups
    the last is chosen. None if no allocable group has a place.
    """
    everyone = np.ones(len(state.group), np.bool_)
    redundancy = assess(state, everyone, options) if options.capacity else None
    present = sorted_unique(state.group).tolist()
    skipped, tried = [], []
    for group in present if groups is None else [group for group in present if group in groups]:
        if lacks_network(state, group, asked):
            skipped.append(Outcome(group, unconnected=True))
            continue
        try:
            nodes = candidates(state, state.group == group, options.restrict_to)
            tried.append(Outcome(group, in_scope(state, asked, count, nodes, everyone, options, redundancy)))
        except RequestFailed as failed:
            tried.append(Outcome(group, error=f"{failed}"))
    return best_outcome(state, tried), [*skipped, *tried]


def best_outcome(state: State, outcomes: Sequence[Outcome]) -> Outcome | None:
    """The outcome in the most willing group, then with the lowest metric, then the last; the first if
    no metric is a number.
    """
    willing = list(AllocPolicy)

    def rank(outcome: Outcome) -> tuple[Any, ...]:
        assert outcome.solution is not None
        metric, policy = outcome.solution.metric, state.cluster.groups[outcome.group].alloc_policy
        unrated = metric != metric
        return willing.index(policy), unrated, outcome.group if unrated else metric

    good = [
        outcome
        for outcome in outcomes
        if outcome.solution is not None
        and outcome.solution.trial is not None
        and state.cluster.groups[outcome.group].alloc_policy is not AllocPolicy.UNALLOCABLE
    ]
    return min(reversed(good), key=rank) if good else None
