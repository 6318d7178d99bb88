"""The initial schema.

Written out, not taken from ``tables.py``: that file follows the newest schema, this one never changes. Its number is
above those of builds before the first release, which ended with 0027.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from seqferry.db.migrations import autoscale_view

revision = "0100"
down_revision = None
branch_labels = None
depends_on = None
contracts = True

_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_ROW = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "schema_note",
        sa.Column("about", sa.Text, primary_key=True),
        sa.Column("comment", sa.Text, nullable=False),
    )
    _make_transfers()
    _make_record()
    _make_notices_and_schedules()
    _make_share_links()
    _make_figures()
    _make_workers()
    connection = op.get_bind()
    if connection.dialect.name == "postgresql":
        # Space for the second version of a row, which then writes no index: 12 us of CPU and 236 bytes of log for each
        # result instead of 42 us and 876 bytes (50,000 results).
        op.execute("alter table object set (fillfactor = 40)")
        op.execute("alter table batch set (fillfactor = 50)")
        op.execute("alter table tally set (fillfactor = 20)")
    connection.exec_driver_sql(autoscale_view.statement(is_sqlite=connection.dialect.name == "sqlite"))


def _make_partial_index(name: str, table: str, columns: list[str], where: str) -> None:
    op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def _make_transfers() -> None:
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
        sa.Column("needs", sa.Text),
        sa.Column("lane", sa.Text),
        sa.Column("waits_for", sa.Text),
        sa.Column("turn", sa.BigInteger),
        sa.Column("blocked_by", _KEY),
        sa.Column("submission", sa.Text),
        sa.Column("target_place", sa.Text),
        sa.Column("target_prefix", _KEY),
        sa.Column("source_uri", _KEY),
        sa.Column("target_uri", _KEY),
        sa.Column("receipt_digest", sa.Text),
        sa.Column("pruned_at", sa.Double),
        sa.Column("retry_of", _KEY),
        sa.Column("priority", sa.Integer, nullable=False, server_default="0"),
        sa.Column("max_requests", sa.Integer),
        sa.Column("max_bandwidth", sa.Text),
        sa.Column("tpslimit", sa.Integer),
        sa.Column("name", sa.Text),
        sa.Column("labels", sa.Text),
    )
    op.create_index("ix_transfer_created", "transfer", ["created_at"])
    op.create_index("ix_transfer_name", "transfer", ["name"])
    op.create_index("ix_transfer_retry_of", "transfer", ["retry_of"])
    op.create_index("ix_transfer_submission", "transfer", ["submission"])
    _make_partial_index("ix_transfer_target", "transfer", ["target_place", "target_prefix"], "ended_at IS NULL")
    _make_partial_index("ix_transfer_turn", "transfer", ["turn"], "ended_at IS NULL")
    if op.get_bind().dialect.name != "sqlite":
        op.execute(sa.schema.CreateSequence(sa.Sequence("transfer_turn")))
    op.create_table(
        "submission_key",
        sa.Column("key", _KEY, primary_key=True),
        sa.Column("transfer_id", _KEY, sa.ForeignKey("transfer.id"), nullable=False),
    )
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
        sa.Column("requests", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("started_at", sa.Double),
        sa.Column("ended_at", sa.Double),
    )
    op.create_index("ix_batch_state", "batch", ["transfer_id", "state"])
    op.create_table(
        "tally",
        sa.Column("transfer_id", _KEY, sa.ForeignKey("transfer.id"), primary_key=True),
        sa.Column("objects", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("done", sa.BigInteger, nullable=False),
        sa.Column("skipped", sa.BigInteger, nullable=False),
        sa.Column("failed", sa.BigInteger, nullable=False),
        sa.Column("cancelled", sa.BigInteger, nullable=False),
        sa.Column("bytes_done", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "object",
        sa.Column("id", _ROW, primary_key=True, autoincrement=True),
        sa.Column("transfer_id", _KEY, nullable=False),
        sa.Column("batch_number", sa.Integer, nullable=False),
        sa.Column("source_key", _KEY, nullable=False),
        sa.Column("version_id", _KEY, nullable=False, server_default=""),
        sa.Column("source_upload_id", _KEY, nullable=False, server_default=""),
        sa.Column("member_place", _KEY, nullable=False, server_default=""),
        sa.Column("upload_number", sa.Integer, nullable=False, server_default="0"),
        sa.Column("target_key", _KEY, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("etag", sa.Text, nullable=False),
        sa.Column("last_modified", sa.Double, nullable=False),
        sa.Column("storage_class", sa.Text),
        sa.Column("written_by", sa.Text),
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
        sa.Column("file_changed", sa.Double),
        sa.UniqueConstraint(
            "transfer_id",
            "source_key",
            "version_id",
            "source_upload_id",
            "member_place",
            "upload_number",
            name="uq_object_source",
        ),
    )
    op.create_index("ix_object_batch", "object", ["transfer_id", "batch_number"])
    _make_partial_index("ix_object_failed", "object", ["transfer_id", "id"], "error_class IS NOT NULL")
    op.create_index("ix_object_page", "object", ["transfer_id", "id"])


def _make_record() -> None:
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
        sa.Column("key_id", sa.Text),
    )
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


def _make_notices_and_schedules() -> None:
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
    op.create_table(
        "schedule",
        sa.Column("id", _KEY, primary_key=True),
        sa.Column("name", _KEY, nullable=False, unique=True),
        sa.Column("cron", sa.Text, nullable=False),
        sa.Column("timezone", sa.Text, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("active_since", sa.Double, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("labels", sa.Text),
    )
    op.create_table(
        "schedule_run",
        sa.Column("id", _KEY, primary_key=True),
        sa.Column("schedule_id", _KEY, nullable=False),
        sa.Column("due_at", sa.Double, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("transfer_id", _KEY),
        sa.Column("message", sa.Text),
    )
    op.create_index("ix_schedule_run", "schedule_run", ["schedule_id", "at"])
    op.create_table(
        "schedule_event",
        sa.Column("schedule_id", _KEY, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("name", _KEY, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("previous", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("key_id", sa.Text),
    )
    op.create_index("ix_schedule_event_name", "schedule_event", ["name"])


def _make_share_links() -> None:
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
    op.create_index("ix_share_link_expires", "share_link", ["expires_at"])
    op.create_index("ix_share_link_label", "share_link", ["label"])
    op.create_index("ix_share_link_transfer", "share_link", ["transfer_id"])
    op.create_table(
        "delivery_mail",
        sa.Column("id", _KEY, primary_key=True),
        sa.Column("share_link_id", _KEY, nullable=False),
        sa.Column("transfer_id", _KEY, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("channel", _KEY, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
    )
    op.create_index("ix_delivery_mail_link", "delivery_mail", ["share_link_id"])
    op.create_index("ix_delivery_mail_transfer", "delivery_mail", ["transfer_id"])
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
    op.create_table(
        "report_ticket",
        sa.Column("digest", _KEY, primary_key=True),
        sa.Column("ends_at", sa.Double, nullable=False),
        sa.Column("share_link_id", _KEY),
        sa.Column("transfer_id", _KEY, nullable=False),
        sa.Column("format", sa.Text, nullable=False),
        sa.Column("price", sa.Text),
        sa.Column("page", sa.BigInteger, nullable=False),
    )


def _make_figures() -> None:
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
    op.create_index("ix_sample_at", "sample", ["at"])
    op.create_table(
        "chart",
        sa.Column("transfer_id", _KEY, sa.ForeignKey("transfer.id"), primary_key=True),
        sa.Column("since", sa.Double, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
        sa.Column("points", sa.Text, nullable=False),
    )
    op.create_table(
        "engine_sample",
        sa.Column("executor_id", _KEY, primary_key=True),
        sa.Column("at", sa.Double, primary_key=True),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("requests", sa.BigInteger, nullable=False),
        sa.Column("retries", sa.BigInteger, nullable=False),
        sa.Column("throttled", sa.BigInteger, nullable=False),
        sa.Column("hedges", sa.BigInteger, nullable=False),
        sa.Column("waited_ms", sa.BigInteger, nullable=False),
        sa.Column("busy_ms", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "worker_live",
        sa.Column("transfer_id", _KEY, sa.ForeignKey("transfer.id"), primary_key=True),
        sa.Column("executor_id", _KEY, primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
    )


def _make_workers() -> None:
    op.create_table(
        "worker",
        sa.Column("id", _KEY, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("schema_head", sa.Text, nullable=False),
        sa.Column("shape", sa.Text, nullable=False),
        sa.Column("since", sa.Double, nullable=False),
        sa.Column("seen_at", sa.Double, nullable=False),
        sa.Column("beats", sa.BigInteger, nullable=False),
        sa.Column("gone_at", sa.Double),
        sa.Column("drain_at", sa.Double),
        sa.Column("lanes", sa.Text, nullable=False),
        sa.Column("limits", sa.Text, nullable=False),
        sa.Column("resident", sa.BigInteger),
        sa.Column("transfers", sa.Integer, nullable=False),
        sa.Column("in_flight", sa.Integer, nullable=False),
        sa.Column("windows", sa.Text, nullable=False),
        sa.Column("facts", sa.Text, nullable=False),
    )
    op.create_table(
        "gateway_question",
        sa.Column("id", _KEY, primary_key=True),
        sa.Column("worker_id", _KEY, nullable=False),
        sa.Column("path", _KEY, nullable=False),
        sa.Column("counts", sa.Boolean, nullable=False),
        sa.Column("ends_at", sa.Double, nullable=False),
        sa.Column("answer", sa.Text),
    )
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
    op.create_table(
        "allotment",
        sa.Column("name", _KEY, primary_key=True),
        sa.Column("worker_id", _KEY, primary_key=True),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
    )
    op.create_table(
        "autoscale_limit",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.Double, nullable=False),
    )
