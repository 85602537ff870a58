"""Storage units in JSON requests (Ganeti's design "multi-storage htools")."""

from typing import Any

from ganeti_htools.backends import units, values
from ganeti_htools.backends.fields import Fields
from ganeti_htools.model.cluster import Disk
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.storage import DesiredUnit, StorageType, Unit
from ganeti_htools.model.types import DiskTemplate


def units_of(fields: Fields) -> tuple[Unit, ...]:
    """Units of a node from a JSON list of ``{"sunit": [TYPE, KEY, [PARAM...]], "free": N, "total": N}``.

    Raises DataError naming the node, the unit and the field.
    """
    found = []
    for each in fields.objects("storage"):
        each.owner = f"{fields.owner}: storage"
        unit = _sunit(each)
        if unit is None:
            continue
        each.owner = f"{fields.owner}: storage: {unit}"
        params = _params(each)
        found.append(Unit(unit, each.integer("total"), each.integer("free"), params))
    try:
        return units.check_units(found)
    except DataError as error:
        raise DataError(f"{fields.owner}: storage: {error}") from error


def _params(fields: Fields) -> tuple[bool | str, ...]:
    params = fields.value("sunit")[2:3] or [[]]
    if not isinstance(params[0], list) or not all(isinstance(param, bool | str) for param in params[0]):
        raise fields.wrong("sunit", "parameters", "a list of booleans and strings")
    return tuple(params[0])


def _sunit(fields: Fields) -> DesiredUnit | None:
    value: Any = fields.value("sunit")
    if not isinstance(value, list) or len(value) < 2 or not all(isinstance(part, str) for part in value[:2]):
        raise fields.wrong("sunit", "storage unit", "a list of type, key and parameters")
    return values.read(lambda name: units.parse_unit(value[0], name), value[1], fields.owner, "key 'sunit'")


# The key that names the unit of a disk in requests, and the type of the unit. Ganeti writes the volume group
# for disks of any template; for other templates it has no meaning.
_NAMED_BY = {
    DiskTemplate.PLAIN: ("vg", StorageType.LVM_VG),
    DiskTemplate.DRBD: ("vg", StorageType.LVM_VG),
    DiskTemplate.EXT: ("provider", StorageType.EXT),
}


_TELLING = frozenset({"sunit", "vg", "provider", "metavg"})


def disk_of(fields: Fields, template: DiskTemplate) -> Disk:
    """Read a disk of a JSON request. Raises DataError."""
    size = fields.integer("size")
    spindles = fields.count("spindles") if fields.has("spindles") else None
    if _TELLING.isdisjoint(fields.values):
        return Disk(size, spindles)
    unit = _sunit(fields) if fields.has("sunit") else None
    if unit and (wrong := units.misplacement(unit, template)):
        raise DataError(f"{fields.owner}: key 'sunit': {wrong}")
    if unit is None and template in _NAMED_BY:
        unit = _named(fields, *_NAMED_BY[template])
    meta = _named(fields, "metavg", StorageType.LVM_VG) if template is DiskTemplate.DRBD else None
    return Disk(size, spindles, unit, meta.key if meta else None)


def _named(fields: Fields, key: str, kind: StorageType) -> DesiredUnit | None:
    if not fields.has(key):
        return None
    name = fields.text(key)
    try:
        return units.parse_unit(kind.value, name)
    except DataError as error:
        raise DataError(f"{fields.owner}: key '{key}': {error}") from error
