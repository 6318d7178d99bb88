"""Beats are counted, so that a worker's life is seen by change and not by the age of a time stamp."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Workers of before write no counter: their time stamp changes instead, which watchers look at as well.
    op.add_column("executor_beat", sa.Column("counter", sa.BigInteger, nullable=False, server_default="0"))
