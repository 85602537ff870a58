"""The history on disk: an SQLite database. All functions block and are for one thread at a time."""

import os
import sqlite3
import time
from collections.abc import Sequence

import orjson
import structlog

from ganeti_htools.files import make_private_database
from ganeti_htools.model.errors import HtoolsError
from htoolsd.history.entries import Document, HistoryEntry, HistoryQuery

_log = structlog.get_logger()

# Each makes the next version of the schema from the one before.
_VERSIONS = (
    """
    CREATE TABLE entries (number INTEGER PRIMARY KEY, time REAL NOT NULL, document BLOB NOT NULL);
    CREATE INDEX entries_by_time ON entries (time);
    CREATE TABLE names (
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        entry INTEGER NOT NULL REFERENCES entries ON DELETE CASCADE,
        PRIMARY KEY (kind, name, entry)
    ) WITHOUT ROWID;
    CREATE INDEX names_by_entry ON names (entry);
    """,
)
NAMES = ("instances", "nodes")  # keys of an entry's JSON, for queries
_PATIENCE = 5.0  # seconds to wait for a reader of the file
_SHARE = 10  # one of so many entries is deleted at a time when the file is too large


class NewerError(HtoolsError):
    """The history was written by a newer program."""


class HistoryDatabase:
    """The history in a file. The methods raise sqlite3.Error."""

    def __init__(self, path: str) -> None:
        """Open or create the file. A damaged file is renamed. Also raises NewerError."""
        try:
            self._connection = _open(path)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            copy = f"{path}.damaged-{time.strftime('%Y%m%dT%H%M%S')}"
            _log.error("history is damaged; a new one is begun", error=str(error), copy=copy)
            try:
                os.replace(path, copy)
            except OSError as unmovable:
                raise sqlite3.OperationalError(unmovable.strerror) from None
            self._connection = _open(path)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def add(self, entries: Sequence[HistoryEntry]) -> None:
        """Write entries, all or none."""
        with self._connection as transaction:
            for entry in entries:
                document = entry.to_json()
                row = entry.time, orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY, default=str)
                query = "INSERT INTO entries (time, document) VALUES (?, ?)"
                number = transaction.execute(query, row).lastrowid
                names = [(kind, name, number) for kind in NAMES for name in set(document[kind])]
                transaction.executemany("INSERT INTO names VALUES (?, ?, ?)", names)

    def find(self, query: HistoryQuery) -> list[Document]:
        """Return the entries of a query, in order (:meth:`.HistoryQuery.matches`)."""
        terms, parameters = ["time >= ?"], list[object]([query.since])
        for kind, name in zip(NAMES, (query.instance, query.node), strict=True):
            if name is not None:
                # "/" follows "." in the order of characters, so this range has the names with "NAME.".
                named = "SELECT entry FROM names WHERE kind = ? AND (name = ? OR name > ? AND name < ?)"
                terms.append(f"number IN ({named})")
                parameters += [kind, name, f"{name}.", f"{name}/"]
        statement = f"SELECT document FROM entries WHERE {' AND '.join(terms)} ORDER BY number DESC LIMIT ?"
        rows = self._connection.execute(statement, [*parameters, query.most]).fetchall()
        return [orjson.loads(document) for (document,) in reversed(rows)]

    def forget(self, before: float, largest: int) -> None:
        """Delete entries before a time, and the oldest while the file has more than ``largest`` bytes."""
        with self._connection as transaction:
            transaction.execute("DELETE FROM entries WHERE time < ?", [before])
        while self._used() > largest and (count := self._one("SELECT count(*) FROM entries")):
            with self._connection as transaction:
                oldest = "SELECT number FROM entries ORDER BY number LIMIT ?"
                share = -(-count // _SHARE)
                transaction.execute(f"DELETE FROM entries WHERE number IN ({oldest})", [share])
        self._connection.executescript("PRAGMA incremental_vacuum")  # execute() would free one page

    def _used(self) -> int:
        pages = self._one("PRAGMA page_count") - self._one("PRAGMA freelist_count")
        return pages * self._one("PRAGMA page_size")

    def _one(self, query: str) -> int:
        return int(self._connection.execute(query).fetchone()[0])


def _open(path: str) -> sqlite3.Connection:
    """Return the database, upgraded to the newest version. Only its owner can read it.

    Raises sqlite3.Error, NewerError.
    """
    try:
        make_private_database(path)
    except OSError as error:
        raise sqlite3.OperationalError(error.strerror) from None
    connection = sqlite3.connect(path, timeout=_PATIENCE, check_same_thread=False)
    try:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version > len(_VERSIONS):
            raise NewerError(f"{path} was written by a newer htoolsd; upgrade this one")
        for number, statements in enumerate(_VERSIONS[version:], version + 1):
            connection.executescript(f"BEGIN; {statements} PRAGMA user_version = {number}; COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection
