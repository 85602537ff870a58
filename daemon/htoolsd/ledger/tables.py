"""The tables of the ledger, those of OpenStack's design "Resource Providers - Base Models".

Beyond the design: the classes by name, and the consumers (as Placement has them), with what was promised.
"""

from sqlalchemy import BigInteger as Big
from sqlalchemy import (
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

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
    Column("beyond", Boolean, nullable=False),
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
