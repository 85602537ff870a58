"""What a decision looks at: for each instance of a request in turn, all its places, and what comes of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ganeti_htools.engine.allocation.evacuate import (
    allowed_groups,
    evacuate,
    leaving,
    regroup,
    relocation_mode,
)
from ganeti_htools.engine.allocation.options import Options
from ganeti_htools.engine.decide import (
    Mirroring,
    decide,
    group_row,
    is_dedicated,
    mirroring,
    restricted,
)
from ganeti_htools.engine.explaining.allocation_options import Prospect, confirmed, prospects, weighed
from ganeti_htools.engine.explaining.evacuation_options import departures
from ganeti_htools.engine.rules import placements
from ganeti_htools.engine.rules.score import Statistics
from ganeti_htools.model import request as wanted
from ganeti_htools.model.columns import NOWHERE
from ganeti_htools.model.errors import RequestFailed
from ganeti_htools.model.state import Asked, State
from ganeti_htools.model.types import EvacMode


@dataclass(frozen=True, slots=True)
class Considered:
    """One instance: the statistics before, all places, and the nodes (rows) chosen, or why there are none."""

    asked: Asked
    before: Statistics
    places: tuple[Prospect, ...]
    nodes: tuple[int, ...]
    why: str = ""


def deliberate(state: State, request: wanted.Request, options: Options) -> Iterator[Considered]:
    """Each instance of a request as :func:`.decide.decide` comes to it, with those before it moved.

    Raises RequestFailed where nothing can be tried, so on exclusive storage, where no score decides.
    """
    if is_dedicated(state, request):
        raise RequestFailed("no score decides on nodes with exclusive storage")
    rows = {row.name: index for index, row in enumerate(state.cluster.instances)}
    match request:
        case wanted.Allocate(placement):
            yield from _allocated(state, [placement], restricted(request, options))
        case wanted.MultiAllocate(placements):
            yield from _allocated(state, placements, options)
        case wanted.AllocateSecondary(name):
            yield _mirrored(state, request, mirroring(state, rows[name], options), options)
        case wanted.Relocate(name, count, left):
            mode = relocation_mode(state, rows[name], count, [state.nodes[node] for node in left])
            yield from _evacuated(state, [rows[name]], mode, options)
        case wanted.NodeEvacuate(names, mode):
            yield from _evacuated(state, [rows[name] for name in names], mode, options)
        case wanted.ChangeGroup(names, uuids):
            groups = [group_row(state, uuid) for uuid in uuids]
            yield from _regrouped(state, [rows[name] for name in names], groups, options)


def _allocated(
    state: State, placements: Sequence[wanted.Placement], options: Options
) -> Iterator[Considered]:
    for placement in placements:
        asked = state.ask(placement.instance)
        group = None if placement.group is None else group_row(state, placement.group)
        before, places = prospects(state, asked, placement.count, group, options)
        try:
            decision = decide(state, wanted.MultiAllocate((placement,)), options)
        except RequestFailed as failure:
            yield Considered(asked, before, tuple(places), (), str(failure))
            continue
        assert isinstance(decision.result, tuple)
        (placed,) = decision.result
        state = decision.state
        yield Considered(asked, before, tuple(places), placed.nodes, "" if placed.nodes else placed.info)


def _mirrored(
    state: State, request: wanted.AllocateSecondary, mirroring: Mirroring, options: Options
) -> Considered:
    alone, asked, targets = mirroring.state, mirroring.asked, mirroring.targets
    primary, kept = mirroring.primary, mirroring.state.peers[mirroring.primary, targets]
    trial = placements.allocate_pairs(
        alone, asked, np.full(len(targets), primary), targets, kept, options.ignore_soft_errors
    )
    redundant = confirmed(trial, asked, mirroring.redundancy)
    places = [*weighed(trial, redundant, mirroring.base)]
    others = np.setdiff1d(np.arange(len(state.group)), [*targets.tolist(), primary]).tolist()
    places += [Prospect(primary, node, "in another group") for node in others]
    places.sort(key=lambda each: each.snode)
    try:
        decided = decide(state, request, options).result
    except RequestFailed as failure:
        return Considered(asked, mirroring.base, tuple(places), (), str(failure))
    assert isinstance(decided, tuple)
    return Considered(asked, mirroring.base, tuple(places), (primary, *decided[0].nodes))


def _evacuated(
    state: State, instances: Sequence[int], mode: EvacMode, options: Options
) -> Iterator[Considered]:
    state = state.copy()
    for index, group, targets in leaving(state, instances, mode):
        asked = state.instance(index)
        before, places = departures(state, asked, mode, group, targets, options)
        try:
            evacuate(state, asked, mode, group, targets, options)
        except RequestFailed as failure:
            yield Considered(asked, before, tuple(places), (), str(failure))
        else:
            yield Considered(asked, before, tuple(places), _nodes(state, index))


def _regrouped(
    state: State, instances: Sequence[int], targets: Sequence[int], options: Options
) -> Iterator[Considered]:
    """Places are those of a new instance like it, by which the group is chosen."""
    allowed, state = allowed_groups(state, instances, targets), state.copy()
    for index in instances:
        asked = state.instance(index)
        count = asked.row.template.required_nodes
        before, places = prospects(state, asked, count, None, options)
        shown = tuple(place for place in places if state.group[place.pnode] in allowed)
        try:
            regroup(state, asked, allowed, options)
        except RequestFailed as failure:
            yield Considered(asked, before, shown, (), str(failure))
        else:
            yield Considered(asked, before, shown, _nodes(state, index))


def _nodes(state: State, index: int) -> tuple[int, ...]:
    rows = int(state.pnode[index]), int(state.snode[index])
    return tuple(row for row in rows if row != NOWHERE)
