"""The database of the ledger: opened, moved to this program's schema, used in transactions.

All calls block. A PostgreSQL server limits statements and waits for locks itself. Another thread can
interrupt a call, because a frozen server limits nothing.
"""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from socket import SHUT_RDWR, socket
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from ganeti_htools import machine
from ganeti_htools.files import make_private_database
from ganeti_htools.model.errors import DataError
from htoolsd.config.ledger import check_address, display_url, is_file
from htoolsd.damaged_files import is_damage
from htoolsd.store.records import ConflictError, DamagedError, UnavailableError

VERSION = "0003"  # the last one in versions/
VERSION_TABLE = "ledger_version"
_VERSIONS = Path(__file__).parent / "versions"
_PATIENCE = 5  # seconds to wait for another writer, or for a server
_LONGEST = 30  # seconds of a statement
# A machine that is gone is noticed within so many seconds, even when nothing else limits the wait.
_KEEPALIVES = {
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # milliseconds
}
_MIGRATION_LOCK = 0x68746F6F6C7364  # number of a PostgreSQL advisory lock that only htoolsd takes


class LedgerDatabase:
    """A database at ``sqlite:///PATH`` or ``postgresql://...``, with the tables of this version."""

    def __init__(self, url: str) -> None:
        """Open the database, or create it. Raises UnavailableError."""
        with _ledger_errors(display_url(url)):
            if not is_file(url):
                try:
                    check_address(url)
                except DataError as error:
                    raise UnavailableError(f"{display_url(url)}: {error}") from None
            parsed = make_url(url)
            self._engine = _postgresql(parsed) if parsed.drivername == "postgresql" else _sqlite(parsed)
        self._name = display_url(url)
        self._sockets = _Sockets(self._engine) if parsed.drivername == "postgresql" else None
        self._path = parsed.database if self._sockets is None else None
        self._file = _file_at(self._path) if self._path else None
        self._writing = self._engine.execution_options(writes=True)
        # A transaction sees the database at one moment; SQLite ensures that anyway.
        isolation = {"isolation_level": "REPEATABLE READ"} if self._engine.name == "postgresql" else {}
        self._reading = self._engine.execution_options(**isolation)
        try:
            with self.reading() as connection:
                current = is_current(connection)
            if not current:
                with _ledger_errors(self._name), self._writing.begin() as connection:
                    migrate(connection)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def interrupt(self) -> None:
        """End the connections to the server. A call that waits in another thread fails at once."""
        if self._sockets is not None:
            self._sockets.shut_down()

    def check_file(self) -> None:
        """Raise UnavailableError if the file has been removed or replaced since it was opened."""
        if self._path and _file_at(self._path) != self._file:
            raise UnavailableError(f"{self._name}: removed or replaced while htoolsd was using it")

    def mark(self) -> object:
        """Return what differs after each write to the file, by any program; of a server, each time.

        Raises UnavailableError.
        """
        if self._sockets is not None:
            return object()
        with _ledger_errors(self._name), closing(self._engine.raw_connection()) as pooled:
            connection: Any = pooled.driver_connection
            return connection, connection.total_changes, *connection.execute("PRAGMA data_version").fetchone()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction that reads the database at one moment. Raises UnavailableError."""
        with _ledger_errors(self._name), self._reading.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction that writes all or nothing. Raises ConflictError, UnavailableError.

        Another daemon of a newer version may have migrated the database meanwhile; then nothing is written.
        """
        with _ledger_errors(self._name), self._writing.begin() as connection:
            if self._sockets is not None:  # no migration until the transaction has ended
                connection.execute(text(f"SELECT pg_advisory_xact_lock_shared({_MIGRATION_LOCK})"))
            check_version(connection)
            yield connection


def check_server(url: str) -> None:
    """Connect to a server, and change nothing there.

    Raises DataError for an address that cannot work, UnavailableError for a server that cannot be used now.
    """
    try:
        import psycopg.conninfo

        engine = _postgresql(make_url(url))
        _, parameters = engine.dialect.create_connect_args(engine.url)
        psycopg.conninfo.make_conninfo(**{**parameters, "context": None})
    except ImportError as error:
        raise DataError(f"PostgreSQL needs psycopg (python3-psycopg): {error}") from None
    except psycopg.ProgrammingError as error:  # a parameter that does not exist
        raise DataError(_first_line(error)) from None
    try:
        with _ledger_errors(display_url(url)), engine.connect() as connection:
            is_current(connection)
    finally:
        engine.dispose()


