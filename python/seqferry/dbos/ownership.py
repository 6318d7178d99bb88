"""Ownership of running workflows: who has which, and how the work of dead workers goes back to the queue.

PostgreSQL only: on SQLite one worker works at a time, under the same executor id, and DBOS itself recovers its work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import sqlalchemy as sa

from seqferry.db import allotments, worker_rows
from seqferry.db.advisory import AdvisoryLock, acquire, try_acquire
from seqferry.db.tables import worker, worker_live
from seqferry.db.worker_rows import DeadWorker
from seqferry.dbos.queue import INTERNAL_QUEUE
from seqferry.model import names
from seqferry.model.frozen import frozen

LastBeat = tuple[int, float]
"""Last heartbeat of a worker: a counter, and the time by the database's clock."""


@frozen
class PendingWork:
    """Facts that show an idle worker new work, in case that a notification was lost.

    Attributes:
        waiting: something waits on a queue of this worker.
        entries: number of entries of the ledger: submissions, ends, and later events.
        schedules: a number that changes with each change of a schedule.
    """

    waiting: bool
    entries: int
    schedules: int


def read_beats_and_work(
    connection: sa.Connection, queues: Sequence[str]
) -> tuple[dict[str, LastBeat | None], PendingWork]:
    """The last beat of each worker that has beaten or holds work, None if it never has; and what waits for a worker.

    Args:
        queues: those of the worker that asks.
    """
    rows = connection.execute(_BEATS_AND_WORK, {"app": names.APPLICATION, "queues": list(queues)}).all()
    beats = {
        row.executor_id: None if row.beats is None else (row.beats, row.seen_at)
        for row in rows
        if row.executor_id is not None
    }
    return beats, PendingWork(rows[0].waiting, rows[0].entries, rows[0].schedules)


def reap(connection: sa.Connection, dead: Mapping[str, LastBeat | None]) -> tuple[list[DeadWorker], dict[str, str]]:
    """Mark workers as dead, and requeue their work, in one transaction; returns both, the work as ``requeue`` does.

    Only of workers whose last beat is still the given one: an earlier beat saves its worker, and a later one waits for
    the end of this transaction.
    """
    if not dead or not try_acquire(connection, AdvisoryLock.REAPING):
        return [], {}
    found = sa.select(worker.c.id, worker.c.beats, worker.c.seen_at)
    found = found.where(worker.c.id.in_(dead), worker.c.gone_at.is_(None)).with_for_update()
    now = {row.id: (row.beats, row.seen_at) for row in connection.execute(found)}
    silent = [executor_id for executor_id, sign in dead.items() if now.get(executor_id) == sign]
    connection.execute(worker_live.delete().where(worker_live.c.executor_id.in_(silent)))
    allotments.release(connection, silent)
    return worker_rows.mark_dead(connection, silent), requeue(connection, silent)


def requeue(connection: sa.Connection, executor_ids: Sequence[str]) -> dict[str, str]:
    """Requeue the workflows of these workers; returns their ids, each with its worker.

    A workflow whose transfer has ended has nothing left to do and leaves the queue: no worker may take from its lane
    any more.

    Would be replaced by a public ``recover_pending_workflows`` for workflows of any version. DBOS recovers work only
    when a process starts again under the same executor id, which ours never do. ``resume_workflows`` also takes rows
    that a live worker has claimed since, and resets their attempts.
    """
    rows = connection.execute(
        _REQUEUE, {"app": names.APPLICATION, "dead": list(executor_ids), "internal": INTERNAL_QUEUE}
    )
    return {row.workflow_uuid: row.executor_id for row in rows if row.status == "ENQUEUED"}


def exclude_reapers(connection: sa.Connection) -> None:
    """Wait for a reaper that is at work, and exclude reapers until the end of the transaction."""
    acquire(connection, AdvisoryLock.REAPING)


def find_owned(connection: sa.Connection, executor_id: str, workflow_ids: Sequence[str]) -> set[str]:
    """Workflows, among the given ones, that this worker owns; in the caller's transaction."""
    # Would be replaced by ``list_workflows`` on a given connection.
    return set(connection.execute(_OWNED, {"ids": list(workflow_ids), "me": executor_id}).scalars())


_OWNED: Final = sa.text("""
    select workflow_uuid from dbos.workflow_status
    where workflow_uuid = any(:ids) and status = 'PENDING' and executor_id = :me
""")


_BEATS_AND_WORK: Final = sa.text("""
    select beat.executor_id, beat.beats, beat.seen_at, news.waiting, news.entries, news.schedules
    from (
        select
            exists(
                select 1 from dbos.workflow_status where status = 'ENQUEUED' and queue_name = any(:queues)
            ) as waiting,
            (select coalesce(max(number), 0) from ledger) as entries,
            (select count(*) + coalesce(sum(revision), 0) from schedule) as schedules
    ) news left join (
        select coalesce(b.id, w.executor_id) as executor_id, b.beats, b.seen_at
        from (
            select distinct executor_id from dbos.workflow_status where status = 'PENDING' and application_name = :app
        ) w
        full join (
            select id, beats, seen_at from worker where gone_at is null and kind in ('worker', 'serve')
        ) b on b.id = w.executor_id collate "C"
    ) beat on true
""")

_REQUEUE: Final = sa.text("""
    with held as (
        select workflow_uuid, exists(
            select 1 from transfer
            where id = split_part(workflow_uuid, ':', 1) collate "C" and ended_at is not null
        ) as is_over
        from dbos.workflow_status
        where status = 'PENDING' and application_name = :app and executor_id = any(:dead)
        for update
    ), clock as (
        select (extract(epoch from clock_timestamp()) * 1000)::bigint as now
    )
    update dbos.workflow_status w set
        status = case when held.is_over then 'CANCELLED' else 'ENQUEUED' end,
        queue_name = case when held.is_over then null else coalesce(w.queue_name, :internal) end,
        deduplication_id = case when held.is_over then null else w.deduplication_id end,
        completed_at = case when held.is_over then clock.now else w.completed_at end,
        owner_xid = null, started_at_epoch_ms = null, updated_at = clock.now
    from held, clock where w.workflow_uuid = held.workflow_uuid
    returning w.workflow_uuid, w.executor_id, w.status
""")
