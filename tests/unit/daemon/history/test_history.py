"""Entries noted in passing, and written a moment later."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import trio

from htoolsd.history import history
from htoolsd.history.database import HistoryDatabase
from htoolsd.history.entries import HistoryEntry, HistoryQuery
from htoolsd.history.history import History
from tests.support.programs import PATIENCE
from tests.support.settings import settings
from tests.unit.daemon.history.test_database import entry, times


def on_disk(path: Path) -> list[float]:
    found = HistoryDatabase(str(path))
    told = times(found.find(HistoryQuery(most=100_000)))
    found.close()
    return told


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_PAUSE", 0.01)
    monkeypatch.setattr(history, "_RETRY", 0.01)


async def until(condition: Callable[[], object]) -> None:
    """Wait for what another thread does."""
    with trio.fail_after(PATIENCE):
        while not condition():
            await trio.sleep(0.005)


async def test_writes_noted_entries_soon(tmp_path: Path) -> None:
    path = tmp_path / "state" / "history"
    kept = History(str(path), settings(history_days=1e6, history_mib=1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.run)
        for time in (1.0, 2.0, 3.0):
            kept.note(entry(time, ["web"]))
            await until(lambda: kept.status()["waiting"] == 0)
        assert on_disk(path) == [1.0, 2.0, 3.0]
        assert (kept.status()["waiting"], kept.status()["error"]) == (0, None)
        nursery.cancel_scope.cancel()


async def test_writes_the_last_entries_at_the_end(tmp_path: Path) -> None:
    kept = History(str(tmp_path / "history"), settings(history_days=1e6, history_mib=1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.run)
        await trio.testing.wait_all_tasks_blocked()
        kept.note(entry(1.0))
        nursery.cancel_scope.cancel()
    assert on_disk(tmp_path / "history") == [1.0]


async def test_find_returns_entries_just_noted(tmp_path: Path) -> None:
    kept = History(str(tmp_path / "history"), settings(history_days=1e6, history_mib=1))
    kept.note(entry(1.0, ["web"]))
    kept.note(entry(2.0, ["mail"]))
    assert times(await kept.find(HistoryQuery(instance="web"))) == [1.0]
    assert times(await kept.find(HistoryQuery(most=1))) == [2.0]


async def test_keeps_entries_in_memory_when_the_disk_refuses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MAX_IN_MEMORY", 3)
    (tmp_path / "state").write_text("no directory")
    kept = History(str(tmp_path / "state" / "history"), settings(history_days=1e6, history_mib=1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.run)
        for time in range(5):
            kept.note(entry(float(time), ["web"]))
        await until(lambda: kept.status()["error"])
        assert times(await kept.find(HistoryQuery(instance="web"))) == [2.0, 3.0, 4.0]
        assert times(await kept.find(HistoryQuery(instance="web", most=1))) == [4.0]
        assert kept.status()["lost"] == 2
        (tmp_path / "state").unlink()
        await until(lambda: kept.status()["error"] is None)
        assert on_disk(tmp_path / "state" / "history") == [2.0, 3.0, 4.0]
        nursery.cancel_scope.cancel()


async def test_deletes_entries_that_are_too_old(tmp_path: Path) -> None:
    kept = History(str(tmp_path / "history"), settings(history_days=1.0, history_mib=1))
    kept.note(entry(5.0))
    assert await kept.find(HistoryQuery()) == []


async def test_what_a_hung_disk_writes_after_all_is_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add, hung = HistoryDatabase.add, threading.Event()

    def hang(database: HistoryDatabase, entries: Sequence[HistoryEntry]) -> None:
        hung.wait(PATIENCE)
        add(database, entries)

    monkeypatch.setattr(HistoryDatabase, "add", hang)
    kept = History(str(tmp_path / "history"), settings(history_days=1e6, history_mib=1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.run)
        kept.note(entry(1.0))
        await trio.testing.wait_all_tasks_blocked()
        kept.note(entry(2.0))
        nursery.cancel_scope.cancel()
        hung.set()
    assert on_disk(tmp_path / "history") == [1.0, 2.0]
