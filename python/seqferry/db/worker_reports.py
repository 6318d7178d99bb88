"""Reports of workers about transfers, and the requeueing of the work of dead workers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Final

import sqlalchemy as sa

from seqferry.db import allotments, worker_rows
from seqferry.db.advisory import AdvisoryLock, acquire, try_acquire
from seqferry.db.database import Database, clock
from seqferry.db.tables import tally, worker, worker_live
from seqferry.db.worker_rows import DeadWorker
from seqferry.model import names

LastBeat = tuple[int, float]
"""Last heartbeat of a worker: a counter, and the time by the database's clock."""

_SUPERVISED_SECONDS: Final = 15.0
"""A worker that reported a transfer within this time may still write for it: its lease ends before."""

_EXECUTOR: Final = re.compile(r"(.+)-([0-9]+)-[0-9a-f]{8}(?:@|$)")
"""Host and process in the name of a worker (``workflows.worker``)."""


@dataclass(frozen=True, slots=True)
class Report:
    """A worker's view of one transfer. Counts since the worker began it; ``slowest`` as ``models.ActiveObject``.

    Attributes:
        bytes_in_progress: bytes at the target that no recorded object has.
    """

    bytes: int
    objects: int
    bytes_in_progress: int
    bytes_per_second: float
    in_flight: int
    requests: int
    retries: int
    throttled: int
    slowest: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ReportingWorker:
    """A worker that reported a transfer ``silent`` seconds ago, and may still run it."""

    executor_id: str
    silent: float

    @property
    def process(self) -> str:
        """The worker as text."""
        found = _EXECUTOR.match(self.executor_id)
        return "another process" if found is None else f"process {found[2]} on {found[1]}"


def sum_recorded_bytes(connection: sa.Connection, transfer_ids: Sequence[str]) -> dict[str, int]:
    """Bytes of recorded objects of these transfers."""
    query = sa.select(tally.c.transfer_id, tally.c.bytes_done).where(tally.c.transfer_id.in_(transfer_ids))
    return {row.transfer_id: row.bytes_done for row in connection.execute(query)}


def report(
    connection: sa.Connection,
    database: Database,
    executor_id: str,
    reports: dict[str, Report],
    recorded: Mapping[str, int],
) -> None:
    """Write the reports of this worker.

    Args:
        recorded: bytes of recorded objects, as they were just before the reports were taken.
    """
    now = database.now(connection)
    rows: list[dict[str, Any]] = []
    for transfer_id, one in sorted(reports.items()):
        known = {"bytes_recorded": recorded[transfer_id]} if transfer_id in recorded else {}
        data = json.dumps({**asdict(one), **known}, ensure_ascii=False)
        rows.append({"transfer_id": transfer_id, "executor_id": executor_id, "at": now, "data": data})
    if rows:
        connection.execute(_upsert(is_sqlite=database.is_sqlite), rows)


def find_reporting_workers(connection: sa.Connection, database: Database, transfer_id: str) -> list[ReportingWorker]:
    """Workers that may still write for the transfer, the latest report first.

    A worker that is stopped or cut off may write for longer than ``LiveActivity`` shows it.
    """
    now = clock(is_sqlite=database.is_sqlite)
    query = sa.select(worker_live.c.executor_id, (now - worker_live.c.at).label("silent")).where(
        worker_live.c.transfer_id == transfer_id, worker_live.c.at > now - _SUPERVISED_SECONDS
    )
    rows = connection.execute(query.order_by(worker_live.c.at.desc()))
    return [ReportingWorker(row.executor_id, row.silent) for row in rows]


def delete_reports(connection: sa.Connection, executor_id: str) -> None:
    """Delete the reports of a worker that stops. Its row is removed by ``worker_rows.remove``."""
    connection.execute(worker_live.delete().where(worker_live.c.executor_id == executor_id))


def delete_all_reports(connection: sa.Connection) -> list[DeadWorker]:
    """Delete the reports of all workers, and mark these as dead; returns those that were killed.

    On SQLite, with the lock of the state folder."""
    connection.execute(worker_live.delete())
    return worker_rows.mark_dead(connection)


def read_last_beats(connection: sa.Connection) -> dict[str, LastBeat | None]:
    """The last beat of each worker that has beaten or holds work; None if it never has. PostgreSQL only."""
    rows = connection.execute(_SIGNS, {"app": names.APPLICATION})
    return {row.executor_id: None if row.beats is None else (row.beats, row.seen_at) for row in rows}


@dataclass(frozen=True, slots=True)
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
    """``signs``, and what an idle worker looks for, in one statement; for a worker that has beaten: a row is there."""
    rows = connection.execute(_SIGNS_AND_NEWS, {"app": names.APPLICATION, "queues": list(queues)}).all()
    found = {row.executor_id: None if row.beats is None else (row.beats, row.seen_at) for row in rows}
    return found, PendingWork(rows[0].waiting, rows[0].entries, rows[0].schedules)


