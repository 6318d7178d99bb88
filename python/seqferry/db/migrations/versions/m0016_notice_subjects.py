"""Notices have a subject: a transfer, a worker, later others. All that are there are about transfers.

A database changes no primary key in place: the rows are kept aside while the table is made anew.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_KEPT = "kind, episode, channel, state, attempts, created_at, next_at, sent_at, error"


def upgrade() -> None:
    op.execute("create table notice_of_transfers as select * from notice")
    op.drop_table("notice")
    op.create_table(
        "notice",
        sa.Column("subject_kind", sa.Text, primary_key=True),
        sa.Column("subject_id", _KEY, primary_key=True),
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("episode", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("channel", _KEY, primary_key=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("next_at", sa.Double, nullable=False),
        sa.Column("sent_at", sa.Double),
        sa.Column("error", sa.Text),
    )
    op.create_index("ix_notice_due", "notice", ["state", "next_at"])
    op.execute(
        f"insert into notice (subject_kind, subject_id, {_KEPT}) "  # noqa: S608 - names of columns
        f"select 'transfer', transfer_id, {_KEPT} from notice_of_transfers"
    )
    op.drop_table("notice_of_transfers")
