"""Inventories know whether their figures are in a tag of Ganeti."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0002"
down_revision = "0001"


def upgrade(op: Operations) -> None:
    """Add the column. The figures of earlier versions are in no tag."""
    op.add_column("inventories", sa.Column("tagged", sa.Boolean, nullable=False, server_default=sa.false()))
