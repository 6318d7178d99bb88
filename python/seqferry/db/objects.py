"""Objects and batches: what planning adds, what runs of batches record, what lists show.

**Invariant**: the counters of a batch are recomputed from its rows in the transaction that changes those rows.
**Invariant**: a run of a batch writes only while ``batch.runs`` is the number it got from ``begin_batch``; a later run
(by another worker, after this one was taken for dead) shuts it out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, TypeVar

import sqlalchemy as sa

from seqferry.db import bulk
from seqferry.db.tables import batch, object_, transfer
from seqferry.models import OPEN_OBJECT_STATES, FailureGroup, ObjectRecord

_Statement = TypeVar("_Statement", sa.Update, sa.Select[Any])


@dataclass(frozen=True, slots=True)
class Planned:
    """An object of the source, and where it goes. ``refusal`` (code, message) tells why it is not copied, if so."""

    source_key: str
    target_key: str
    size: int
    etag: str
    last_modified: float
    version_id: str | None
    storage_class: str | None
    refusal: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class OpenObject:
    """What a run of a batch needs to know of an object that has not ended."""

    id: int
    source_key: str
    target_key: str
    size: int
    etag: str
    version_id: str | None
    upload_id: str | None
    part_size: int | None


@dataclass(frozen=True, slots=True)
class BatchRun:
    """Leave to run a batch. ``run`` is the fence, 1 for the first."""

    transfer_id: str
    number: int
    run: int
    barren_runs: int
    created_at: float
    """Birth of the transfer."""
    target_absent: bool
    stopping: bool


@dataclass(slots=True)  # not frozen: that takes three times as long to make, and there is one for each object
class Ended:
    """The end of one object in one run; fields as in ``_native.Outcome``."""

    id: int
    state: str
    size: int = 0
    etag: str = ""
    method: str | None = None
    started_at: float | None = None
    ended_at: float | None = None
    attempts: int = 0
    retries: int = 0
    target_etag: str | None = None
    target_version_id: str | None = None
    checksum_algorithm: str | None = None
    checksum: str | None = None
    verified: str | None = None
    not_carried: Sequence[str] = ()
    error_class: str | None = None
    error_code: str | None = None
    error_operation: str | None = None
    error_message: str | None = None


# --- planning ---------------------------------------------------------------------------------------------------------


def add_batch(connection: sa.Connection, transfer_id: str, objects: Sequence[Planned], at: float) -> int | None:
    """Add those objects that the transfer does not have yet as a new batch, at most 1,000.

    Returns:
        The number of the batch, None when all were there (an earlier, interrupted planning added them).
    """
    known = bulk.known_keys(connection, transfer_id, {planned.source_key for planned in objects})
    # A listing may name a key twice; the first one stands.
    fresh: dict[str, Planned] = {}
    for planned in objects:
        if planned.source_key not in known:
            fresh.setdefault(planned.source_key, planned)
    if not fresh:
        return None
    last = connection.execute(sa.select(sa.func.max(batch.c.number)).where(batch.c.transfer_id == transfer_id)).scalar()
    number = 0 if last is None else last + 1
    refused = [planned for planned in fresh.values() if planned.refusal is not None]
    connection.execute(
        batch.insert().values(
            transfer_id=transfer_id,
            number=number,
            state="queued",
            objects=len(fresh),
            bytes=sum(planned.size for planned in fresh.values()),
            failed=len(refused),
        )
    )
    bulk.insert(connection, transfer_id, number, [_object_row(planned, at) for planned in fresh.values()])
    return number


def _object_row(planned: Planned, at: float) -> bulk.Row:
    row = {
        "source_key": planned.source_key,
        "version_id": planned.version_id or "",
        "target_key": planned.target_key,
        "size": planned.size,
        "etag": planned.etag,
        "last_modified": planned.last_modified,
        "storage_class": planned.storage_class,
        "state": "pending",
    }
    if planned.refusal is not None:
        code, message = planned.refusal
        row |= {
            "state": "failed",
            "ended_at": at,
            "error_class": "object",
            "error_code": code,
            "error_operation": "plan",
            "error_message": message,
        }
    return row


def not_among(connection: sa.Connection, transfer_id: str, source_keys: Sequence[str]) -> set[str]:
    """Those of the keys that the transfer has no object of."""
    return set(source_keys) - bulk.known_keys(connection, transfer_id, source_keys)


# --- running a batch --------------------------------------------------------------------------------------------------


def begin_batch(connection: sa.Connection, transfer_id: str, number: int, at: float) -> BatchRun | None:
    """Take the batch up. None when it has ended."""
    taken = connection.execute(
        batch.update()
        .where(batch.c.transfer_id == transfer_id, batch.c.number == number, batch.c.state != "ended")
        .values(
            state="active",
            runs=batch.c.runs + 1,
            barren_runs=batch.c.barren_runs + 1,
            started_at=sa.func.coalesce(batch.c.started_at, at),
        )
        .returning(batch.c.runs, batch.c.barren_runs)
    ).one_or_none()
    if taken is None:
        return None
    of = connection.execute(sa.select(transfer).where(transfer.c.id == transfer_id)).one()
    return BatchRun(
        transfer_id=transfer_id,
        number=number,
        run=taken.runs,
        barren_runs=taken.barren_runs,
        created_at=of.created_at,
        target_absent=bool(of.target_absent),
        stopping=of.state == "cancelling" or of.error_code is not None,
    )


def owns(connection: sa.Connection, run: BatchRun) -> bool:
    """True while ``run`` is the latest run of its batch; keeps it so until the transaction ends."""
    mine = _batch_where(run, sa.select(batch.c.runs).with_for_update())
    return connection.execute(mine).scalar() == run.run


def lost(connection: sa.Connection, runs: Sequence[BatchRun]) -> set[BatchRun]:
    """Those of the runs that a later run has shut out."""
    found = {
        (row.transfer_id, row.number): row.runs
        for row in connection.execute(
            sa.select(batch.c.transfer_id, batch.c.number, batch.c.runs).where(
                sa.tuple_(batch.c.transfer_id, batch.c.number).in_([(run.transfer_id, run.number) for run in runs])
            )
        )
    }
    return {run for run in runs if found.get((run.transfer_id, run.number)) != run.run}


def open_objects(connection: sa.Connection, run: BatchRun) -> list[OpenObject]:
    """The batch's objects that have not ended, at most 1,000."""
    rows = connection.execute(
        sa.select(
            object_.c.id,
            object_.c.source_key,
            object_.c.target_key,
            object_.c.size,
            object_.c.etag,
            object_.c.version_id,
            object_.c.upload_id,
            object_.c.part_size,
        )
        .where(*_of_batch(run), object_.c.state.in_(OPEN_OBJECT_STATES))
        .order_by(object_.c.id)
    )
    return [
        # By position: taking a thousand rows apart by name takes longer than reading them.
        OpenObject(row_id, source_key, target_key, size, etag, version_id or None, upload_id, part_size)
        for row_id, source_key, target_key, size, etag, version_id, upload_id, part_size in rows
    ]


