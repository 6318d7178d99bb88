"""Receipts: digests of transfers, seals of batches, keyed events, and a ledger over all transfers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("transfer", sa.Column("receipt_digest", sa.Text))
    op.add_column("transfer", sa.Column("pruned_at", sa.Double))
    op.add_column("event", sa.Column("key_id", sa.Text))
    op.create_table(
        "ledger",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("transfer_id", _KEY, nullable=False),
        sa.Column("event_number", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("event_hash", sa.Text, nullable=False),
        sa.Column("key_id", sa.Text),
        sa.Column("previous", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
    )
    op.create_index("ix_ledger_transfer", "ledger", ["transfer_id"])
    op.create_table(
        "anchor",
        sa.Column("place", _KEY, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("locked_until", sa.Double),
    )
    op.create_table(
        "seal",
        sa.Column("transfer_id", _KEY, sa.ForeignKey("transfer.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("objects", sa.Integer, nullable=False),
        sa.Column("root", sa.Text, nullable=False),
        sa.Column("key_id", sa.Text),
        sa.Column("mac", sa.Text, nullable=False),
        sa.Column("leaves", sa.LargeBinary, nullable=False),
        sa.Column("archive", sa.LargeBinary),
    )
