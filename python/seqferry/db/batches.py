"""Batches of a transfer: their runs, what a run records, how they end.

**Invariant**: a run of a batch writes only while ``batch.runs`` is the number it got from ``begin_batch``; a later run
(by another worker, when this one counts as dead) supersedes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Final, TypeVar

import sqlalchemy as sa

from seqferry.db import bulk, tallies
from seqferry.db.record import receipts
from seqferry.db.tables import batch, object_, transfer
from seqferry.db.tallies import BatchKey, add_to_tallies, counting
from seqferry.model.frozen import frozen
from seqferry.model.models import OPEN_OBJECT_STATES

_Statement = TypeVar("_Statement", sa.Update, sa.Select[Any])


@frozen
class BatchRun:
    """The right to run a batch. ``run`` is the fencing token, 1 for the first run."""

    transfer_id: str
    number: int
    run: int
    barren_runs: int
    created_at: float
    """Submission of the transfer, seconds since the epoch."""
    target_absent: bool
    stopping: bool
    spec: str
    """Spec of the transfer, as JSON."""
    paused: bool = False
    in_transfer: bool = False
    """True when the workflow of the transfer runs it: the batch is not on the queue."""


@frozen
class ObjectOutcome:
    """Outcome of objects that end without a job."""

    state: str
    ended_at: float
    error_class: str | None = None
    error_code: str | None = None
    error_operation: str | None = None
    error_message: str | None = None


def begin_batch(
    connection: sa.Connection,
    transfer_id: str,
    number: int,
    at: float,
    *,
    in_transfer: bool = False,
    of: sa.Row[Any] | None = None,
) -> BatchRun | None:
    """Begin a run of the batch; None if the batch has ended. ``of`` is the row of the transfer, if it is known."""
    taken = connection.execute(_BEGUN, {"of": transfer_id, "nth": number, "at": at}).one_or_none()
    if taken is None:
        return None
    if of is None:
        of = connection.execute(sa.select(transfer).where(transfer.c.id == transfer_id)).one()
    return BatchRun(
        transfer_id=transfer_id,
        number=number,
        run=taken.runs,
        barren_runs=taken.barren_runs,
        created_at=of.created_at,
        target_absent=bool(of.target_absent),
        stopping=of.state == "cancelling" or of.error_code is not None,
        spec=of.spec,
        paused=of.state == "paused",
        in_transfer=in_transfer,
    )


_ONE: Final = (batch.c.transfer_id == sa.bindparam("of"), batch.c.number == sa.bindparam("nth"))
_BEGUN: Final = (
    batch.update()
    .where(*_ONE, batch.c.state != "ended")
    .values(
        state="active",
        runs=batch.c.runs + 1,
        barren_runs=batch.c.barren_runs + 1,
        started_at=sa.func.coalesce(batch.c.started_at, sa.bindparam("at", type_=sa.Double)),
    )
    .returning(batch.c.runs, batch.c.barren_runs)
)


def is_latest_run(connection: sa.Connection, run: BatchRun) -> bool:
    """True if ``run`` is the latest run of its batch. No later run begins before the transaction ends."""
    mine = _batch_where(run, sa.select(batch.c.runs).with_for_update())
    return connection.execute(mine).scalar() == run.run


def close(connection: sa.Connection, run: BatchRun, at: float, requests: int = 0) -> bool:
    """End the batch if all of its objects have ended and ``run`` is its latest run; False when not.

    ``requests`` are those of the run, which are counted in any case.
    """
    which = {"of": run.transfer_id, "nth": run.number, "run": run.run}
    ended = connection.execute(_CLOSED, {**which, "at": at, "made": requests}).scalar()
    if ended is None:
        count_requests(connection, run, requests)
        return False
    if ended <= receipts.SEALED_WITH_BATCH:  # else before the transfer ends
        receipts.seal_batch(connection, run.transfer_id, run.number)
    return True


_CLOSED: Final = (
    batch.update()
    .where(
        *_ONE,
        batch.c.runs == sa.bindparam("run"),
        batch.c.objects == batch.c.done + batch.c.skipped + batch.c.failed + batch.c.cancelled,
    )
    .values(
        state="ended",
        ended_at=sa.bindparam("at"),
        requests=batch.c.requests + sa.bindparam("made", type_=sa.BigInteger),
    )
    .returning(batch.c.objects)
)


def count_requests(connection: sa.Connection, run: BatchRun, requests: int) -> None:
    """Add the requests of a run to those of its batch, also after a later run has begun: they were made."""
    if requests:
        connection.execute(_batch_where(run, batch.update()).values(requests=batch.c.requests + requests))


def requests(connection: sa.Connection, transfer_id: str) -> int:
    """Requests of all batches of a transfer."""
    total = sa.select(sa.func.coalesce(sa.func.sum(batch.c.requests), 0)).where(batch.c.transfer_id == transfer_id)
    return int(connection.execute(total).scalar_one())


def find_superseded(connection: sa.Connection, runs: Sequence[BatchRun]) -> set[BatchRun]:
    """Runs, among the given ones, that a later run has superseded."""
    found = {
        (row.transfer_id, row.number): row.runs
        for row in connection.execute(
            sa.select(batch.c.transfer_id, batch.c.number, batch.c.runs).where(
                sa.tuple_(batch.c.transfer_id, batch.c.number).in_([(run.transfer_id, run.number) for run in runs])
            )
        )
    }
    return {run for run in runs if found.get((run.transfer_id, run.number)) != run.run}


def has_batches(connection: sa.Connection, transfer_id: str) -> bool:
    """True when any batch was planned."""
    found = connection.execute(sa.select(batch.c.number).where(batch.c.transfer_id == transfer_id).limit(1))
    return found.first() is not None


def count_queued(connection: sa.Connection, transfer_id: str) -> int:
    """Number of batches that no worker has begun."""
    waiting = sa.select(sa.func.count()).where(batch.c.transfer_id == transfer_id, batch.c.state == "queued")
    return connection.execute(waiting).scalar_one()


def clear_barren(connection: sa.Connection, run: BatchRun) -> None:
    """Reset the count of barren runs of a batch: this run has moved bytes."""
    connection.execute(_batch_where(run, batch.update()).values(barren_runs=0))


def record(connection: sa.Connection, results: Sequence[tuple[BatchRun, bulk.Results]]) -> set[BatchRun]:
    """Record the ends of objects, and update all counters.

    Returns:
        Those of the runs whose results were written: they are the latest of their batches.
    """
    before = _lock_rows(connection, [run for run, _ in results])
    owned = [(run, columns) for run, columns in results if before[run.transfer_id, run.number].runs == run.run]
    if owned:
        together = [",".join(texts) for texts in zip(*(columns for _, columns in owned), strict=True)]
        differences = bulk.end_objects(connection, together)
        # Also batches of which no open object has ended: a run that reports objects is not barren.
        unchanged = {(run.transfer_id, run.number): dict.fromkeys(tallies.COUNTERS, 0) for run, _ in owned}
        tallies.add(connection, before, (unchanged | differences).items(), barren_runs=0)
    return {run for run, _ in owned}


def record_each(connection: sa.Connection, results: Sequence[tuple[BatchRun, bulk.Results]]) -> list[bool]:
    """``record``; returns for each run whether its results were written."""
    owned = record(connection, results)
    return [run in owned for run, _ in results]


def end_open_objects(connection: sa.Connection, run: BatchRun, end: ObjectOutcome) -> None:
    """End all objects of the batch that are still open."""
    before = _lock_rows(connection, [run])
    open_ones = object_.update().where(*batch_conditions(run), object_.c.state.in_(OPEN_OBJECT_STATES))
    with counting(connection, before, sa.and_(*batch_conditions(run))):
        connection.execute(open_ones.values(asdict(end)))


def end_batch(connection: sa.Connection, run: BatchRun, at: float) -> None:
    """End the batch, whose objects have all ended. Its seal comes before the transfer ends."""
    connection.execute(_batch_where(run, batch.update()).values(state="ended", ended_at=at))


def cancel_open(connection: sa.Connection, transfer_id: str, at: float, limit: int) -> bool:
    """End some open batches as cancelled, and supersede their runs; False if there are none."""
    numbers = open_batches(connection, transfer_id, limit=limit)
    for number in numbers:
        run = begin_batch(connection, transfer_id, number, at)  # shuts out all others
        if run is not None:
            end_open_objects(connection, run, ObjectOutcome(state="cancelled", ended_at=at))
            end_batch(connection, run, at)
    return bool(numbers)


def _lock_rows(connection: sa.Connection, runs: Iterable[BatchRun]) -> dict[BatchKey, sa.Row[Any]]:
    """The rows of the batches of these runs, locked until the transaction ends."""
    keys = sorted({(run.transfer_id, run.number) for run in runs})
    rows = connection.execute(
        sa.select(batch)
        .where(sa.tuple_(batch.c.transfer_id, batch.c.number).in_(keys))
        .order_by(batch.c.transfer_id, batch.c.number)
        .with_for_update()
    )
    return {(row.transfer_id, row.number): row for row in rows}


def batch_conditions(run: BatchRun) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    return object_.c.transfer_id == run.transfer_id, object_.c.batch_number == run.number


def _batch_where(run: BatchRun, statement: _Statement) -> _Statement:
    return statement.where(batch.c.transfer_id == run.transfer_id, batch.c.number == run.number)


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
        left = connection.execute(
            sa.select(sa.func.sum(batch.c.objects - batch.c.failed - batch.c.skipped)).where(
                batch.c.transfer_id == transfer_id, batch.c.number.in_(numbers)
            )
        ).scalar_one()
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
            .values(state="ended", ended_at=at, cancelled=batch.c.objects - batch.c.failed - batch.c.skipped)
        )
        add_to_tallies(connection, {transfer_id: {"cancelled": int(left)}})
    return numbers