def record_uploads(connection: sa.Connection, begun: Iterable[tuple[int, str, int]]) -> None:
    """Record (object id, upload id, part size) of uploads that were created."""
    connection.execute(
        object_.update()
        .where(object_.c.id == sa.bindparam("row"))
        .values(upload_id=sa.bindparam("upload"), part_size=sa.bindparam("part")),
        [{"row": row, "upload": upload, "part": part} for row, upload, part in begun],
    )


def clear_barren(connection: sa.Connection, run: BatchRun) -> None:
    """This run has moved bytes, so the batch is not one that only kills its workers."""
    connection.execute(_batch_where(run, batch.update()).values(barren_runs=0))


def record(connection: sa.Connection, run: BatchRun, ended: Sequence[Ended]) -> None:
    """Record the ends of objects and bring the counters of the batch up to date."""
    if ended:
        bulk.update_ended(connection, [_ended_row(one) for one in ended])
    _recount(connection, run)


_result_of: Final = attrgetter(*bulk.RESULT)


def _ended_row(one: Ended) -> bulk.Row:
    row = {name: value for name, value in zip(bulk.RESULT, _result_of(one), strict=True) if value is not None}
    row["not_carried"] = json.dumps(list(one.not_carried), ensure_ascii=False) if one.not_carried else None
    row["id"] = one.id
    row["attempts"] = one.attempts
    row["retries"] = one.retries
    # Of an object that did not arrive the last upload id stays, as a trace of what may be left in the storage.
    row["keeps_upload"] = one.state not in ("done", "skipped")
    return row


