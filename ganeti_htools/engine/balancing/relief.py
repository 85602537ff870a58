"""Relief of hot nodes by single live migrations (``[relieve]`` in htools-policies(7)).

How hot a node is follows from its present load. Where its instances may go follows from the worst hour of the
week of the other nodes: the state is one with measured load.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np

from ganeti_htools.engine.balancing.balance import candidates
from ganeti_htools.engine.balancing.instance_moves import moves_of
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.model.columns import Bools, Floats, of_load
from ganeti_htools.model.hour_sums import UNITS
from ganeti_htools.model.load import PresentLoad
from ganeti_htools.model.moves import Move
from ganeti_htools.model.options import BalancingOptions
from ganeti_htools.model.state import State

MIGRATIONS = BalancingOptions(disk_moves=False)


@dataclass(frozen=True, slots=True, eq=False)
class Heat:
    """The present load: cores that instances (``cores``, NaN if unknown) and nodes (``used``) use.

    ``carried`` are the cores that nodes have. ``pressure`` is the share of time that work of nodes waits.
    """

    cores: Floats
    used: Floats
    carried: Floats
    pressure: Floats

    @property
    def levels(self) -> Floats:
        """By node, the share of CPUs in use or the pressure, whichever is higher."""
        return np.maximum(_share(self.used, self.carried), self.pressure)

    def after(self, instance: int, source: int, target: int) -> "Heat":
        """Return the heat once an instance (row) has moved. The pressure that it causes goes with its CPU."""
        used, pressure, cores = self.used.copy(), self.pressure.copy(), self.cores[instance]
        pressure[source] *= 1 - cores / max(used[source], cores)
        used[source], used[target] = max(0.0, used[source] - cores), used[target] + cores
        return replace(self, used=used, pressure=pressure)


def heat_of(state: State, present: PresentLoad) -> Heat:
    """Return the heat of a state. A node that is not measured uses what its instances do."""
    cores = np.array([present.instances.get(row.name, np.nan) for row in state.cluster.instances])
    names = [node.name for node in state.cluster.nodes]
    sums = np.bincount(state.pnode, np.nan_to_num(cores), len(names))
    used = np.array([present.nodes.get(name, np.nan) for name in names])
    pressure = np.array([present.pressure.get(name, 0.0) for name in names])
    return Heat(cores, np.where(used >= 0, used, sums), _carried(state), pressure)


def worst_hours(state: State) -> Floats:
    """Return the share of each node's CPUs that its worst hour of the week uses; 0 without measured CPUs."""
    if not _has_cpu(state):
        return np.zeros(len(state.group))
    return _share(getattr(state.columns, of_load("hours", "cpu")).worst() / UNITS["cpu"], _carried(state))


def reliefs(
    state: State, scope: Bools, movable: Bools, heat: Heat, node: int, start: float, stop: float
) -> Iterator[tuple[Move, Heat]]:
    """Yield the live migrations off a node (row), the best first, each with the heat after it.

    The new node stays below ``stop``, now and in its worst hour. Instances that bring the node down to
    ``stop`` come first, the cheapest of them first; of the others those that bring it down most. There are
    none if all together do not bring it down to ``start``.
    """
    if not _has_cpu(state):
        return
    running = np.array([row.status.running for row in state.cluster.instances], np.bool_)
    concerned = candidates(state, scope, movable) & running & (state.pnode == node) & (heat.cores > 0)
    hours, found = getattr(state.columns, of_load("hours", "cpu")).sums, list[tuple[Any, Move, Heat]]()
    level, drops = float(heat.levels[node]), dict[int, float]()
    for way in moves_of(state, scope, MIGRATIONS, concerned):
        trial = way.trial(MIGRATIONS)
        for place in np.flatnonzero(trial.codes == FITS).tolist():
            nodes = trial.only(place).nodes
            target, after = nodes[0], heat.after(way.index, node, nodes[0])
            worst = (hours[target] + _own_hours(state, way.index)).max() / UNITS["cpu"]
            highest = max(float(_share(worst, heat.carried[target])), float(after.levels[target]))
            if highest < stop:
                left = float(after.levels[node])
                drops[way.index] = level - left
                rank = (left > stop, way.volume if left <= stop else left, highest, way.index, target)
                found.append((rank, Move(way.index, way.kind.parts(target), nodes), after))
    if level - sum(drops.values()) <= start:
        for _, move, after in sorted(found, key=itemgetter(0)):
            yield move, after


def hot_anywhere(state: State, scope: Bools, heat: Heat, node: int, stop: float) -> int | None:
    """Return the instance (row) that alone makes a node hot, and would make any other node hot; None if no
    instance does.
    """
    here = np.flatnonzero((state.pnode == node) & (heat.cores > 0))
    others = np.flatnonzero(scope & ~state.columns.offline & (np.arange(len(scope)) != node))
    if not len(here) or not len(others) or not _has_cpu(state):
        return None
    row = int(here[heat.cores[here].argmax()])
    need = max(float(heat.cores[row]), float(_own_hours(state, row).max()) / UNITS["cpu"])
    alone = heat.after(row, node, int(others[0])).levels[node] <= stop
    return row if alone and (need >= stop * heat.carried[others]).all() else None


def _has_cpu(state: State) -> bool:
    return state.load is not None and "cpu" in state.load.kinds


def _own_hours(state: State, row: int) -> Floats:
    assert state.load is not None
    hours: Floats = state.load.hours[state.load.kinds.index("cpu"), row]
    return hours


def _carried(state: State) -> Floats:
    return np.array([node.t_cpu * node.cpu_speed for node in state.cluster.nodes])


def _share(used: Any, carried: Any) -> Floats:
    shares: Floats = np.divide(used, carried, out=np.zeros(np.shape(used)), where=np.asarray(carried) > 0)
    return shares
