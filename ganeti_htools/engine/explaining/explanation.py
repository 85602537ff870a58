"""Explanation of a decision: for each instance of a request, all its places and the result."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ganeti_htools.engine.allocation.candidate_pairs import CandidatePairs
from ganeti_htools.engine.allocation.exclusive_storage import is_dedicated
from ganeti_htools.engine.allocation.lost_allocations import LostAllocations
from ganeti_htools.engine.allocation.reporter import Reporter
from ganeti_htools.engine.allocation.solution import PATIENCE
from ganeti_htools.engine.decide import decide, place_instance
from ganeti_htools.engine.explaining.places import (
    ExplainedPlace,
    commonest,
    leave_redundant,
    places,
    scored,
    with_lacks,
)
from ganeti_htools.engine.redundancy.checks import Check
from ganeti_htools.engine.rules import choice
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.pools import pool_room
from ganeti_htools.engine.rules.score import Statistics
from ganeti_htools.engine.rules.trial import Trial
from ganeti_htools.model import request as wanted
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import Fail


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one instance.

    * ``before``: the statistics before it gets a place, None if lost allocations decide instead of the score.
    * ``places``: one for each node that it might get, in the order of nodes. For two nodes: one for each
      primary, with its best secondary. Empty if an instance of its kind cannot move.
    * ``nodes`` (rows, primary first): the chosen ones; if there are none, ``why`` has the reason.
    """

    asked: RequestedInstance
    before: Statistics | None
    places: tuple[ExplainedPlace, ...]
    nodes: tuple[int, ...]
    why: str = ""


def explained(state: State, request: wanted.Request, options: PlacementOptions) -> Iterator[Explanation]:
    """Explain each instance of a request while :func:`.decide` decides, with the instances before it placed.

    Raises RequestFailed if nothing can be tried.
    """
    match request:
        case wanted.MultiAllocate(placements):
            # The decision ends at the first instance that cannot be tried; the others are explained as well.
            pools, dedicated, state = pool_room(state), is_dedicated(state, request), state.copy()
            for each in placements:
                placed = partial(place_instance, state, each, options, dedicated, pools=pools)
                yield from _heard(ExplanationCollector(), placed)
        case wanted.Allocate() | wanted.ChangeGroup():
            yield from _heard(ExplanationCollector(), partial(decide, state, request, options))
        case _:
            yield from _heard(ExplanationCollector(one_group=True), partial(decide, state, request, options))


def _heard(listener: "ExplanationCollector", decision: Callable[[Reporter], object]) -> Sequence[Explanation]:
    """Return the explanations of a decision; a failure before anything was tried is raised."""
    try:
        decision(listener)
    except RequestFailed as failure:
        if listener.asked:
            listener.failed(str(failure))
        elif not listener.explanations:
            raise
    return listener.explanations


class ExplanationCollector(Reporter):
    """A reporter that collects the explanations of a decision.

    ``one_group``: the instance stays in its group, and nodes of other groups are marked so.
    """

    asked: RequestedInstance | None = None
    state: State
    scope: Bools
    rated: bool
    before: Statistics
    primary: int
    places: dict[int, ExplainedPlace]
    exchanged: bool

    def __init__(self, one_group: bool = False) -> None:
        self.one_group = one_group
        self.explanations: list[Explanation] = []

    def starting(self, state: State, asked: RequestedInstance, scope: Bools, rated: bool = True) -> None:
        self.state, self.asked, self.scope, self.rated = state, asked, scope, rated
        self.before = choice.base(state, scope)
        self.primary, self.places, self.exchanged = NOWHERE, {}, False

    def trying(self, group: int, nodes: Ints, primary: int = NOWHERE) -> None:
        self.primary = primary
        others = self.state.everywhere if self.one_group else self.state.group == group
        others[nodes] = False
        for node in np.flatnonzero(others).tolist():
            if node != primary:
                self._reject(node, self._obstacle(node, group))

    def rejecting(self, nodes: Ints, why: str) -> None:
        for node in nodes.tolist():
            self._reject(node, why)

    def judged(self, nodes: Ints, trial: Trial, redundancy: Check | None = None) -> None:
        trial = choice.restricted(trial, self.scope)
        found = places(trial, leave_redundant(trial, trial.asked, redundancy), self.before)
        self.places.update(zip(nodes.tolist(), found, strict=True))

    def judged_pairs(self, pairs: CandidatePairs) -> None:
        if self.primary != NOWHERE:
            columns = np.arange(len(pairs.secondaries))
            trial = pairs.trial(np.zeros_like(columns), columns)
            self.judged(pairs.secondaries, trial, pairs.redundancy)
        else:
            self._add(for_new(pairs, self.before.repaired()))

    def judged_exchanges(self, state: State, nodes: Ints, trial: Trial) -> None:
        base, self.exchanged = choice.base(state, self.scope), True
        self._add(for_exchange(choice.restricted(trial, self.scope), nodes, base))

    def judged_losses(self, losses: LostAllocations) -> None:
        self._add(for_losses(losses))

    def placed(self, nodes: Sequence[int]) -> None:
        self._end(tuple(nodes))

    def failed(self, why: str) -> None:
        self._end((), why)

    def _add(self, found: Iterator[ExplainedPlace]) -> None:
        self.places.update((each.pnode, each) for each in found)

    def _reject(self, node: int, why: str) -> None:
        rows = (node, NOWHERE) if self.primary == NOWHERE else (self.primary, node)
        self.places[node] = ExplainedPlace(*rows, why)

    def _obstacle(self, node: int, group: int) -> str:
        """Describe why a node may not be taken at all."""
        assert self.asked is not None
        index = self.asked.index
        if self.one_group and index != NOWHERE and node in (self.state.pnode[index], self.state.snode[index]):
            return "has it already"
        if self.state.group[node] != group:
            return "in another group"
        return "offline" if self.state.columns.offline[node] else "not to be used"

    def _end(self, nodes: tuple[int, ...], why: str = "") -> None:
        assert self.asked is not None
        # If both nodes are left, the disks of the new secondary are copied from the new primary.
        found = tuple(
            with_lacks(self.places[node], self.state, self.asked, node, node if self.exchanged else NOWHERE)
            for node in sorted(self.places)
        )
        before = self.before if self.rated else None
        self.explanations.append(Explanation(self.asked, before, found, nodes, why))
        self.asked = None


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
