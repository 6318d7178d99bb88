"""A revision that only tests know: it adds to the initial schema, and fills what it adds from rows that are there."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0101"
down_revision = "0100"
branch_labels = None
depends_on = None
contracts = False


def upgrade() -> None:
    op.add_column("transfer", sa.Column("later", sa.Text))
    op.add_column("batch", sa.Column("later", sa.Integer, nullable=False, server_default="0"))
    op.create_table("later", sa.Column("id", sa.Text, primary_key=True))
    op.execute("update transfer set later = created_by")
    op.execute("insert into later select id from transfer")
