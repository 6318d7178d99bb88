"""Schedules, their runs, and what people did to them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "schedule",
        sa.Column("id", _KEY, primary_key=True),
        sa.Column("name", _KEY, nullable=False, unique=True),
        sa.Column("cron", sa.Text, nullable=False),
        sa.Column("timezone", sa.Text, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("active_since", sa.Double, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
    )
    op.create_table(
        "schedule_run",
        sa.Column("id", _KEY, primary_key=True),
        sa.Column("schedule_id", _KEY, nullable=False),
        sa.Column("due_at", sa.Double, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("transfer_id", _KEY),
        sa.Column("message", sa.Text),
    )
    op.create_index("ix_schedule_run", "schedule_run", ["schedule_id", "at"])
    op.create_table(
        "schedule_event",
        sa.Column("schedule_id", _KEY, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("name", _KEY, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("previous", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("key_id", sa.Text),
    )
    op.create_index("ix_schedule_event_name", "schedule_event", ["name"])
