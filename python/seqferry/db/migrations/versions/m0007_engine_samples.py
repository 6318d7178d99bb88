"""Samples over time of the counters of each worker's engine."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_COUNTERS = ("bytes", "requests", "retries", "throttled", "hedges", "waited_ms", "busy_ms")


def upgrade() -> None:
    op.create_table(
        "engine_sample",
        sa.Column("executor_id", _KEY, primary_key=True),
        sa.Column("at", sa.Double, primary_key=True),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in _COUNTERS),
    )
