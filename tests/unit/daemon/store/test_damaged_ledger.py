"""A damaged ledger is set aside, and begun anew with what can be read."""

import sqlite3
from contextlib import closing, suppress
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio

from ganeti_htools.model.inventory import Inventory
from htoolsd.damaged_files import files_set_aside
from htoolsd.store.ledger import Ledger
from htoolsd.store.records import (
    Consumer,
    LedgerChanges,
    LedgerError,
    LedgerSnapshot,
    Provider,
    UnavailableError,
)
from htoolsd.store.worker import LedgerWorker
from tests.support.seeds import parts
from tests.support.workers import close

NODES = tuple(Provider(f"node{number}", f"c/node{number}") for number in range(60))
INVENTORIES = {each.uuid: {"VCPU": Inventory(8), "CUSTOM_GPU": Inventory(4, reserved=1)} for each in NODES}
PAGE = 4096


def filled(path: Path) -> bytes:
    """Write a ledger of several pages, and return the file."""
    with closing(Ledger(f"sqlite:///{path}")) as ledger:
        ledger.apply(LedgerChanges(providers=NODES, inventories=INVENTORIES))
        for each in NODES:
            ledger.claim(
                Consumer(f"on-{each.uuid}", f"c/{each.name}/x", "claim"), {each.uuid: {"VCPU": 2}}, {}
            )
    return path.read_bytes()


def use(path: Path) -> LedgerSnapshot | None:
    """Use the ledger as the daemon does, and return it; None if it cannot be used."""

    async def run() -> LedgerSnapshot | None:
        worker, found = LedgerWorker(f"sqlite:///{path}"), None
        for number in range(3):
            with suppress(LedgerError):
                await worker.do(lambda ledger: ledger.expiring())
                await worker.do(lambda ledger: ledger.consumers())
                changes = LedgerChanges(providers=(Provider(f"new{number}", f"c/new{number}"),))
                await worker.do(methodcaller("apply", changes))
                found = await worker.do(lambda ledger: ledger.snapshot())
                assert f"new{number}" in found.providers
        await close(worker)
        return found

    return trio.run(run)


@pytest.mark.parametrize("some", parts(96, 12))
def test_damaged_pages_end_nothing(tmp_path: Path, some: range, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("htoolsd.store.worker._REST", 0.0)
    content = filled(tmp_path / "whole")
    kept = []
    for number in some:
        start = number // 3 * PAGE % len(content)
        length, fill = [(PAGE, b"\0"), (PAGE, b"\xd7"), (40, b"\xff")][number % 3]
        path = tmp_path / str(number) / "ledger.sqlite"
        path.parent.mkdir()
        path.write_bytes(content[:start] + fill * length + content[start + length :])
        found = use(path)
        assert found is not None, (start, length, fill)
        kept.append(len(found.inventories))
    assert max(kept) == len(NODES)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("inventories", "allocation_ratio", float("inf")),
        ("inventories", "total", "many"),
        ("allocations", "used", "much"),
        ("resource_providers", "generation", "old"),
        ("consumers", "generation", b"new"),
    ],
)
def test_rows_with_damaged_values_are_left_out(
    tmp_path: Path, table: str, column: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("htoolsd.store.worker._REST", 0.0)
    path = tmp_path / "ledger.sqlite"
    filled(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE id = 7", [value])
    with structlog.testing.capture_logs() as logs:
        found = use(path)
    assert found is not None
    assert len(found.inventories) >= len(NODES) - 1
    assert len(found.consumers) >= len(NODES) - 1
    (aside,) = files_set_aside(str(tmp_path))
    assert [line["copy"] for line in logs if line["event"] == "ledger is damaged; a new one is begun"] == [
        aside
    ]


async def test_defect_of_the_program_sets_nothing_aside(tmp_path: Path) -> None:
    filled(tmp_path / "ledger.sqlite")
    worker = LedgerWorker(f"sqlite:///{tmp_path / 'ledger.sqlite'}")

    def defect(ledger: Ledger) -> None:
        with ledger.reading():
            raise ValueError("of ours")

    with pytest.raises(UnavailableError, match="unusable content"):
        await worker.do(defect)
    assert files_set_aside(str(tmp_path)) == []
    await close(worker)
