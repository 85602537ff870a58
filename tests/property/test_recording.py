"""Recorded decisions: read after a crash at any byte, and made again to the byte."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganeti_htools.backends import iallocator
from ganeti_htools.commandline.parameters import parse_options
from ganeti_htools.deciding.decision import Cache, KnownCluster, respond
from ganeti_htools.model.ganeti_version import GanetiVersion
from ganeti_htools.model.inventory import Inventory
from ganeti_htools.model.storage import DesiredUnit, StorageType
from ganeti_htools.model.types import DiskTemplate
from ganeti_htools.recording.decision import RecordedDecision, read_decision, to_bytes
from ganeti_htools.recording.files import contents, encode, pieces_of
from tests.support.cases import TYPES, Case, case
from tests.support.messages import allocate, message
from tests.support.messages import encode as encoded
from tests.support.storage_units import case_with_units

PIECES = st.sampled_from([b"", b"a", b'{"b":1', b"{}\n", b"\0\xff", b"x" * 99])
CONTENTS = st.lists(st.lists(PIECES, min_size=1, max_size=9).map(b"},".join), min_size=1, max_size=5)


def file_of(written: Sequence[bytes]) -> list[bytes]:
    """Return the records of a file."""
    before: list[bytes] = []
    found = []
    for number, content in enumerate(written):
        pieces = pieces_of(content)
        found.append(encode(f"id{number}", float(number), before, pieces))
        before = pieces
    return found


def read(directory: Path, data: bytes) -> tuple[list[bytes], list[str]]:
    """Return the contents that can be read in a file, and the lines about damage."""
    (directory / "1.records").write_bytes(data)
    damage = list[str]()
    return [*contents(directory, lambda _head: True, damage.append)], damage


@given(written=CONTENTS, draw=st.data())
def test_records_before_any_damage_are_read(
    written: list[bytes], draw: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("recording")
    records = file_of(written)
    whole = b"".join(records)
    assert read(directory, whole) == (written, [])
    ends = [sum(map(len, records[:number])) for number in range(len(records) + 1)]
    at = draw.draw(st.integers(0, len(whole) - 1))
    intact = max(number for number, end in enumerate(ends) if end <= at)
    named = (
        f"{directory}/1.records: damaged at byte {ends[intact]}; the {intact} decisions before it are read"
    )
    assert read(directory, whole[:at]) == (written[:intact], [named] * (at != ends[intact]))
    changed = bytes([whole[at] ^ draw.draw(st.integers(1, 255))])
    assert read(directory, whole[:at] + changed + whole[at + 1 :]) == (written[:intact], [named])


def known_and_bare(found: Case) -> tuple[KnownCluster, bytes]:
    """Return what a daemon knows of a cluster with units, and the request without them."""
    cluster = iallocator.read(found.text.encode()).cluster
    limits = (("CUSTOM_GPU", Inventory(4, reserved=1)),)
    nodes = (replace(cluster.nodes[0], inventories=limits), *cluster.nodes[1:])
    known = replace(
        cluster,
        nodes=nodes,
        default_units=(DesiredUnit(StorageType.LVM_VG, "xenvg"),),
        enabled_templates=(DiskTemplate.DRBD, DiskTemplate.PLAIN),
        ganeti=GanetiVersion(3, 0, 2),
    )
    document = json.loads(found.text)
    for node in document["nodes"].values():
        node.pop("storage", None)
    return (
        KnownCluster(
            known,
            3.2,
            7.8,
            lambda _units: known,
            promised={"other.example.org": {DesiredUnit(StorageType.RADOS, "rbd"): 512}},
            claims={cluster.nodes[0].name: ("held",)},
            loads={cluster.nodes[0].name: 2.5},
        ),
        json.dumps(document).encode(),
    )


@pytest.mark.parametrize("kind", TYPES)
def test_decision_is_made_again_to_the_byte(kind: str) -> None:
    """With a cache, earlier promises, storage units, inventories and claims."""
    differing = 0
    for seed in range(6):
        found = (case_with_units if seed % 2 else case)(seed, kind)
        known, data = known_and_bare(found)
        options = parse_options(found.options)
        first = respond(
            encoded(message(found.data, allocate("first.example.org", "plain"))).encode(), options
        )
        cache = Cache()
        respond(data, options, cache, known)  # so that the cache has the decision without promises
        made = respond(data, options, cache, known, first.promises)
        recorded = RecordedDecision(
            *("id", 1.5, "0.1.0", found.options, made.data, made.known, made.counted, made.alone, made.answer)
        )
        again = read_decision(to_bytes(recorded))
        assert again.decide().answer == made.answer
        assert again.decide().ranking == made.ranking
        differing += made.answer != respond(data, options).answer
    assert differing
