"""Explanation why N+1 redundancy rules out all places."""

from collections.abc import Iterator

import numpy as np

from ganeti_htools.engine.redundancy.assessment import assess
from ganeti_htools.engine.redundancy.bounds import RedundancyBounds
from ganeti_htools.model.columns import Ints, by_unit
from ganeti_htools.model.options import PlacementOptions
from ganeti_htools.model.state import RequestedInstance, State


def redundancy_remark(state: State, asked: RequestedInstance, nodes: Ints, options: PlacementOptions) -> str:
    """Describe which node's loss cannot be survived with a new instance on any of some nodes (rows)."""
    everyone = np.ones(len(state.group), np.bool_)
    redundancy = assess(state, everyone, options).bounds
    thing = "N+1 redundancy"
    lost, heirs = redundancy.pairs
    broken = np.flatnonzero(redundancy.fatal & redundancy.checked)
    if len(broken):
        missing = redundancy.load[lost, heirs] + 1 - redundancy.free[heirs]
        short = np.flatnonzero(np.isin(lost, broken) & (missing > 0))
        if len(short):
            closest = short[np.argmin(missing[short])]
            heir, node = state.names((heirs[closest], lost[closest]))
            return f"{thing}; closest: {heir} lacks {missing[closest]} MiB should {node} be lost, even now"
        first = int(broken[0])
        [name] = state.names([first])
        scarce = next(_scarce(redundancy, broken), None)
        if scarce:
            return f"{thing}; closest: {scarce}"
        full = next(_full(state, first, heirs[lost == first]), None)
        if full:
            return f"{thing}; closest: {full} should {name} be lost"
        return f"{thing}; closest: instances of {name} could not live on, even now"
    expected = np.zeros(len(state.group), np.int64)
    np.maximum.at(expected, heirs, redundancy.load[lost, heirs])
    missing = asked.record_mem + expected[nodes] + 1 - redundancy.free[nodes]
    short = np.flatnonzero(missing > 0)
    if len(short):
        closest = short[np.argmin(missing[short])]
        [heir] = state.names([nodes[closest]])
        return f"{thing}; closest: {heir} lacks {missing[closest]} MiB for instances of a node that is lost"
    return f"{thing}; with it somewhere, no room would be left for all instances of a node that is lost"


def _scarce(redundancy: RedundancyBounds, broken: Ints) -> Iterator[str]:
    """Describe, for each custom class, the node that lacks least for what would fail over to it."""
    state, (lost, heirs) = redundancy.state, redundancy.pairs
    for each in redundancy.classes:
        missing = each.missing(state.columns, lost, heirs)
        short = np.flatnonzero(np.isin(lost, broken) & (missing > 0))
        if len(short):
            closest = short[np.argmin(missing[short])]
            heir, node = state.names((heirs[closest], lost[closest]))
            name = state.units.classes[each.which]
            yield f"{heir} lacks {missing[closest]} of {name} should {node} be lost, even now"


def _full(state: State, lost: int, heirs: Ints) -> Iterator[str]:
    """Describe the secondaries of a lost node's instances that have no space where the mirrors are."""
    shape = state.columns.shape
    for unit, free in enumerate(by_unit(state.columns, "f_dsk")):
        mirrored = (state.pnode == lost) & state.wants[:, unit] & ~state.forthcoming
        where = f"free on {shape.units[unit]}" if shape.reported else "of free disk"
        full = heirs[(free[heirs] <= 0) & np.isin(heirs, state.snode[mirrored])]
        for name, left in zip(state.names(full), free[full].tolist(), strict=True):
            yield f"{name} reports {left} MiB {where}"
