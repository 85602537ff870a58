"""Choice of the best candidate of a trial.

Scores of candidates come from updated statistics. The order of additions then differs from that of a fresh
computation, so candidates that tie differ in the last bits. Candidates that lie close together are therefore
scored afresh, in node order. The winner of a tie is then the same on any machine and the same as with
Ganeti's htools: the last one.

An online node without CPUs or memory leaves no score that is a number. Such a score never wins against a
number. If no score is a number, Ganeti's htools take:

* for a new instance the first place
* for an instance that moves the last place
* for a mirrored instance the last primary and its first secondary
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ganeti_htools.engine.rules import affinity
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.score import (
    ChangedValues,
    NodeValues,
    Statistics,
    node_values,
    score,
    statistics,
    variant_scores,
)
from ganeti_htools.engine.rules.trial import NodeChange, Trial
from ganeti_htools.model.columns import NOWHERE, Bools, Columns, Floats, Ints
from ganeti_htools.model.state import State

CLOSE = 1e-9


def base(state: State, scope: Bools, exclusion: float | None = None) -> Statistics:
    """Compute the statistics of the nodes in scope.

    ``exclusion`` is their location exclusion score, which is computed unless it is given.
    """
    exclusion = affinity.location_exclusion(state, scope) if exclusion is None else exclusion
    columns = state.columns if scope.all() else state.columns.take(np.flatnonzero(scope))
    return statistics(columns, node_values(columns), exclusion)


def near_best(scores: Floats) -> Ints:
    """Find the candidates that may be the best but for the last bits; all if no score is a number."""
    best = np.fmin.reduce(scores, initial=np.inf)
    if not np.isfinite(best):
        return np.arange(len(scores))
    return np.flatnonzero(scores <= best + CLOSE * max(1.0, abs(best)))


def fresh_score(state: State, trial: Trial, candidate: int, scope: Bools, exclusion: float = 0.0) -> float:
    """Compute the score of the nodes in scope with one candidate chosen, from nothing."""
    columns = state.columns.copy()
    if trial.asked.forthcoming:
        columns = columns.with_forthcoming_apart()
    for node in trial.only(candidate).changes:
        columns = columns.apart(node.new.aliases)
        columns.put(int(node.rows[0]), node.new)
    columns = columns if scope.all() else columns.take(np.flatnonzero(scope))
    change = (
        trial.location_exclusion
        if np.ndim(trial.location_exclusion) == 0
        else trial.location_exclusion[candidate]
    )
    return score(columns, exclusion + float(change))


def fresh_scores(
    changes: Sequence[NodeChange], rows: Ints, columns: Columns, values: NodeValues, exclusion: Floats
) -> Floats:
    """Compute the score of each candidate from nothing; ``exclusion`` is its location exclusion score.

    The nodes that count are ``rows``, in order, with their ``columns`` and ``values``.
    """
    node_changes = []
    for node in changes:
        at = np.minimum(np.searchsorted(rows, node.rows), len(rows) - 1)
        position = np.where(rows[at] == node.rows, at, NOWHERE)
        node_changes.append((position, ChangedValues.of(node.old, node.new)))
    return variant_scores(columns, values, node_changes, exclusion)


def restricted(trial: Trial, scope: Bools) -> Trial:
    """Drop touched nodes out of scope from a trial, for scoring."""
    return replace(trial, changes=tuple(node for node in trial.changes if scope[node.rows].all()))


def best(state: State, trial: Trial, scope: Bools, exclusion: float = 0.0, exact: bool = True) -> int | None:
    """Find the candidate that fits and leaves the nodes in scope with the lowest score; None if none fits."""
    fits = np.flatnonzero(trial.codes == FITS)
    if len(fits) < 2:
        return int(fits[0]) if len(fits) else None
    before = base(state, scope, exclusion)
    if not before.rated:
        return int(fits[0 if trial.asked.index == NOWHERE else -1])
    near = fits[near_best(restricted(trial, scope).scores(before)[fits])]
    if len(near) == 1 or not exact:
        return int(near[-1])
    fresh = [fresh_score(state, trial, candidate, scope, exclusion) for candidate in near.tolist()]
    return int(near[np.flatnonzero(np.array(fresh) == min(fresh))[-1]])
