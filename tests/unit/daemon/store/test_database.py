"""The ledger's database: opening, creation, migration, and failures."""

import shutil
import sqlite3
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text

from ganeti_htools.model.inventory import Inventory
from htoolsd.store import database as ledger_database
from htoolsd.store.claiming import claim
from htoolsd.store.database import LedgerDatabase
from htoolsd.store.generations import raise_generations
from htoolsd.store.ledger import Ledger
from htoolsd.store.records import (
    ConflictError,
    Consumer,
    LedgerChanges,
    LedgerEntry,
    Provider,
    UnavailableError,
)
from htoolsd.store.tables import metadata
from tests.support.ledgers import standing
from tests.support.postgresql import Server
from tests.support.programs import wait_until

VERSIONS = Path(ledger_database.__file__).parent / "versions"
NEXT = """
import sqlalchemy as sa

revision = "9999"
down_revision = "{last}"


def upgrade(op):
    op.add_column("consumers", sa.Column("owner", sa.String(10), server_default="nobody", nullable=False))
"""
WEB = Consumer("web", "c/web", "instance")
MEMORY = LedgerChanges(
    providers=(Provider("node", "c/node"),),
    inventories={"node": {"MEMORY_MB": Inventory(100)}},
    allocations=(LedgerEntry(WEB, {"node": {"MEMORY_MB": 10}}),),
)


@pytest.fixture
def database(ledger_url: str) -> Iterator[LedgerDatabase]:
    found = LedgerDatabase(ledger_url)
    yield found
    found.close()


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Ledger]:
    """A ledger in a file."""
    with closing(Ledger(sqlite_url(tmp_path / "ledger"))) as ledger:
        ledger.apply(MEMORY)
        yield ledger


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{path}"


def test_program_knows_the_last_schema_version() -> None:
    scripts = ScriptDirectory(str(VERSIONS), version_locations=[str(VERSIONS)])
    assert scripts.get_current_head() == ledger_database.VERSION


