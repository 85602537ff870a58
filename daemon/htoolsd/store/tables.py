"""The tables of the ledger, after OpenStack's design "Resource Providers - Base Models".

Beyond the design: resource classes by name, consumers (as Placement has them) with their promises, and
documents.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TypeVar

from sqlalchemy import BigInteger as Big
from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    delete,
    false,
)

_CHUNK = 500  # values in a statement

Value = TypeVar("Value", int, str)

metadata = MetaData()


def _provider() -> Column[int]:
    return Column("resource_provider_id", ForeignKey("resource_providers.id"), nullable=False)


def _class() -> Column[int]:
    return Column("resource_class_id", ForeignKey("resource_classes.id"), nullable=False)


providers = Table(
    "resource_providers",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("uuid", String(36), nullable=False, unique=True),
    Column("name", String(600), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("can_host", Boolean, nullable=False),
)

classes = Table(
    "resource_classes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(255), nullable=False, unique=True),
)

inventories = Table(
    "inventories",
    metadata,
    Column("id", Integer, primary_key=True),
    _provider(),
    _class(),
    Column("total", Big, nullable=False),
    Column("reserved", Big, nullable=False),
    Column("min_unit", Big, nullable=False),
    Column("max_unit", Big),  # NULL: the capacity
    Column("step_size", Big, nullable=False),
    Column("allocation_ratio", Float, nullable=False),
    Column("tagged", Boolean, nullable=False, server_default=false()),
    UniqueConstraint("resource_provider_id", "resource_class_id"),
)

consumers = Table(
    "consumers",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("uuid", String(36), nullable=False, unique=True),
    Column("name", String(600), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("expires", Float),  # seconds of the epoch; NULL: never
    Column("promised", Text),
    Column("beyond", Boolean, nullable=False, key="over_capacity"),
)

allocations = Table(
    "allocations",
    metadata,
    Column("id", Integer, primary_key=True),
    _provider(),
    Column("consumer_id", ForeignKey("consumers.id"), nullable=False),
    _class(),
    Column("used", Big, nullable=False),
    UniqueConstraint("consumer_id", "resource_provider_id", "resource_class_id"),
    Index("allocations_by_provider", "resource_provider_id", "resource_class_id", "used"),
)

# Copies of state files of the daemons that share the database. NULL content: the file was removed.
documents = Table(
    "documents",
    metadata,
    Column("cluster", String(255), primary_key=True),
    Column("name", String(255), primary_key=True),
    Column("writer", String(1000), nullable=False),
    Column("content", Text),
)


def chunks(values: Iterable[Value]) -> Iterator[Sequence[Value]]:
    """Yield the values in order, as many at a time as fit into a statement."""
    listed = sorted(values)
    for start in range(0, len(listed), _CHUNK):
        yield listed[start : start + _CHUNK]


def delete_rows(connection: Connection, column: Column[int], values: Collection[int]) -> None:
    """Delete the rows of the column's table that have one of these values."""
    for some in chunks(values):
        connection.execute(delete(column.table).where(column.in_(some)))
