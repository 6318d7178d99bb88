"""The tables. The migrations make them; a test compares both.

Times are seconds since the epoch. Keys are compared byte by byte on both databases (SQLite does so by itself, Postgres
by the "C" collation). JSON is text, so that both databases give back what was written.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

metadata: Final = sa.MetaData()

KEY: Final = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
"""An object key: any text."""

ROW: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""A row number. SQLite numbers rows by itself only when the column is INTEGER."""

# What else was made in this database, and by which version of what.
schema_note: Final = sa.Table(
    "schema_note",
    metadata,
    sa.Column("about", sa.Text, primary_key=True),
    sa.Column("comment", sa.Text, nullable=False),
)

TURNS: Final = sa.Sequence("transfer_turn", metadata=metadata)
"""Values of ``transfer.turn`` on PostgreSQL. SQLite, which has one writer, counts on from the last one."""

transfer: Final = sa.Table(
    "transfer",
    metadata,
    sa.Column("id", KEY, primary_key=True),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("spec", sa.Text, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("created_by", sa.Text, nullable=False),
    sa.Column("started_at", sa.Double),
    sa.Column("planned_at", sa.Double),
    sa.Column("ended_at", sa.Double),
    sa.Column("idempotency_key", KEY, unique=True),
    # Set as soon as a job-wide error is known; the state turns to ``failed`` when the last batch has stopped.
    sa.Column("error_code", sa.Text),
    sa.Column("error_message", sa.Text),
    # Nothing was under the target prefix when the transfer began.
    sa.Column("target_absent", sa.Boolean),
    # Worker session (one start of a worker) that has the transfer, or had it last. A later one resumes the transfer.
    sa.Column("attended_by", sa.Text),
    # What a worker must have for it (``spec.identity.needs``), and the queues that only such workers take from.
    sa.Column("needs", sa.Text),
    sa.Column("lane", sa.Text),
    # Why the workers that are there leave it alone, in words; outdated while one is at it.
    sa.Column("waits_for", sa.Text),
    # Orders unfinished transfers: one that waits has a greater number than those it waits for.
    sa.Column("turn", sa.BigInteger),
    # An earlier unfinished transfer that writes to the same keys.
    sa.Column("blocked_by", KEY),
    # Equal for equal submissions (``spec.identity.submission_digest``).
    sa.Column("submission", sa.Text),
    # Where it writes to (``keyspace``).
    sa.Column("target_place", sa.Text),
    sa.Column("target_prefix", KEY),
    # From where to where, as it is shown: for searches.
    sa.Column("source_uri", KEY),
    sa.Column("target_uri", KEY),
    # Of all that is on record of it, in hexadecimal, once it has ended (``receipts``).
    sa.Column("receipt_digest", sa.Text),
    # Since then its objects are in ``seal.archive`` only.
    sa.Column("pruned_at", sa.Double),
    # The transfer whose failed objects it copies.
    sa.Column("retry_of", KEY),
    # See ``models.Adjustment``.
    sa.Column("priority", sa.Integer, nullable=False, server_default="0", default=0),
    sa.Column("max_requests", sa.Integer),
    sa.Column("max_bandwidth", sa.Text),
    sa.Column("tpslimit", sa.Integer),
    # For people, see ``labels.Description``. Labels are JSON, none without any.
    sa.Column("name", sa.Text),
    sa.Column("labels", sa.Text),
    sa.Index("ix_transfer_name", "name"),
    sa.Index("ix_transfer_created", "created_at"),
    sa.Index("ix_transfer_retry_of", "retry_of"),
    sa.Index("ix_transfer_submission", "submission"),
)

# Idempotency keys of submissions that went on with a transfer which had been submitted before.
submission_key: Final = sa.Table(
    "submission_key",
    metadata,
    sa.Column("key", KEY, primary_key=True),
    sa.Column("transfer_id", KEY, sa.ForeignKey("transfer.id"), nullable=False),
)

batch: Final = sa.Table(
    "batch",
    metadata,
    sa.Column("transfer_id", KEY, sa.ForeignKey("transfer.id"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    # queued | active | ended
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("objects", sa.Integer, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    # What the batch's rows add up to; changes in the transaction that changes them.
    sa.Column("done", sa.Integer, nullable=False, default=0),
    sa.Column("skipped", sa.Integer, nullable=False, default=0),
    sa.Column("failed", sa.Integer, nullable=False, default=0),
    sa.Column("cancelled", sa.Integer, nullable=False, default=0),
    sa.Column("bytes_done", sa.BigInteger, nullable=False, default=0),
    # The number of the latest run, which fences earlier ones: a run writes only while the number is its own.
    sa.Column("runs", sa.Integer, nullable=False, default=0),
    # Runs in a row that were cut off before they moved a byte.
    sa.Column("barren_runs", sa.Integer, nullable=False, default=0),
    # Requests of its runs, but of those that were killed.
    sa.Column("requests", sa.BigInteger, nullable=False, server_default="0", default=0),
    sa.Column("started_at", sa.Double),
    sa.Column("ended_at", sa.Double),
    sa.Index("ix_batch_state", "transfer_id", "state"),
)

# The counters of all batches of a transfer, summed: a status reads one row however many batches there are. A table of
# its own, since planning holds the lock of the transfer's row for as long as it adds batches.
tally: Final = sa.Table(
    "tally",
    metadata,
    sa.Column("transfer_id", KEY, sa.ForeignKey("transfer.id"), primary_key=True),
    sa.Column("objects", sa.BigInteger, nullable=False, default=0),
    sa.Column("bytes", sa.BigInteger, nullable=False, default=0),
    sa.Column("done", sa.BigInteger, nullable=False, default=0),
    sa.Column("skipped", sa.BigInteger, nullable=False, default=0),
    sa.Column("failed", sa.BigInteger, nullable=False, default=0),
    sa.Column("cancelled", sa.BigInteger, nullable=False, default=0),
    sa.Column("bytes_done", sa.BigInteger, nullable=False, default=0),
)

SOURCE: Final = ("source_key", "version_id", "source_upload_id", "member_place", "upload_number")
"""Columns of an object that tell its source from all others of its transfer."""

# On Postgres its pages are filled by two fifths: the second version of a row, its result, fits beside the first, and
# no index is written. That holds only while no index names a column that nearly every result changes.
object_: Final = sa.Table(
    "object",
    metadata,
    sa.Column("id", ROW, primary_key=True, autoincrement=True),
    sa.Column("transfer_id", KEY, nullable=False),
    sa.Column("batch_number", sa.Integer, nullable=False),
    sa.Column("source_key", KEY, nullable=False),
    # Empty when the source has no versions.
    sa.Column("version_id", KEY, nullable=False, server_default=""),
    # The multipart upload that ``cleanup`` aborts; empty for all others.
    sa.Column("source_upload_id", KEY, nullable=False, server_default=""),
    # Where a member of an archive begins and ends in it (``unpack``); empty for all others.
    sa.Column("member_place", KEY, nullable=False, server_default=""),
    # Uploads of one file of a share are counted from 0 within their epoch; 0 for all others.
    sa.Column("upload_number", sa.Integer, nullable=False, server_default="0"),
    sa.Column("target_key", KEY, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("etag", sa.Text, nullable=False),
    sa.Column("last_modified", sa.Double, nullable=False),
    sa.Column("storage_class", sa.Text),
    # User and client that wrote a file to a share: ``uid 1000 at 10.1.2.3``.
    sa.Column("written_by", sa.Text),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False, default=0),
    sa.Column("retries", sa.Integer, nullable=False, default=0),
    sa.Column("method", sa.Text),
    sa.Column("started_at", sa.Double),
    sa.Column("ended_at", sa.Double),
    # Of an upload to the target that is open, or was when its worker was killed.
    sa.Column("upload_id", sa.Text),
    # The next five are of the object at the target. Until the row ends they are what is expected there: what completing
    # the upload will make, or what another transfer has recorded (``verify``).
    sa.Column("part_size", sa.BigInteger),
    sa.Column("target_etag", sa.Text),
    sa.Column("target_version_id", sa.Text),
    sa.Column("checksum_algorithm", sa.Text),
    sa.Column("checksum", sa.Text),
    sa.Column("verified", sa.Text),
    sa.Column("not_carried", sa.Text),
    # Why it has failed, or why it was left out.
    sa.Column("error_class", sa.Text),
    sa.Column("error_code", sa.Text),
    sa.Column("error_operation", sa.Text),
    sa.Column("error_message", sa.Text),
    # Last change (ctime) of the file of either side before it was read or compared (``planning.unchanged``).
    sa.Column("file_changed", sa.Double),
    sa.UniqueConstraint("transfer_id", *SOURCE, name="uq_object_source"),
    sa.Index("ix_object_page", "transfer_id", "id"),
    sa.Index("ix_object_batch", "transfer_id", "batch_number"),
)
event: Final = sa.Table(
    "event",
    metadata,
    sa.Column("transfer_id", KEY, sa.ForeignKey("transfer.id"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("data", sa.Text, nullable=False),
    sa.Column("previous", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    # Of the key that made the hash (``audit_key``); none: it is a plain SHA-256.
    sa.Column("key_id", sa.Text),
)

# A keyed chain over all transfers. No reference to them: it shows when one is missing.
ledger: Final = sa.Table(
    "ledger",
    metadata,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("transfer_id", KEY, nullable=False),
    sa.Column("event_number", sa.Integer, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("event_hash", sa.Text, nullable=False),
    sa.Column("key_id", sa.Text),
    sa.Column("previous", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.Index("ix_ledger_transfer", "transfer_id"),
)

# Heads of the ledger that were written to a storage.
anchor: Final = sa.Table(
    "anchor",
    metadata,
    sa.Column("place", KEY, primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    # Until when its storage refuses to delete it; none: it is not locked.
    sa.Column("locked_until", sa.Double),
)

# A batch that has ended: the root of the Merkle tree over its objects.
seal: Final = sa.Table(
    "seal",
    metadata,
    sa.Column("transfer_id", KEY, sa.ForeignKey("transfer.id"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("objects", sa.Integer, nullable=False),
    sa.Column("root", sa.Text, nullable=False),
    sa.Column("key_id", sa.Text),
    sa.Column("mac", sa.Text, nullable=False),
    # 8 bytes of each leaf: they only say which row was changed, the root says that one was.
    sa.Column("leaves", sa.LargeBinary, nullable=False),
    # The rows themselves, compressed, once the transfer is pruned.
    sa.Column("archive", sa.LargeBinary),
)

# Notices that are to be sent: one row for each channel. ``episode`` tells several of one kind apart.
notice: Final = sa.Table(
    "notice",
    metadata,
    # ``notice_rows.SubjectKind``, and the id of one of them.
    sa.Column("subject_kind", sa.Text, primary_key=True),
    sa.Column("subject_id", KEY, primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("episode", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("channel", KEY, primary_key=True),
    # pending | sent | given_up
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0", default=0),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("next_at", sa.Double, nullable=False),
    sa.Column("sent_at", sa.Double),
    sa.Column("error", sa.Text),
    sa.Index("ix_notice_due", "state", "next_at"),
)

# Schedules. DBOS has a row of its own for each, which workers derive from this one.
schedule: Final = sa.Table(
    "schedule",
    metadata,
    sa.Column("id", KEY, primary_key=True),
    sa.Column("name", KEY, nullable=False, unique=True),
    sa.Column("cron", sa.Text, nullable=False),
    sa.Column("timezone", sa.Text, nullable=False),
    sa.Column("spec", sa.Text, nullable=False),
    sa.Column("priority", sa.Integer, nullable=False),
    # active | paused
    sa.Column("state", sa.Text, nullable=False),
    # Times before this one are not caught up: it was made, edited or resumed then.
    sa.Column("active_since", sa.Double, nullable=False),
    # Raised by each change of what fires when.
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("created_by", sa.Text, nullable=False),
    # Of its transfers, as those of a transfer.
    sa.Column("labels", sa.Text),
)

# The latest runs of a schedule. Each is written in the transaction of its transfer.
schedule_run: Final = sa.Table(
    "schedule_run",
    metadata,
    # The id of its workflow, which is the idempotency key of its transfer as well.
    sa.Column("id", KEY, primary_key=True),
    sa.Column("schedule_id", KEY, nullable=False),
    sa.Column("due_at", sa.Double, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    # submitted | waiting | joined | superseded | skipped | failed
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("transfer_id", KEY),
    sa.Column("message", sa.Text),
    sa.Index("ix_schedule_run", "schedule_id", "at"),
)

# What people did to schedules; kept when a schedule is removed. Each holds the hash of the one before, as ``event``.
schedule_event: Final = sa.Table(
    "schedule_event",
    metadata,
    sa.Column("schedule_id", KEY, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("name", KEY, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("data", sa.Text, nullable=False),
    sa.Column("previous", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.Column("key_id", sa.Text),
    sa.Index("ix_schedule_event_name", "name"),
)

# Links by which others see a delivery without a token (``service.share_links``). Of the token only a digest is kept.
share_link: Final = sa.Table(
    "share_link",
    metadata,
    # The start of the token, which is no secret: for lists, and to find the row.
    sa.Column("id", KEY, primary_key=True),
    # SHA-256 of the whole token, in hexadecimal.
    sa.Column("digest", sa.Text, nullable=False),
    # One of both: a transfer with those that retry it, or a label (``key=value``, or ``key`` for any value).
    sa.Column("transfer_id", KEY),
    sa.Column("label", sa.Text),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("created_by", sa.Text, nullable=False),
    sa.Column("expires_at", sa.Double, nullable=False),
    sa.Column("revoked_at", sa.Double),
    sa.Column("revoked_by", sa.Text),
    sa.Index("ix_share_link_created", "created_at"),
    sa.Index("ix_share_link_transfer", "transfer_id"),
    sa.Index("ix_share_link_label", "label"),
    sa.Index("ix_share_link_expires", "expires_at"),
)

# Mails that holders of links have requested, until they are sent: each reports the end of a transfer.
delivery_mail: Final = sa.Table(
    "delivery_mail",
    metadata,
    # Stands in the notice, in place of the address.
    sa.Column("id", KEY, primary_key=True),
    sa.Column("share_link_id", KEY, nullable=False),
    sa.Column("transfer_id", KEY, nullable=False),
    sa.Column("address", sa.Text, nullable=False),
    # The channel that sends it, as ``notice.channel``.
    sa.Column("channel", KEY, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Index("ix_delivery_mail_transfer", "transfer_id"),
    sa.Index("ix_delivery_mail_link", "share_link_id"),
)

# What people did to links. Each holds the hash of the one before, as ``event``.
share_link_event: Final = sa.Table(
    "share_link_event",
    metadata,
    sa.Column("share_link_id", KEY, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("data", sa.Text, nullable=False),
    sa.Column("previous", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.Column("key_id", sa.Text),
)

# Tickets for one download of a report (``service.report_tickets``). Of the ticket only a digest is kept.
report_ticket: Final = sa.Table(
    "report_ticket",
    metadata,
    # SHA-256 of the ticket, in hexadecimal.
    sa.Column("digest", KEY, primary_key=True),
    # By the clock of the database, so that servers need not agree.
    sa.Column("ends_at", sa.Double, nullable=False),
    # Of the share link whose holder requested it.
    sa.Column("share_link_id", KEY),
    sa.Column("transfer_id", KEY, nullable=False),
    sa.Column("format", sa.Text, nullable=False),
    sa.Column("price", sa.Text),
    sa.Column("page", sa.BigInteger, nullable=False),
)

sample: Final = sa.Table(
    "sample",
    metadata,
    sa.Column("transfer_id", KEY, sa.ForeignKey("transfer.id"), primary_key=True),
    sa.Column("executor_id", KEY, primary_key=True),
    sa.Column("at", sa.Double, primary_key=True),
    # Counted by this worker since it started.
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("objects", sa.BigInteger, nullable=False),
    sa.Column("requests", sa.BigInteger, nullable=False),
    sa.Column("throttled", sa.BigInteger, nullable=False),
    sa.Index("ix_sample_at", "at"),
)

# The course of a transfer that has ended, in equal intervals: samples are thinned, and removed in the end.
chart: Final = sa.Table(
    "chart",
    metadata,
    sa.Column("transfer_id", KEY, sa.ForeignKey("transfer.id"), primary_key=True),
    sa.Column("since", sa.Double, nullable=False),
    sa.Column("until", sa.Double, nullable=False),
    # JSON: of each interval bytes, objects, requests, throttled requests and workers.
    sa.Column("points", sa.Text, nullable=False),
)

engine_sample: Final = sa.Table(
    "engine_sample",
    metadata,
    sa.Column("executor_id", KEY, primary_key=True),
    sa.Column("at", sa.Double, primary_key=True),
    # Counted by the engine of this worker since it started.
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("requests", sa.BigInteger, nullable=False),
    sa.Column("retries", sa.BigInteger, nullable=False),
    sa.Column("throttled", sa.BigInteger, nullable=False),
    sa.Column("hedges", sa.BigInteger, nullable=False),
    # Times of all requests together: waiting for the right to begin, and in flight.
    sa.Column("waited_ms", sa.BigInteger, nullable=False),
    sa.Column("busy_ms", sa.BigInteger, nullable=False),
)

worker_live: Final = sa.Table(
    "worker_live",
    metadata,
    sa.Column("transfer_id", KEY, sa.ForeignKey("transfer.id"), primary_key=True),
    sa.Column("executor_id", KEY, primary_key=True),
    # By the clock of the database, so that hosts need not agree.
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("data", sa.Text, nullable=False),
)

# Questions of clients to gateways about folders of their shares, for as long as the client waits.
gateway_question: Final = sa.Table(
    "gateway_question",
    metadata,
    sa.Column("id", KEY, primary_key=True),
    # The process that is to answer.
    sa.Column("worker_id", KEY, nullable=False),
    sa.Column("path", KEY, nullable=False),
    # The files in the bucket are to be counted, too.
    sa.Column("counts", sa.Boolean, nullable=False),
    # By the clock of the database, so that hosts need not agree.
    sa.Column("ends_at", sa.Double, nullable=False),
    sa.Column("answer", sa.Text),
)

# Processes, each with its last heartbeat and its activity (``worker_rows``).
worker: Final = sa.Table(
    "worker",
    metadata,
    # One start of a process. On Postgres the executor id of its work as well.
    sa.Column("id", KEY, primary_key=True),
    # See ``workers.ProcessKind``.
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("pid", sa.Integer, nullable=False),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("schema_head", sa.Text, nullable=False),
    sa.Column("shape", sa.Text, nullable=False),
    # By the clock of the database, as the next two: for people. No verdict on the work of a worker rests on them.
    sa.Column("since", sa.Double, nullable=False),
    sa.Column("seen_at", sa.Double, nullable=False),
    # Each sign of life adds to the counter; watchers look for the change, not at the time.
    sa.Column("beats", sa.BigInteger, nullable=False),
    # It was found dead, and its work was given to others.
    sa.Column("gone_at", sa.Double),
    # It is to end when the batches that it is at have ended.
    sa.Column("drain_at", sa.Double),
    # Its activity, see ``workers.Activity``. ``facts`` are those of its kind alone.
    sa.Column("lanes", sa.Text, nullable=False),
    sa.Column("limits", sa.Text, nullable=False),
    sa.Column("resident", sa.BigInteger),
    sa.Column("transfers", sa.Integer, nullable=False),
    sa.Column("in_flight", sa.Integer, nullable=False),
    sa.Column("windows", sa.Text, nullable=False),
    sa.Column("facts", sa.Text, nullable=False),
)

# Named tokens of clients over HTTP, as digests (``token_rows``). A name has one that is in use, and those removed.
token: Final = sa.Table(
    "token",
    metadata,
    sa.Column("digest", KEY, primary_key=True),
    sa.Column("name", KEY, nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("expires_at", sa.Double),
    # It stays for a while: what was begun with it may go on by itself, and a file may name it still.
    sa.Column("removed_at", sa.Double),
    sa.Index("ix_token_name", "name"),
)

# What endpoints can do (``endpoint_facts``); answers and what was learned are JSON.
endpoint_fact: Final = sa.Table(
    "endpoint_fact",
    metadata,
    sa.Column("endpoint", KEY, primary_key=True),
    sa.Column("bucket", KEY, primary_key=True),
    sa.Column("identity", sa.Text, nullable=False),
    sa.Column("answers", sa.Text, nullable=False),
    sa.Column("learned", sa.Text, nullable=False),
    sa.Column("newest_at", sa.Double, nullable=False),
)

# Shares that workers have of limits which hold over all of them (``allotments``). Lapse by the database's clock.
allotment: Final = sa.Table(
    "allotment",
    metadata,
    sa.Column("name", KEY, primary_key=True),
    sa.Column("worker_id", KEY, primary_key=True),
    sa.Column("amount", sa.BigInteger, nullable=False),
    sa.Column("until", sa.Double, nullable=False),
)

# Limits of the view of an autoscaler (``autoscale``) that the settings of a process have given; no row: its default.
autoscale_limit: Final = sa.Table(
    "autoscale_limit",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Double, nullable=False),
)


def complete() -> sa.MetaData:
    """The tables with the index that no query names: making it loads the dialect of Postgres, which takes its time."""
    if not any(index.name == _FAILED for index in object_.indexes):
        # Failures are few and requested often. What failed has an error class, and nothing else has; ``state``, which
        # says the same, would make every result write every index.
        sa.Index(
            _FAILED,
            object_.c.transfer_id,
            object_.c.id,
            sqlite_where=object_.c.error_class.is_not(None),
            postgresql_where=object_.c.error_class.is_not(None),
        )
        # A few transfers are unfinished, however many there have been.
        for name, columns in _UNFINISHED.items():
            sa.Index(
                name,
                *(transfer.c[column] for column in columns),
                sqlite_where=transfer.c.ended_at.is_(None),
                postgresql_where=transfer.c.ended_at.is_(None),
            )
    return metadata


_FAILED: Final = "ix_object_failed"
_UNFINISHED: Final = {
    "ix_transfer_turn": ("turn",),
    "ix_transfer_target": ("target_place", "target_prefix"),
}
