"""The first tables.

Written out, not taken from ``tables.py``: that file follows the newest shape, this one never changes again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_ROW = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "schema_note",
        sa.Column("about", sa.Text, primary_key=True),
        sa.Column("comment", sa.Text, nullable=False),
    )
    op.create_table(
        "transfer",
        sa.Column("id", _KEY, primary_key=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("started_at", sa.Double),
        sa.Column("planned_at", sa.Double),
        sa.Column("ended_at", sa.Double),
        sa.Column("idempotency_key", _KEY, unique=True),
        sa.Column("error_code", sa.Text),
        sa.Column("error_message", sa.Text),
        sa.Column("target_absent", sa.Boolean),
        sa.Column("attended_by", sa.Text),
    )
    op.create_index("ix_transfer_created", "transfer", ["created_at"])
    op.create_table(
        "batch",
        sa.Column("transfer_id", _KEY, sa.ForeignKey("transfer.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("objects", sa.Integer, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("done", sa.Integer, nullable=False),
        sa.Column("skipped", sa.Integer, nullable=False),
        sa.Column("failed", sa.Integer, nullable=False),
        sa.Column("cancelled", sa.Integer, nullable=False),
        sa.Column("bytes_done", sa.BigInteger, nullable=False),
        sa.Column("runs", sa.Integer, nullable=False),
        sa.Column("barren_runs", sa.Integer, nullable=False),
        sa.Column("started_at", sa.Double),
        sa.Column("ended_at", sa.Double),
    )
    op.create_index("ix_batch_state", "batch", ["transfer_id", "state"])
    op.create_table(
        "object",
        sa.Column("id", _ROW, primary_key=True, autoincrement=True),
        sa.Column("transfer_id", _KEY, nullable=False),
        sa.Column("batch_number", sa.Integer, nullable=False),
        sa.Column("source_key", _KEY, nullable=False),
        sa.Column("version_id", _KEY, nullable=False),
        sa.Column("target_key", _KEY, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("etag", sa.Text, nullable=False),
        sa.Column("last_modified", sa.Double, nullable=False),
        sa.Column("storage_class", sa.Text),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("retries", sa.Integer, nullable=False),
        sa.Column("method", sa.Text),
        sa.Column("started_at", sa.Double),
        sa.Column("ended_at", sa.Double),
        sa.Column("upload_id", sa.Text),
        sa.Column("part_size", sa.BigInteger),
        sa.Column("target_etag", sa.Text),
        sa.Column("target_version_id", sa.Text),
        sa.Column("checksum_algorithm", sa.Text),
        sa.Column("checksum", sa.Text),
        sa.Column("verified", sa.Text),
        sa.Column("not_carried", sa.Text),
        sa.Column("error_class", sa.Text),
        sa.Column("error_code", sa.Text),
        sa.Column("error_operation", sa.Text),
        sa.Column("error_message", sa.Text),
        sa.UniqueConstraint("transfer_id", "source_key", "version_id", name="uq_object_source"),
    )
    op.create_index("ix_object_page", "object", ["transfer_id", "id"])
    op.create_index("ix_object_batch", "object", ["transfer_id", "batch_number"])
    op.create_index(
        "ix_object_failed",
        "object",
        ["transfer_id", "id"],
        sqlite_where=sa.text("state = 'failed'"),
        postgresql_where=sa.text("state = 'failed'"),
    )
    op.create_table(
        "event",
        sa.Column("transfer_id", _KEY, sa.ForeignKey("transfer.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("previous", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
    )
    op.create_table(
        "sample",
        sa.Column("transfer_id", _KEY, sa.ForeignKey("transfer.id"), primary_key=True),
        sa.Column("executor_id", _KEY, primary_key=True),
        sa.Column("at", sa.Double, primary_key=True),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("objects", sa.BigInteger, nullable=False),
        sa.Column("requests", sa.BigInteger, nullable=False),
        sa.Column("throttled", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "worker_live",
        sa.Column("transfer_id", _KEY, sa.ForeignKey("transfer.id"), primary_key=True),
        sa.Column("executor_id", _KEY, primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
    )
    op.create_table(
        "executor_beat",
        sa.Column("executor_id", _KEY, primary_key=True),
        sa.Column("beat_at", sa.DateTime(timezone=True), nullable=False),
    )
