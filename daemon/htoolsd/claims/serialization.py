"""The text form of claims in the ledger, from which the next daemon restores them."""

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from ganeti_htools.backends.fields import Fields, parse_json
from ganeti_htools.deciding.promises import Promise
from ganeti_htools.model.cluster import Disk, Instance
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.types import DiskTemplate, Status
from htoolsd.claims.claim import Claim

VERSION = 1


def to_json(claim: Claim) -> str:
    """Return a claim as JSON, without its times."""
    row = claim.promise.row
    disks = [
        {
            "size": disk.size,
            "spindles": disk.spindles,
            "type": disk.unit and disk.unit.type,
            "key": disk.unit and disk.unit.key,
            "metavg": disk.metavg,
        }
        for disk in row.disks
    ]
    return orjson.dumps(
        {
            "version": VERSION,
            "new": claim.promise.new,
            "claimant": claim.claimant,
            "seen": claim.job_seen,
            **{key: getattr(row, name) for key, (name, _) in _ROW.items()},
            "disks": disks,
        }
    ).decode()


def from_json(text: str, expires: float, now: float) -> Claim:
    """Return the claim in a text, as if created ``now`` (trio's clock). Raises DataError."""
    fields = Fields("promise", parse_json(text.encode(), "promise"))
    if fields.value("version") != VERSION:
        raise fields.wrong("version", "version", str(VERSION))
    match fields.text("claimant"):
        case "job" | "hand" as claimant:
            row = Instance(**{name: read(fields, key) for key, (name, read) in _ROW.items()})
            promise = Promise(row, fields.boolean("new"))
            return Claim(promise, now, expires, claimant, now, fields.boolean("seen"))
    raise fields.wrong("claimant", "String", "job or hand")


def _disk(fields: Fields) -> Disk:
    kind: Any = fields.choice("type", StorageType) if fields.has("type") else None
    unit = DesiredUnit(kind, fields.text("key")) if kind else None
    spindles = fields.count("spindles") if fields.has("spindles") else None
    return Disk(fields.integer("size"), spindles, unit, _optional_text(fields, "metavg"))


def _optional_text(fields: Fields, key: str) -> str | None:
    return fields.text(key) if fields.has(key) else None


# The names of an instance's fields, and how they are read, by key.
_ROW: Mapping[str, tuple[str, Callable[[Fields, str], Any]]] = {
    "name": ("name", Fields.text),
    "memory": ("mem", Fields.integer),
    "disk": ("dsk", Fields.integer),
    "disks": ("disks", lambda fields, key: tuple(map(_disk, fields.objects(key)))),
    "vcpus": ("vcpus", Fields.count),
    "status": ("status", lambda fields, key: fields.choice(key, Status)),
    "tags": ("tags", Fields.texts),
    "auto_balance": ("auto_balance", Fields.boolean),
    "primary": ("pnode", Fields.text),
    "secondary": ("snode", _optional_text),
    "disk_template": ("template", lambda fields, key: fields.choice(key, DiskTemplate)),
    "spindle_use": ("spindle_use", Fields.count),
    "forthcoming": ("forthcoming", Fields.boolean),
}
