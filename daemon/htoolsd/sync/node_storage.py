"""Storage in the model: the units of disks, and the storage units that nodes report.

Nodes report their units rarely. Between two reports the free space of a unit follows the disks that came and
went. All data is immutable, as the model is.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.known_storage import (
    REPORTED,
    DisksByInstance,
    UnitReports,
    UnitSpace,
    queryable_types,
    units_to_query,
    with_disks,
    with_shared_units,
    with_storage,
)
from ganeti_htools.model.storage import DesiredUnit, Pool, StorageType
from ganeti_htools.model.units import Units, taken_of_pools
from ganeti_htools.model.units_in_use import pools_of_tags, reported_units, units_of_disks

# MiB that disks take of each unit, by the names of nodes.
UsedStorage = Mapping[str, Mapping[DesiredUnit, int]]


@dataclass(frozen=True, slots=True)
class StorageReport:
    """The units of a node, what disks took of them at that moment, and when (trio's clock) it was asked."""

    rooms: Mapping[DesiredUnit, UnitSpace]
    used: Mapping[DesiredUnit, int]
    asked: float = field(compare=False)


@dataclass(frozen=True, slots=True)
class KnownStorage:
    """Storage as it is known now. ``generation`` counts the changes.

    ``reports`` count once they are ``complete``. Otherwise nodes without a report would seem to have only the
    default unit. ``kinds`` are the types that nodes were asked for; the reports do not count while Ganeti
    enables another one. ``pools`` are those of the daemon's configuration. ``probes`` are measurements of
    pools. ``shared`` are the pools that one node reported for all nodes.
    """

    disks: DisksByInstance = field(default_factory=dict)
    reports: Mapping[str, StorageReport] = field(default_factory=dict)
    shared: StorageReport = StorageReport({}, {}, 0.0)
    pools: tuple[Pool, ...] = ()
    probes: Mapping[DesiredUnit, StorageReport] = field(default_factory=dict)
    complete: bool = False
    kinds: Set[StorageType] = frozenset(REPORTED)
    generation: int = 0

    @property
    def asked(self) -> float | None:
        """The time at which the node with the oldest report was asked, if the reports count."""
        times = (report.asked for report in self.reports.values())
        return min(times, default=None) if self.complete else None


def revise_storage(known: KnownStorage, **changes: Any) -> KnownStorage:
    """Return the storage with changes of its fields, and with the next generation if anything changed."""
    new = replace(known, **changes)
    return new if new == known else replace(new, generation=known.generation + 1)


def storage_report(
    rooms: Mapping[DesiredUnit, UnitSpace],
    before: Mapping[DesiredUnit, int],
    after: Mapping[DesiredUnit, int],
    asked: float,
) -> StorageReport:
    """Return a report of units, with the least that disks took of them just before and just after it.

    A disk that came or went in between may be in the report or not: so there is rather too little free space
    than too much.
    """
    return StorageReport(rooms, {unit: min(before.get(unit, 0), after.get(unit, 0)) for unit in rooms}, asked)


def add_reports(
    known: KnownStorage,
    asked_nodes: Iterable[str],
    found: UnitReports,
    used: tuple[UsedStorage, UsedStorage],
    asked: float,
) -> Mapping[str, StorageReport]:
    """Return the reports with new ones. A node that was asked and did not answer loses its report.

    ``used`` is what disks took just before and just after.
    """
    reports = {name: report for name, report in known.reports.items() if name not in set(asked_nodes)}
    before, after = used
    new = ((name, rooms, before.get(name, {}), after.get(name, {})) for name, rooms in found.items())
    return reports | {name: storage_report(rooms, was, now, asked) for name, rooms, was, now in new}


def used_storage(cluster: Cluster | None) -> UsedStorage:
    """Return what the disks of a cluster, on their present units, take of the units on nodes."""
    if cluster is None:
        return {}
    first = next((unit for unit in cluster.default_units if unit.type is StorageType.LVM_VG), None)
    default = first or DesiredUnit(StorageType.LVM_VG, "")
    units = Units((default,), (), frozenset(StorageType), frozenset(), cluster.default_units)
    used: defaultdict[str, Counter[DesiredUnit]] = defaultdict(Counter)
    for row in cluster.instances:
        if row.forthcoming:
            continue
        needs = {unit: need for unit, need in units.needs(row).items() if unit.type.local}
        for node in (row.pnode, row.snode) if needs else ():
            if node:
                used[node].update(needs)
    return used


def used_pools(cluster: Cluster | None) -> Mapping[DesiredUnit, int]:
    """Return what the disks of a cluster take (MiB) of pools."""
    if cluster is None:
        return {}
    return taken_of_pools(reported_units(cluster), (row for row in cluster.instances if not row.forthcoming))


def _current_pools(cluster: Cluster, known: KnownStorage) -> Iterable[Pool]:
    """Yield the pools with their space as it should be now; without those of unknown size."""
    used = used_pools(cluster) if known.probes else {}
    for pool in known.pools:
        report = known.probes.get(pool.unit)
        if report is not None:
            space = _current(report.rooms[pool.unit], report, used, pool.unit)
            yield pool._replace(total=space.size, free=space.free)
        elif pool.total or not pool.probe:
            yield pool


def with_current_storage(
    cluster: Cluster, known: KnownStorage, others: Set[DesiredUnit] = frozenset()
) -> Cluster:
    """Return the cluster with the units of its disks, and with the units of its nodes as they should be now.

    Nodes have the units that disks name, the default ones, and ``others``.
    """
    cluster = with_disks(cluster, known.disks)
    if known.pools:
        cluster = replace(cluster, pools=tuple(_current_pools(cluster, known)))
    if not (known.reports and known.complete and known.kinds >= {*queryable_types(cluster)}):
        return cluster
    used, up = used_storage(cluster), {node.name for node in cluster.nodes if node.t_mem}
    rooms = {
        name: {unit: _current(room, report, used.get(name, {}), unit) for unit, room in report.rooms.items()}
        for name, report in known.reports.items()
        if name in up
    }
    taken = used_pools(cluster) if known.shared.rooms else {}
    shared = {unit: _current(room, known.shared, taken, unit) for unit, room in known.shared.rooms.items()}
    reports = with_shared_units(cluster, rooms, shared)
    return with_storage(cluster, reports, units_to_query(cluster) | others)


def _current(
    room: UnitSpace, report: StorageReport, used: Mapping[DesiredUnit, int], unit: DesiredUnit
) -> UnitSpace:
    free = room.free + report.used.get(unit, 0) - used.get(unit, 0)
    return UnitSpace(room.size, min(room.size, free))


def names_other_units(cluster: Cluster) -> bool:
    """Whether disks, pools or tags name units besides the one that a node's single figure is about."""
    found = units_of_disks(cluster.instances) | {pool.unit for pool in cluster.pools}
    named = {unit for unit in found if unit.type in REPORTED}
    groups = {unit for unit in cluster.default_units if unit.type is StorageType.LVM_VG}
    return bool(named - groups or pools_of_tags(cluster))
