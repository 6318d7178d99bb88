"""Transfers as a whole: their rows, their states, what a status shows.

States and who moves them (each in one transaction with its event)::

    queued ──plan begins──> planning ──listed──> running ──all batches ended──> done | failed
      │                        │                    │
      │ cancel                 └──────cancel────────┴──> cancelling ──all batches ended──> cancelled
      └────────────────────────────────────────────────────────────────────────────────────> cancelled

A job-wide error is written to ``error_code`` and ``error_message`` at once, while the state stays: batches see it and
stop, and the state turns to ``failed`` when the last one has. So an ended state means that no worker touches the
storage any more. Objects that were not attempted to their end are ``cancelled`` then. A cancel that comes first wins.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final

import sqlalchemy as sa

from seqferry import spec as specs
from seqferry.db import events
from seqferry.db.database import Database, clock
from seqferry.db.tables import batch, tally, transfer, worker_live
from seqferry.models import ENDED_TRANSFER_STATES, ActiveObject, Live, Status, Totals, TransferState

LIVE_SECONDS: Final = 5.0
"""Reports of workers are written each second; one that is older than this comes from a worker that is gone."""

SLOWEST: Final = 5

_TOTALS: Final = ("objects", "bytes", "done", "skipped", "failed", "cancelled", "bytes_done")


def insert(
    connection: sa.Connection,
    *,
    transfer_id: str,
    spec_json: str,
    at: float,
    actor: str,
    idempotency_key: str | None,
) -> None:
    connection.execute(
        transfer.insert().values(
            id=transfer_id,
            state="queued",
            spec=spec_json,
            created_at=at,
            created_by=actor,
            idempotency_key=idempotency_key,
        )
    )
    connection.execute(tally.insert().values(transfer_id=transfer_id))
    events.append(connection, transfer_id, at, "submitted", actor, {"spec": json.loads(spec_json)})


def by_idempotency_key(connection: sa.Connection, key: str) -> tuple[str, str] | None:
    """Id and spec (JSON) of the transfer that was submitted with this key."""
    row = connection.execute(
        sa.select(transfer.c.id, transfer.c.spec).where(transfer.c.idempotency_key == key)
    ).one_or_none()
    return None if row is None else (row.id, row.spec)


def ids_starting_with(connection: sa.Connection, prefix: str, limit: int) -> list[str]:
    # Ids are lower-case hexadecimal and "-": the range holds exactly those that start with the prefix.
    return list(
        connection.execute(
            sa.select(transfer.c.id)
            .where(transfer.c.id >= prefix, transfer.c.id < prefix + "~")
            .order_by(transfer.c.id)
            .limit(limit)
        ).scalars()
    )


def unfinished(connection: sa.Connection, *, after: str, limit: int) -> list[str]:
    """Ids of transfers that have not ended, in their order, from beyond ``after`` on."""
    return list(
        connection.execute(
            sa.select(transfer.c.id)
            .where(transfer.c.id > after, transfer.c.state.not_in(sorted(ENDED_TRANSFER_STATES)))
            .order_by(transfer.c.id)
            .limit(limit)
        ).scalars()
    )


def row_of(connection: sa.Connection, transfer_id: str, *, lock: bool = False) -> sa.Row[Any] | None:
    query = sa.select(transfer).where(transfer.c.id == transfer_id)
    # Not locked against references: what workers report of the transfer is written meanwhile.
    return connection.execute(query.with_for_update(key_share=True) if lock else query).one_or_none()


def is_stopping(row: sa.Row[Any]) -> bool:
    """True when work on the transfer is to be given up: cancelled by a person, or a job-wide error is known."""
    return row.state == "cancelling" or row.error_code is not None


def stopping(connection: sa.Connection, ids: Iterable[str]) -> set[str]:
    """Those of the transfers whose work is to be given up."""
    rows = connection.execute(sa.select(transfer).where(transfer.c.id.in_(list(ids))))
    return {row.id for row in rows if is_stopping(row)}


def begin_plan(
    connection: sa.Connection, transfer_id: str, at: float, actor: str, attendant: str
) -> sa.Row[Any] | None:
    """Note that a worker takes the transfer up; returns its row, or None when there is nothing to plan any more."""
    row = row_of(connection, transfer_id, lock=True)
    if row is None or row.state in ENDED_TRANSFER_STATES or is_stopping(row) or row.planned_at is not None:
        return None
    connection.execute(
        transfer.update()
        .where(transfer.c.id == transfer_id)
        .values(state="planning", started_at=row.started_at or at, attended_by=attendant)
    )
    if row.attended_by != attendant:  # else it begins anew by itself
        events.append(connection, transfer_id, at, "started" if row.attended_by is None else "resumed", actor)
    return row


def attend(connection: sa.Connection, transfer_id: str, at: float, actor: str, attendant: str) -> None:
    """Note that a worker goes on with the transfer; an event when it is not the one that began."""
    row = row_of(connection, transfer_id, lock=True)
    if row is None or row.state in ENDED_TRANSFER_STATES or row.attended_by == attendant:
        return
    connection.execute(transfer.update().where(transfer.c.id == transfer_id).values(attended_by=attendant))
    events.append(connection, transfer_id, at, "resumed", actor)


def set_target_absent(connection: sa.Connection, transfer_id: str, absent: bool) -> None:
    connection.execute(transfer.update().where(transfer.c.id == transfer_id).values(target_absent=absent))


def end_plan(connection: sa.Connection, transfer_id: str, at: float, actor: str) -> None:
    """All of the source is in our rows."""
    row = row_of(connection, transfer_id, lock=True)
    if row is None or row.planned_at is not None or row.state in ENDED_TRANSFER_STATES:
        return
    state = "running" if row.state == "planning" else row.state
    connection.execute(transfer.update().where(transfer.c.id == transfer_id).values(state=state, planned_at=at))
    totals = connection.execute(sa.select(tally).where(tally.c.transfer_id == transfer_id)).one()
    data = {"objects": totals.objects, "bytes": totals.bytes}
    events.append(connection, transfer_id, at, "planned", actor, data)


def request_cancel(connection: sa.Connection, transfer_id: str, at: float, actor: str) -> None:
    """Ask for a stop. Does nothing to a transfer that has ended or is stopping already, whatever for."""
    row = row_of(connection, transfer_id, lock=True)
    if row is None or row.state in ENDED_TRANSFER_STATES or is_stopping(row):
        return
    # Nothing has begun, so nothing has to be undone.
    unborn = row.state == "queued"
    values: dict[str, Any] = {"state": "cancelled", "ended_at": at} if unborn else {"state": "cancelling"}
    connection.execute(transfer.update().where(transfer.c.id == transfer_id).values(**values))
    events.append(connection, transfer_id, at, "cancel_requested", actor)
    if unborn:
        events.append(connection, transfer_id, at, "cancelled", actor)


def request_stop(connection: sa.Connection, transfer_id: str, at: float, actor: str, code: str, message: str) -> None:
    """Record a job-wide error, the first one only: its batches stop, then ``finish`` makes the transfer ``failed``."""
    row = row_of(connection, transfer_id, lock=True)
    if row is None or row.state in ENDED_TRANSFER_STATES or is_stopping(row):
        return
    connection.execute(
        transfer.update().where(transfer.c.id == transfer_id).values(error_code=code, error_message=message)
    )
    events.append(connection, transfer_id, at, "stopping", actor, {"code": code, "message": message})


def finish(connection: sa.Connection, transfer_id: str, at: float, actor: str) -> None:
    """Give the transfer its final state. To be called when its batches have ended; a second call does nothing."""
    row = row_of(connection, transfer_id, lock=True)
    if row is None or row.state in ENDED_TRANSFER_STATES:
        return
    state: TransferState = "done"
    if row.state == "cancelling":
        state = "cancelled"
    elif row.error_code is not None:
        state = "failed"
    connection.execute(transfer.update().where(transfer.c.id == transfer_id).values(state=state, ended_at=at))
    connection.execute(worker_live.delete().where(worker_live.c.transfer_id == transfer_id))
    data: dict[str, Any] = _settle(connection, transfer_id)
    if state == "failed":
        data |= {"code": row.error_code, "message": row.error_message}
    events.append(connection, transfer_id, at, state, actor, data)


def _settle(connection: sa.Connection, transfer_id: str) -> dict[str, int]:
    """Sum the batches of a transfer whose batches have ended into its tally; returns the sums.

    They are there already, unless a worker of a version without tallies had a hand in it.
    """
    sums = (sa.func.coalesce(sa.func.sum(batch.c[name]), 0).label(name) for name in _TOTALS)
    row = connection.execute(sa.select(*sums).where(batch.c.transfer_id == transfer_id)).one()
    # Postgres sums big integers as Decimal.
    totals = {name: int(getattr(row, name)) for name in _TOTALS}
    connection.execute(tally.update().where(tally.c.transfer_id == transfer_id).values(totals))
    return totals


def statuses(connection: sa.Connection, database: Database, *, ids: Sequence[str] | None, limit: int) -> list[Status]:
    """Those transfers, or the newest ``limit`` ones, newest first.

    One statement. Its cost depends neither on objects nor on batches.
    """
    query = _statuses_query(is_sqlite=database.is_sqlite, by_id=ids is not None)
    rows = connection.execute(query, {"limit": limit} if ids is None else {"limit": limit, "ids": ids})
    found: dict[str, tuple[sa.Row[Any], list[dict[str, Any]]]] = {}
    for row in rows:  # a transfer comes once for each worker that is at it
        _, reports = found.setdefault(row.id, (row, []))
        if row.report is not None:
            reports.append(json.loads(row.report))
    return [_status(row, _totals(row), *_summed(reports)) for row, reports in found.values()]


@cache
def _statuses_query(*, is_sqlite: bool, by_id: bool) -> sa.Select[Any]:
    """Made once: it is asked many times a second, and making it takes several times as long as answering it."""
    query = sa.select(transfer, *(tally.c[name].label(f"total_{name}") for name in _TOTALS))
    query = query.join(tally, tally.c.transfer_id == transfer.c.id)
    query = query.order_by(transfer.c.created_at.desc(), transfer.c.id).limit(sa.bindparam("limit"))
    if by_id:
        query = query.where(transfer.c.id.in_(sa.bindparam("ids", expanding=True)))
    wanted = query.subquery("wanted")
    fresh = sa.and_(
        worker_live.c.transfer_id == wanted.c.id, worker_live.c.at > clock(is_sqlite=is_sqlite) - LIVE_SECONDS
    )
    return (
        sa.select(wanted, worker_live.c.data.label("report"))
        .select_from(wanted.outerjoin(worker_live, fresh))
        .order_by(wanted.c.created_at.desc(), wanted.c.id)
    )


def _totals(row: sa.Row[Any]) -> Totals:
    return Totals(**{name: getattr(row, f"total_{name}") for name in _TOTALS})


def _status(row: sa.Row[Any], totals: Totals, live: Live, bytes_in_progress: int) -> Status:
    bytes_done = min(totals.bytes, totals.bytes_done + bytes_in_progress)
    return Status(
        id=row.id,
        state=row.state,
        spec=specs.from_json(row.spec),
        totals=Totals(
            objects=totals.objects,
            bytes=totals.bytes,
            done=totals.done,
            skipped=totals.skipped,
            failed=totals.failed,
            cancelled=totals.cancelled,
            bytes_done=bytes_done,
        ),
        planned=row.planned_at is not None,
        created_at=row.created_at,
        created_by=row.created_by,
        started_at=row.started_at,
        ended_at=row.ended_at,
        error_code=row.error_code,
        error_message=row.error_message,
        live=live,
    )


def _summed(reports: list[dict[str, Any]]) -> tuple[Live, int]:
    slowest = sorted(
        (ActiveObject(**active) for report in reports for active in report["slowest"]),
        key=lambda active: -active.seconds,
    )
    live = Live(
        workers=len(reports),
        bytes_per_second=sum(report["bytes_per_second"] for report in reports),
        in_flight=sum(report["in_flight"] for report in reports),
        requests=sum(report["requests"] for report in reports),
        retries=sum(report["retries"] for report in reports),
        throttled=sum(report["throttled"] for report in reports),
        slowest=tuple(slowest[:SLOWEST]),
    )
    return live, sum(report["bytes_in_progress"] for report in reports)
