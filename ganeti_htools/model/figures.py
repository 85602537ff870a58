"""A table of the figures of instances, most of it copied from the previous table.

Between two requests nearly all instance rows stay equal. One array operation copies their figures.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ganeti_htools.model.cluster import Disk, Instance
from ganeti_htools.model.columns import NOWHERE, Bools, Ints
from ganeti_htools.model.placement_tags import has_rules
from ganeti_htools.model.policy import Demand, IPolicy
from ganeti_htools.model.storage import DesiredUnit
from ganeti_htools.model.types import DiskTemplate, Status
from ganeti_htools.model.units import SINGLE, Units, class_needs

_LOCAL_STORAGE = frozenset(template for template in DiskTemplate if template.local_storage)


class NeedsTable(NamedTuple):
    """:class:`.Needs` of instances, one row each. ``vague`` marks unknown ``spindles``, which are 0 here."""

    disk: Ints
    wants: Bools
    spindles: Ints
    vague: Bools
    classes: Ints
    secondary_classes: Ints


def tabulate_needs(rows: Sequence[Instance], units: Units) -> NeedsTable:
    local, disks = len(units.local), [disk for row in rows for disk in row.disks]
    owner = np.repeat(np.arange(len(rows)), [len(row.disks) for row in rows])
    space, wants, default = _space(rows, owner, np.array([disk.size for disk in disks], np.int64), units)
    # Only disks on the default volume group take spindles, unless an instance has no disks on its nodes.
    counted = default | ~(wants[owner, :local].any(axis=1) & units.reported)
    known = np.array([-1 if disk.spindles is None else disk.spindles for disk in disks], np.int64)
    spindles, vague = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.bool_)
    np.add.at(spindles, owner[counted], known[counted])
    vague[owner[counted & (known < 0)]] = True
    spindles[vague] = 0
    taken = np.array([class_needs(row, units) for row in rows] if units.classes else [], np.int64)
    classes, kept = taken.reshape(len(rows), 2, len(units.classes)).swapaxes(0, 1)
    wants = np.hstack([wants[:, : local + len(units.pools)], classes > 0])
    return NeedsTable(space[:, :local], wants, spindles, vague, classes, kept)


def _space(rows: Sequence[Instance], owner: Ints, size: Ints, units: Units) -> tuple[Ints, Bools, Bools]:
    """Sum the space (MiB) that instances take of local units, then of pools, then of other units.

    ``owner`` and ``size`` are of their disks. Also returns which units instances take, and which disks are on
    the default volume group.
    """
    # Many disks have few different templates, units and groups of their metadata.
    kinds: dict[tuple[DiskTemplate, DesiredUnit | None, str | None], int] = {}
    named = ((row.template, disk.unit, disk.metavg) for row in rows for disk in row.disks)
    kind = np.array([kinds.setdefault(each, len(kinds)) for each in named], np.int64)
    needs = [units.disk_needs(Disk(0, None, unit, metavg), template) for template, unit, metavg in kinds]
    parts = [(*each, (each[0][0], 0))[:2] for each in needs]  # of data and, if mirrored, of metadata
    met = dict.fromkeys((*units.local, *units.pools, *(unit for each in parts for unit, _ in each)))
    place = {unit: at for at, unit in enumerate(met)}
    where = np.array([[place[unit] for unit, _ in each] for each in parts], np.int64).reshape(-1, 2)[kind]
    taken = np.array([[mib for _, mib in each] for each in parts], np.int64).reshape(-1, 2)[kind]
    taken[:, 0] += size
    space = np.zeros((len(rows), len(place)), np.int64)
    wants = np.zeros(space.shape, np.bool_)
    np.add.at(space.reshape(-1), (owner[:, np.newaxis] * len(place) + where).ravel(), taken.ravel())
    wants[owner[:, np.newaxis], where] = True
    dsk = np.array([row.dsk for row in rows], np.int64)
    whole = np.array([row.template in _LOCAL_STORAGE for row in rows], np.bool_)
    if units.reported:
        whole &= ~wants.any(axis=1)
        space = np.where(wants.sum(axis=1, keepdims=True) == 1, wants * dsk[:, np.newaxis], space)
    wants[:, 0] |= whole
    space[whole, 0] = dsk[whole]
    return space, wants, where[:, 0] == 0


TEMPLATE_CODE = {template: code for code, template in enumerate(DiskTemplate)}

FIELDS = np.dtype(
    [
        ("mem", np.int64),
        ("record_mem", np.int64),  # MiB taken from the primary's state of record
        ("secondary_mem", np.int64),  # MiB that the secondary has to keep free for it
        ("dsk", np.int64),
        ("vcpus", np.int64),  # 0 if administratively offline
        ("spindles", np.int64),  # 0 if unknown; see units.needs_of
        ("vague", np.bool_),  # its spindles are unknown
        ("spindle_use", np.int64),  # 0 without disks on the default unit
        ("template", np.int64),  # position in DiskTemplate
        ("forthcoming", np.bool_),
        ("tagged", np.bool_),
        ("ruled", np.bool_),  # its tags say where it may be
        ("load", np.float64, (4,)),  # cpu, mem, dsk, net
        ("demand", np.int64),  # position in the table's demands
    ]
)


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of instances, one record per row, and their distinct demands on instance policies.

    ``disk`` and ``classes`` are the amounts taken of each unit and custom class; ``wants`` marks the units,
    pools and classes that a node must have; ``secondary_classes`` are the amounts that a secondary keeps
    free. ``verdicts`` caches whether a policy refuses each demand.
    """

    rows: tuple[Instance, ...]
    values: NDArray[np.void]
    units: Units
    disk: Ints
    wants: Bools
    classes: Ints
    secondary_classes: Ints
    demands: dict[Demand, int]
    positions: dict[str, int]  # by name
    verdicts: dict[tuple[IPolicy, bool], dict[int, bool]]  # by policy and exclusive storage

    def part(self, rows: Ints) -> "Figures":
        """Return the figures of some rows, without the cache for :func:`tabulate`."""
        return replace(
            self,
            rows=tuple(self.rows[row] for row in rows.tolist()),
            values=self.values.take(rows),
            disk=self.disk[rows],
            wants=self.wants[rows],
            classes=self.classes[rows],
            secondary_classes=self.secondary_classes[rows],
            positions={},
        )


