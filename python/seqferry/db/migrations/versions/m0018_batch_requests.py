"""Requests of each batch, counted, so that a transfer that has ended can be priced."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("batch", sa.Column("requests", sa.BigInteger, nullable=False, server_default="0"))
