"""Needs of a transfer that a worker has to meet, and the keyspace it writes to.

Transfers of before have neither: any worker takes them, and they wait for no other.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    for name in ("needs", "lane", "waits_for", "submission", "target_place"):
        op.add_column("transfer", sa.Column(name, sa.Text))
    for name in ("blocked_by", "target_prefix"):
        op.add_column("transfer", sa.Column(name, _KEY))
    op.add_column("transfer", sa.Column("turn", sa.BigInteger))
    unfinished = sa.text("ended_at IS NULL")
    for name, columns in (
        ("ix_transfer_turn", ["turn"]),
        ("ix_transfer_submission", ["submission"]),
        ("ix_transfer_target", ["target_place", "target_prefix"]),
    ):
        op.create_index(name, "transfer", columns, sqlite_where=unfinished, postgresql_where=unfinished)
