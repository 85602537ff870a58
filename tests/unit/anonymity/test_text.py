"""Free text without names, and the last search for names."""

import json

import pytest

from ganeti_htools.anonymity.bundle import CLUSTER, bundle
from ganeti_htools.anonymity.names import NameKind, Substitutes
from ganeti_htools.anonymity.text import FreeText, leftovers, words
from ganeti_htools.model.cluster import Cluster, Group, Node

OWN = words(
    ["event node is offline, instance running on FailN1 error plan since with MiB /run/htoolsd/htoolsd.sock"]
)
NAMES = Substitutes(
    (
        *((NameKind.NODE, name) for name in ("node", "web1", "web1.kontor.example", "web-1")),
        *((NameKind.INSTANCE, name) for name in ("running", "web1-b", "ünïcode.kontor.example", "12")),
        *((NameKind.GROUP, name) for name in ("two words", "a+b", "e\u0301t\u00e9")),
        *((NameKind.TAG, name) for name in ("since", "gold")),
    )
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node node is offline", "node-A1 node-A1 is offline"),
        ("instance running on web1:web-1", "instance instance-A2 on node-A3:node-A2"),
        ("web1.kontor.example, web1-b.", "node-A4, instance-A3."),
        ("ünïcode is offline on two words (a+b)", "instance-A4 is offline on group-A3 (group-A1)"),
        (
            "plan 0123456789ab since 2026-11-28T08:41:12.5Z, 22:00-06:00",
            "plan word-A1 since 2026-11-28T08:41:12.5Z, 22:00-06:00",
        ),
        (
            "error on e\u0301t\u00e9 with gold since 12 MiB",
            "error on group-A2 with tag-A1 since instance-A1 MiB",
        ),
        ("10.1.2.3:80 fe80::1 aa:bb:cc:00:11:22", "address-A1:80 address-A2 mac-A1"),
        ("12345678-1234-1234-1234-1234567890ab", "00000000-0000-4000-800A-000000000001"),
        ("/run/htoolsd/htoolsd.sock /srv/kontor/x", "/run/htoolsd/htoolsd.sock /path-A1"),
        ("postgresql://kontor:secret@db/x", "/path-A1"),
        (
            'File "/opt/kontor/lib/ganeti_htools/engine/decide.py", 17',
            'word-A1 "ganeti_htools/engine/decide.py", 17',
        ),
        ("WEB1.kontor.example, unknown7, Node is offline", "word-A1, word-A2, Node is offline"),
        ("3.0.2 1.5e-7 17ms 40GiB FailN1: 4096 MiB", None),
    ],
)
def test_only_own_words_and_figures_stay(text: str, expected: str | None) -> None:
    fresh = Substitutes((kind, name) for name, (kind, _) in NAMES.by_name.items())
    assert FreeText(fresh, OWN)(text) == (expected or text)


def test_finds_names_that_are_left() -> None:
    names = ["web1", "node", "über", "10.1.2.3", "a+b", "4096"]
    assert leftovers("node (web1) x-über 10.1.2.3 a+b 4096", names, OWN) == ["web1", "10.1.2.3", "a+b"]
    assert leftovers("web12 web1.kontor über-x", ["web1", "über"], OWN) == ["web1"]


def test_bundle_tells_what_its_search_finds() -> None:
    cluster = Cluster((Group("kontor", "uuid"),), (Node("web1", "uuid"),))
    log = [{"event": "web1 is offline", "plan": "0123456789ab"}, "plan 0123456789ab: aabbcc001122"]
    made = bundle(cluster, {"web1.jsonl": log}, OWN, coarse=True)
    assert made.members.keys() == {CLUSTER, "web1.jsonl"}
    first, second = map(json.loads, made.members["web1.jsonl"].splitlines())
    assert (first["plan"], second) == ("0123456789ab", "plan 0123456789ab: word-1")
    assert first["event"] == "node-1 is offline"
    assert made.leftovers == ["web1"]
