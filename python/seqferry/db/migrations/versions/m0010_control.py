"""Transfers that copy what failed of others, and what may be changed of a transfer under way."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("transfer", sa.Column("retry_of", _KEY))
    op.add_column("transfer", sa.Column("priority", sa.Integer, nullable=False, server_default="0"))
    op.add_column("transfer", sa.Column("max_requests", sa.Integer))
    op.add_column("transfer", sa.Column("max_bandwidth", sa.Text))
    op.create_index("ix_transfer_retry_of", "transfer", ["retry_of"])
