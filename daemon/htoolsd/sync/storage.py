"""Storage units, kept beside the tables: where disks are, and what nodes were found to have.

Ganeti tells of units rarely. In between the free space of a unit follows the disks that came and went.
Everything here is immutable, as the model is.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from ganeti_htools.model.cluster import Cluster
from ganeti_htools.model.known_storage import (
    REPORTED,
    DisksByInstance,
    UnitReports,
    UnitSpace,
    units_to_query,
    with_disks,
    with_storage,
)
from ganeti_htools.model.storage import DesiredUnit, Pool, StorageType
from ganeti_htools.model.units import Units
from ganeti_htools.model.units_in_use import pools_of_tags, units_of_disks

# What disks take (MiB) of each unit, by the names of nodes.
Taken = Mapping[str, Mapping[DesiredUnit, int]]


@dataclass(frozen=True, slots=True)
class Report:
    """What a node was found to have, what disks took of it then, and when (trio's clock) it was asked."""

    rooms: Mapping[DesiredUnit, UnitSpace]
    taken: Mapping[DesiredUnit, int]
    asked: float = field(compare=False)


@dataclass(frozen=True, slots=True)
class Storage:
    """What is known of storage, and how often that has changed.

    ``reports`` count once they are ``complete``: of nodes with units and nodes without, the latter would seem
    to have the default one only. ``pools`` are those that we are told of.
    """

    disks: DisksByInstance = field(default_factory=dict)
    reports: Mapping[str, Report] = field(default_factory=dict)
    pools: tuple[Pool, ...] = ()
    complete: bool = False
    generation: int = 0

    @property
    def asked(self) -> float | None:
        """When the node was asked whose report is the oldest, if they count."""
        times = (report.asked for report in self.reports.values())
        return min(times, default=None) if self.complete else None


def revised(
    known: Storage,
    disks: DisksByInstance | None = None,
    reports: Mapping[str, Report] | None = None,
    pools: tuple[Pool, ...] | None = None,
    complete: bool | None = None,
) -> Storage:
    """What is known, with other disks, reports or pools.

    Another generation if, and only if, something changed.
    """
    new = replace(
        known,
        disks=known.disks if disks is None else disks,
        reports=known.reports if reports is None else reports,
        pools=known.pools if pools is None else pools,
        complete=known.complete if complete is None else complete,
    )
    return new if new == known else replace(new, generation=known.generation + 1)


def reported(
    known: Storage, asked_nodes: Iterable[str], found: UnitReports, taken: tuple[Taken, Taken], asked: float
) -> Storage:
    """What is known after nodes were asked; those that did not answer are not known any more.

    ``taken`` is what disks took just before and just after. A disk that came or went meanwhile may or may
    not be in the answer, so it is counted such that there is rather less space than more.
    """
    kept = {name: report for name, report in known.reports.items() if name not in set(asked_nodes)}
    before, after = taken
    for name, rooms in found.items():
        was, now = before.get(name, {}), after.get(name, {})
        least = {unit: min(was.get(unit, 0), now.get(unit, 0)) for unit in rooms}
        kept[name] = Report(rooms, least, asked)
    return revised(known, reports=kept)


def taken_of(cluster: Cluster) -> Taken:
    """What the disks of a cluster, which are where they are, take of the units on nodes."""
    first = next((unit for unit in cluster.default_units if unit.type is StorageType.LVM_VG), None)
    default = first or DesiredUnit(StorageType.LVM_VG, "")
    units = Units((default,), (), frozenset(StorageType), frozenset(), cluster.default_units)
    taken: defaultdict[str, Counter[DesiredUnit]] = defaultdict(Counter)
    for row in cluster.instances:
        if row.forthcoming:
            continue
        needs = {unit: need for unit, need in units.wants(row).items() if unit.type.local}
        for node in (row.pnode, row.snode) if needs else ():
            if node:
                taken[node].update(needs)
    return taken


def furnished(cluster: Cluster, known: Storage, others: Set[DesiredUnit] = frozenset()) -> Cluster:
    """The cluster with its disks where they are, and its nodes with their units as they should be now.

    Those are the units that disks name, the default ones, and ``others``.
    """
    cluster = with_disks(replace(cluster, pools=known.pools) if known.pools else cluster, known.disks)
    if not (known.reports and known.complete):
        return cluster
    now, up = taken_of(cluster), {node.name for node in cluster.nodes if node.t_mem}
    rooms = {
        name: {unit: _now(room, report, now.get(name, {}), unit) for unit, room in report.rooms.items()}
        for name, report in known.reports.items()
        if name in up
    }
    return with_storage(cluster, rooms, units_to_query(cluster) | others)


def _now(room: UnitSpace, report: Report, now: Mapping[DesiredUnit, int], unit: DesiredUnit) -> UnitSpace:
    free = room.free + report.taken.get(unit, 0) - now.get(unit, 0)
    return UnitSpace(room.size, min(room.size, free))


def others_named(cluster: Cluster) -> bool:
    """Whether disks, pools or tags name units besides the one that a node's single figure is about."""
    met = units_of_disks(cluster.instances) | {pool.unit for pool in cluster.pools}
    named = {unit for unit in met if unit.type in REPORTED}
    groups = {unit for unit in cluster.default_units if unit.type is StorageType.LVM_VG}
    return bool(named - groups or pools_of_tags(cluster))
