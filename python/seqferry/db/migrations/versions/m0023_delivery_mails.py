"""Mails that holders of share links have asked for, until they are sent."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "delivery_mail",
        sa.Column("id", _KEY, primary_key=True),
        sa.Column("share_link_id", _KEY, nullable=False),
        sa.Column("transfer_id", _KEY, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("channel", _KEY, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
    )
    op.create_index("ix_delivery_mail_transfer", "delivery_mail", ["transfer_id"])
    op.create_index("ix_delivery_mail_link", "delivery_mail", ["share_link_id"])
