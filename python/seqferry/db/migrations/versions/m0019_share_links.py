"""Links by which others see a delivery without a token, and the record of what people did to them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "share_link",
        sa.Column("id", _KEY, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("transfer_id", _KEY),
        sa.Column("label", sa.Text),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.Column("revoked_at", sa.Double),
        sa.Column("revoked_by", sa.Text),
    )
    op.create_index("ix_share_link_created", "share_link", ["created_at"])
    op.create_table(
        "share_link_event",
        sa.Column("share_link_id", _KEY, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("previous", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("key_id", sa.Text),
    )
