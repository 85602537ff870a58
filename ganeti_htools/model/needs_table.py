"""Needs of many instances: :func:`.units.needs_of` with array operations over the disks of all."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ganeti_htools.model.cluster import Disk, Instance
from ganeti_htools.model.columns import Bools, Ints
from ganeti_htools.model.storage import DesiredUnit
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.model.units import Units, class_needs

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
