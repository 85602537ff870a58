"""Mirrored instances that leave both nodes: all pairs of targets are scored at once."""

from collections.abc import Sequence

import numpy as np

from ganeti_htools.engine.allocation.move_parts import carry_out, check_source, fail_over, too_few_nodes
from ganeti_htools.engine.allocation.reporter import Reporter
from ganeti_htools.engine.allocation.shortage import explain_pairs
from ganeti_htools.engine.rules import affinity, choice
from ganeti_htools.engine.rules.node_rules import FAIL, FITS, Codes
from ganeti_htools.engine.rules.relocate import move_pairs
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import Bools, Ints
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.moves import MovePart, Operation
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import RequestedInstance, State


def to_best_pair(
    state: State,
    asked: RequestedInstance,
    group: int,
    targets: Ints,
    options: PlacementOptions,
    reporter: Reporter,
) -> list[MovePart]:
    """Move a mirrored instance to the best pair of targets, in place; returns the parts of the move.

    Raises RequestFailed if no pair fits.
    """
    scope, parts, trying = state.group == group, [], state
    prefix = "Can't find any good nodes for relocation: "
    if len(targets) < 2:
        reporter.rejecting(targets, "no other node")
        raise RequestFailed(f"{prefix}no nodes available; {too_few_nodes(state, group, len(targets))}")
    if state.columns.offline[state.pnode[asked.index]]:
        trying = state.copy()
        try:
            fail_over(trying, asked, options)
        except RequestFailed as failure:
            reporter.rejecting(targets, "its secondary cannot take over")
            reason = f"Allocation failed: Failing over to the secondary: {failure}"
            raise RequestFailed(prefix + reason) from None
        parts.append(MovePart(Operation.FAILOVER))
    check_source(trying, asked, targets, prefix, reporter)
    trial, codes = move_pairs(trying, asked, targets, scope, options.ignore_soft_errors)
    reporter.judged_exchanges(trying, targets, trial)
    apart = targets[:, np.newaxis] != targets
    pair = _best_pair(trying, trial, apart, scope, asked, targets, options)
    if pair is None:
        why = explain_pairs(trying, asked, trial.codes[apart], targets, options)
        reason = _last_reason(codes, apart)
        raise RequestFailed(f"{prefix}Allocation failed: {reason}{f'; {why}' if why else ''}")
    parts += exchange(*pair)
    for part in parts:
        carry_out(state, asked, part, options)
    return parts


def exchange(primary: int, secondary: int) -> list[MovePart]:
    """Return the parts of a move to a pair of nodes (rows): the new primary is the secondary for a while."""
    return [
        MovePart(Operation.REPLACE_SECONDARY, primary),
        MovePart(Operation.FAILOVER),
        MovePart(Operation.REPLACE_SECONDARY, secondary),
    ]


def _best_pair(
    state: State,
    trial: Trial,
    apart: Bools,
    scope: Bools,
    asked: RequestedInstance,
    targets: Ints,
    options: PlacementOptions,
) -> tuple[int, int] | None:
    """Find the pair (rows) that leaves the group with the lowest score, None if no pair fits.

    Scores that lie close together are computed afresh. Of equal pairs the last wins, as in :mod:`.choice`.
    """
    fits = np.flatnonzero(((trial.codes == FITS) & apart).ravel())
    if not len(fits):
        return None
    exclusion = affinity.location_exclusion(state, scope)
    before = choice.base(state, scope, exclusion)
    scores = choice.restricted(trial, scope).scores(before).ravel()[fits]
    near = fits[choice.near_best(scores) if before.rated else [-1]].tolist()
    pairs = [(int(targets[pair // len(targets)]), int(targets[pair % len(targets)])) for pair in near]
    if len(pairs) == 1:
        return pairs[0]
    fresh = []
    for new_primary, new_secondary in pairs:
        tried = state.copy()
        for part in exchange(new_primary, new_secondary):
            carry_out(tried, asked, part, options)
        fresh.append(float(choice.base(tried, scope).score()))
    return pairs[int(np.flatnonzero(np.array(fresh) == min(fresh))[-1])]


STEP_NAMES = (
    "Changing secondary to new primary",
    "Failing over to new primary",
    "Changing secondary to final secondary",
)


def _last_reason(codes: Sequence[Codes], apart: Bools) -> str:
    """Describe the reason against the last of all pairs, and its step, as Ganeti's htools do."""
    p, s = np.argwhere(apart)[-1]
    for name, code in zip(STEP_NAMES, codes, strict=True):
        reason = int(np.broadcast_to(code, apart.shape)[p, s])
        if reason != FITS:
            return f"{name}: {FAIL[reason].value}"
    raise AssertionError("a pair without reason against it was not chosen")
