"""Named tokens of clients, and facts about endpoints: in files of one host's state folder before (``state_files``)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "token",
        sa.Column("digest", _KEY, primary_key=True),
        sa.Column("name", _KEY, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double),
        sa.Column("removed_at", sa.Double),
    )
    op.create_index("ix_token_name", "token", ["name"])
    op.create_table(
        "endpoint_fact",
        sa.Column("endpoint", _KEY, primary_key=True),
        sa.Column("bucket", _KEY, primary_key=True),
        sa.Column("identity", sa.Text, nullable=False),
        sa.Column("answers", sa.Text, nullable=False),
        sa.Column("learned", sa.Text, nullable=False),
        sa.Column("newest_at", sa.Double, nullable=False),
    )
