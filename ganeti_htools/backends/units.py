"""Storage units in the text format (Ganeti's design "multi-storage htools").

In text a unit is ``FREE,TOTAL,TYPE,KEY[,PARAM...]`` and a disk ``SIZE,TYPE,KEY[,SPINDLES[,METAVG]]``,
several with ``;`` between them; ``-`` is unknown. In keys, characters with a meaning in the format are
percent-encoded.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from ganeti_htools.backends import values
from ganeti_htools.model.cluster import MAX_MIB, Cluster, Disk, Node
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.storage import IGNORED, TYPE_NAMES, TYPE_OF, DesiredUnit, StorageType, Unit, holds
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.model.units_in_use import default_units, units_of_disks

UNKNOWN = "-"
# A word that means something by itself is encoded as well.
_ENCODED = re.compile(r"[%,;|]|^[-YN]$")
_DECODED = re.compile(r"%([0-9A-Fa-f]{2})")
_FLAGS = {"Y": True, "N": False}


@lru_cache(1024)  # many disks share a unit, which is one object then
def parse_unit(kind: str, key: str) -> DesiredUnit | None:
    """Return the unit of a type and key; None for a type that holds no disks. Raises DataError."""
    if kind == IGNORED:
        return None
    unit = values.quote(f"{kind}/{key}")
    if kind not in TYPE_NAMES:
        raise DataError(f"unknown storage type of {unit}, expected one of {', '.join(TYPE_NAMES)}")
    if not key or not key.isprintable():
        raise DataError(f"storage unit {unit}: expected a key, which is a name")
    return DesiredUnit(TYPE_NAMES[kind], key)


def parse_named_unit(kind: str, key: str) -> DesiredUnit:
    """Return the unit that a user names; its key may be percent-encoded. Raises DataError."""
    unit = parse_unit(kind, decode_key(key))
    if unit is None:
        raise DataError(f"no disk can be on storage type {kind}")
    return unit


def check_units(units: Iterable[Unit]) -> tuple[Unit, ...]:
    """Check the units of one node: none twice, none with more free than total. Raises DataError."""
    found: dict[DesiredUnit, Unit] = {}
    for unit in units:
        if unit.desired in found:
            raise DataError(f"{unit.desired} appears more than once")
        if unit.free > unit.total:
            raise DataError(
                f"{unit.desired}: free: expected at most the total of {unit.total} MiB, got {unit.free}"
            )
        found[unit.desired] = unit
    return tuple(found.values())


def read_units(text: str) -> tuple[Unit, ...]:
    """Units of a node from text. Raises DataError."""
    read = (_unit(part) for part in values.several(text, ";"))
    return check_units(unit for unit in read if unit)


def _unit(text: str) -> Unit | None:
    fields = text.split(",")
    if len(fields) < 4:
        raise DataError(f"expected FREE,TOTAL,TYPE,KEY, not {values.quote(text)}")
    free, total, kind, key, *params = fields
    unit = parse_unit(kind, decode_key(key))
    if unit is None:
        return None
    place = str(unit)
    return Unit(
        unit,
        values.read(values.whole, total, place, "total"),
        values.read(lambda text: values.whole(text, -MAX_MIB), free, place, "free"),
        tuple(_FLAGS.get(param, decode_key(param)) for param in params),
    )


def write_units(units: Iterable[Unit]) -> str:
    """Write a node's units, with free space limited to the total.

    After moves free space may exceed the total: sparse files take less than their size.
    """
    return ";".join(_unit_text(unit) for unit in units)


def _unit_text(unit: Unit) -> str:
    words = (
        ("Y" if param else "N") if isinstance(param, bool) else encode_key(param) for param in unit.params
    )
    return ",".join((str(min(unit.free, unit.total)), str(unit.total), *_desired_text(unit.desired), *words))


def _desired_text(unit: DesiredUnit | None) -> tuple[str, str]:
    return (unit.type.value, encode_key(unit.key)) if unit else (UNKNOWN, UNKNOWN)


def encode_key(text: str) -> str:
    return _ENCODED.sub(lambda found: f"%{ord(found[0]):02X}", text)


def decode_key(text: str) -> str:
    return _DECODED.sub(lambda found: chr(int(found[1], 16)), text)


def read_disks(text: str, template: DiskTemplate | None = None) -> tuple[Disk, ...]:
    """Read the disks of an instance from text, checked against its template if given. Raises DataError."""
    return tuple(_disk(part, number, template) for number, part in enumerate(values.several(text, ";")))


def misplacement(unit: DesiredUnit, template: DiskTemplate) -> str | None:
    """Return the error if a unit cannot hold disks of a template, or None."""
    return None if holds(unit, template) else f"disks of disk template {template.value} cannot be on {unit}"


def _disk(text: str, number: int, template: DiskTemplate | None) -> Disk:
    place, fields = f"disk {number}", text.split(",")
    if not 3 <= len(fields) <= 5:
        raise DataError(f"{place}: expected SIZE,TYPE,KEY[,SPINDLES[,METAVG]], not {values.quote(text)}")
    size, kind, key, spindles, metavg = *fields, *[UNKNOWN] * (5 - len(fields))
    unit = _unless_unknown(kind, key, place)
    if unit and template and (wrong := misplacement(unit, template)):
        raise DataError(f"{place}: {wrong}")
    meta = _unless_unknown(StorageType.LVM_VG.value, metavg, place, "metavg")
    return Disk(
        values.read(values.whole, size, place, "size"),
        None if spindles == UNKNOWN else values.read(values.whole, spindles, place, "spindles"),
        unit,
        meta.key if meta else None,
    )


def _unless_unknown(kind: str, key: str, *place: str) -> DesiredUnit | None:
    if UNKNOWN in (kind, key):
        return None
    return values.read(lambda key: parse_unit(kind, decode_key(key)), key, *place)


def with_explicit_units(cluster: Cluster) -> Cluster:
    """Return the cluster with its default units named: first on nodes, and in the disks on them.

    They remain the defaults if only nodes and disks are written.
    """
    defaults = {unit.type: unit for unit in cluster.default_units}

    def placed(disk: Disk, template: DiskTemplate) -> Disk:
        return disk if disk.unit else replace(disk, unit=defaults.get(TYPE_OF[template]))

    return replace(
        cluster,
        nodes=_with_defaults_first(cluster),
        instances=tuple(
            replace(row, disks=tuple(placed(disk, row.template) for disk in row.disks))
            for row in cluster.instances
        ),
    )


def _with_defaults_first(cluster: Cluster) -> tuple[Node, ...]:
    """Return the nodes with the default units first.

    A default that too few nodes list would not be recognised as such. Nodes without it then list it with no
    space, which means the same.
    """
    defaults = cluster.default_units

    def sorted_units(storage: Iterable[Unit]) -> tuple[Unit, ...]:
        return tuple(sorted(storage, key=lambda unit: unit.desired not in defaults))

    nodes = tuple(
        replace(node, storage=sorted_units(node.storage)) if node.storage else node for node in cluster.nodes
    )
    seeming = {unit.type: unit for unit in default_units(replace(cluster, nodes=nodes, default_units=()))}
    rare = [unit for unit in defaults if unit.type.local and seeming.get(unit.type, unit) != unit]
    if not rare:
        return nodes

    def lacked(storage: Iterable[Unit]) -> list[Unit]:
        return [Unit(unit, 0, 0) for unit in rare if unit not in {each.desired for each in storage}]

    return tuple(
        node if node.storage is None else replace(node, storage=(*lacked(node.storage), *node.storage))
        for node in nodes
    )


def needs_disk_column(cluster: Cluster) -> bool:
    """Whether the disk column is needed: nodes report units, or disks name several of a type."""
    if any(node.storage is not None for node in cluster.nodes):
        return True
    parse_named_unit = units_of_disks(cluster.instances)
    return len({unit.type for unit in parse_named_unit}) < len(parse_named_unit)


def write_disks(disks: Iterable[Disk]) -> str:
    return ";".join(_disk_text(disk) for disk in disks)


def _disk_text(disk: Disk) -> str:
    words = [str(disk.size), *_desired_text(disk.unit)]
    words.append(UNKNOWN if disk.spindles is None else str(disk.spindles))
    words.append(UNKNOWN if disk.metavg is None else encode_key(disk.metavg))
    while len(words) > 3 and words[-1] == UNKNOWN:
        words.pop()
    return ",".join(words)
