"""State files of daemons have copies in a shared database."""

import sqlalchemy as sa
from alembic.operations import Operations

revision = "0003"
down_revision = "0002"


def upgrade(op: Operations) -> None:
    """Create the table."""
    op.create_table(
        "documents",
        sa.Column("cluster", sa.String(255), primary_key=True),
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("writer", sa.String(1000), nullable=False),
        sa.Column("content", sa.Text),
    )