def end_open(connection: sa.Connection, run: BatchRun, template: Ended) -> None:
    """End all objects of the batch that are still open like ``template``: state, time and error."""
    values = {name: getattr(template, name) for name in bulk.RESULT if name in ("state", "ended_at") or "error" in name}
    connection.execute(object_.update().where(*_of_batch(run), object_.c.state.in_(OPEN_OBJECT_STATES)).values(values))
    _recount(connection, run)


def end_batch(connection: sa.Connection, run: BatchRun, at: float) -> None:
    connection.execute(_batch_where(run, batch.update()).values(state="ended", ended_at=at))


def _recount(connection: sa.Connection, run: BatchRun) -> None:
    counters = {"done": 0, "skipped": 0, "failed": 0, "cancelled": 0}
    planned = bytes_done = 0
    rows = connection.execute(
        sa.select(object_.c.state, sa.func.count().label("objects"), sa.func.sum(object_.c.size).label("bytes"))
        .where(*_of_batch(run))
        .group_by(object_.c.state)
    )
    for row in rows:
        if row.state in counters:
            counters[row.state] = row.objects
        planned += int(row.bytes)
        if row.state in ("done", "skipped"):
            bytes_done += int(row.bytes)
    connection.execute(_batch_where(run, batch.update()).values(bytes=planned, bytes_done=bytes_done, **counters))


def _of_batch(run: BatchRun) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    return object_.c.transfer_id == run.transfer_id, object_.c.batch_number == run.number


def _batch_where(run: BatchRun, statement: _Statement) -> _Statement:
    return statement.where(batch.c.transfer_id == run.transfer_id, batch.c.number == run.number)


# --- the transfer as seen by its workflow -----------------------------------------------------------------------------


def open_batches(connection: sa.Connection, transfer_id: str, limit: int) -> list[int]:
    """Numbers of batches that have not ended, at most ``limit``."""
    return list(
        connection.execute(
            sa.select(batch.c.number)
            .where(batch.c.transfer_id == transfer_id, batch.c.state.in_(("queued", "active")))
            .order_by(batch.c.number)
            .limit(limit)
        ).scalars()
    )


def open_batch_sizes(connection: sa.Connection, transfer_id: str) -> list[tuple[int, int]]:
    """Numbers of batches that have not ended, each with the size of its biggest object."""
    rows = connection.execute(
        sa.select(batch.c.number, sa.func.coalesce(sa.func.max(object_.c.size), 0).label("biggest"))
        .outerjoin(
            object_,
            sa.and_(object_.c.transfer_id == batch.c.transfer_id, object_.c.batch_number == batch.c.number),
        )
        .where(batch.c.transfer_id == transfer_id, batch.c.state.in_(("queued", "active")))
        .group_by(batch.c.number)
        .order_by(batch.c.number)
    )
    return [(row.number, row.biggest) for row in rows]


