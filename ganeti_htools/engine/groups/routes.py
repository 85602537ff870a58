"""Routes of an instance to other nodes, within its group or into another."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ganeti_htools.engine.allocation.exchange import exchange
from ganeti_htools.engine.allocation.move_parts import try_operation, try_part
from ganeti_htools.engine.groups.rules import RegroupingRules, obstacle_to_moving
from ganeti_htools.engine.moving.traffic import copied_by
from ganeti_htools.engine.rules import affinity, choice, settling
from ganeti_htools.engine.rules.node_rules import CODE, FITS
from ganeti_htools.model.columns import NOWHERE, Bools, Ints, existing
from ganeti_htools.model.moves import MovePart, Operation
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.types import Fail, MirrorType

# Routes with at most one new node, by amount copied: a failover or nothing, then an operation with the node.
_SHORT: Mapping[MirrorType, Sequence[tuple[Operation | None, Operation | None]]] = {
    MirrorType.INTERNAL: (
        (Operation.FAILOVER, None),
        (None, Operation.REPLACE_SECONDARY),
        (Operation.FAILOVER, Operation.REPLACE_SECONDARY),
    ),
    MirrorType.EXTERNAL: ((None, Operation.FAILOVER_TO),),
    MirrorType.NONE: ((None, Operation.MOVE),),
}


def end_of_route(state: State, index: int, parts: Iterable[MovePart]) -> tuple[int, ...]:
    """Return the nodes (rows) of an instance after a route, primary first."""
    nodes = state.node_pair(index)
    for part in parts:
        nodes = part.operation.nodes(*nodes, part.node)
    return existing(*nodes)


def source_node(state: State, index: int) -> int:
    """Return the node that an instance leaves: its secondary if it must fail over first."""
    primary, secondary = state.node_pair(index)
    lost = state.columns.offline[primary] and secondary != NOWHERE
    return secondary if lost else primary


def route_out(state: State, index: int, nodes: Sequence[int]) -> tuple[MovePart, ...]:
    """Return the route of an instance to nodes (rows, primary first) of another group."""
    mirror = state.cluster.instances[index].template.mirror
    if mirror is MirrorType.INTERNAL:
        lost = state.columns.offline[state.pnode[index]]
        return (*([MovePart(Operation.FAILOVER)] if lost else []), *exchange(*nodes))
    go = Operation.MOVE if mirror is MirrorType.NONE else Operation.FAILOVER_TO
    return (MovePart(go, nodes[0]),)


def copied_on_leaving(state: State, index: int) -> int:
    """Return the MiB of disks and memory that an instance copies to change its group."""
    operations = [part.operation for part in route_out(state, index, (NOWHERE, NOWHERE))]
    return sum(copied_by(operations, state.cluster.instances[index]))


def routes_within(
    state: State, rules: RegroupingRules, index: int, group: int
) -> Iterator[tuple[MovePart, ...]]:
    """Yield the routes that bring an instance onto online nodes of a group, with at most one new node.

    The cheapest copies come first, then the lowest score of the group.
    """
    asked, scope = state.instance(index), state.group == group
    if obstacle_to_moving(state, rules, index) is not None:
        return
    good = scope & ~state.columns.offline
    for first, last in _SHORT[asked.row.template.mirror]:
        trying = state
        if first is not None:
            trial = try_part(state, asked, MovePart(first), PlacementOptions())
            if trial.codes.ravel()[0] != FITS or state.columns.offline[state.snode[index]]:
                continue
            settling.settle(trying := state.copy(), trial)
        primary, secondary = trying.node_pair(index)
        if last is None:
            if good[primary] and good[secondary]:
                yield (MovePart(first),) if first else ()
            continue
        if last is Operation.REPLACE_SECONDARY and not (rules.mirrored and good[primary]):
            continue
        if last is Operation.MOVE and not rules.plain:
            continue
        targets = np.flatnonzero(good)
        targets = targets[(targets != primary) & (targets != secondary)]
        for node in _in_order(trying, asked, last, targets, scope):
            yield (*([MovePart(first)] if first else []), MovePart(last, node))


def _in_order(
    state: State, asked: RequestedInstance, operation: Operation, targets: Ints, scope: Bools
) -> Iterator[int]:
    """Yield the possible targets (rows) of an operation, the lowest score in scope first."""
    if not len(targets):
        return
    trial, location_exclusion = (
        try_operation(state, asked, operation, targets, PlacementOptions()),
        affinity.location_exclusion(state, scope),
    )
    codes = trial.codes.copy()
    while (best := choice.best(state, replace(trial, codes=codes), scope, location_exclusion)) is not None:
        yield int(targets[best])
        codes[best] = CODE[Fail.N1]
