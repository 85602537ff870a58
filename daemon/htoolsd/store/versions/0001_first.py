"""The first version of the schema."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0001"
down_revision = None


def upgrade(op: Operations) -> None:
    """Make the tables."""
    op.create_table(
        "resource_providers",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("uuid", sa.String(36), nullable=False, unique=True),
        sa.Column("name", sa.String(600), nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("can_host", sa.Boolean, nullable=False),
    )
    op.create_table(
        "resource_classes",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(255), nullable=False, unique=True),
    )
    op.create_table(
        "inventories",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("resource_provider_id", sa.Integer, sa.ForeignKey("resource_providers.id"), nullable=False),
        sa.Column("resource_class_id", sa.Integer, sa.ForeignKey("resource_classes.id"), nullable=False),
        sa.Column("total", sa.BigInteger, nullable=False),
        sa.Column("reserved", sa.BigInteger, nullable=False),
        sa.Column("min_unit", sa.BigInteger, nullable=False),
        sa.Column("max_unit", sa.BigInteger),
        sa.Column("step_size", sa.BigInteger, nullable=False),
        sa.Column("allocation_ratio", sa.Float, nullable=False),
        sa.UniqueConstraint("resource_provider_id", "resource_class_id"),
    )
    op.create_table(
        "consumers",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("uuid", sa.String(36), nullable=False, unique=True),
        sa.Column("name", sa.String(600), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("expires", sa.Float),
        sa.Column("promised", sa.Text),
        sa.Column("beyond", sa.Boolean, nullable=False),
    )
    op.create_table(
        "allocations",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("resource_provider_id", sa.Integer, sa.ForeignKey("resource_providers.id"), nullable=False),
        sa.Column("consumer_id", sa.Integer, sa.ForeignKey("consumers.id"), nullable=False),
        sa.Column("resource_class_id", sa.Integer, sa.ForeignKey("resource_classes.id"), nullable=False),
        sa.Column("used", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("consumer_id", "resource_provider_id", "resource_class_id"),
    )
    op.create_index(
        "allocations_by_provider", "allocations", ["resource_provider_id", "resource_class_id", "used"]
    )