def tabulate(
    rows: Sequence[Instance],
    known: Figures | None = None,
    policies: Collection[IPolicy] = (),
    units: Units = SINGLE,
) -> Figures:
    """Build the table of instances; rows that are in ``known`` too are copied.

    Cached verdicts are kept for the given ``policies`` only.
    """
    if known and known.units != units:
        known = None
    demands: dict[Demand, int] = known.demands if known else {}
    sources = _positions(rows, known) if known else np.full(len(rows), NOWHERE)
    disk = np.zeros((len(rows), len(units.local)), np.int64)
    wants = np.zeros((len(rows), len(units.local) + len(units.pools) + len(units.classes)), np.bool_)
    classes, kept = np.zeros((2, len(rows), len(units.classes)), np.int64)
    fresh = np.flatnonzero(sources < 0)
    values = np.empty(len(rows), FIELDS)
    if known and len(fresh) < len(rows):
        taken = sources >= 0
        values = known.values.take(np.maximum(sources, 0))  # many times faster than by a mask
        disk[taken], wants[taken] = known.disk[sources[taken]], known.wants[sources[taken]]
        if units.classes:
            classes[taken], kept[taken] = (
                known.classes[sources[taken]],
                known.secondary_classes[sources[taken]],
            )
    if len(demands) > len(rows) + len(fresh):
        return tabulate(rows, units=units)  # forget the demands of instances long gone
    if len(fresh):
        new = [rows[row] for row in fresh.tolist()]
        needs = tabulate_needs(new, units)
        values[fresh] = _records(new, needs, demands)
        disk[fresh], wants[fresh] = needs.disk, needs.wants
        classes[fresh], kept[fresh] = needs.classes, needs.secondary_classes
    positions = {row.name: position for position, row in enumerate(rows)}
    wanted = frozenset(policies)
    verdicts = {key: of for key, of in known.verdicts.items() if key[0] in wanted} if known else {}
    return Figures(tuple(rows), values, units, disk, wants, classes, kept, demands, positions, verdicts)


def _positions(rows: Sequence[Instance], known: Figures) -> Ints:
    """Return the positions of equal rows in a known table, NOWHERE where there is none."""
    found = []
    for row in rows:
        at = known.positions.get(row.name, NOWHERE)
        if at != NOWHERE and (old := known.rows[at]) is not row and old != row:  # mostly the same object
            at = NOWHERE
        found.append(at)
    return np.array(found, np.int64)


def _records(rows: Sequence[Instance], needs: NeedsTable, demands: dict[Demand, int]) -> NDArray[np.void]:
    records = np.empty(len(rows), FIELDS)
    records["mem"] = [row.mem for row in rows]
    records["record_mem"] = [row.mem if row.uses_memory else 0 for row in rows]
    records["secondary_mem"] = [row.mem if row.uses_secondary_memory else 0 for row in rows]
    records["dsk"] = [row.dsk for row in rows]
    records["vcpus"] = [0 if row.status is Status.OFFLINE else row.vcpus for row in rows]
    records["spindles"], records["vague"] = needs.spindles, needs.vague
    records["spindle_use"] = np.where(needs.wants[:, 0], [row.spindle_use for row in rows], 0)
    records["template"] = [TEMPLATE_CODE[row.template] for row in rows]
    records["forthcoming"] = [row.forthcoming for row in rows]
    records["tagged"] = [bool(row.tags) for row in rows]
    records["ruled"] = [has_rules(row.tags) for row in rows]
    loads = ((row.load.cpu, row.load.mem, row.load.dsk, row.load.net) for row in rows)
    records["load"] = np.array(list(loads), np.float64)
    records["demand"] = [demands.setdefault(row.demand, len(demands)) for row in rows]
    return records
