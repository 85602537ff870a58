"""Samples of what is free in the node groups, and forecasts from them, work of the helper."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from ganeti_htools.engine.capacity.forecast import forecast
from ganeti_htools.engine.capacity.storage import storage_of
from ganeti_htools.engine.redundancy.health import groups
from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.columns import of_load
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.hour_sums import UNITS
from ganeti_htools.model.state import State
from ganeti_htools.planning import view
from ganeti_htools.planning.view import View
from htoolsd.history.database import Sample
from htoolsd.metrics.count import free_instances, group_states


def work(cluster: Cluster, day: int, known: Sequence[Sample]) -> None:
    """Print a line of JSON for each sample of a day with its forecast, as soon as both are known.

    ``known`` are the samples in order. If they include some of the day, no others are taken.
    """
    series = defaultdict[tuple[str, str], list[tuple[float, ...]]](list)
    for each in known:
        if each.day < day:
            series[each.group, each.resource].append((each.day, each.free, each.total))
    today = [each for each in known if each.day == day]
    for sample in today or (Sample(day, *each) for each in samples(cluster)):
        series[sample.group, sample.resource].append((day, sample.free, sample.total))
        days, free, total = np.array(series[sample.group, sample.resource]).T
        print(json.dumps([sample, forecast(days.astype(np.int64), free, total)]), flush=True)


def samples(cluster: Cluster) -> Iterator[tuple[str, str, float, float]]:
    """Yield group, resource, free amount and total: sizes in MiB, CPUs, standard instances.

    The total that comes with standard instances is the memory: where it changes, their number does.
    """
    states = group_states(cluster)
    for name, state in states.items():
        for resource, free, total in amounts(state):
            if total > 0:
                yield name, resource, float(free), float(total)
    yield from measured_cpus(cluster)
    for name, state in states.items():
        memory = float(state.columns.t_mem[~state.columns.offline].sum())
        try:
            yield name, "instances", free_instances(state), memory
        except HtoolsError:  # the cluster enables no disk template, for example
            return


def measured_cpus(cluster: Cluster) -> Iterator[tuple[str, str, float, float]]:
    """Yield the CPUs of each group that measured load leaves free in its worst hour of the week."""
    if not cluster.load_profiles:
        return
    state = view.state_of(cluster, View(load="real"))
    if state.load is None or "cpu" not in state.load.kinds:
        return
    carried, hours = (getattr(state.columns, of_load(figure, "cpu")) for figure in ("t", "hours"))
    for group in groups(state):
        rows = np.flatnonzero((state.group == group) & ~state.columns.offline)
        if len(rows):
            used, total = hours.sums[rows].sum(axis=0).max(), carried[rows].sum()
            name = cluster.groups[group].name
            yield name, "real-cpus", float(total - used) / UNITS["cpu"], float(total) / UNITS["cpu"]


def amounts(state: State) -> Iterator[tuple[str, float, float]]:
    """Yield each resource of the nodes that are online, its free amount and its total.

    Memory that N+1 keeps back is not free. The limit of virtual CPUs is the policy's.
    """
    columns, rows = state.columns, np.flatnonzero(~state.columns.offline)
    cpus = np.floor(columns.t_cpu * columns.vcpu_ratio)
    memory = np.maximum(columns.unallocated - columns.r_mem, 0)
    for name, free, total in (("memory", memory, columns.t_mem), ("cpus", cpus - columns.u_cpu, cpus)):
        yield name, free[rows].sum(), total[rows].sum()
    storage, online = storage_of(state.cluster, state.units), set(state.names(rows))
    for unit in storage.units:
        rooms = [room for room in unit.nodes if room.node in online]
        name = f"{unit.type}/{unit.key}".removesuffix("/") if unit.type else "disk"
        yield name, sum(room.free for room in rooms), sum(room.total for room in rooms)
    for pool in storage.pools:
        if pool.nodes and pool.free is not None and pool.total is not None:
            yield str(pool.unit), pool.free, pool.total
