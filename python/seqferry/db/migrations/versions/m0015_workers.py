"""Processes that do work, on both databases, in place of the beats of workers on PostgreSQL alone.

No beat is carried over: workers are stopped for an upgrade. The work of one that was killed before is found without it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "worker",
        sa.Column("id", _KEY, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("schema_head", sa.Text, nullable=False),
        sa.Column("shape", sa.Text, nullable=False),
        sa.Column("since", sa.Double, nullable=False),
        sa.Column("seen_at", sa.Double, nullable=False),
        sa.Column("beats", sa.BigInteger, nullable=False),
        sa.Column("gone_at", sa.Double),
        sa.Column("lanes", sa.Text, nullable=False),
        sa.Column("limits", sa.Text, nullable=False),
        sa.Column("resident", sa.BigInteger),
        sa.Column("transfers", sa.Integer, nullable=False),
        sa.Column("in_flight", sa.Integer, nullable=False),
        sa.Column("windows", sa.Text, nullable=False),
        sa.Column("facts", sa.Text, nullable=False),
    )
    op.drop_table("executor_beat")
