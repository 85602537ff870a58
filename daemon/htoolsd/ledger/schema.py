"""The schema of the ledger, moved to the version of this program when the ledger is opened."""

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from htoolsd.ledger.records import UnavailableError

VERSION = "0001"  # the last one in versions/
TABLE = "ledger_version"
_HERE = Path(__file__).parent / "versions"
_TURN = 0x68746F6F6C7364  # of PostgreSQL's advisory locks, one that nobody else takes


def version(connection: Connection) -> str | None:
    """The version that the database has; None: nothing yet."""
    if not inspect(connection).has_table(TABLE):
        return None
    found: str | None = connection.scalar(text(f"SELECT version_num FROM {TABLE}"))
    return found


def is_current(connection: Connection) -> bool:
    """Whether the database has this program's version. Raises UnavailableError if it has a newer one."""
    found = version(connection)
    if found is not None and found > VERSION:
        raise UnavailableError(f"the ledger is of a newer htoolsd (version {found}; known is {VERSION})")
    return found == VERSION


def move(connection: Connection, versions: Path = _HERE) -> None:
    """Make the schema, or move it to the last of the versions, in a transaction of the caller.

    Several programs may do so at once: the first does it. (SQLite's transactions that write take turns.)
    """
    from alembic.migration import MigrationContext  # seldom needed
    from alembic.operations import Operations
    from alembic.script import ScriptDirectory

    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:turn)"), {"turn": _TURN})
    scripts = ScriptDirectory(str(versions), version_locations=[str(versions)])
    context = MigrationContext.configure(connection, opts={"version_table": TABLE})
    steps = list(scripts.iterate_revisions("head", version(connection) or "base"))
    for step in reversed(steps):
        step.module.upgrade(Operations(context))
        context.stamp(scripts, step.revision)
