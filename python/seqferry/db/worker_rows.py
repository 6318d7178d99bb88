"""Rows of processes that do work: their identity, heartbeats and activity.

A process that ends in order removes its row. The row of a killed one stays for ``KEPT_SECONDS``, at most
``MAX_SILENT`` of them. Whether a worker is dead is not judged by the times here (``workflows.liveness``).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from seqferry.db.database import clock
from seqferry.db.tables import worker
from seqferry.model.workers import NO_ACTIVITY, WORKING_KINDS, Activity, LimiterWindow, Limits, Process, ProcessStatus

SILENT_SECONDS: Final = 30.0
"""A process beats at least every 10 s; after a longer silence it is dead or cut off."""

KEPT_SECONDS: Final = 7 * 24 * 3600.0
"""Lifetime of the row of a silent process: longer than the three days of attempts to send a notice about it."""

MAX_SILENT: Final = 100
"""Rows of silent processes that are kept, the newest."""

_NO_FACTS: Final[Mapping[str, Any]] = {}


class DeadWorker(NamedTuple):
    """A worker that was found dead.

    Attributes:
        beats: its heartbeats until then. They distinguish this end from that of a worker that came back.
        transfers: transfers that it ran by its last report.
        own_work: it was started for one transfer, by a person who sees its end.
    """

    id: str
    beats: int
    transfers: int
    own_work: bool


def beat(connection: sa.Connection, process: Process, facts: Mapping[str, Any] = _NO_FACTS) -> None:
    """Record a heartbeat of a process; the first one adds its row, with these facts of its kind."""
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects.sqlite import insert
    else:
        from sqlalchemy.dialects.postgresql import insert
    now = clock(is_sqlite=connection.dialect.name == "sqlite")
    values = {
        **asdict(process),
        **_columns(replace(NO_ACTIVITY, facts=dict(facts))),
        "since": now,
        "seen_at": now,
        "beats": 1,
    }
    again = {"seen_at": now, "beats": worker.c.beats + 1, "gone_at": None}
    connection.execute(insert(worker).values(**values).on_conflict_do_update(index_elements=["id"], set_=again))


def describe(connection: sa.Connection, process_id: str, activity: Activity) -> None:
    """Record the activity of a process. It is no heartbeat: on PostgreSQL only ``beat`` is one."""
    connection.execute(worker.update().where(worker.c.id == process_id).values(**_columns(activity)))


def drain(connection: sa.Connection, process_id: str) -> None:
    """Request the end of a process after its current batches; the first request counts."""
    now = clock(is_sqlite=connection.dialect.name == "sqlite")
    asked = worker.update().where(worker.c.id == process_id, worker.c.drain_at.is_(None))
    connection.execute(asked.values(drain_at=now))


def is_draining(connection: sa.Connection, process_id: str) -> bool:
    query = sa.select(worker.c.drain_at).where(worker.c.id == process_id)
    return connection.execute(query).scalar() is not None


def remove(connection: sa.Connection, process_id: str) -> None:
    """Remove the row of a process that ends in order."""
    connection.execute(worker.delete().where(worker.c.id == process_id))


def mark_dead(connection: sa.Connection, process_ids: Collection[str] | None = None) -> list[DeadWorker]:
    """Mark workers as dead: these, or all on record (None). A heartbeat removes the mark.

    Returns:
        Those that were not marked before.
    """
    found = worker.update().where(worker.c.gone_at.is_(None), worker.c.kind.in_(WORKING_KINDS))
    if process_ids is not None:
        found = found.where(worker.c.id.in_(process_ids))
    found = found.values(gone_at=clock(is_sqlite=connection.dialect.name == "sqlite"))
    rows = connection.execute(found.returning(worker.c.id, worker.c.beats, worker.c.transfers, worker.c.facts)).all()
    return [DeadWorker(row.id, row.beats, row.transfers, bool(json.loads(row.facts).get("own_work"))) for row in rows]


def prune(connection: sa.Connection) -> None:
    """Remove rows of silent processes: old ones, and those beyond ``MAX_SILENT``."""
    silent = sa.not_(_is_alive(connection))
    kept = sa.select(worker.c.id).where(silent).order_by(worker.c.seen_at.desc(), worker.c.id).limit(MAX_SILENT)
    is_old = worker.c.seen_at <= clock(is_sqlite=connection.dialect.name == "sqlite") - KEPT_SECONDS
    found = sa.select(worker.c.id).where(silent, sa.or_(is_old, worker.c.id.not_in(kept)))
    # Another worker may prune too: it removes the rows that it has locked.
    ids = list(connection.execute(found.with_for_update(skip_locked=True)).scalars())
    if ids:
        connection.execute(worker.delete().where(worker.c.id.in_(ids)))


def read(connection: sa.Connection) -> list[ProcessStatus]:
    """All processes on record: those that are alive first, then by the time of their start."""
    alive = _is_alive(connection).label("alive")
    rows = connection.execute(sa.select(worker, alive)).all()
    found = [_status(row) for row in rows]
    return sorted(found, key=lambda one: (not one.alive, one.since, one.process.id))


def count_alive(connection: sa.Connection) -> int:
    """Number of workers that are alive, servers included."""
    query = sa.select(sa.func.count()).select_from(worker)
    return connection.execute(query.where(worker.c.kind.in_(WORKING_KINDS), _is_alive(connection))).scalar_one()


def has_only_http_servers(connection: sa.Connection) -> bool:
    """True when servers without a worker are alive, and no worker is: submitted transfers wait until one starts.

    False without any process: the calling command may become the worker.
    """
    kinds = sa.select(worker.c.kind).where(_is_alive(connection)).distinct()
    there = set(connection.execute(kinds).scalars())
    return "http" in there and there.isdisjoint(WORKING_KINDS)


def _is_alive(connection: sa.Connection) -> sa.ColumnElement[bool]:
    now = clock(is_sqlite=connection.dialect.name == "sqlite")
    return sa.and_(worker.c.gone_at.is_(None), worker.c.seen_at > now - SILENT_SECONDS)


def _columns(activity: Activity) -> dict[str, Any]:
    return {
        "lanes": _json(activity.lanes),
        "limits": _json(None if activity.limits is None else asdict(activity.limits)),
        "resident": activity.resident,
        "transfers": activity.transfers,
        "in_flight": activity.in_flight,
        "windows": _json([asdict(one) for one in activity.windows]),
        "facts": _json(activity.facts),
    }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _status(row: sa.Row[Any]) -> ProcessStatus:
    limits: dict[str, Any] | None = json.loads(row.limits)
    windows: Iterable[dict[str, Any]] = json.loads(row.windows)
    return ProcessStatus(
        process=Process(row.id, row.kind, row.host, row.pid, row.version, row.schema_head, row.shape),
        activity=Activity(
            lanes=tuple(json.loads(row.lanes)),
            limits=None if limits is None else Limits(**limits),
            resident=row.resident,
            transfers=row.transfers,
            in_flight=row.in_flight,
            windows=tuple(LimiterWindow(**one) for one in windows),
            facts=json.loads(row.facts),
        ),
        since=row.since,
        seen_at=row.seen_at,
        alive=bool(row.alive),
        draining=row.drain_at is not None,
        gone=row.gone_at is not None,
    )
