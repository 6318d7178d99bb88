"""Transfers as a whole: their rows, their states, what a status shows.

States and what changes them (each change in one transaction with its event)::

    queued ──plan begins──> planning ──listed──> running ──all batches ended──> done | failed
      │                        │                    │
      │ cancel                 └──────cancel────────┴──> cancelling ──all batches ended──> cancelled
      └────────────────────────────────────────────────────────────────────────────────────> cancelled

A job-wide error is written to ``error_code`` and ``error_message`` immediately, while the state stays: batches see it
and stop, and the state turns to ``failed`` when the last one has. So after an ended state no worker begins a request
that changes the storage: runs that were shut out have lost the lease to write (``workflows.lease``). Requests that were
under way may still end; ``docs/guarantees/durability.md`` says which, and for how long. Objects that were not attempted
to their end are ``cancelled`` then. A cancel that comes first wins.

A transfer that has not ended may be ``paused``: workers leave it within a second, with its uploads open. What it was
follows from the times in its row (``resumed_state``). Its work is parked on the queue in a lane that no worker takes
from, in the transaction that changes the state; a worker that comes upon it elsewhere parks it there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from seqferry.db import delivery_mail_rows, objects
from seqferry.db.record import events, receipts
from seqferry.db.tables import batch, sample, tally, transfer, worker_live
from seqferry.model import operations
from seqferry.model.locations import S3Location
from seqferry.model.models import ENDED_TRANSFER_STATES, WITH_FAILURES, Adjustment, TransferState
from seqferry.places import endpoints
from seqferry.spec import identity, stored

UNFINISHED: Final = transfer.c.ended_at.is_(None)
"""Condition for unfinished transfers, written as their indexes have it. An ended transfer has the time of its end."""

_TOTALS: Final = receipts.TOTALS


class NamedTransfer(NamedTuple):
    """A transfer that was found by its name."""

    id: str
    spec: str
    """As it is stored."""


def find_by_name(connection: sa.Connection, name: str, limit: int) -> list[NamedTransfer]:
    """The newest transfers of this name."""
    query = sa.select(transfer.c.id, transfer.c.spec).where(transfer.c.name == name)
    rows = connection.execute(query.order_by(transfer.c.created_at.desc()).limit(limit))
    return [NamedTransfer(*row) for row in rows]


def find_by_id_prefix(connection: sa.Connection, prefix: str, limit: int) -> list[str]:
    # Ids are lower-case hexadecimal and "-": the range holds exactly those that start with the prefix.
    return list(
        connection.execute(
            sa.select(transfer.c.id)
            .where(transfer.c.id >= prefix, transfer.c.id < prefix + "~")
            .order_by(transfer.c.id)
            .limit(limit)
        ).scalars()
    )


def find_unfinished(connection: sa.Connection, *, after: str, limit: int) -> list[str]:
    """Transfers that have not ended, wait for no other and are not paused, in the order of ids beyond ``after``."""
    rows = connection.execute(
        sa.select(transfer.c.id)
        .where(transfer.c.id > after, UNFINISHED, transfer.c.blocked_by.is_(None), transfer.c.state != "paused")
        .order_by(transfer.c.id)
        .limit(limit)
    )
    return list(rows.scalars())


def unfinished_states(connection: sa.Connection, limit: int) -> dict[str, TransferState]:
    """States of the newest transfers that have not ended, by id, the newest first."""
    rows = connection.execute(
        sa.select(transfer.c.id, transfer.c.state)
        .where(UNFINISHED)
        .order_by(transfer.c.created_at.desc(), transfer.c.id)
        .limit(limit)
    )
    return {row.id: row.state for row in rows}


def row_of(connection: sa.Connection, transfer_id: str, *, lock: bool = False) -> sa.Row[Any] | None:
    return connection.execute(_LOCKED_ROW if lock else _ROW, {"of": transfer_id}).one_or_none()


# Built once: the most frequent queries of a worker, and building one takes longer than its execution.
_ROW: Final = sa.select(transfer).where(transfer.c.id == sa.bindparam("of"))
# Not locked against references: what workers report of the transfer is written meanwhile.
_LOCKED_ROW: Final = _ROW.with_for_update(key_share=True)
_CHANGED_ROW: Final = transfer.update().where(transfer.c.id == sa.bindparam("of"))


def is_stopping(row: sa.Row[Any]) -> bool:
    """True when the transfer is to stop: cancelled by a person, or because of a job-wide error."""
    return row.state == "cancelling" or row.error_code is not None


def is_paused(row: sa.Row[Any]) -> bool:
    """True when a person has paused the transfer: workers stop it, and leave its uploads open."""
    return row.state == "paused"


def resumed_state(row: sa.Row[Any]) -> TransferState:
    """The state of a paused transfer after it is resumed."""
    if row.started_at is None:
        return "queued"
    return "planning" if row.planned_at is None else "running"


def pause(connection: sa.Connection, row: sa.Row[Any], at: float, actor: str) -> None:
    """Pause a transfer that has not ended, whose row is locked."""
    connection.execute(transfer.update().where(transfer.c.id == row.id).values(state="paused"))
    events.append(connection, row.id, at, "paused", actor)


def unpause(connection: sa.Connection, row: sa.Row[Any], at: float, actor: str) -> None:
    """Resume a paused transfer, whose row is locked."""
    state = resumed_state(row)
    connection.execute(transfer.update().where(transfer.c.id == row.id).values(state=state))
    events.append(connection, row.id, at, "resume_requested", actor)


def adjust(connection: sa.Connection, row: sa.Row[Any], adjustment: Adjustment, at: float, actor: str) -> None:
    """Change priority and limits of a transfer, whose row is locked."""
    values = asdict(adjustment)
    connection.execute(transfer.update().where(transfer.c.id == row.id).values(values))
    events.append(connection, row.id, at, "adjusted", actor, values)


def adjustment_of(row: sa.Row[Any]) -> Adjustment:
    return Adjustment(row.priority, row.max_requests, row.max_bandwidth, row.tpslimit)


def find_paused(connection: sa.Connection, ids: Iterable[str]) -> set[str]:
    """Transfers, among the given ones, that are paused."""
    query = sa.select(transfer.c.id).where(transfer.c.id.in_(list(ids)), transfer.c.state == "paused")
    return set(connection.execute(query).scalars())


def find_needing_attention(connection: sa.Connection, ids: Iterable[str]) -> set[str]:
    """Transfers, among the given ones, that have no open batch, or have ended or been stopped or paused."""
    is_open = sa.select(batch.c.number).where(
        batch.c.transfer_id == transfer.c.id, batch.c.state.in_(("queued", "active"))
    )
    query = sa.select(transfer.c.id).where(
        transfer.c.id.in_(list(ids)),
        sa.or_(transfer.c.state.not_in(("planning", "running")), transfer.c.error_code.is_not(None), ~is_open.exists()),
    )
    return set(connection.execute(query).scalars())


Endpoints = tuple[str | None, str | None]


class WorkLimits(NamedTuple):
    """Limits of a transfer, and the locations of which other limits may hold for it.

    ``endpoints`` are the identities of the services of source and target (None: AWS, or a disk).
    """

    adjustment: Adjustment
    source_uri: str
    target_uri: str
    endpoints: Endpoints = (None, None)


def read_work_limits(connection: sa.Connection, ids: Iterable[str]) -> dict[str, WorkLimits]:
    """Limits of these transfers, by id; without their endpoints."""
    wanted = list(ids)
    rows = connection.execute(_WORK_LIMITS, {"ids": wanted}) if wanted else ()
    return {row.id: WorkLimits(adjustment_of(row), row.source_uri, row.target_uri) for row in rows}


_WORK_LIMITS: Final = sa.select(
    *(transfer.c[name] for name in ("id", "source_uri", "target_uri", *(one.name for one in fields(Adjustment))))
).where(transfer.c.id.in_(sa.bindparam("ids", expanding=True)))


def endpoints_of(connection: sa.Connection, transfer_id: str) -> Endpoints:
    """Endpoints of a transfer as ``WorkLimits`` has them: they never change."""
    text = connection.execute(sa.select(transfer.c.spec).where(transfer.c.id == transfer_id)).scalar()
    if text is None:
        return None, None
    spec = stored.read(text)
    source, target = (
        endpoints.resolve(one) if isinstance(one, S3Location) else None for one in (spec.source, spec.target)
    )
    return source, target


def find_in_states(
    connection: sa.Connection,
    states: Sequence[str],
    conditions: Sequence[sa.ColumnElement[bool]],
    *,
    with_failures: bool,
) -> list[str]:
    """Ids of all transfers in these states of which the conditions hold, the oldest first.

    With ``with_failures`` those of which something has failed, and which no other retries.
    """
    query = sa.select(transfer.c.id).where(transfer.c.state.in_(states), *conditions)
    if ENDED_TRANSFER_STATES.isdisjoint(states):
        query = query.where(UNFINISHED)
    if with_failures:
        child = transfer.alias("child")
        retried = sa.select(child.c.id).where(child.c.retry_of == transfer.c.id)
        query = query.join(tally, tally.c.transfer_id == transfer.c.id)
        query = query.where(sa.or_(tally.c.failed > 0, transfer.c.state == "failed"), sa.not_(retried.exists()))
    return list(connection.execute(query.order_by(transfer.c.created_at, transfer.c.id)).scalars())


def find_stopping(connection: sa.Connection, ids: Iterable[str]) -> set[str]:
    """Transfers, among the given ones, that are to stop."""
    rows = connection.execute(sa.select(transfer).where(transfer.c.id.in_(list(ids))))
    return {row.id for row in rows if is_stopping(row)}


def begin_plan(
    connection: sa.Connection,
    transfer_id: str,
    at: float,
    actor: str,
    worker_session: str,
    locked: sa.Row[Any] | None = None,
) -> sa.Row[Any] | None:
    """Record that a worker begins to plan the transfer; returns its row, or None if nothing is left to plan.

    ``locked`` is its row, where the caller has locked it.

    Raises:
        AccessError, UnsupportedError: this process lacks what the transfer needs; nothing was recorded.
    """
    row = locked or row_of(connection, transfer_id, lock=True)
    if row is None or row.state in ENDED_TRANSFER_STATES or is_stopping(row) or row.planned_at is not None:
        return None
    spec = stored.read(row.spec)
    operations.require_known(spec.operation)
    identity.require(spec)
    began = {"state": "planning", "started_at": row.started_at or at, "attended_by": worker_session, "waits_for": None}
    connection.execute(_CHANGED_ROW, {"of": transfer_id, **began})
    if row.attended_by != worker_session:  # else it restarts by itself
        kind = "started" if row.attended_by is None else "resumed"
        events.append(connection, transfer_id, at, kind, actor, is_ended=False)
    return row


def record_session(connection: sa.Connection, transfer_id: str, at: float, actor: str, worker_session: str) -> None:
    """Record the worker session that continues the transfer, with an event if another session had it before."""
    row = row_of(connection, transfer_id, lock=True)
    if row is None or row.state in ENDED_TRANSFER_STATES or row.attended_by == worker_session:
        return
    connection.execute(transfer.update().where(transfer.c.id == transfer_id).values(attended_by=worker_session))
    events.append(connection, transfer_id, at, "resumed", actor, is_ended=False)


def set_target_absent(connection: sa.Connection, transfer_id: str, absent: bool) -> None:
    connection.execute(_CHANGED_ROW, {"of": transfer_id, "target_absent": absent})


def end_plan(
    connection: sa.Connection, transfer_id: str, at: float, actor: str, locked: sa.Row[Any] | None = None
) -> None:
    """Record that all objects of the source are on record. ``locked`` is as for ``begin_plan``."""
    row = locked or row_of(connection, transfer_id, lock=True)
    if row is None or row.planned_at is not None or row.state in ENDED_TRANSFER_STATES:
        return
    state = "running" if row.state == "planning" else row.state
    connection.execute(_CHANGED_ROW, {"of": transfer_id, "state": state, "planned_at": at})
    totals = connection.execute(_TALLY, {"of": transfer_id}).one()
    data = {"objects": totals.objects, "bytes": totals.bytes}
    events.append(connection, transfer_id, at, "planned", actor, data, is_ended=False)


_TALLY: Final = sa.select(tally).where(tally.c.transfer_id == sa.bindparam("of"))


def request_cancel(connection: sa.Connection, transfer_id: str, at: float, actor: str) -> None:
    """Cancel a transfer. Does nothing if it has ended or is stopping already."""
    row = row_of(connection, transfer_id, lock=True)
    if row is None or row.state in ENDED_TRANSFER_STATES or is_stopping(row):
        return
    # Nothing has begun, so nothing has to be undone.
    unborn = row.state == "queued" or (is_paused(row) and row.started_at is None)
    values: dict[str, Any] = {"state": "cancelled", "ended_at": at} if unborn else {"state": "cancelling"}
    connection.execute(transfer.update().where(transfer.c.id == transfer_id).values(**values))
    events.append(connection, transfer_id, at, "cancel_requested", actor, is_ended=unborn)
    if unborn:
        nothing = receipts.NO_TOTALS
        data = receipts.make_digest(connection, row, state="cancelled", totals=nothing, ended_at=at)
        connection.execute(
            transfer.update().where(transfer.c.id == transfer_id).values(receipt_digest=data["receipt_digest"])
        )
        events.append(connection, transfer_id, at, "cancelled", actor, nothing | data, is_ended=True)


def request_stop(connection: sa.Connection, transfer_id: str, at: float, actor: str, code: str, message: str) -> None:
    """Record a job-wide error, the first one only: its batches stop, then ``finish`` makes the transfer ``failed``."""
    row = row_of(connection, transfer_id, lock=True)
    if row is None or row.state in ENDED_TRANSFER_STATES or is_stopping(row):
        return
    connection.execute(
        transfer.update().where(transfer.c.id == transfer_id).values(error_code=code, error_message=message)
    )
    events.append(connection, transfer_id, at, "stopping", actor, {"code": code, "message": message}, is_ended=False)


class Left(NamedTuple):
    """The rest of a transfer whose batches have ended."""

    open_uploads: bool
    """Uploads of objects that failed because the storage could not be reached or was too busy."""
    unsealed: int
    """Batches without a seal, counted up to two."""


def read_left(connection: sa.Connection, transfer_id: str) -> Left:
    return Left(*connection.execute(_LEFT, {"of": transfer_id}).one())


_LEFT: Final = sa.select(
    objects.has_open_uploads(sa.bindparam("of")), receipts.count_unsealed(sa.bindparam("of"), 2).label("unsealed")
)


def finish(
    connection: sa.Connection,
    transfer_id: str,
    at: float,
    actor: str,
    locked: sa.Row[Any] | None = None,
    *,
    is_sealed: bool = False,
) -> None:
    """Set the final state of a transfer whose batches have ended; a second call does nothing.

    Args:
        locked: as for ``begin_plan``.
        is_sealed: no batch lacks its seal.
    """
    row = locked or row_of(connection, transfer_id, lock=True)
    if row is None or row.state in ENDED_TRANSFER_STATES:
        return
    totals = _settle(connection, transfer_id)
    state: TransferState = WITH_FAILURES if totals["failed"] else "done"
    if row.state == "cancelling":
        state = "cancelled"
    elif row.error_code is not None:
        state = "failed"
    connection.execute(_REPORTS_DELETED, {"of": transfer_id})
    _keep_chart(connection, transfer_id)
    data: dict[str, Any] = totals | receipts.make_digest(
        connection, row, state=state, totals=totals, ended_at=at, is_sealed=is_sealed
    )
    values = {"state": state, "ended_at": at, "receipt_digest": data["receipt_digest"]}
    connection.execute(_CHANGED_ROW, {"of": transfer_id, **values})
    if state == "failed":
        data |= {"code": row.error_code, "message": row.error_message}
    events.append(connection, transfer_id, at, state, actor, data, is_ended=True)
    delivery_mail_rows.record_notices(connection, transfer_id, at)


_REPORTS_DELETED: Final = worker_live.delete().where(worker_live.c.transfer_id == sa.bindparam("of"))
_FIRST_SAMPLE: Final = sa.select(sample.c.at).where(sample.c.transfer_id == sa.bindparam("of")).limit(1)


def _keep_chart(connection: sa.Connection, transfer_id: str) -> None:
    if connection.execute(_FIRST_SAMPLE, {"of": transfer_id}).first() is None:
        return  # too short for samples, as most are

    from seqferry.db import charts

    charts.store(connection, transfer_id)


def _settle(connection: sa.Connection, transfer_id: str) -> dict[str, int]:
    """Sum the batches of a transfer whose batches have ended into its tally; returns the sums.

    They are there already, unless a worker of a version without tallies has run a batch.
    """
    row = connection.execute(_SUMS, {"of": transfer_id}).one_or_none()
    # Postgres sums big integers as Decimal.
    totals = receipts.NO_TOTALS if row is None else {name: int(getattr(row, name)) for name in _TOTALS}
    if row is None or any(getattr(row, f"kept_{name}") != count for name, count in totals.items()):
        connection.execute(tally.update().where(tally.c.transfer_id == transfer_id).values(totals))
    return totals


_SUMS: Final = (
    sa.select(
        *(sa.func.sum(batch.c[name]).label(name) for name in _TOTALS),
        *(tally.c[name].label(f"kept_{name}") for name in _TOTALS),
    )
    .join_from(batch, tally, tally.c.transfer_id == batch.c.transfer_id)
    .where(batch.c.transfer_id == sa.bindparam("of"))
    .group_by(tally.c.transfer_id)
)
