"""Place for a new instance on one node: the best candidate that keeps the cluster redundant."""

import numpy as np

from ganeti_htools.engine.allocation.reporter import SILENT, Reporter
from ganeti_htools.engine.allocation.solution import PATIENCE, Solution, count_failures, last_lowest
from ganeti_htools.engine.redundancy.checks import Check
from ganeti_htools.engine.rules import affinity, choice, placements
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import RequestedInstance, State


def on_nodes(
    state: State,
    asked: RequestedInstance,
    nodes: Ints,
    scope: Bools,
    options: PlacementOptions,
    redundancy: Check | None,
    reporter: Reporter = SILENT,
) -> Solution:
    """Find a place for a new instance on one of ``nodes`` (rows). Scores are those of nodes in ``scope`` (a
    mask).

    As with Ganeti's htools, failures are the candidates that do not fit, and the candidates that are better
    than the chosen one but leave the cluster not redundant.
    """
    trial = placements.allocate_one(state, asked, nodes, scope, options.ignore_soft_errors)
    reporter.judged(nodes, trial, redundancy)
    exclusion = affinity.location_exclusion(state, scope)
    fits = trial.codes == FITS
    base = choice.base(state, scope, exclusion)
    # If no score is a number, the first candidate wins.
    scores = choice.restricted(trial, scope).scores(base) if base.rated else np.arange(float(len(nodes)))
    scores = np.where(fits, scores, np.inf)
    allowed = redundancy.admissible(asked, nodes, None) if redundancy else np.ones_like(fits)
    tries = 0
    while True:
        good = np.flatnonzero(fits & allowed)
        if not len(good):
            dropped = int(fits.sum())
            return Solution(count_failures(trial.codes, dropped), int(fits.sum()) - dropped)
        near = good[choice.near_best(scores[good])]
        if len(near) > 1:
            fresh = [
                choice.fresh_score(state, trial, candidate, scope, exclusion) for candidate in near.tolist()
            ]
            scores[near] = fresh
            best = int(near[last_lowest(np.array(fresh))])
        else:
            best = int(near[0])
        metric = choice.fresh_score(state, trial, best, scope, exclusion)
        if base.rated:
            scores[best] = metric
        chosen = trial.only(best)
        fatal = redundancy.fatal_loss(asked, int(nodes[best])) if redundancy else NOWHERE
        if redundancy is None or fatal == NOWHERE:
            better = (scores < scores[best]) | ((scores == scores[best]) & (np.arange(len(nodes)) > best))
            dropped = int(np.count_nonzero(fits & ~allowed & better))
            return Solution(count_failures(trial.codes, dropped), int(fits.sum()) - dropped, metric, chosen)
        allowed[best] = False
        tries += 1
        if tries == PATIENCE and redundancy.fatal_alone(fatal):
            allowed[:] = False
