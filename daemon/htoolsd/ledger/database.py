"""The database of the ledger: opened, and used in transactions. Everything here blocks."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from htoolsd.ledger import schema
from htoolsd.ledger.records import ConflictError, UnavailableError
from htoolsd.ledger.urls import shown

_PATIENCE = 5  # seconds to wait for who writes, or for a server
_LONGEST = 30  # seconds of a statement


class Database:
    """A database at ``sqlite:///PATH`` or ``postgresql://...``, with the tables of this version."""

    def __init__(self, url: str) -> None:
        """Open the database, or make it. Raises UnavailableError."""
        with _errors(shown(url)):
            parsed = make_url(url)
            self._engine = _postgresql(parsed) if parsed.drivername == "postgresql" else _sqlite(parsed)
        self._name = shown(url)
        self._writing = self._engine.execution_options(writes=True)
        # All that one transaction reads is of one moment; SQLite does so anyway.
        settled = {"isolation_level": "REPEATABLE READ"} if self._engine.name == "postgresql" else {}
        self._reading = self._engine.execution_options(**settled)
        try:
            with self.reading() as connection:
                current = schema.is_current(connection)
            if not current:
                with self.writing() as connection:
                    schema.move(connection)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that reads what is there at one moment. Raises UnavailableError."""
        with _errors(self._name), self._reading.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction; nothing of it is done unless all is. Raises ConflictError, UnavailableError."""
        with _errors(self._name), self._writing.begin() as connection:
            yield connection


def _postgresql(url: URL) -> Engine:
    given = url.query.get("options", "")
    # A daemon whose machine has died must not keep others from what it had locked.
    limits = {
        "lock_timeout": _PATIENCE,
        "statement_timeout": _LONGEST,
        "idle_in_transaction_session_timeout": _LONGEST,
    }
    options = " ".join([*(f"-c {name}={seconds}s" for name, seconds in limits.items()), str(given)])
    return create_engine(
        url.set(drivername="postgresql+psycopg"),
        connect_args={"connect_timeout": _PATIENCE, "options": options},
    )


def _sqlite(url: URL) -> Engine:
    """One file, for its owner only. Raises OSError."""
    if url.database:
        os.close(os.open(url.database, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    engine = create_engine(url, connect_args={"timeout": _PATIENCE})

    @event.listens_for(engine, "connect")
    def prepare(connection, _record):  # type: ignore[no-untyped-def]
        connection.isolation_level = None  # transactions begin where we say
        _write_ahead(connection)
        for setting in ("synchronous = NORMAL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {setting}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # Who reads before writing would otherwise lose to whoever writes meanwhile.
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Have a log written ahead. SQLite does not wait for others that open the file just now; so we do."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.01)


@contextmanager
def _errors(name: str) -> Iterator[None]:
    """What goes wrong in the database becomes one of the ledger's errors."""
    try:
        yield
    except IntegrityError as error:
        raise ConflictError(f"somebody else was first: {_line(error.orig)}") from None
    except DBAPIError as error:
        if str(getattr(error.orig, "sqlstate", None)).startswith("40"):  # deadlock, serialization failure
            raise ConflictError(f"somebody else was first: {_line(error.orig)}") from None
        raise UnavailableError(f"{name}: {_line(error.orig)}") from None
    except OSError as error:
        raise UnavailableError(f"{name}: {error.strerror or error}") from None
    except (SQLAlchemyError, ImportError) as error:
        raise UnavailableError(f"{name}: {_line(error)}") from None


def _line(error: BaseException | None) -> str:
    return str(error).strip().partition("\n")[0]
