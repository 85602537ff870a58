"""Places for a new mirrored instance: the best of all pairs that keeps the cluster redundant."""

import math
from collections.abc import Iterator

import numpy as np

from ganeti_htools.engine.allocation.candidate_pairs import CandidatePairs
from ganeti_htools.engine.allocation.reporter import SILENT, Reporter
from ganeti_htools.engine.allocation.solution import PATIENCE, Solution, count_failures, last_lowest
from ganeti_htools.engine.redundancy.checks import Check
from ganeti_htools.engine.redundancy.simulate import NewInstances
from ganeti_htools.engine.rules import placements
from ganeti_htools.engine.rules.node_rules import FITS, Codes
from ganeti_htools.engine.rules.score import Statistics
from ganeti_htools.engine.rules.trial import BLOCK
from ganeti_htools.model.columns import NOWHERE, Bools, Floats, Ints
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import RequestedInstance, State


def on_pairs(
    state: State,
    asked: RequestedInstance,
    primaries: Ints,
    secondaries: Ints,
    base: Statistics,
    options: PlacementOptions,
    redundancy: Check | None,
    reporter: Reporter = SILENT,
) -> Solution:
    """Find a pair of different nodes for a new mirrored instance. ``base``: statistics of all nodes that
    count.
    """
    shape = len(primaries), len(secondaries)
    base = base.repaired()
    unrated = float(base.score())
    rated = math.isfinite(unrated)
    scores, codes = _judged(state, asked, primaries, secondaries, base, options.ignore_soft_errors)
    fits = (primaries[:, np.newaxis] != secondaries) & (codes == FITS)
    if not rated:  # the last primary; of its secondaries the first, or the last if the score is infinite
        rank = np.arange(float(shape[1])) * (1 if math.isnan(unrated) else -1)
        scores = rank - shape[1] * np.arange(shape[0])[:, np.newaxis]
    np.copyto(scores, np.inf, where=~fits)
    number = int(np.count_nonzero(fits))
    allowed = fits & redundancy.admissible(asked, primaries, secondaries) if redundancy else fits.copy()
    pairs = CandidatePairs(
        state,
        asked,
        primaries,
        secondaries,
        codes,
        fits,
        allowed,
        scores,
        redundancy,
        options.ignore_soft_errors,
    )
    reporter.judged_pairs(pairs)
    best = best_redundant(asked, primaries, secondaries, scores, allowed, redundancy)
    if best is not None:
        p, s = best
        chosen = pairs.trial(np.array([p]), np.array([s]))
        dropped = _dropped(scores, fits, allowed)
        metric = float(scores[p, s]) if rated else unrated
        return Solution(count_failures(codes, dropped), number - dropped, metric, chosen)
    return Solution(count_failures(codes, number), 0)


def best_redundant(
    asked: RequestedInstance,
    primaries: Ints,
    secondaries: Ints,
    scores: Floats,
    allowed: Bools,
    redundancy: Check | None,
) -> tuple[int, int] | None:
    """The position of the best ``allowed`` pair with which every node can be lost; None if there is none.

    Scores are primaries by secondaries, the lowest is best, of equal ones the last. ``allowed`` changes in
    place: pairs that are rejected on the way are not allowed any more. After so many tries as
    :data:`.PATIENCE` says a pair speaks for all with its primary.
    """
    lowest = _lowest_of_rows(scores, allowed)
    refuted, fatal, tries = np.zeros_like(allowed), NOWHERE, 0
    while allowed.any():
        p = last_lowest(lowest)
        s = last_lowest(np.where(allowed[p], scores[p], np.inf))
        if redundancy is None:
            return p, s
        if not refuted[p, s]:
            fatal = redundancy.fatal_loss(asked, int(primaries[p]), int(secondaries[s]))
            if fatal == NOWHERE:
                return p, s
            rows, columns = _next_best(np.where(allowed & ~refuted, scores, np.inf))
            found = redundancy.refuted(NewInstances.of(asked, primaries[rows], secondaries[columns]))
            refuted[rows[found], columns[found]] = True
        tries += 1
        if tries == PATIENCE and redundancy.fatal_alone(fatal):
            allowed[:] = False
            break
        allowed[p, s if tries < PATIENCE else slice(None)] = False
        lowest[p] = np.where(allowed[p], scores[p], np.inf).min()
    return None


