"""The history on disk."""

import sqlite3
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from htoolsd.history import database
from htoolsd.history.database import HistoryDatabase, NewerError
from htoolsd.history.entries import HistoryEntry, HistoryQuery


def entry(time: float, instances: Sequence[str] = (), nodes: Sequence[str] = (), **more: Any) -> HistoryEntry:
    return HistoryEntry(time, "decision", partial(dict, instances=list(instances), nodes=list(nodes), **more))


def times(found: Sequence[Any]) -> list[float]:
    return [document["time"] for document in found]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[HistoryDatabase]:
    found = HistoryDatabase(str(tmp_path / "history"))
    yield found
    found.close()


def test_finds_added_entries(tmp_path: Path) -> None:
    first = HistoryDatabase(str(tmp_path / "history"))
    first.add([entry(1.0, ["web"], ["node1"], score=0.5, refusal=None)])
    first.close()
    again = HistoryDatabase(str(tmp_path / "history"))
    told = {"score": 0.5, "refusal": None, "instances": ["web"], "nodes": ["node1"]}
    assert again.find(HistoryQuery()) == [{"time": 1.0, "kind": "decision", **told}]
    again.close()


NAMES = st.sampled_from(["web", "web.org", "web.org.net", "web/org", "web-2", "we", "mail"])
ENTRIES = st.lists(
    st.builds(entry, st.integers(0, 5).map(float), st.lists(NAMES, max_size=2), st.lists(NAMES, max_size=2)),
    max_size=8,
)


@given(
    ENTRIES,
    st.builds(
        HistoryQuery, st.none() | NAMES, st.none() | NAMES, st.integers(0, 5).map(float), st.integers(1, 4)
    ),
)
def test_query_finds_matching_entries(entries: list[HistoryEntry], wanted: HistoryQuery) -> None:
    with TemporaryDirectory() as directory:
        found = HistoryDatabase(f"{directory}/history")
        found.add(entries)
        expected = [each.to_json() for each in entries if wanted.matches(each.to_json())]
        assert found.find(wanted) == expected[-wanted.most :]
    found.close()


def test_deletes_old_entries(opened: HistoryDatabase) -> None:
    opened.add([entry(float(time), ["web"]) for time in range(10)])
    opened.forget(7.0, 1 << 30)
    assert times(opened.find(HistoryQuery(instance="web"))) == [7.0, 8.0, 9.0]


def test_the_oldest_is_forgotten_where_all_takes_too_much_room(
    opened: HistoryDatabase, tmp_path: Path
) -> None:
    opened.add([entry(float(time), ["web"], text="x" * 1000) for time in range(1000)])
    opened.forget(0.0, 500_000)
    left = times(opened.find(HistoryQuery(most=1000)))
    assert 0 < len(left) < 500
    assert left[-1] == 999.0
    opened.close()
    assert (tmp_path / "history").stat().st_size < 600_000


def test_writes_a_batch_completely_or_not_at_all(opened: HistoryDatabase) -> None:
    def broken() -> dict[str, Any]:
        raise RuntimeError("no document")

    with pytest.raises(RuntimeError):
        opened.add([entry(1.0), HistoryEntry(2.0, "decision", broken)])
    assert opened.find(HistoryQuery()) == []


def test_renames_a_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "history").write_bytes(b"no database" * 1000)
    found = HistoryDatabase(str(tmp_path / "history"))
    found.add([entry(1.0)])
    assert times(found.find(HistoryQuery())) == [1.0]
    found.close()
    (aside,) = tmp_path.glob("history.damaged-*")
    assert aside.read_bytes().startswith(b"no database")


def test_leaves_a_newer_history_alone(tmp_path: Path) -> None:
    path = tmp_path / "history"
    with sqlite3.connect(path) as newer:
        newer.execute(f"PRAGMA user_version = {len(database._VERSIONS) + 1}")
    newer.close()
    before = path.read_bytes()
    with pytest.raises(NewerError, match="newer htoolsd"):
        HistoryDatabase(str(path))
    assert path.read_bytes()[100:] == before[100:]  # the header counts who opened it


def test_completes_a_half_made_history_file(tmp_path: Path) -> None:
    """What a daemon leaves that is killed before the schema is committed."""
    (tmp_path / "history").touch()
    found = HistoryDatabase(str(tmp_path / "history"))
    found.add([entry(1.0)])
    assert times(found.find(HistoryQuery())) == [1.0]
    found.close()


def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.touch(0o644)
    found = HistoryDatabase(str(path))
    found.add([entry(1.0)])
    assert {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == dict.fromkeys(
        ("history", "history-wal", "history-shm"), 0o600
    )
    found.close()
