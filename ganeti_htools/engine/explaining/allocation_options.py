"""All places of one new instance: why each must not be, or what it would do to the score."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ganeti_htools.engine.allocation.allocate import PATIENCE, candidates, lacks_network
from ganeti_htools.engine.allocation.options import Options
from ganeti_htools.engine.explaining.move_options import judged
from ganeti_htools.engine.redundancy.global_n1 import Check, assess
from ganeti_htools.engine.rules import affinity, choice, placements
from ganeti_htools.engine.rules.node_rules import FAIL, FITS, Codes
from ganeti_htools.engine.rules.score import Statistics
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model.columns import NOWHERE, Bools, Ints, sorted_unique
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.state import Asked, State
from ganeti_htools.model.types import AllocPolicy, Fail


@dataclass(frozen=True, slots=True)
class Prospect:
    """A node as primary, with the best secondary for it (NOWHERE if there is none): rows.

    Either ``why`` says why it does not do, or there is the score with its components (unweighted).
    """

    pnode: int
    snode: int
    why: str
    score: float = 0.0
    components: tuple[float, ...] = ()


def prospects(
    state: State, asked: Asked, count: int, group: int | None, options: Options
) -> tuple[Statistics, list[Prospect]]:
    """Every node, in order, as primary of a new instance on one node or (``count`` 2) on two.

    With a group only its nodes count, in the score too. Where no secondary does, a node is rejected for
    what most of them are. The statistics are those before. Raises RequestFailed for other counts.
    """
    if count not in (1, 2):
        raise RequestFailed("Unsupported number of nodes, only one or two  supported")
    scope = np.ones(len(state.group), np.bool_) if group is None else state.group == group
    base = choice.base(state, scope, affinity.crowding(state, scope))
    redundancy = assess(state, scope, options) if options.capacity else None
    found: list[Prospect] = []
    for row in sorted_unique(state.group[scope]).tolist():
        members = scope & (state.group == row)
        nodes = candidates(state, members, options.restrict_to)
        usable = np.zeros_like(scope)
        usable[nodes] = True
        for node in np.flatnonzero(members & ~usable).tolist():
            offline = state.columns.offline[node]
            found.append(Prospect(node, NOWHERE, "offline" if offline else "not to be used"))
        if why := _closed(state, asked, row, group is not None):
            found += [Prospect(node, NOWHERE, why) for node in nodes.tolist()]
        elif count == 2:
            found += _pairs(state, asked, nodes, base.repaired(), options, redundancy)
        elif len(nodes):
            trial = placements.allocate_one(state, asked, nodes, scope, options.ignore_soft_errors)
            found += weighed(trial, confirmed(trial, asked, redundancy), base)
    return base, sorted(found, key=lambda each: each.pnode)


def _closed(state: State, asked: Asked, group: int, wanted: bool) -> str:
    """Why no node of the group does."""
    if lacks_network(state, group, asked):
        return "group lacks a network"
    closed = state.cluster.groups[group].alloc_policy is AllocPolicy.UNALLOCABLE
    return "group is unallocable" if closed and not wanted else ""


def confirmed(trial: Trial, asked: Asked, redundancy: Check | None) -> Bools:
    """Which candidates, on one node each or with one primary, leave the cluster redundant."""
    if redundancy is None:
        return np.ones(len(trial.codes), np.bool_)
    good: Bools
    if asked.mirrored:
        good = redundancy.admits(asked, trial.pnode[:1], trial.snode)[0]
    else:
        good = redundancy.admits(asked, trial.pnode, None)
    suspects: list[int] = []
    for i in np.flatnonzero(good & (trial.codes == FITS)).tolist():
        good[i] = redundancy.confirms(trial.only(i), suspects)
    return good


def _pairs(
    state: State, asked: Asked, nodes: Ints, base: Statistics, options: Options, redundancy: Check | None
) -> Iterator[Prospect]:
    """Each node as primary with its best secondary."""
    hopeless = False
    for node in nodes.tolist():
        others = nodes[nodes != node]
        if not len(others):
            yield Prospect(node, NOWHERE, "no other node")
            continue
        primary = np.full(len(others), node)
        peer_mem = state.peers[primary, others]
        trial = placements.allocate_pairs(state, asked, primary, others, peer_mem, options.ignore_soft_errors)
        fits = trial.codes == FITS
        good = fits.copy()
        if redundancy is not None:
            good &= redundancy.admits(asked, np.array([node]), others)[0]
        if hopeless:
            good[:] = False
        scores = trial.scores(base)
        ranked = [i for i in np.lexsort((-np.arange(len(others)), scores)).tolist() if good[i]]
        best, suspects = None, list[int]()
        for tries, i in enumerate(ranked):
            if redundancy is None or redundancy.confirms(_one(state, trial, i, options), suspects):
                best = i
                break
            if tries + 1 == PATIENCE:
                hopeless = redundancy.hopeless(suspects)
                break
        if best is None:
            yield Prospect(node, NOWHERE, (Fail.N1 if fits.any() else commonest(trial.codes)).value)
        else:
            chosen = _one(state, trial, best, options)
            yield from weighed(chosen, np.array([True]), base)


def _one(state: State, trial: Trial, candidate: int, options: Options) -> Trial:
    pair = trial.pnode[[candidate]], trial.snode[[candidate]]
    return placements.allocate_pairs(state, trial.asked, *pair, state.peers[pair], options.ignore_soft_errors)


def commonest(codes: Codes) -> Fail:
    """The reason that occurs most often."""
    return FAIL[int(np.bincount(codes).argmax())]


def weighed(trial: Trial, redundant: Bools, base: Statistics) -> Iterator[Prospect]:
    """Each candidate of a trial, rejected or with its score."""
    scores, parts = judged(base, trial.changes, trial.crowding, trial.codes.shape)
    primaries, secondaries = (
        np.broadcast_to(rows, trial.codes.shape).tolist() for rows in (trial.pnode, trial.snode)
    )
    for i, (code, node) in enumerate(zip(trial.codes.tolist(), primaries, strict=True)):
        if code != FITS:
            yield Prospect(node, secondaries[i], FAIL[code].value)
        elif not redundant[i]:
            yield Prospect(node, secondaries[i], Fail.N1.value)
        else:
            figures = tuple(float(part[i]) for part in parts)
            yield Prospect(node, secondaries[i], "", float(scores[i]), figures)
