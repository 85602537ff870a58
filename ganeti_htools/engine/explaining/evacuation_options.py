"""All places of an instance that leaves nodes it has: why each must not be, or what it would do to the score.

What is tried here is what :mod:`.evacuate` chooses from.
"""

from collections.abc import Iterator

import numpy as np

from ganeti_htools.engine.allocation.evacuate import way
from ganeti_htools.engine.allocation.options import Options
from ganeti_htools.engine.explaining.allocation_options import Prospect, commonest, weighed
from ganeti_htools.engine.explaining.move_options import judged
from ganeti_htools.engine.rules import affinity, choice, placements, settling
from ganeti_htools.engine.rules.move_kinds import Operation
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.score import Statistics
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.state import Asked, State
from ganeti_htools.model.types import EvacMode


def departures(
    state: State, asked: Asked, mode: EvacMode, group: int, targets: Ints, options: Options
) -> tuple[Statistics, list[Prospect]]:
    """Every node, in order, as the one that the instance gets; ``targets`` (rows) of a group may be taken.

    Where it leaves both its nodes, each node as primary with the best secondary for it. Scores are those
    of the group; the statistics are those before. Empty where an instance of its kind cannot move at all.
    """
    scope: Bools = state.group == group
    base = choice.base(state, scope, affinity.crowding(state, scope))
    try:
        kind = way(state, asked, mode)
    except RequestFailed:
        return base, []
    found = list(_tried(state, asked, kind, scope, targets, options, base))
    if kind is not Operation.FAILOVER:
        mine = {int(state.pnode[asked.index]), int(state.snode[asked.index])}
        for node in np.setdiff1d(np.arange(len(state.group)), targets).tolist():
            found.append(Prospect(node, NOWHERE, _closed(state, node, group, mine)))
    return base, sorted(found, key=lambda each: _new_node(each, kind))


def _closed(state: State, node: int, group: int, mine: set[int]) -> str:
    """Why a node is none of the targets."""
    if node in mine:
        return "has it already"
    if state.group[node] != group:
        return "in another group"
    return "offline" if state.columns.offline[node] else "not to be used"


def _new_node(prospect: Prospect, kind: Operation | None) -> int:
    """The node that tells prospects apart."""
    secondary = kind is Operation.REPLACE_SECONDARY and prospect.snode != NOWHERE
    return prospect.snode if secondary else prospect.pnode


def _tried(
    state: State,
    asked: Asked,
    kind: Operation | None,
    scope: Bools,
    targets: Ints,
    options: Options,
    base: Statistics,
) -> Iterator[Prospect]:
    force = options.ignore_soft_errors
    if kind is Operation.FAILOVER:
        everywhere = np.ones(len(state.group), np.bool_)
        trial = placements.failover(state, asked, everywhere, force)
    elif not len(targets):
        return
    elif kind is Operation.FAILOVER_TO:
        trial = placements.failover_to(state, asked, targets, scope, force)
    elif kind is Operation.REPLACE_SECONDARY:
        trial = placements.replace_secondary(state, asked, targets, force)
    else:
        yield from _pairs(state, asked, scope, targets, options, base)
        return
    trial = choice.restricted(trial, scope)
    yield from weighed(trial, np.ones(trial.codes.shape, np.bool_), base)


def _pairs(
    state: State, asked: Asked, scope: Bools, targets: Ints, options: Options, base: Statistics
) -> Iterator[Prospect]:
    """Each node as primary with its best secondary."""
    force = options.ignore_soft_errors
    if state.columns.offline[state.pnode[asked.index]]:
        everywhere, state = np.ones(len(state.group), np.bool_), state.copy()
        first = placements.failover(state, asked, everywhere, force)
        if first.codes[0] != FITS:
            yield from (
                Prospect(node, NOWHERE, "its secondary cannot take over") for node in targets.tolist()
            )
            return
        settling.settle(state, first)
        base = choice.base(state, scope, affinity.crowding(state, scope))
    trial, _ = placements.move_pairs(state, asked, targets, scope, force)
    apart = targets[:, np.newaxis] != targets
    fits = apart & (trial.codes == FITS)
    scores = np.where(fits, choice.restricted(trial, scope).scores(base), np.inf)
    for row, node in enumerate(targets.tolist()):
        if not apart[row].any():
            yield Prospect(node, NOWHERE, "no other node")
        elif not fits[row].any():
            yield Prospect(node, NOWHERE, commonest(trial.codes[row][apart[row]]).value)
        else:
            best = int(np.flatnonzero(fits[row])[choice.near_best(scores[row][fits[row]])][-1])
            yield _one_pair(state, asked, scope, targets[[row, best]], force, base)


def _one_pair(
    state: State, asked: Asked, scope: Bools, pair: Ints, force: bool, base: Statistics
) -> Prospect:
    trial: Trial = choice.restricted(placements.move_pairs(state, asked, pair, scope, force)[0], scope)
    scores, parts = judged(base, trial.changes, trial.crowding, trial.codes.shape)
    figures = tuple(float(part[0, 1]) for part in parts)
    return Prospect(int(pair[0]), int(pair[1]), "", float(scores[0, 1]), figures)
