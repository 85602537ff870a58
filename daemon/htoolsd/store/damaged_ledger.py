"""A damaged ledger in a file: set aside, and begun anew with the rows that can be read."""

import math
import sqlite3
from contextlib import closing
from typing import Any

import structlog
from sqlalchemy import Boolean, Column, Float, Integer, String, Table

from htoolsd.config.ledger import display_url
from htoolsd.damaged_files import DATABASE_ERRORS, is_damage, open_to_read, readable_rows, set_aside
from htoolsd.store.database import LedgerDatabase
from htoolsd.store.tables import metadata

_log = structlog.get_logger()


def replace_damaged(url: str) -> None:
    """Set a ledger aside if its content is damaged, and begin a new one.

    Raises OSError, UnavailableError, sqlite3.Error, UnicodeDecodeError.
    """
    path, found = display_url(url), dict[Table, list[tuple[Any, ...]]]()
    with closing(open_to_read(path)) as connection:
        for table in metadata.sorted_tables:
            names = ", ".join(column.name for column in table.columns)
            found[table] = list(readable_rows(connection, table.name, names))
        intact = _is_intact(connection)
    rows = {
        table: [row for row in each if all(map(_fits, table.columns, row))] for table, each in found.items()
    }
    if intact and rows == found:
        return
    copy, kept = set_aside(path), 0
    LedgerDatabase(url).close()
    with closing(sqlite3.connect(path)) as new, new:
        for table, each in rows.items():
            statement = f"INSERT OR IGNORE INTO {table.name} VALUES ({', '.join('?' * len(table.columns))})"
            kept += new.executemany(statement, each).rowcount
        for table_name, number, *_ in new.execute("PRAGMA foreign_key_check").fetchall():
            new.execute(f"DELETE FROM {table_name} WHERE rowid = ?", [number])
    _log.error("ledger is damaged; a new one is begun", copy=copy, kept=kept)


def _is_intact(connection: sqlite3.Connection) -> bool:
    try:
        (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        return bool(verdict == "ok")
    except DATABASE_ERRORS as error:
        return not is_damage(error)


def _fits(column: Column[Any], value: object) -> bool:
    """Whether a value can be one of the column."""
    match column.type, value:
        case _, None:
            return bool(column.nullable)
        case Float(), int() | float():
            return math.isfinite(value)
        case ((Integer() | Boolean()), int()):
            return True
        case String(), str():
            return "\ufffd" not in value
    return False