@dataclass(frozen=True, slots=True)
class ReapedWork:
    """Dead workers, and by id the workflows that were requeued, each with its worker."""

    gone: list[DeadWorker]
    work: dict[str, str]


def reap(connection: sa.Connection, dead: Mapping[str, LastBeat | None]) -> ReapedWork:
    """Requeue the work of dead workers. PostgreSQL only, one transaction.

    Only of workers whose last beat is still the given one: an earlier beat saves its worker, and a later one waits for
    the end of this transaction.

    DBOS itself recovers work only when a process starts again under the same executor id, which ours never do. The
    statement does what its recovery does, for workers of any version, and only for rows that the dead one still holds.
    """
    if not dead or not try_acquire(connection, AdvisoryLock.REAPING):
        return ReapedWork([], {})
    found = sa.select(worker.c.id, worker.c.beats, worker.c.seen_at)
    found = found.where(worker.c.id.in_(dead), worker.c.gone_at.is_(None)).with_for_update()
    now = {row.id: (row.beats, row.seen_at) for row in connection.execute(found)}
    silent = [executor_id for executor_id, sign in dead.items() if now.get(executor_id) == sign]
    connection.execute(worker_live.delete().where(worker_live.c.executor_id.in_(silent)))
    allotments.release(connection, silent)
    return ReapedWork(worker_rows.mark_dead(connection, silent), requeue(connection, silent))


def requeue(connection: sa.Connection, executor_ids: Sequence[str]) -> dict[str, str]:
    """Requeue the workflows of these workers; returns their ids, each with its worker.

    A workflow whose transfer has ended has nothing left to do and leaves the queue: no worker may take from its lane
    any more.
    """
    rows = connection.execute(_REQUEUE, {"app": names.APPLICATION, "dead": list(executor_ids)})
    return {row.workflow_uuid: row.executor_id for row in rows if row.status == "ENQUEUED"}


def exclude_reapers(connection: sa.Connection) -> None:
    """Wait for a reaper that is at work, and exclude reapers until the end of the transaction."""
    acquire(connection, AdvisoryLock.REAPING)


def find_owned(connection: sa.Connection, executor_id: str, workflow_ids: Sequence[str]) -> set[str]:
    """Workflows, among the given ones, that this worker owns. PostgreSQL only."""
    return set(connection.execute(_HELD, {"ids": list(workflow_ids), "me": executor_id}).scalars())


_HELD: Final = sa.text("""
    select workflow_uuid from dbos.workflow_status
    where workflow_uuid = any(:ids) and status = 'PENDING' and executor_id = :me
""")


_SIGNS_TEXT: Final = """
    select coalesce(b.id, w.executor_id) as executor_id, b.beats, b.seen_at
    from (
        select distinct executor_id from dbos.workflow_status where status = 'PENDING' and application_name = :app
    ) w
    full join (
        select id, beats, seen_at from worker where gone_at is null and kind in ('worker', 'serve')
    ) b on b.id = w.executor_id collate "C"
    where coalesce(b.id, w.executor_id) is not null
"""

_SIGNS: Final = sa.text(_SIGNS_TEXT)

_SIGNS_AND_NEWS: Final = sa.text(f"""
    select signs.executor_id, signs.beats, signs.seen_at, news.waiting, news.entries, news.schedules
    from (
        select
            exists(
                select 1 from dbos.workflow_status where status = 'ENQUEUED' and queue_name = any(:queues)
            ) as waiting,
            (select coalesce(max(number), 0) from ledger) as entries,
            (select count(*) + coalesce(sum(revision), 0) from schedule) as schedules
    ) news cross join ({_SIGNS_TEXT}) signs
""")  # noqa: S608 - constants

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
        queue_name = case when held.is_over then null else coalesce(w.queue_name, '_dbos_internal_queue') end,
        deduplication_id = case when held.is_over then null else w.deduplication_id end,
        completed_at = case when held.is_over then clock.now else w.completed_at end,
        owner_xid = null, started_at_epoch_ms = null, updated_at = clock.now
    from held, clock where w.workflow_uuid = held.workflow_uuid
    returning w.workflow_uuid, w.executor_id, w.status
""")


@cache
def _upsert(*, is_sqlite: bool) -> sa.Executable:
    """Writes rows of ``worker_live``, over those that are there."""
    if is_sqlite:
        from sqlalchemy.dialects.sqlite import insert
    else:
        from sqlalchemy.dialects.postgresql import insert
    statement = insert(worker_live)
    new = {name: statement.excluded[name] for name in ("at", "data")}
    return statement.on_conflict_do_update(index_elements=["transfer_id", "executor_id"], set_=new)