def _row_blocks(shape: tuple[int, int]) -> Iterator[slice]:
    """Yield blocks of rows whose arrays stay in the processor's cache."""
    rows = max(1, BLOCK // max(1, shape[1]))
    return (slice(start, start + rows) for start in range(0, shape[0], rows))


def _lowest_of_rows(scores: Floats, allowed: Bools) -> Floats:
    """Find the lowest score among the allowed pairs of each primary; infinite without any."""
    lowest = np.empty(len(scores))
    for block in _row_blocks(scores.shape):
        lowest[block] = np.where(allowed[block], scores[block], np.inf).min(axis=1, initial=np.inf)
    return lowest


def _next_best(scores: Floats) -> tuple[Ints, Ints]:
    """The positions of the best pairs, so many as patience has tries, without the best one."""
    order = scores.ravel()
    best = np.argpartition(order, PATIENCE)[:PATIENCE] if len(order) > PATIENCE else np.arange(len(order))
    best = best[np.isfinite(order[best])]
    best = best[best != last_lowest(order)]
    return np.unravel_index(best, scores.shape)


def _judged(
    state: State, asked: RequestedInstance, primaries: Ints, secondaries: Ints, base: Statistics, force: bool
) -> tuple[Floats, Codes]:
    """Compute scores and codes of all pairs, primaries by secondaries; FITS for a node with itself."""
    rows = primaries[:, np.newaxis]
    trial = placements.allocate_pairs(state, asked, rows, secondaries, 0, force)
    scores, codes = trial.scores(base), np.array(trial.codes)
    # Few pairs have instances in common; the secondary then also keeps their memory free.
    peers = _peers(state, primaries, secondaries)
    if len(peers[0]):
        alone = primaries[peers[0]], secondaries[peers[1]]
        trial = placements.allocate_pairs(state, asked, *alone, state.peers[alone], force)
        codes[peers], scores[peers] = trial.codes, trial.scores(base)
    np.copyto(codes, FITS, where=rows == secondaries)
    return scores, codes


def _peers(state: State, primaries: Ints, secondaries: Ints) -> tuple[Ints, Ints]:
    """Find the positions of the pairs that have instances in common, primary for primary."""
    row, column = np.full(len(state.group), NOWHERE), np.full(len(state.group), NOWHERE)
    row[primaries], column[secondaries] = np.arange(len(primaries)), np.arange(len(secondaries))
    doubled = (state.snode != NOWHERE) & (state.pnode != NOWHERE)
    rows, columns = row[state.pnode[doubled]], column[state.snode[doubled]]
    both = (rows != NOWHERE) & (columns != NOWHERE)
    return rows[both], columns[both]


def _dropped(scores: Floats, fits: Bools, allowed: Bools) -> int:
    """Count the pairs that would be better than the first redundant pair with the same primary."""
    if np.array_equal(fits, allowed):
        return 0
    return sum(_dropped_in(scores[block], fits[block], allowed[block]) for block in _row_blocks(scores.shape))


def _dropped_in(scores: Floats, fits: Bools, allowed: Bools) -> int:
    redundant = np.where(allowed, scores, np.inf)
    best = redundant.min(axis=1, keepdims=True)
    last = scores.shape[1] - 1 - np.argmin(redundant[:, ::-1], axis=1)[:, np.newaxis]
    later = np.arange(scores.shape[1]) > last
    return int(np.count_nonzero(fits & ~allowed & ((scores < best) | ((scores == best) & later))))
