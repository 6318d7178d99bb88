"""The wish that a worker ends when the batches that it is at have ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("worker", sa.Column("drain_at", sa.Double))
