"""The text form of claims in the ledger, from which the next daemon restores them."""

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
    return orjson.dumps(
        {
            "version": VERSION,
            "new": claim.promise.new,
            "claimant": claim.claimant,
            "seen": claim.job_seen,
            "name": row.name,
            "memory": row.mem,
            "disk": row.dsk,
            "disks": [
                {
                    "size": disk.size,
                    "spindles": disk.spindles,
                    "type": disk.unit and disk.unit.type.value,
                    "key": disk.unit and disk.unit.key,
                    "metavg": disk.metavg,
                }
                for disk in row.disks
            ],
            "vcpus": row.vcpus,
            "status": row.status.value,
            "tags": row.tags,
            "auto_balance": row.auto_balance,
            "primary": row.pnode,
            "secondary": row.snode,
            "disk_template": row.template.value,
            "spindle_use": row.spindle_use,
            "forthcoming": row.forthcoming,
        }
    ).decode()


def from_json(text: str, expires: float, now: float) -> Claim:
    """Return the claim in a text, as if created ``now`` (trio's clock). Raises DataError."""
    fields = Fields("promise", parse_json(text.encode(), "promise"))
    if fields.value("version") != VERSION:
        raise fields.wrong("version", "version", str(VERSION))
    match fields.text("claimant"):
        case "job" | "hand" as claimant:
            promise = Promise(_row(fields), fields.boolean("new"))
            return Claim(promise, now, expires, claimant, now, fields.boolean("seen"))
    raise fields.wrong("claimant", "String", "job or hand")


def _row(fields: Fields) -> Instance:
    return Instance(
        fields.text("name"),
        fields.integer("memory"),
        fields.integer("disk"),
        tuple(_disk(disk) for disk in fields.objects("disks")),
        fields.count("vcpus"),
        fields.choice("status", Status),
        fields.texts("tags"),
        fields.boolean("auto_balance"),
        fields.text("primary"),
        _optional_text(fields, "secondary"),
        fields.choice("disk_template", DiskTemplate),
        fields.count("spindle_use"),
        forthcoming=fields.boolean("forthcoming"),
    )


def _disk(fields: Fields) -> Disk:
    kind: Any = fields.choice("type", StorageType) if fields.has("type") else None
    unit = DesiredUnit(kind, fields.text("key")) if kind else None
    spindles = fields.count("spindles") if fields.has("spindles") else None
    return Disk(fields.integer("size"), spindles, unit, _optional_text(fields, "metavg"))


def _optional_text(fields: Fields, key: str) -> str | None:
    return fields.text(key) if fields.has(key) else None