def test_migrations_create_the_declared_tables(database: LedgerDatabase) -> None:
    with database.reading() as connection:
        options = {"version_table": ledger_database.VERSION_TABLE, "compare_type": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []


def test_older_schema_is_migrated_and_keeps_its_rows(ledger_url: str, tmp_path: Path) -> None:
    ledger = Ledger(ledger_url)
    ledger.apply(MEMORY)
    ledger.close()
    newer = tmp_path / "versions"
    shutil.copytree(VERSIONS, newer)
    (newer / "9999_next.py").write_text(NEXT.format(last=ledger_database.VERSION))
    database = LedgerDatabase(ledger_url)
    with database.writing() as connection:
        ledger_database.migrate(connection, newer)
        assert ledger_database.schema_version(connection) == "9999"
        assert connection.execute(text("SELECT name, owner FROM consumers")).all() == [("c/web", "nobody")]
    database.close()
    with pytest.raises(UnavailableError, match=r"schema version 9999 is newer than this htoolsd \(0003\)"):
        Ledger(ledger_url)


def test_nothing_is_written_after_a_newer_daemon_has_migrated(ledger_url: str) -> None:
    older, newer = Ledger(ledger_url), LedgerDatabase(ledger_url)
    older.apply(MEMORY)
    with newer.writing() as connection:
        connection.execute(text(f"UPDATE {ledger_database.VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(UnavailableError, match="9999 is newer than this htoolsd"):
        older.apply(MEMORY)
    older.close()
    newer.close()


def test_inventories_of_the_first_schema_are_in_no_tag(ledger_url: str, tmp_path: Path) -> None:
    first = tmp_path / "versions"
    first.mkdir()
    shutil.copy(VERSIONS / "0001_first.py", first)
    engine = create_engine(ledger_url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        ledger_database.migrate(connection, first)
        for row in (
            "resource_providers VALUES (1, 'node', 'c/node', 7, true)",
            "resource_classes VALUES (1, 'CUSTOM_GPU')",
            "inventories VALUES (1, 1, 1, 4, 1, 1, NULL, 1, 1.0)",
        ):
            connection.execute(text(f"INSERT INTO {row}"))
    engine.dispose()
    ledger = Ledger(ledger_url)
    assert standing(ledger, "node").inventories == {"CUSTOM_GPU": Inventory(4, 1)}
    ledger.close()


def test_concurrent_openers_create_the_schema_once(ledger_url: str) -> None:
    begin, opened = threading.Barrier(6), list[Ledger | Exception]()

    def work() -> None:
        begin.wait()
        try:
            opened.append(Ledger(ledger_url))
        except Exception as error:
            opened.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for ledger in opened:
        assert isinstance(ledger, Ledger), ledger
        assert ledger.providers() == ()
        ledger.close()


@pytest.mark.parametrize("lock", ["IMMEDIATE", "EXCLUSIVE"])
def test_waits_for_another_program_that_creates_the_file(tmp_path: Path, lock: str) -> None:
    path = tmp_path / "ledger"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE begun (it)")
    other.execute(f"BEGIN {lock}")
    timer = threading.Timer(0.3, other.close)
    timer.start()
    Ledger(sqlite_url(path)).close()
    timer.join()


def test_two_files_are_created_at_once(tmp_path: Path) -> None:
    """Independent threads create them."""
    begin = threading.Barrier(8)

    def made(number: int) -> None:
        begin.wait()
        Ledger(sqlite_url(tmp_path / str(number))).close()

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(made, range(8))) == [None] * 8


def test_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    (tmp_path / "ledger").touch(0o644)
    with closing(Ledger(sqlite_url(tmp_path / "ledger"))) as ledger:
        ledger.apply(MEMORY)
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
        assert modes == {"ledger": 0o600, "ledger-wal": 0o600, "ledger-shm": 0o600}


@pytest.mark.parametrize("version", ["abc", "0000", 1, None])
def test_unknown_schema_version_is_one_error(tmp_path: Path, version: object) -> None:
    Ledger(sqlite_url(tmp_path / "ledger")).close()
    with sqlite3.connect(tmp_path / "ledger") as connection:
        connection.execute("DROP TABLE ledger_version")
        connection.execute("CREATE TABLE ledger_version (version_num)")
        connection.execute("INSERT INTO ledger_version VALUES (?)", [version])
    connection.close()
    error = "already exists" if version is None else f"schema version '{version}' is unknown; expected one of"
    with pytest.raises(UnavailableError, match=error):
        Ledger(sqlite_url(tmp_path / "ledger"))


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
def test_unusable_values_are_one_error(
    tmp_path: Path, filled: Ledger, table: str, column: str, value: object
) -> None:
    with sqlite3.connect(tmp_path / "ledger") as connection:
        connection.execute(f"UPDATE {table} SET {column} = ?", [value])
    connection.close()
    with pytest.raises(UnavailableError, match="unusable content: "):
        filled.snapshot()


def test_nan_in_a_table_of_a_server_is_one_error(postgresql: Server) -> None:
    url = postgresql.database()
    ledger = Ledger(url)
    ledger.apply(MEMORY)
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE inventories SET allocation_ratio = 'NaN'")
    with pytest.raises(UnavailableError, match="inventory of MEMORY_MB: expected numbers, got "):
        ledger.snapshot()
    ledger.close()


@pytest.mark.parametrize(
    "url", ["postgresql://h:secret/d", "postgresql://[::1/d", "nonsense", "postgresql://h:99999/d"]
)
def test_address_that_is_none_is_one_error(url: str) -> None:
    with pytest.raises(UnavailableError) as refused:
        Ledger(url)
    assert "secret" not in str(refused.value)


def test_unavailable_when_file_cannot_be_opened(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing" / "ledger"):
        with pytest.raises(UnavailableError, match=rf"^{path}: [^\n]+$"):
            Ledger(sqlite_url(path))


def test_unavailable_when_file_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(UnavailableError, match=rf"^{path}: file is not a database$"):
        Ledger(sqlite_url(path))
    assert path.read_bytes().startswith(b"no database")


def test_unavailable_when_file_is_damaged(tmp_path: Path, filled: Ledger) -> None:
    path = tmp_path / "ledger"
    filled.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    malformed = pytest.raises(UnavailableError, match=rf"^{path}: [^\n]*malformed")
    with malformed, closing(Ledger(sqlite_url(path))) as damaged:
        damaged.snapshot()


def test_unavailable_when_disk_is_full(filled: Ledger) -> None:
    with filled.reading() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")  # of this connection, which is used again
    many = tuple(
        LedgerEntry(Consumer(f"{n}", "c" * 500, "instance"), {"node": {"MEMORY_MB": 1}}) for n in range(500)
    )
    with pytest.raises(UnavailableError, match=r"database or disk is full$"):
        filled.apply(LedgerChanges(allocations=many))
    assert standing(filled, "node").used == {"MEMORY_MB": 10}


def test_unavailable_when_disk_is_read_only(filled: Ledger) -> None:
    before = filled.snapshot()
    with filled.reading() as connection:
        connection.exec_driver_sql("PRAGMA query_only = ON")
    with pytest.raises(UnavailableError, match=r"attempt to write a readonly database$"):
        filled.apply(MEMORY)
    assert filled.snapshot() == before


def test_unavailable_when_database_stays_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("htoolsd.store.database._PATIENCE", 0)
    ledger = Ledger(sqlite_url(tmp_path / "ledger"))
    other = sqlite3.connect(tmp_path / "ledger", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(UnavailableError, match="database is locked"):
        ledger.apply(MEMORY)
    other.execute("ROLLBACK")
    ledger.apply(MEMORY)
    other.close()
    ledger.close()


def test_unavailable_when_server_ends_the_connection(postgresql: Server) -> None:
    url = postgresql.database()
    ledger = Ledger(url)
    ledger.apply(MEMORY)
    with psycopg.connect(url, autocommit=True) as other:
        others = "backend_type = 'client backend' AND pid <> pg_backend_pid()"
        ended = "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE"
        # A thread of an earlier test, which gave up a frozen server, may be just about to close its own.
        assert set(other.execute(f"{ended} {others}".encode()).fetchall()) == {(True,)}
    with pytest.raises(UnavailableError, match=r"^postgresql://[^\n]*$"):
        ledger.providers()
    assert standing(ledger, "node").used == {"MEMORY_MB": 10}
    ledger.close()


def waiting(url: str) -> bool:
    """Whether a transaction waits for a lock."""
    with psycopg.connect(url) as other:
        found = other.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        return found.fetchone() != (0,)


def test_second_writer_of_a_new_consumer_gets_a_conflict(postgresql: Server) -> None:
    url = postgresql.database()
    first, second = Ledger(url), Ledger(url)
    with ThreadPoolExecutor() as threads:
        with first.writing() as connection:
            claim(connection, WEB, {}, {}, {}, over_capacity=False)
            late = threads.submit(second.claim, WEB, {}, {})
            wait_until(partial(waiting, url))
        with pytest.raises(ConflictError, match=r"^another client wrote at the same time: [^\n]+$"):
            late.result()
    assert [each.generation for each in first.consumers()] == [1]
    first.close()
    second.close()


def test_deadlock_is_a_conflict(postgresql: Server) -> None:
    """One of the transactions is refused as a conflict."""
    url = postgresql.database()
    ledger = Ledger(url)
    ledger.apply(LedgerChanges(providers=(Provider("a", "c/a"), Provider("b", "c/b"))))
    both = threading.Barrier(2)

    def crossing(first: int, second: int) -> None:
        database = LedgerDatabase(url)
        try:
            with database.writing() as connection:
                raise_generations(connection, [first])
                both.wait()
                raise_generations(connection, [second])
        finally:
            database.close()

    with ThreadPoolExecutor() as threads:
        ends = [threads.submit(crossing, 1, 2).exception, threads.submit(crossing, 2, 1).exception]
        errors = [error for end in ends if (error := end()) is not None]
    assert [type(error) for error in errors] == [ConflictError]
    assert [each.generation for each in ledger.providers()] == [2, 2]
    ledger.close()


def test_unavailable_when_driver_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UnavailableError, match=r"^postgresql://h/d: .*psycopg"):
        Ledger("postgresql://h/d")


def test_unavailable_when_server_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"^postgresql://u:\*\*\*@[^\n]+$") as failed:
        Ledger(f"postgresql://u:secret@/ledger?host={tmp_path}")
    assert "secret" not in str(failed.value)
