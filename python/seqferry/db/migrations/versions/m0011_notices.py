"""Notices that are to be sent."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "notice",
        sa.Column("transfer_id", _KEY, primary_key=True),
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("episode", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("channel", _KEY, primary_key=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("next_at", sa.Double, nullable=False),
        sa.Column("sent_at", sa.Double),
        sa.Column("error", sa.Text),
    )
    op.create_index("ix_notice_due", "notice", ["state", "next_at"])
