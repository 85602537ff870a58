"""The best secondary for each primary, of all pairs of nodes that an algorithm judged."""

from collections.abc import Iterator

import numpy as np

from ganeti_htools.engine.allocation.candidate_pairs import CandidatePairs
from ganeti_htools.engine.allocation.lost_allocations import LostAllocations
from ganeti_htools.engine.allocation.solution import PATIENCE
from ganeti_htools.engine.explaining.components import scored
from ganeti_htools.engine.explaining.places import ExplainedPlace, commonest, places
from ganeti_htools.engine.rules import choice
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.score import Statistics
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE, Ints
from ganeti_htools.model.types import Fail


def for_new(pairs: CandidatePairs, base: Statistics) -> Iterator[ExplainedPlace]:
    """Yield each node as primary of a new instance. Without a secondary that fits: with
    the commonest reason.
    """
    hopeless = False
    for row, node in enumerate(pairs.primaries.tolist()):
        best, gave_up = (None, False) if hopeless else _first_redundant(pairs, row)
        hopeless |= gave_up
        if best is not None:
            yield from places(best, np.array([True]), base)
        elif pairs.fits[row].any():
            yield ExplainedPlace(node, NOWHERE, Fail.N1.value)
        else:
            yield ExplainedPlace(node, NOWHERE, commonest(pairs.codes[row][pairs.secondaries != node]))


def _first_redundant(pairs: CandidatePairs, row: int) -> tuple[Trial | None, bool]:
    """Find the best redundant pair with a primary, and whether no pair with any primary can be redundant.

    The algorithm stops at the best of all pairs. Pairs after that are judged here, in the same way.
    """
    order = np.lexsort((-np.arange(len(pairs.secondaries)), pairs.scores[row]))
    for tries, column in enumerate(order[pairs.admitted[row][order]].tolist(), 1):
        fatal = pairs.fatal_loss(row, column)
        if fatal == NOWHERE:
            return pairs.trial(np.array([row]), np.array([column])), False
        if tries == PATIENCE and pairs.redundancy is not None:
            return None, pairs.redundancy.fatal_alone(fatal)
    return None, False


def for_losses(losses: LostAllocations) -> Iterator[ExplainedPlace]:
    """Yield each node as primary of a new instance, with its best secondary if it needs one.

    Lost allocations decide. Without a candidate that fits: with the commonest reason.
    """
    fits = losses.fits
    for row, node in enumerate(losses.primaries.tolist()):
        if not fits[row].any():
            yield ExplainedPlace(node, NOWHERE, commonest(losses.codes[row][losses.real[row]]))
            continue
        here = np.zeros_like(fits)
        here[row] = fits[row]
        _, best = losses.best(here)
        lost, disk = losses.metric(row, best)
        yield ExplainedPlace(node, int(losses.secondaries[best]), "", lost=lost, disk=disk)


def for_exchange(trial: Trial, nodes: Ints, base: Statistics) -> Iterator[ExplainedPlace]:
    """Yield each node as primary of an instance that leaves both its nodes; a trial of all pairs."""
    apart = nodes[:, np.newaxis] != nodes
    fits = apart & (trial.codes == FITS)
    ranks = trial.scores(base)
    scores, parts = scored(base, trial.changes, trial.location_exclusion, fits.shape)
    for row, node in enumerate(nodes.tolist()):
        if not fits[row].any():
            yield ExplainedPlace(node, NOWHERE, commonest(trial.codes[row][apart[row]]))
            continue
        best = int(np.flatnonzero(fits[row])[choice.near_best(ranks[row][fits[row]])][-1])
        figures = tuple(float(part[row, best]) for part in parts)
        yield ExplainedPlace(node, int(nodes[best]), "", float(scores[row, best]), figures)