def schema_version(connection: Connection) -> str | None:
    """Return the schema version of the database, None for an empty one."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))
    return None if found is None else str(found)


def is_current(connection: Connection) -> bool:
    """Whether the database has this program's schema version.

    Raises UnavailableError if it has a newer or an unknown one.
    """
    found = schema_version(connection)
    if found is None:
        return False
    if found.isdecimal() and int(found) > int(VERSION):
        raise UnavailableError(
            f"ledger: schema version {found} is newer than this htoolsd ({VERSION}); install a newer htoolsd"
        )
    if found not in {path.name.partition("_")[0] for path in _VERSIONS.glob("*_*.py")}:
        raise UnavailableError(
            f"ledger: schema version {found[:40]!r} is unknown; expected one of htoolsd, up to {VERSION}"
        )
    return found == VERSION


def check_version(connection: Connection) -> None:
    """Raise UnavailableError if a newer program has upgraded the database since it was opened."""
    if connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}")) != VERSION:
        is_current(connection)


def migrate(connection: Connection, versions: Path = _VERSIONS) -> None:
    """Create the schema, or move it to the last of the versions, in a transaction of the caller.

    Several programs may call it at once: the first migrates. (SQLite lets only one transaction write.)
    """
    from alembic.migration import MigrationContext  # rarely needed, slow to import
    from alembic.operations import Operations
    from alembic.script import ScriptDirectory

    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _MIGRATION_LOCK})
    scripts = ScriptDirectory(str(versions), version_locations=[str(versions)])
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    steps = list(scripts.iterate_revisions("head", schema_version(connection) or "base"))
    for step in reversed(steps):
        step.module.upgrade(Operations(context))
        context.stamp(scripts, step.revision)


def _postgresql(url: URL) -> Engine:
    given = url.query.get("options", "")
    # A daemon whose machine has died must not keep its locks.
    limits = {
        "lock_timeout": _PATIENCE,
        "statement_timeout": _LONGEST,
        "idle_in_transaction_session_timeout": _LONGEST,
    }
    options = " ".join([*(f"-c {name}={seconds}s" for name, seconds in limits.items()), str(given)])
    connect_args = {name: value for name, value in _KEEPALIVES.items() if name not in url.query}
    return create_engine(
        url.set(drivername="postgresql+psycopg"),
        connect_args={**connect_args, "connect_timeout": _PATIENCE, "options": options},
    )


def _sqlite(url: URL) -> Engine:
    """Open one file that only its owner can read. Raises OSError."""
    if url.database:
        make_private_database(url.database)
    engine = create_engine(url, connect_args={"timeout": _PATIENCE})

    @event.listens_for(engine, "connect")
    def prepare(connection, _record):  # type: ignore[no-untyped-def]
        connection.isolation_level = None  # the listener below begins transactions
        try:
            _set_write_ahead_log(connection)
            for setting in ("synchronous = NORMAL", "foreign_keys = ON"):
                connection.execute(f"PRAGMA {setting}")
        except sqlite3.Error:
            connection.close()  # SQLAlchemy leaves that to the garbage collector
            raise

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that reads before it writes would otherwise fail when another one writes in between.
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _set_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch to a write-ahead log.

    SQLite does not wait for programs that open the file now; this function does.
    """
    end = machine.steady() + _PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or machine.steady() > end:
                raise
            machine.sleep(0.01)


class _Sockets:
    """The sockets of an engine's connections. They are copies, so another thread can use them safely."""

    def __init__(self, engine: Engine) -> None:
        self._copies = dict[Any, socket]()  # by connection
        self._lock = threading.Lock()
        event.listen(engine, "connect", self._add)
        event.listen(engine, "close", self._remove)

    def _add(self, connection, _record) -> None:  # type: ignore[no-untyped-def]
        with self._lock:
            self._copies[connection] = socket(fileno=os.dup(connection.fileno()))

    def _remove(self, connection, _record) -> None:  # type: ignore[no-untyped-def]
        with self._lock:
            self._copies.pop(connection).close()

    def shut_down(self) -> None:
        with self._lock:
            for each in self._copies.values():
                with suppress(OSError):  # it has ended already
                    each.shutdown(SHUT_RDWR)


def _file_at(path: str) -> tuple[int, int] | None:
    """Return the device and inode of a file, None without a file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def _ledger_errors(name: str) -> Iterator[None]:
    """Turn errors of the database into those of the ledger."""
    try:
        yield
    except IntegrityError as error:
        raise ConflictError(f"another client wrote at the same time: {_first_line(error.orig)}") from None
    except DBAPIError as error:
        if str(getattr(error.orig, "sqlstate", None)).startswith("40"):  # deadlock, serialization failure
            raise ConflictError(f"another client wrote at the same time: {_first_line(error.orig)}") from None
        damaged = isinstance(error.orig, sqlite3.Error) and is_damage(error.orig)
        raise (DamagedError if damaged else UnavailableError)(f"{name}: {_first_line(error.orig)}") from None
    except OSError as error:
        raise UnavailableError(f"{name}: {error.strerror or error}") from None
    except (SQLAlchemyError, ImportError) as error:
        raise UnavailableError(f"{name}: {_first_line(error)}") from None
    except (TypeError, ValueError, ArithmeticError) as error:  # of values that no htoolsd has written
        raise DamagedError(f"{name}: unusable content: {_first_line(error)}") from None


def _first_line(error: BaseException | None) -> str:
    return str(error).strip().partition("\n")[0]
