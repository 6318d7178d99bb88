"""Indexes that count the share links of a transfer, of a label, and those that have not expired."""

from __future__ import annotations

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_share_link_transfer", "share_link", ["transfer_id"])
    op.create_index("ix_share_link_label", "share_link", ["label"])
    op.create_index("ix_share_link_expires", "share_link", ["expires_at"])
