"""What workers report of themselves: progress each second, samples for the record, and signs of life on Postgres."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Final

import sqlalchemy as sa

from seqferry import names
from seqferry.db.database import Database
from seqferry.db.tables import executor_beat, sample, worker_live

DEAD_AFTER_SECONDS: Final = 10.0
"""Ten beats: a worker that is silent for longer is taken for dead, and its work is given to others."""

FORGET_SECONDS: Final = 86_400.0
_REAPER_LOCK: Final = 7701


@dataclass(frozen=True, slots=True)
class Report:
    """A worker's view of one transfer. Counts since the worker took it up; ``slowest`` as ``models.ActiveObject``."""

    bytes: int
    objects: int
    bytes_in_progress: int
    bytes_per_second: float
    in_flight: int
    requests: int
    retries: int
    throttled: int
    slowest: list[dict[str, Any]]


def report(connection: sa.Connection, database: Database, executor_id: str, reports: dict[str, Report]) -> None:
    now = database.now(connection)
    for transfer_id, one in sorted(reports.items()):
        _upsert(
            connection,
            worker_live,
            {"transfer_id": transfer_id, "executor_id": executor_id},
            {"at": now, "data": json.dumps(asdict(one), ensure_ascii=False)},
        )


def take_samples(connection: sa.Connection, database: Database, executor_id: str, reports: dict[str, Report]) -> None:
    now = database.now(connection)
    connection.execute(
        sample.insert(),
        [
            {
                "transfer_id": transfer_id,
                "executor_id": executor_id,
                "at": now,
                "bytes": one.bytes,
                "objects": one.objects,
                "requests": one.requests,
                "throttled": one.throttled,
            }
            for transfer_id, one in sorted(reports.items())
        ],
    )


def withdraw(connection: sa.Connection, executor_id: str) -> None:
    """The worker leaves: it reports nothing any more, and what is left of its work may be taken at once."""
    connection.execute(worker_live.delete().where(worker_live.c.executor_id == executor_id))
    connection.execute(executor_beat.delete().where(executor_beat.c.executor_id == executor_id))


def beat(connection: sa.Connection, executor_id: str) -> None:
    """Say "alive", by the clock of the database. Postgres only."""
    _upsert(connection, executor_beat, {"executor_id": executor_id}, {"beat_at": sa.func.clock_timestamp()})


def reap(connection: sa.Connection, dead_after: float = DEAD_AFTER_SECONDS) -> list[str]:
    """Give the work of dead workers back to the queue; returns the workflow ids. Postgres only, one transaction.

    DBOS itself recovers work only when a process starts again under the same executor id, which ours never do. The
    statement does what its recovery does, for workers of any version, and only for rows that the dead one still holds.
    """
    if not connection.execute(sa.text("select pg_try_advisory_xact_lock(:key)"), {"key": _REAPER_LOCK}).scalar():
        return []
    dead = list(connection.execute(_DEAD, {"app": names.APPLICATION, "dead_after": dead_after}).scalars())
    connection.execute(_FORGET, {"old": FORGET_SECONDS})
    if not dead:
        return []
    return list(connection.execute(_REQUEUE, {"app": names.APPLICATION, "dead": dead}).scalars())


_DEAD: Final = sa.text("""
    select distinct w.executor_id from dbos.workflow_status w
    left join executor_beat b on b.executor_id = w.executor_id
         and b.beat_at > clock_timestamp() - make_interval(secs => :dead_after)
    where w.status = 'PENDING' and w.application_name = :app and b.executor_id is null
""")

_REQUEUE: Final = sa.text("""
    update dbos.workflow_status set status = 'ENQUEUED', owner_xid = null, started_at_epoch_ms = null,
        queue_name = coalesce(queue_name, '_dbos_internal_queue'),
        updated_at = (extract(epoch from clock_timestamp()) * 1000)::bigint
    where status = 'PENDING' and application_name = :app and executor_id = any(:dead)
    returning workflow_uuid
""")

_FORGET: Final = sa.text("delete from executor_beat where beat_at < clock_timestamp() - make_interval(secs => :old)")


def _upsert(connection: sa.Connection, table: sa.Table, key: dict[str, Any], values: dict[str, Any]) -> None:
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects.sqlite import insert
    else:
        from sqlalchemy.dialects.postgresql import insert
    connection.execute(
        insert(table).values(**key, **values).on_conflict_do_update(index_elements=list(key), set_=values)
    )
