"""The history on disk: an SQLite database. All functions block and are for one thread at a time."""

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import orjson
import structlog

from ganeti_htools.files import make_private_database
from ganeti_htools.model.errors import DataError, HtoolsError
from htoolsd.damaged_files import DATABASE_ERRORS, is_damage, open_to_read, readable_rows, set_aside
from htoolsd.history.entries import Document, HistoryEntry, HistoryQuery, document_from_bytes

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
    """
    CREATE TABLE samples (
        day INTEGER NOT NULL,
        node_group TEXT NOT NULL,
        resource TEXT NOT NULL,
        free REAL NOT NULL,
        total REAL NOT NULL,
        UNIQUE (day, node_group, resource)
    );
    """,
)
NAMES = ("instances", "nodes")  # keys of an entry's JSON, for queries
_PATIENCE = 5.0  # seconds to wait for a reader of the file
_SAMPLE = "day", "node_group", "resource", "free", "total"
_TYPES = "integer", "text", "text", "real", "real"  # others are damaged
_SHARE = 10  # one of so many entries is deleted at a time when the file is too large


class Sample(NamedTuple):
    """The free amount of a resource of a node group, and its total, on a day since 1970 (UTC)."""

    day: int
    group: str
    resource: str
    free: float
    total: float


class NewerError(HtoolsError):
    """The history was written by a newer program."""


class HistoryDatabase:
    """The history in a file. The methods raise sqlite3.Error, and UnicodeDecodeError for a damaged file.

    ``damaged`` has the numbers of the entries that cannot be read. Queries leave them out.
    """

    def __init__(self, path: str) -> None:
        """Open or create the file. A damaged file is replaced. Also raises NewerError."""
        self._path = path
        self.damaged = set[int]()
        try:
            self._connection = _open(path)
        except DATABASE_ERRORS as error:
            if not is_damage(error):
                raise
            self._begin_anew(error)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def replace_damaged(self, error: Exception) -> None:
        """Set the file aside after an error, and begin a new one with the entries that can be read.

        Raises the error if it is not about the content of the file.
        """
        if not is_damage(error):
            raise error
        self._connection.close()
        self._begin_anew(error)

    def _begin_anew(self, error: Exception) -> None:
        try:
            copy = set_aside(self._path)
        except OSError as unmovable:
            raise sqlite3.OperationalError(unmovable.strerror) from None
        self._connection, self.damaged = _open(self._path), set()
        kept = 0
        try:
            with closing(open_to_read(copy)) as damaged, self._connection as transaction:
                rows = readable_rows(damaged, "entries", "number, CAST(document AS BLOB)")
                kept = sum(_copy(transaction, *row) for row in rows)
                _insert_samples(transaction, readable_rows(damaged, "samples", ", ".join(_SAMPLE)))
        except DATABASE_ERRORS:
            pass  # nothing can be read, or there is no room for it
        _log.error("history is damaged; a new one is begun", error=_text(error), copy=copy, kept=kept)

    def add(self, entries: Sequence[HistoryEntry]) -> None:
        """Write entries, all or none."""
        with self._connection as transaction:
            for entry in entries:
                document = entry.to_json()
                content = orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY, default=str)
                _insert(transaction, None, content, document)

    def find(self, query: HistoryQuery) -> list[Document]:
        """Return the entries of a query, in order (:meth:`.HistoryQuery.matches`)."""
        terms, parameters = ["time >= ?"], list[object]([query.since])
        for kind, name in zip((*NAMES, "id"), (query.instance, query.node, query.id), strict=True):
            if name is not None:
                # "/" follows "." in the order of characters, so this range has the names with "NAME.".
                named = "SELECT entry FROM names WHERE kind = ? AND (name = ? OR name > ? AND name < ?)"
                terms.append(f"number IN ({named})")
                parameters += [kind, name, f"{name}.", f"{name}/"]
        statement = f"SELECT number, CAST(document AS BLOB) FROM entries WHERE {' AND '.join(terms)}"
        found = list[Document]()
        for number, content in self._connection.execute(f"{statement} ORDER BY number DESC", parameters):
            try:
                found.append(document_from_bytes(content))
            except DataError as error:
                if number not in self.damaged:
                    _log.error(
                        "entry of the history is damaged; it is left out", number=number, error=str(error)
                    )
                    self.damaged.add(number)
            if len(found) == query.most:
                break
        return found[::-1]

    def add_samples(self, samples: Sequence[Sample], oldest: int) -> None:
        """Write samples, of each resource the first of a day, and delete those before the ``oldest`` day."""
        with self._connection as transaction:
            _insert_samples(transaction, samples)
            transaction.execute("DELETE FROM samples WHERE day < ?", [oldest])

    def samples(self) -> list[Sample]:
        """Return all samples, the oldest first. Damaged ones are left out."""
        whole = " AND ".join(f"typeof({name}) = '{kind}'" for name, kind in zip(_SAMPLE, _TYPES, strict=True))
        query = f"SELECT {', '.join(_SAMPLE)} FROM samples WHERE {whole} ORDER BY day"
        return [Sample(*row) for row in self._connection.execute(query)]

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


def _insert(transaction: sqlite3.Connection, number: int | None, content: bytes, document: Document) -> bool:
    """Write an entry with its names; return False if the number is taken."""
    row = number, document["time"], content
    written = transaction.execute("INSERT OR IGNORE INTO entries VALUES (?, ?, ?)", row)
    if not written.rowcount:
        return False
    names = {(kind, name, written.lastrowid) for kind in NAMES for name in document[kind]}
    if document.get("id"):
        names.add(("id", document["id"], written.lastrowid))
    transaction.executemany("INSERT INTO names VALUES (?, ?, ?)", names)
    return True


def _insert_samples(transaction: sqlite3.Connection, samples: Iterable[tuple[Any, ...]]) -> None:
    transaction.executemany("INSERT OR IGNORE INTO samples VALUES (?, ?, ?, ?, ?)", samples)


def _copy(transaction: sqlite3.Connection, number: int, content: bytes) -> bool:
    """Write a row of a damaged history; return whether it is an entry that is not there yet."""
    try:
        document = document_from_bytes(content)
    except DataError:
        return False
    return _insert(transaction, number, content, document)


def _text(error: Exception) -> str:
    """Return the message of an error. SQLite may quote bytes that are no UTF-8."""
    return error.object.decode(errors="replace") if isinstance(error, UnicodeDecodeError) else str(error)


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
