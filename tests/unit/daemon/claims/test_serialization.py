from dataclasses import replace

import orjson
import pytest

from ganeti_htools.deciding.promises import Promise
from ganeti_htools.model.cluster import Disk, Instance
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.types import DiskTemplate, Status
from htoolsd.claims.claim import Claim
from htoolsd.claims.serialization import from_json, to_json
from tests.support import by_hand

SSD = DesiredUnit(StorageType.LVM_VG, "ssd")
MIRRORED = replace(
    by_hand.instance("web", DiskTemplate.DRBD, "node1", "node2"),
    disks=(Disk(300, 2, SSD, "meta"), Disk(200)),
    tags=("a", "b"),
    status=Status.DOWN,
    forthcoming=True,
)
PLAIN = by_hand.instance("web", DiskTemplate.PLAIN, "node1")


@pytest.mark.parametrize("row", [MIRRORED, PLAIN])
@pytest.mark.parametrize("job_seen", [False, True])
def test_claim_is_read_back_with_new_times(row: Instance, job_seen: bool) -> None:
    claim = Claim(Promise(row, new=job_seen), 1.0, 2.0, "hand", 3.0, job_seen)
    assert from_json(to_json(claim), 600.0, 50.0) == replace(claim, created=50.0, expires=600.0, checked=50.0)


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("version", 2, "promise: key 'version': Unable to read version, expected 1, got 2"),
        (
            "claimant",
            "nobody",
            "promise: key 'claimant': Unable to read String, expected job or hand, got 'nobody'",
        ),
        ("primary", None, "promise: key 'primary'"),
    ],
)
def test_unreadable_claim_names_the_key(key: str, value: object, error: str) -> None:
    text = orjson.loads(to_json(Claim(Promise(PLAIN, new=True), 1.0, 2.0, "job", 3.0))) | {key: value}
    with pytest.raises(DataError) as refused:
        from_json(orjson.dumps(text).decode(), 600.0, 50.0)
    assert error in str(refused.value)
