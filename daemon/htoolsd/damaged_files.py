"""Damaged files of the state directory: they get another name, and the daemon goes on without them."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from ganeti_htools import machine

_MARK = ".damaged-"
_ENVIRONMENT = {  # codes of errors that say nothing about the content of the file
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_AUTH,
}

# Errors of a damaged database. Its messages may quote bytes that are no UTF-8.
DATABASE_ERRORS = (sqlite3.Error, UnicodeDecodeError)


def set_aside(path: str) -> str:
    """Rename a file to ``PATH.damaged-TIME``, a database with its write-ahead log; return the new path.

    Raises OSError.
    """
    copy = f"{path}{_MARK}{machine.local_time('%Y%m%dT%H%M%S')}"
    os.replace(path, copy)
    with suppress(FileNotFoundError):  # SQLite would apply it to the next file of this name
        os.replace(f"{path}-wal", f"{copy}-wal")
    with suppress(FileNotFoundError):
        os.unlink(f"{path}-shm")
    return copy


def files_set_aside(state_dir: str) -> list[str]:
    """Return the paths of the files that were set aside and that nobody has removed."""
    found = (path for folder in ("", "plans") for path in Path(state_dir, folder).glob(f"*{_MARK}*"))
    return sorted(str(path) for path in found if not path.name.endswith(("-wal", "-shm")))


def is_damage(error: Exception) -> bool:
    """Whether an error of SQLite is about the content of the file, not about its disk or other users."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(error, UnicodeDecodeError) or (code is not None and code & 0xFF not in _ENVIRONMENT)


def open_to_read(path: str) -> sqlite3.Connection:
    """Open a database that may be damaged. Raises sqlite3.Error."""
    connection = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    connection.execute("PRAGMA writable_schema = ON")  # tables are found although others are damaged
    return connection


def readable_rows(connection: sqlite3.Connection, table: str, columns: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table from both ends up to the first that cannot be read, some of them twice."""
    for order in ("ASC", "DESC"):
        try:
            yield from connection.execute(f"SELECT {columns} FROM {table} ORDER BY rowid {order}")
            return
        except DATABASE_ERRORS:
            continue
