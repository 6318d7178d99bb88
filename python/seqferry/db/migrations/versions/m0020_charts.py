"""The course of each transfer that has ended, in few points, so that its chart outlives its samples."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "chart",
        sa.Column("transfer_id", _KEY, sa.ForeignKey("transfer.id"), primary_key=True),
        sa.Column("since", sa.Double, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
        sa.Column("points", sa.Text, nullable=False),
    )
