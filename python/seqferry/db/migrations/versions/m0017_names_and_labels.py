"""Names and labels of transfers, and labels that a schedule gives to its transfers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("transfer", sa.Column("name", sa.Text))
    op.add_column("transfer", sa.Column("labels", sa.Text))
    op.add_column("schedule", sa.Column("labels", sa.Text))
    op.create_index("ix_transfer_name", "transfer", ["name"])
