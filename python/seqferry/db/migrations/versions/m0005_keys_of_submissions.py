"""Idempotency keys of submissions that went on with an unfinished transfer."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "submission_key",
        sa.Column("key", _KEY, primary_key=True),
        sa.Column("transfer_id", _KEY, sa.ForeignKey("transfer.id"), nullable=False),
    )
