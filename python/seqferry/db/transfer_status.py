"""Statuses of transfers for CLI and HTTP API: state, totals and live figures of many, by one query."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import sqlalchemy as sa

from seqferry.db import lanes, worker_rows
from seqferry.db.database import Database, clock
from seqferry.db.lanes import LIVE_SECONDS
from seqferry.db.record import receipts
from seqferry.db.tables import tally, transfer, worker_live
from seqferry.db.transfers import adjustment_of, is_paused
from seqferry.model import labels, operations
from seqferry.model.errors import UnsupportedError
from seqferry.model.models import (
    ActiveObject,
    LiveActivity,
    ResolvedSpec,
    Status,
    Totals,
)
from seqferry.spec import stored

SLOWEST: Final = 5

_NO_WORKER: Final = "a worker, and none is at the database"


def statuses(connection: sa.Connection, database: Database, *, ids: Sequence[str] | None, limit: int) -> list[Status]:
    """Statuses of the given transfers, or of the newest ``limit`` ones, newest first.

    One statement, whose cost depends neither on objects nor on batches; a second one where some wait for their turn.
    """
    query = _statuses_query(is_sqlite=database.is_sqlite, by_id=ids is not None)
    rows = connection.execute(query, {"limit": limit} if ids is None else {"limit": limit, "ids": ids})
    found: dict[str, tuple[sa.Row[Any], list[dict[str, Any]]]] = {}
    for row in rows:  # a transfer comes once for each worker that is at it
        _, reports = found.setdefault(row.id, (row, []))
        if row.report is not None:
            reports.append(json.loads(row.report))
    waiting = [row.id for row, _ in found.values() if row.state == "queued" and row.blocked_by is None]
    ahead = lanes.count_ahead(connection, waiting)
    unattended = set(waiting) if waiting and worker_rows.has_only_http_servers(connection) else set[str]()
    return [
        _status(
            row, _totals(row), *_sum_reports(reports), ahead.get(row.id), _NO_WORKER if row.id in unattended else None
        )
        for row, reports in found.values()
    ]


@cache
def _statuses_query(*, is_sqlite: bool, by_id: bool) -> sa.Select[Any]:
    """Made once: it is asked many times a second, and making it takes several times as long as answering it."""
    other = transfer.alias("other")
    is_fresh = worker_live.c.at > clock(is_sqlite=is_sqlite) - LIVE_SECONDS
    supervised = sa.select(worker_live.c.transfer_id).where(worker_live.c.transfer_id == other.c.id, is_fresh)
    why_blocked = sa.select(other.c.waits_for).where(
        other.c.id == transfer.c.blocked_by, other.c.ended_at.is_(None), sa.not_(supervised.exists())
    )
    child = transfer.alias("child")
    retried_by = (
        sa.select(child.c.id).where(child.c.retry_of == transfer.c.id).order_by(child.c.created_at.desc()).limit(1)
    )
    query = sa.select(
        transfer,
        *(tally.c[name].label(f"total_{name}") for name in receipts.TOTALS),
        why_blocked.scalar_subquery().label("why_blocked"),
        retried_by.scalar_subquery().label("retried_by"),
    )
    query = query.join(tally, tally.c.transfer_id == transfer.c.id)
    query = query.order_by(transfer.c.created_at.desc(), transfer.c.id).limit(sa.bindparam("limit"))
    if by_id:
        query = query.where(transfer.c.id.in_(sa.bindparam("ids", expanding=True)))
    wanted = query.subquery("wanted")
    fresh = sa.and_(worker_live.c.transfer_id == wanted.c.id, is_fresh)
    return (
        sa.select(wanted, worker_live.c.data.label("report"))
        .select_from(wanted.outerjoin(worker_live, fresh))
        .order_by(wanted.c.created_at.desc(), wanted.c.id)
    )


def _totals(row: sa.Row[Any]) -> Totals:
    return Totals(**{name: getattr(row, f"total_{name}") for name in receipts.TOTALS})


def _status(
    row: sa.Row[Any],
    totals: Totals,
    live: LiveActivity,
    bytes_seen: int | None,
    ahead: int | None,
    lacking: str | None,
) -> Status:
    """``lacking``: what the transfer waits for if it has no reason of its own to wait."""
    spec, unsupported = _read_spec(row.spec)
    # The workers have seen more than is recorded now, or less when their reports are a second old.
    bytes_done = min(totals.bytes, max(totals.bytes_done, bytes_seen or 0))
    return Status(
        id=row.id,
        state=row.state,
        spec=spec,
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
        waits_for=_waits_for(row, live, unsupported) or (None if live.workers or is_paused(row) else lacking),
        unsupported=None if unsupported is None else unsupported.what,
        ahead=ahead,
        blocked_by=row.blocked_by if row.ended_at is None else None,
        receipt_digest=row.receipt_digest,
        pruned_at=row.pruned_at,
        adjustment=adjustment_of(row),
        retried_by=row.retried_by,
        description=labels.read_stored(row.name, row.labels),
    )


def _read_spec(written: str) -> tuple[ResolvedSpec, UnsupportedError | None]:
    spec, unsupported = stored.read_legible(written)
    try:
        operations.require_known(spec.operation)
    except UnsupportedError as why:
        unsupported = unsupported or why
    return spec, unsupported


def _waits_for(row: sa.Row[Any], live: LiveActivity, unsupported: UnsupportedError | None) -> str | None:
    if row.ended_at is not None or is_paused(row):
        return None
    if unsupported is not None and row.blocked_by is None and (live.workers == 0 or row.started_at is None):
        return row.waits_for or unsupported.needs
    if live.workers:
        return None
    if row.blocked_by is None:
        return row.waits_for
    other = f"transfer {row.blocked_by}, which writes to the same keys"
    return other if row.why_blocked is None else f"{other} and waits for {row.why_blocked}"


def _sum_reports(reports: list[dict[str, Any]]) -> tuple[LiveActivity, int | None]:
    """The activity of all workers, and the bytes at the target as of their reports; None where these do not tell."""
    slowest = sorted(
        (ActiveObject(**active) for report in reports for active in report["slowest"]),
        key=lambda active: -active.seconds,
    )
    live = LiveActivity(
        workers=len(reports),
        bytes_per_second=sum(report["bytes_per_second"] for report in reports),
        in_flight=sum(report["in_flight"] for report in reports),
        requests=sum(report["requests"] for report in reports),
        retries=sum(report["retries"] for report in reports),
        throttled=sum(report["throttled"] for report in reports),
        slowest=tuple(slowest[:SLOWEST]),
    )
    # A transfer whose tally was not read yet has no such figure in its report.
    recorded = [report["bytes_recorded"] for report in reports if "bytes_recorded" in report]
    return live, min(recorded) + sum(report["bytes_in_progress"] for report in reports) if recorded else None
