"""Tickets for one download of a report, which any server at the database redeems."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "report_ticket",
        sa.Column("digest", _KEY, primary_key=True),
        sa.Column("ends_at", sa.Double, nullable=False),
        sa.Column("share_link_id", _KEY),
        sa.Column("transfer_id", _KEY, nullable=False),
        sa.Column("format", sa.Text, nullable=False),
        sa.Column("price", sa.Text),
        sa.Column("page", sa.BigInteger, nullable=False),
    )
