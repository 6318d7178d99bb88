"""Gauges for a monitoring system: the work that waits, and the work that is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from seqferry.db import worker_rows
from seqferry.db.notice_rows import PENDING
from seqferry.db.tables import batch, notice, tally, transfer
from seqferry.model.frozen import frozen

if TYPE_CHECKING:
    from seqferry.db.database import Database

_OUTCOMES: Final = ("done", "skipped", "failed", "cancelled")


@frozen
class Gauges:
    """Gauges of the whole database, at one moment.

    Attributes:
        transfers: all of them, by state.
        batches: of unfinished transfers, by state (``queued``, ``active``).
        objects_left, bytes_left: found by planning, and not ended.
        objects, bytes_done: ended so far, by outcome; bytes at the target.
        workers: that are alive.
        notices: on record, by state; ``oldest_notice``: seconds since the oldest one was made that is still to be sent.
        oldest_waiting, oldest_running: seconds since the submission of the oldest transfer that no worker has begun and
            that waits for no other one, and since the start of the oldest one that runs.
    """

    transfers: dict[str, int]
    batches: dict[str, int]
    objects_left: int
    bytes_left: int
    objects: dict[str, int]
    bytes_done: int
    workers: int
    notices: dict[str, int]
    oldest_notice: float
    oldest_waiting: float
    oldest_running: float


def read(connection: sa.Connection, database: Database) -> Gauges:
    """One reading. Its cost grows with the transfers that are kept (10,000: some ms), not with their objects."""
    now = database.now(connection)
    unfinished = transfer.c.ended_at.is_(None)
    left = sa.select(
        sa.func.coalesce(sa.func.sum(tally.c.objects - sum((tally.c[name] for name in _OUTCOMES), sa.literal(0))), 0),
        sa.func.coalesce(sa.func.sum(tally.c.bytes - tally.c.bytes_done), 0),
    ).where(tally.c.transfer_id.in_(sa.select(transfer.c.id).where(unfinished)))
    objects_left, bytes_left = connection.execute(left).one()
    sums = [sa.func.coalesce(sa.func.sum(tally.c[name]), 0) for name in (*_OUTCOMES, "bytes_done")]
    *outcomes, bytes_done = connection.execute(sa.select(*sums)).one()
    oldest = sa.select(
        sa.func.min(transfer.c.created_at).filter(transfer.c.started_at.is_(None), transfer.c.blocked_by.is_(None)),
        sa.func.min(transfer.c.started_at),
    ).where(unfinished)
    waiting, running = connection.execute(oldest).one()
    by_state = sa.select(transfer.c.state, sa.func.count()).group_by(transfer.c.state)
    of_unfinished = sa.select(batch.c.state, sa.func.count()).where(
        batch.c.transfer_id.in_(sa.select(transfer.c.id).where(unfinished)), batch.c.state.in_(("queued", "active"))
    )
    states = connection.execute(by_state).all()
    batches = connection.execute(of_unfinished.group_by(batch.c.state)).all()
    of_notices = sa.select(notice.c.state, sa.func.count(), sa.func.min(notice.c.created_at)).group_by(notice.c.state)
    notices = {row[0]: (row[1], row[2]) for row in connection.execute(of_notices).all()}
    return Gauges(
        transfers={row[0]: row[1] for row in states},
        batches={row[0]: row[1] for row in batches},
        objects_left=int(objects_left),
        bytes_left=int(bytes_left),
        objects={name: int(count) for name, count in zip(_OUTCOMES, outcomes, strict=True)},
        bytes_done=int(bytes_done),
        workers=_workers(connection, database),
        notices={state: count for state, (count, _) in notices.items()},
        oldest_notice=max(0.0, now - notices[PENDING][1]) if PENDING in notices else 0.0,
        oldest_waiting=0.0 if waiting is None else max(0.0, now - waiting),
        oldest_running=0.0 if running is None else max(0.0, now - running),
    )


def _workers(connection: sa.Connection, database: Database) -> int:
    if database.is_sqlite:
        # This process is the one worker, or runs beside it, unless it does no work.
        return 0 if worker_rows.has_only_http_servers(connection) else 1
    return worker_rows.count_alive(connection)
