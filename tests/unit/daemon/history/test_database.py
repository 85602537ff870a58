"""The history on disk."""

import random
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import structlog
import trio
from hypothesis import given
from hypothesis import strategies as st

from htoolsd.history import database
from htoolsd.history.database import HistoryDatabase, NewerError, Sample
from htoolsd.history.entries import HistoryEntry, HistoryQuery
from htoolsd.history.history import History
from tests.support.seeds import few
from tests.support.settings import settings


@dataclass(frozen=True, slots=True)
class SomeEntry(HistoryEntry):
    """An entry with these details; None: they cannot be computed."""

    kind = "call"
    document: dict[str, Any] | None

    def details(self) -> dict[str, Any]:
        if self.document is None:
            raise RuntimeError("no document")
        return self.document


def entry(time: float, instances: Sequence[str] = (), nodes: Sequence[str] = (), **more: Any) -> HistoryEntry:
    names = {"instances": list(instances), "nodes": list(nodes)}
    return SomeEntry(time, dict(method="claim", arguments={}, by=None, **names, **more))


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
    names = {"instances": ["web"], "nodes": ["node1"]}
    facts: dict[str, Any] = {"method": "claim", "arguments": {}, "by": None, "score": 0.5, "refusal": None}
    assert again.find(HistoryQuery()) == [{"time": 1.0, "kind": "call", **facts, **names}]
    again.close()


NAMES = st.sampled_from(["web", "web.org", "web.org.net", "web/org", "web-2", "we", "mail"])
ENTRIES = st.lists(
    st.builds(
        entry,
        st.integers(0, 5).map(float),
        st.lists(NAMES, max_size=2),
        st.lists(NAMES, max_size=2),
        id=st.none() | NAMES,
    ),
    max_size=8,
)


