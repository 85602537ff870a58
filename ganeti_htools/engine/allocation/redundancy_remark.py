"""Explanation why N+1 redundancy rules out all places."""

from collections.abc import Iterator

import numpy as np

from ganeti_htools.engine.redundancy.assessment import Assessment, assess, excusing
from ganeti_htools.engine.redundancy.bounds import RedundancyBounds
from ganeti_htools.engine.redundancy.rule import recover
from ganeti_htools.engine.rules import node_rules, placement_rules
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.model.columns import NOWHERE, Bools, Ints, by_unit, of_class
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import RequestedInstance, State
from ganeti_htools.model.tags import demand
from ganeti_htools.model.wording import shorten_names

THING = "N+1 redundancy"


def redundancy_remark(state: State, asked: RequestedInstance, nodes: Ints, options: PlacementOptions) -> str:
    """Describe which node's loss cannot be survived with a new instance on any of some nodes (rows).

    Also names the instances that would not come back, and tells whether that is so without the new one.
    """
    redundancy = excusing(assess(state, state.everywhere, options))
    broken = np.flatnonzero(redundancy.fragile())
    if len(broken):
        return _broken_now(redundancy, broken)
    bounds = redundancy.bounds
    _, heirs, needed = bounds.load.pairs
    expected = np.zeros(len(state.group), np.int64)
    np.maximum.at(expected, heirs, needed)
    _, codes = node_rules.add_primary(state.columns.take(nodes), asked, np.int64(0), np.int64(0))
    nodes = nodes[codes == FITS] if (codes == FITS).any() else nodes
    missing = asked.record_mem + expected[nodes] + 1 - bounds.free[nodes]
    found = [THING]
    if (missing > 0).any():
        closest = int(np.argmin(np.where(missing > 0, missing, np.iinfo(np.int64).max)))
        [heir] = state.names([nodes[closest]])
        found.append(f"closest: {heir} lacks {missing[closest]} MiB for instances of a node that is lost")
    tried = next(_tried(redundancy, asked, nodes[np.argsort(missing, kind="stable")]), None)
    if tried is not None:
        found.append(tried)
    elif len(found) == 1:
        found.append("with it somewhere, no room would be left for all instances of a node that is lost")
    return "; ".join(found)


def _broken_now(redundancy: Assessment, broken: Ints) -> str:
    """Describe the nodes that cannot be lost without a new instance, one of them in detail."""
    state, bounds = redundancy.state, redundancy.bounds
    lost, heirs, needed = bounds.load.pairs
    missing = needed + 1 - bounds.free[heirs]
    short = np.flatnonzero(np.isin(lost, broken) & (missing > 0))
    node, found = int(broken[0]), [THING]
    if len(short):
        closest = short[np.argmin(missing[short])]
        node = int(lost[closest])
        heir, name = state.names((heirs[closest], node))
        found.append(f"closest: {heir} lacks {missing[closest]} MiB should {name} be lost, even now")
    elif scarce := next(_scarce(bounds, broken), None):
        node, text = scarce
        found.append(f"closest: {text}")
    elif full := next(_full(state, node, heirs[lost == node]), None):
        found.append(f"closest: {full} should {state.names([node])[0]} be lost")
    found.append(f"{_not_back(redundancy, state, node)}, even now")
    if others := [name for row, name in zip(broken, state.names(broken), strict=True) if row != node]:
        found.append(f"nor could {shorten_names(others)} be lost")
    return "; ".join(found)


def _tried(redundancy: Assessment, asked: RequestedInstance, nodes: Ints) -> Iterator[str]:
    """Describe the losses that are fatal with a new instance, for each of some nodes."""
    state = redundancy.state
    for node in nodes.tolist():
        others = nodes[(state.group[nodes] == state.group[node]) & (nodes != node)]
        if asked.mirrored and not len(others):
            continue
        secondary = int(others[0]) if asked.mirrored else NOWHERE
        lost = redundancy.fatal_loss(asked, node, secondary)
        if lost == NOWHERE:
            continue
        placed = redundancy.placed(asked, node, secondary)
        where = ":".join(state.names([node, secondary] if asked.mirrored else [node]))
        yield f"with it on {where}, {_not_back(redundancy, placed, lost)}; without it all would"


def _not_back(redundancy: Assessment, state: State, node: int) -> str:
    """Name the instances that do not come back after the loss of a node (row), and tags against it."""
    state, names = state.copy(), []
    for recovery in recover(state, node, redundancy.bounds.scope):
        if recovery.node == NOWHERE:
            found = _tags_against(state, recovery.instance, node, redundancy.bounds.scope)
            name = state.cluster.instances[recovery.instance].name
            names.append(f"{name} ({shorten_names(found)})" if found else name)
    return f"{shorten_names(names)} would not come back after the loss of {state.names([node])[0]}"


def _tags_against(state: State, index: int, node: int, scope: Bools) -> list[str]:
    """Return the tags of an instance (row) that keep it from some nodes after the loss of its node."""
    asked, nodes = state.instance(index), scope & (state.group == state.group[node])
    nodes[node] = False
    rows = np.flatnonzero(nodes)
    if asked.mirrored:
        rows = rows[rows == state.snode[index]]
    found = placement_rules.refusals(state, asked, rows, rows[:0])
    for which, amount in enumerate(asked.classes):
        if (getattr(state.columns, of_class("f", which))[rows] < amount).any():
            found.append(demand(state.units.classes[which], amount))
    return found


def _scarce(redundancy: RedundancyBounds, broken: Ints) -> Iterator[tuple[int, str]]:
    """Yield, for each custom class, a lost node and the node that lacks least for what would fail over."""
    state, (lost, heirs, _) = redundancy.state, redundancy.load.pairs
    for each in redundancy.classes:
        missing = each.missing(state.columns, lost, heirs)
        short = np.flatnonzero(np.isin(lost, broken) & (missing > 0))
        if len(short):
            closest = short[np.argmin(missing[short])]
            heir, node = state.names((heirs[closest], lost[closest]))
            name = state.units.classes[each.which]
            text = f"{heir} lacks {missing[closest]} of {name} should {node} be lost, even now"
            yield int(lost[closest]), text


def _full(state: State, lost: int, heirs: Ints) -> Iterator[str]:
    """Describe the secondaries of a lost node's instances that have no space where the mirrors are."""
    shape = state.columns.shape
    for unit, free in enumerate(by_unit(state.columns, "f_dsk")):
        mirrored = (state.pnode == lost) & state.wants[:, unit] & ~state.forthcoming
        where = f"free on {shape.units[unit]}" if shape.reported else "of free disk"
        full = heirs[(free[heirs] <= 0) & np.isin(heirs, state.snode[mirrored])]
        for name, left in zip(state.names(full), free[full].tolist(), strict=True):
            yield f"{name} reports {left} MiB {where}"