def cancel_queued(connection: sa.Connection, transfer_id: str, at: float, limit: int) -> list[int]:
    """End up to ``limit`` batches that no worker has begun, their objects as ``cancelled``; returns their numbers."""
    numbers = list(
        connection.execute(
            sa.select(batch.c.number)
            .where(batch.c.transfer_id == transfer_id, batch.c.state == "queued")
            .order_by(batch.c.number)
            .limit(limit)
            .with_for_update(skip_locked=True)
        ).scalars()
    )
    if numbers:
        connection.execute(
            object_.update()
            .where(
                object_.c.transfer_id == transfer_id,
                object_.c.batch_number.in_(numbers),
                object_.c.state == "pending",
            )
            .values(state="cancelled", ended_at=at)
        )
        connection.execute(
            batch.update()
            .where(batch.c.transfer_id == transfer_id, batch.c.number.in_(numbers))
            .values(state="ended", ended_at=at, cancelled=batch.c.objects - batch.c.failed)
        )
    return numbers


# --- lists ------------------------------------------------------------------------------------------------------------


def page(
    connection: sa.Connection, transfer_id: str, *, state: str | None, after: int, limit: int
) -> list[ObjectRecord]:
    query = (
        sa.select(object_, batch.c.state.label("batch_state"))
        .join(batch, sa.and_(batch.c.transfer_id == object_.c.transfer_id, batch.c.number == object_.c.batch_number))
        .where(object_.c.transfer_id == transfer_id, object_.c.id > after)
        .order_by(object_.c.id)
        .limit(limit)
    )
    if state in OPEN_OBJECT_STATES:
        at_work = batch.c.state == "active"
        query = query.where(object_.c.state.in_(OPEN_OBJECT_STATES), at_work if state == "active" else ~at_work)
    elif state is not None:
        # Written into the statement, so that the databases see that the index over failures serves.
        query = query.where(object_.c.state == sa.bindparam("wanted", state, literal_execute=True))
    return [_record_of(row) for row in connection.execute(query)]


def failures(connection: sa.Connection, transfer_id: str, keys: int) -> list[FailureGroup]:
    """Failed objects by cause, the most frequent cause first."""
    cause = (object_.c.error_class, object_.c.error_code, object_.c.error_operation)
    failed = (object_.c.transfer_id == transfer_id, object_.c.state == sa.literal_column("'failed'"))
    groups = connection.execute(
        sa.select(*cause, sa.func.count().label("objects"), sa.func.min(object_.c.id).label("first"))
        .where(*failed)
        .group_by(*cause)
        .order_by(sa.func.count().desc(), sa.func.min(object_.c.id))
    ).all()
    found: list[FailureGroup] = []
    for group in groups:
        same = [column.is_not_distinct_from(getattr(group, column.name)) for column in cause]
        message = connection.execute(sa.select(object_.c.error_message).where(object_.c.id == group.first)).scalar()
        named = connection.execute(
            sa.select(object_.c.source_key).where(*failed, *same).order_by(object_.c.source_key).limit(keys)
        ).scalars()
        found.append(
            FailureGroup(
                error_class=group.error_class or "",
                error_code=group.error_code or "",
                operation=group.error_operation or "",
                message=message or "",
                count=group.objects,
                keys=tuple(named),
            )
        )
    return found


def _record_of(row: sa.Row[Any]) -> ObjectRecord:
    return ObjectRecord(
        row=row.id,
        source_key=row.source_key,
        target_key=row.target_key,
        size=row.size,
        etag=row.etag,
        version_id=row.version_id or None,
        # Not written when a batch is taken up: that would be one more write for each object.
        state="active" if row.state == "pending" and row.batch_state == "active" else row.state,
        attempts=row.attempts,
        retries=row.retries,
        method=row.method,
        started_at=row.started_at,
        ended_at=row.ended_at,
        target_etag=row.target_etag,
        target_version_id=row.target_version_id,
        checksum_algorithm=row.checksum_algorithm,
        checksum=row.checksum,
        verified=row.verified,
        not_carried=tuple(json.loads(row.not_carried)) if row.not_carried else (),
        error_class=row.error_class,
        error_code=row.error_code,
        error_operation=row.error_operation,
        error_message=row.error_message,
    )