@given(
    ENTRIES,
    st.builds(
        HistoryQuery,
        st.none() | NAMES,
        st.none() | NAMES,
        st.integers(0, 5).map(float),
        st.integers(1, 4),
        st.none() | NAMES,
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


def test_samples_are_kept_for_their_own_time_only(opened: HistoryDatabase) -> None:
    first, last = Sample(5, "a", "memory", 1.0, 9.0), Sample(6, "a", "memory", 2.0, 9.0)
    opened.add_samples([last, Sample(4, "a", "memory", 1.0, 9.0)], 5)
    opened.add_samples([first, last._replace(free=7.0)], 5)
    opened.forget(1e12, 0)
    assert opened.samples() == [first, last]


def test_history_without_samples_gets_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(database, "_VERSIONS", database._VERSIONS[:1])
        before = HistoryDatabase(str(tmp_path / "history"))
        before.add([entry(1.0)])
        before.close()
    found = HistoryDatabase(str(tmp_path / "history"))
    found.add_samples([Sample(5, "a", "memory", 1.0, 9.0)], 0)
    assert (times(found.find(HistoryQuery())), len(found.samples())) == ([1.0], 1)
    found.close()


def test_writes_a_batch_completely_or_not_at_all(opened: HistoryDatabase) -> None:
    with pytest.raises(RuntimeError):
        opened.add([entry(1.0), SomeEntry(2.0, None)])
    assert opened.find(HistoryQuery()) == []


def test_renames_a_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "history").write_bytes(b"no database" * 1000)
    found = HistoryDatabase(str(tmp_path / "history"))
    found.add([entry(1.0)])
    assert times(found.find(HistoryQuery())) == [1.0]
    found.close()
    (aside,) = tmp_path.glob("history.damaged-*")
    assert aside.read_bytes().startswith(b"no database")


SPOILT = b"\0", b"\xff", b"\xd7\x01"  # the bytes that a page is filled with
MANY = 60  # entries, some of which need several pages


def filled(path: Path) -> bytes:
    """Write a history of some pages, and return the file."""
    found = HistoryDatabase(str(path))
    found.add([entry(float(time), ["web"], ["node1"], text="x" * (time * 200)) for time in range(MANY)])
    found.forget(10.0, 1 << 30)
    found.add_samples([Sample(day, "default", "memory", 1.0, 9.0) for day in range(MANY)], 0)
    found.close()
    return path.read_bytes()


def use(path: Path) -> int:
    """Use the history as the daemon does, and return how many of the old entries it still has."""
    kept = History(str(path), settings(history_days=1e6, history_mib=1))

    async def query(**wanted: Any) -> list[float]:
        return times(await kept.find(HistoryQuery(most=1000, **wanted)))

    async def run() -> int:
        await query()
        for time in (1000.0, 1001.0):
            kept.note(entry(time, ["web"], ["node1"]))
            assert (await query(instance="web"))[-1] == time
        assert (await query(node="node1"))[-2:] == [1000.0, 1001.0]
        assert all(isinstance(each.free, float) for each in await kept.samples() or ())
        error = kept.status()["error"]  # damage that looks like another state of the file is left alone
        assert error is None or "newer htoolsd" in error or "readonly" in error, error
        return len(await query()) - 2

    return trio.run(run)


def pages(content: bytes) -> list[Any]:
    size = int.from_bytes(content[16:18])
    return [(start, size) for start in range(0, len(content), size)]


@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=pytest.mark.long if part else ()) for part in range(8)]
)
def test_damaged_pages_are_left_out_and_the_rest_is_kept(tmp_path: Path, part: int) -> None:
    content = filled(tmp_path / "whole")
    with closing(sqlite3.connect(tmp_path / "whole")) as whole:
        (root,) = whole.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'entries'").fetchone()
    roots = {0, pages(content)[root - 1][0]}  # without these pages nothing else is found
    cases = [(page, fill) for page in pages(content) for fill in SPOILT]
    for number, ((start, size), fill) in enumerate(cases[part::16]):
        for length in (size, 40):  # the whole page, or its header
            path = tmp_path / f"{number}-{length}" / "history"
            path.parent.mkdir()
            spoilt = bytearray(content)
            first = start + (100 if not start and length < size else 0)  # after the header of the file
            spoilt[first : first + length] = (fill * length)[:length]
            path.write_bytes(spoilt)
            left = use(path)
            assert left > 20 or start in roots, (start, fill, length)


@pytest.mark.parametrize("seed", few(range(15), 1000))
def test_damaged_bytes_end_nothing(tmp_path: Path, seed: range) -> None:
    content = filled(tmp_path / "whole")
    for number in seed:
        chance = random.Random(number)
        spoilt = bytearray(content)
        for _ in range(chance.choice((1, 1, 3, 30))):
            spoilt[chance.randrange(chance.choice((100, 4096, len(spoilt))))] = chance.randrange(256)
        path = tmp_path / f"{number}" / "history"
        path.parent.mkdir()
        path.write_bytes(spoilt[: chance.choice((len(spoilt), len(spoilt), chance.randrange(len(spoilt))))])
        use(path)


@pytest.mark.parametrize(
    "document", ["{", b"\xff", "[]", "null", 7, '{"kind": []}', '{"kind": "plan"}', '{"kind": "lost"}']
)
def test_leaves_out_damaged_entries(tmp_path: Path, opened: HistoryDatabase, document: object) -> None:
    opened.add([entry(1.0), entry(2.0), entry(3.0)])
    opened.close()
    with closing(sqlite3.connect(tmp_path / "history")) as spoilt, spoilt:
        spoilt.execute("UPDATE entries SET document = ? WHERE number = 2", [document])
    with structlog.testing.capture_logs() as logs:
        again = HistoryDatabase(str(tmp_path / "history"))
        for _ in range(2):
            assert times(again.find(HistoryQuery(most=2))) == [1.0, 3.0]
        again.close()
    (line,) = logs
    assert (line["event"], line["number"]) == ("entry of the history is damaged; it is left out", 2)
    assert again.damaged == {2}


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
