"""Shares that workers have of limits which hold over all of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None
contracts = False

_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "allotment",
        sa.Column("name", _KEY, primary_key=True),
        sa.Column("worker_id", _KEY, primary_key=True),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
    )
