"""Objects and batches: what planning adds, what runs of batches record, what lists show.

**Invariant**: the counters of a batch are what its rows add up to. Rows that change are counted before and after, in
the same transaction, and the difference goes into the counters of their batches and the tally of the transfer. So a
tally is the sum over batches, always, and what a change costs does not depend on what else is in the batch.
Locks are taken in this order: transfer, batches, tallies, each kind in the order of its key.
**Invariant**: a run of a batch writes only while ``batch.runs`` is the number it got from ``begin_batch``; a later run
(by another worker, after this one was taken for dead) shuts it out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, NamedTuple, TypeVar

import sqlalchemy as sa

from seqferry.db import bulk
from seqferry.db.record import receipts
from seqferry.db.tables import batch, object_, tally, transfer
from seqferry.model.errors import TRANSIENT_CLASSES
from seqferry.model.models import OPEN_OBJECT_STATES, FailureGroup, ObjectRecord, cause_id
from seqferry.spec.target_keys import nul_refusal, without_nul

_Statement = TypeVar("_Statement", sa.Update, sa.Select[Any])


class ExpectedContent(NamedTuple):
    """Content that an object is to have at its target, as another transfer has recorded it."""

    target_etag: str | None
    part_size: int | None
    checksum_algorithm: str | None
    checksum: str | None


@dataclass(slots=True)  # not frozen: that takes three times as long to make, and there is one for each object
class PlannedObject:
    """An object of the source, and where it goes.

    ``refusal`` (code, message) tells why it cannot be copied, if so: with ``left_out`` it was not meant to be.
    ``error_class`` and ``operation`` are those of a refusal. ``expected`` is what it is compared with; all objects of a
    transfer have it, or none.
    """

    source_key: str
    target_key: str
    size: int
    etag: str
    last_modified: float
    version_id: str | None
    storage_class: str | None
    refusal: tuple[str, str] | None = None
    left_out: bool = False
    verified: str | None = None
    """Evidence that it is at the target already: it is skipped."""
    target_etag: str | None = None
    """ETag that it has at the target already; None: that of the source."""
    error_class: str = "object"
    operation: str = "plan"
    expected: ExpectedContent | None = None
    carried: bool = False
    """Its failure is that of the transfer that is retried: a retry of one cause leaves the others as they are."""


class OpenObject(NamedTuple):
    """An object that has not ended, as far as a run of its batch needs to know it."""

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
    spec: str
    """Spec of the transfer, as JSON."""
    paused: bool = False


@dataclass(frozen=True, slots=True)
class ObjectOutcome:
    """Outcome of objects that no job has ended."""

    state: str
    ended_at: float
    error_class: str | None = None
    error_code: str | None = None
    error_operation: str | None = None
    error_message: str | None = None


# --- planning ---------------------------------------------------------------------------------------------------------


def add_batches(
    connection: sa.Connection,
    transfer_id: str,
    groups: Iterable[Sequence[PlannedObject]],
    at: float,
    added: Callable[[int, Sequence[PlannedObject]], None] | None = None,
) -> list[int]:
    """Add each group of at most 1,000 objects as a new batch, without those objects that the transfer has already.

    ``added`` is called with number and objects of each. The caller holds the lock of the transfer.

    Returns:
        The numbers of the batches. A group of which all were there gives none: an interrupted planning added them.
    """
    last = connection.execute(sa.select(sa.func.max(batch.c.number)).where(batch.c.transfer_id == transfer_id)).scalar()
    number = 0 if last is None else last + 1
    numbers: list[int] = []
    found = {"objects": 0, "bytes": 0, "failed": 0, "skipped": 0, "bytes_done": 0}
    for group in groups:
        fresh = _insert(connection, transfer_id, number, _storable(connection, group), at)
        if not fresh:
            continue
        counters = {
            "objects": len(fresh),
            "bytes": sum(planned.size for planned in fresh),
            "failed": sum(planned.refusal is not None and not planned.left_out for planned in fresh),
            "skipped": sum(planned.left_out or planned.verified is not None for planned in fresh),
            "bytes_done": sum(planned.size for planned in fresh if planned.left_out or planned.verified is not None),
        }
        connection.execute(batch.insert().values(transfer_id=transfer_id, number=number, state="queued", **counters))
        for name, count in counters.items():
            found[name] += count
        if added is not None:
            added(number, fresh)
        numbers.append(number)
        number += 1
    if numbers:
        _add_to_tallies(connection, {transfer_id: found})  # last: recording of results waits for these rows
    return numbers


def _storable(connection: sa.Connection, group: Sequence[PlannedObject]) -> Sequence[PlannedObject]:
    """The objects, those refused and escaped whose keys this database cannot hold: PostgreSQL stores no NUL."""
    if connection.dialect.name == "sqlite" or not any(
        "\0" in one.source_key or "\0" in one.target_key for one in group
    ):
        return group
    return [_without_nul(one) if "\0" in one.source_key or "\0" in one.target_key else one for one in group]


def _without_nul(planned: PlannedObject) -> PlannedObject:
    # Planning has refused it already, unless nothing decides on it by its names (rm, named keys that are not there).
    return replace(
        planned,
        source_key=without_nul(planned.source_key),
        target_key=without_nul(planned.target_key),
        refusal=nul_refusal(planned.source_key),
        left_out=False,
    )


def _insert(
    connection: sa.Connection, transfer_id: str, number: int, group: Sequence[PlannedObject], at: float
) -> Sequence[PlannedObject]:
    """Add those objects that are not there; returns them."""
    # Nearly always none is there: to look first would take longer than to add them.
    attempt = connection.begin_nested()
    is_expected = any(planned.expected is not None for planned in group)
    row_of = _expected_row if is_expected else _object_row
    if bulk.insert(
        connection, transfer_id, number, (row_of(planned, at) for planned in group), is_expected=is_expected
    ):
        attempt.commit()
        return group
    attempt.rollback()
    known = bulk.known_versions(connection, transfer_id, {planned.source_key for planned in group})
    # A listing may name a key twice; the first one stands.
    fresh: dict[tuple[str, str], PlannedObject] = {}
    for planned in group:
        version = (planned.source_key, planned.version_id or "")
        if version not in known:
            fresh.setdefault(version, planned)
    rows = [row_of(planned, at) for planned in fresh.values()]
    if rows and not bulk.insert(connection, transfer_id, number, rows, is_expected=is_expected):
        raise AssertionError("objects of a transfer were added by two planners at once")
    return list(fresh.values())


_REFUSAL_CLASSES: Final = {"MissingAtSource": "mismatch"}
"""Classes of what planning refuses, where it is not the object itself that cannot be copied."""


def _object_row(planned: PlannedObject, at: float) -> bulk.Row:
    found = (
        planned.source_key,
        planned.version_id or "",
        planned.target_key,
        planned.size,
        planned.etag,
        planned.last_modified,
        planned.storage_class,
    )
    if planned.refusal is not None:
        code, message = planned.refusal
        state = "skipped" if planned.left_out else "failed"
        error_class = _REFUSAL_CLASSES.get(code, planned.error_class)
        return (*found, state, at, error_class, code, planned.operation, message, None, None, None, None)
    if planned.verified is not None:
        etag = planned.etag if planned.target_etag is None else planned.target_etag
        return (*found, "skipped", at, None, None, None, None, at, "none", etag, planned.verified)
    expected = None if planned.expected is None else planned.expected.target_etag
    return (*found, "pending", None, None, None, None, None, None, None, expected, None)


def _expected_row(planned: PlannedObject, at: float) -> bulk.Row:
    expected = planned.expected or ExpectedContent(None, None, None, None)
    return (*_object_row(planned, at), expected.part_size, expected.checksum_algorithm, expected.checksum)


def count_arrived(connection: sa.Connection, transfer_id: str) -> int:
    """Number of objects at the target, markers of folders aside."""
    arrived = object_.c.state.in_(("done", "skipped")) & object_.c.error_code.is_(None)
    of_transfer = object_.c.transfer_id == transfer_id
    query = sa.select(sa.func.count()).where(of_transfer, arrived, sa.not_(object_.c.source_key.endswith("/")))
    return connection.execute(query).scalar_one()


def count_wanted(connection: sa.Connection, transfer_id: str) -> int:
    """Number of objects on record, without those that were left out."""
    left_out = (object_.c.state == "skipped") & object_.c.error_code.is_not(None)
    query = sa.select(sa.func.count()).where(object_.c.transfer_id == transfer_id, sa.not_(left_out))
    return connection.execute(query).scalar_one()


def not_among(connection: sa.Connection, transfer_id: str, source_keys: Sequence[str]) -> set[str]:
    """Keys, among the given ones, of which the transfer has no object."""
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
        spec=of.spec,
        paused=of.state == "paused",
    )


def owns(connection: sa.Connection, run: BatchRun) -> bool:
    """True while ``run`` is the latest run of its batch; keeps it so until the transaction ends."""
    mine = _batch_where(run, sa.select(batch.c.runs).with_for_update())
    return connection.execute(mine).scalar() == run.run


def close(connection: sa.Connection, run: BatchRun, at: float) -> bool:
    """End the batch if all of its objects have ended and ``run`` is its latest run; False when not."""
    ended = connection.execute(
        _batch_where(run, batch.update())
        .where(
            batch.c.runs == run.run,
            batch.c.objects == batch.c.done + batch.c.skipped + batch.c.failed + batch.c.cancelled,
        )
        .values(state="ended", ended_at=at)
        .returning(batch.c.objects)
    ).scalar()
    if ended is None:
        return False
    if ended <= receipts.SEALED_WITH_BATCH:  # else before the transfer ends
        receipts.seal_batch(connection, run.transfer_id, run.number)
    return True


def count_requests(connection: sa.Connection, run: BatchRun, requests: int) -> None:
    """Add the requests of a run to those of its batch, whichever run is the latest one: they were made."""
    if requests:
        connection.execute(_batch_where(run, batch.update()).values(requests=batch.c.requests + requests))


def requests(connection: sa.Connection, transfer_id: str) -> int:
    """Requests of all batches of a transfer."""
    total = sa.select(sa.func.coalesce(sa.func.sum(batch.c.requests), 0)).where(batch.c.transfer_id == transfer_id)
    return int(connection.execute(total).scalar_one())


def lost(connection: sa.Connection, runs: Sequence[BatchRun]) -> set[BatchRun]:
    """Runs, among the given ones, that a later run has shut out."""
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
    return _for_the_engine(connection, sa.and_(*_of_batch(run), object_.c.state.in_(OPEN_OBJECT_STATES)))


def expected(connection: sa.Connection, transfer_id: str, ids: Sequence[int]) -> dict[int, ExpectedContent]:
    """The content that objects of a batch are compared with, by their ids."""
    columns = (object_.c.id, *(object_.c[name] for name in ExpectedContent._fields))
    rows = connection.execute(
        sa.select(*columns).where(object_.c.transfer_id == transfer_id, object_.c.id.in_(list(ids)))
    )
    return {row.id: _expected(row) for row in rows}


class WholeBatch(NamedTuple):
    """All objects of a batch but those that planning has ended, and why one of them has failed, if so."""

    objects: list[OpenObject]
    failed: str | None


def whole_batch(connection: sa.Connection, transfer_id: str, row_id: int) -> WholeBatch:
    """The batch of this object, with the objects of it that have ended."""
    number = sa.select(object_.c.batch_number).where(object_.c.id == row_id).scalar_subquery()
    planned = sa.func.coalesce(object_.c.error_operation, "") == "plan"
    which = sa.and_(object_.c.transfer_id == transfer_id, object_.c.batch_number == number, sa.not_(planned))
    failed = connection.execute(
        sa.select(object_.c.error_message).where(which, object_.c.state == "failed").limit(1)
    ).scalar()
    return WholeBatch(_for_the_engine(connection, which), failed)


class ArrivedObject(NamedTuple):
    """An object whose copy is on record as verified."""

    id: int
    source_key: str
    etag: str
    """ETag of the source as it was copied."""
    target_key: str
    target_etag: str | None
    size: int
    part_size: int | None
    target_version_id: str | None
    checksum_algorithm: str | None
    checksum: str | None
    ended_at: float | None


def arrived(connection: sa.Connection, transfer_id: str, *, after: int, limit: int) -> list[ArrivedObject]:
    """Objects that were copied, or found identical, in the order of their rows.

    Objects that were skipped for their size are neither: the source may be the only one with its bytes.
    """
    proven = object_.c.verified.is_not(None) & (object_.c.verified != "none") & object_.c.error_code.is_(None)
    by_size = (object_.c.state == "skipped") & (object_.c.verified == "size") & (object_.c.size > 0)
    rows = connection.execute(
        sa.select(*(object_.c[name] for name in ArrivedObject._fields))
        .where(
            object_.c.transfer_id == transfer_id,
            object_.c.id > after,
            object_.c.state.in_(("done", "skipped")),
            proven,
            sa.not_(by_size),
        )
        .order_by(object_.c.id)
        .limit(limit)
    )
    return [ArrivedObject(*row) for row in rows]


def first_row(connection: sa.Connection, transfer_id: str, start: str) -> int | None:
    """The first row whose source key begins with ``start``; None when there is none. ``start`` ends in a space."""
    after = start[:-1] + "!"  # the character after a space
    return connection.execute(
        sa.select(sa.func.min(object_.c.id)).where(
            object_.c.transfer_id == transfer_id, object_.c.source_key >= start, object_.c.source_key < after
        )
    ).scalar()


def has_batches(connection: sa.Connection, transfer_id: str) -> bool:
    """True when any batch was planned."""
    found = connection.execute(sa.select(batch.c.number).where(batch.c.transfer_id == transfer_id).limit(1))
    return found.first() is not None


def cut_off(connection: sa.Connection, transfer_id: str, limit: int) -> list[OpenObject]:
    """Objects that had an upload when they failed because the storage could not be reached or was too busy."""
    passing = object_.c.error_class.in_(TRANSIENT_CLASSES)
    of_transfer = (object_.c.transfer_id == transfer_id) & (object_.c.state == "failed")
    return _for_the_engine(connection, of_transfer & passing & object_.c.upload_id.is_not(None), limit)


def uploads_in_use(connection: sa.Connection, upload_ids: Sequence[str]) -> set[str]:
    """Uploads, among the given ones, that belong to unfinished transfers."""
    query = (
        sa.select(object_.c.upload_id)
        .join(transfer, transfer.c.id == object_.c.transfer_id)
        .where(
            transfer.c.ended_at.is_(None),
            object_.c.state.in_(OPEN_OBJECT_STATES),
            object_.c.upload_id.in_(list(upload_ids)),
        )
    )
    return set(connection.execute(query).scalars())


def _for_the_engine(
    connection: sa.Connection, which: sa.ColumnElement[bool], limit: int | None = None
) -> list[OpenObject]:
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
        .where(which)
        .order_by(object_.c.id)
        .limit(limit)
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
    """Reset the count of barren runs of a batch: this run has moved bytes."""
    connection.execute(_batch_where(run, batch.update()).values(barren_runs=0))


def record(connection: sa.Connection, results: Sequence[tuple[BatchRun, bulk.Results]]) -> set[BatchRun]:
    """Record the ends of objects and bring all counters up to date.

    Returns:
        Those of the runs whose results were written: they are the latest of their batches.
    """
    before = _locked(connection, [run for run, _ in results])
    owned = [(run, columns) for run, columns in results if before[run.transfer_id, run.number].runs == run.run]
    if owned:
        together = [",".join(texts) for texts in zip(*(columns for _, columns in owned), strict=True)]
        with _counting(connection, before, bulk.of_results(connection, together), barren_runs=0):
            bulk.update_ended(connection, together)
    return {run for run, _ in owned}


def end_open(connection: sa.Connection, run: BatchRun, end: ObjectOutcome) -> None:
    """End all objects of the batch that are still open."""
    before = _locked(connection, [run])
    open_ones = object_.update().where(*_of_batch(run), object_.c.state.in_(OPEN_OBJECT_STATES))
    with _counting(connection, before, sa.and_(*_of_batch(run))):
        connection.execute(open_ones.values(asdict(end)))


def end_batch(connection: sa.Connection, run: BatchRun, at: float) -> None:
    """End the batch, whose objects have all ended. Its seal comes before the transfer ends."""
    connection.execute(_batch_where(run, batch.update()).values(state="ended", ended_at=at))


def abandon(connection: sa.Connection, transfer_id: str, at: float, limit: int) -> bool:
    """End some open batches as cancelled, whatever runs of them there were; False when there are none."""
    numbers = open_batches(connection, transfer_id, limit=limit)
    for number in numbers:
        run = begin_batch(connection, transfer_id, number, at)  # shuts out all others
        if run is not None:
            end_open(connection, run, ObjectOutcome(state="cancelled", ended_at=at))
            end_batch(connection, run, at)
    return bool(numbers)


_HERE: Final = object_.c.state.in_(("done", "skipped"))
_COUNTERS: Final[dict[str, sa.ColumnElement[Any]]] = {
    # By state in columns, not in groups: the rows come in the order of the index, and need not be sorted.
    **{name: sa.func.count().filter(object_.c.state == name) for name in ("done", "skipped", "failed", "cancelled")},
    "bytes": sa.func.sum(object_.c.size),
    "bytes_done": sa.func.coalesce(sa.func.sum(object_.c.size).filter(_HERE), 0),
}


_Key = tuple[str, int]
"""Transfer and number of a batch."""


def _locked(connection: sa.Connection, runs: Iterable[BatchRun]) -> dict[_Key, sa.Row[Any]]:
    """The rows of the batches of these runs, locked until the transaction ends."""
    keys = sorted({(run.transfer_id, run.number) for run in runs})
    rows = connection.execute(
        sa.select(batch)
        .where(sa.tuple_(batch.c.transfer_id, batch.c.number).in_(keys))
        .order_by(batch.c.transfer_id, batch.c.number)
        .with_for_update()
    )
    return {(row.transfer_id, row.number): row for row in rows}


@contextmanager
def _counting(
    connection: sa.Connection, locked: Mapping[_Key, sa.Row[Any]], which: sa.ColumnElement[bool], **values: int
) -> Generator[None]:
    """Carry into all counters what happens within to the objects ``which``, all of ``locked`` batches.

    ``values`` is what else their batches shall hold.
    """
    was = _counted(connection, which)
    yield
    changes: dict[str, dict[str, int]] = {}
    updates: list[dict[str, Any]] = []
    for key, now in _counted(connection, which).items():
        transfer_id, number = key
        change = changes.setdefault(transfer_id, dict.fromkeys(_COUNTERS, 0))
        update = {"of": transfer_id, "nth": number, **values}
        for name, count in now.items():
            difference = count - was[key][name]
            change[name] += difference
            update[name] = getattr(locked[key], name) + difference
        updates.append(update)
    if updates:
        connection.execute(
            batch.update().where(batch.c.transfer_id == sa.bindparam("of"), batch.c.number == sa.bindparam("nth")),
            updates,
        )
    _add_to_tallies(connection, changes)


def _counted(connection: sa.Connection, which: sa.ColumnElement[bool]) -> dict[_Key, dict[str, int]]:
    """Sums of the counters of objects, by batch."""
    rows = connection.execute(
        sa.select(
            object_.c.transfer_id, object_.c.batch_number, *(count.label(name) for name, count in _COUNTERS.items())
        )
        .where(which)
        .group_by(object_.c.transfer_id, object_.c.batch_number)
    )
    # Postgres sums big integers as Decimal.
    return {(row.transfer_id, row.batch_number): {name: int(getattr(row, name)) for name in _COUNTERS} for row in rows}


def _add_to_tallies(connection: sa.Connection, changes: dict[str, dict[str, int]]) -> None:
    for transfer_id, change in sorted(changes.items()):
        values = {tally.c[name]: tally.c[name] + count for name, count in change.items() if count}
        if values:
            connection.execute(tally.update().where(tally.c.transfer_id == transfer_id).values(values))


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
        _add_to_tallies(connection, {transfer_id: {"cancelled": int(left)}})
    return numbers


def unfinished_of(
    connection: sa.Connection,
    transfer_id: str,
    after: int,
    limit: int,
    *,
    also_cancelled: bool,
    is_expected: bool = False,
    cause: str | None = None,
) -> tuple[list[PlannedObject], int | None]:
    """A page of the objects that a transfer has not brought to its target, and where the next page begins.

    Args:
        also_cancelled: those that were given up with it, besides those that have failed.
        is_expected: with the content that they are compared with.
        cause: those of other causes are carried over as they are; None: of all causes.
    """
    query = sa.select(object_).where(object_.c.transfer_id == transfer_id, object_.c.id > after)
    if also_cancelled:
        query = query.where(object_.c.state.in_(("failed", "cancelled")))
    else:
        query = query.where(object_.c.state == "failed", HAS_ERROR)
    rows = connection.execute(query.order_by(object_.c.id).limit(limit)).all()
    found = [
        PlannedObject(
            source_key=row.source_key,
            target_key=row.target_key,
            size=row.size,
            etag=row.etag,
            last_modified=row.last_modified,
            version_id=row.version_id or None,
            storage_class=row.storage_class,
            refusal=_failure(row) if _is_refused(row) or _is_carried(row, cause) else None,
            error_class=row.error_class or "object",
            operation=row.error_operation or "plan",
            expected=_expected(row) if is_expected else None,
            carried=_is_carried(row, cause),
        )
        for row in rows
    ]
    return found, rows[-1].id if len(rows) == limit else None


def _expected(row: sa.Row[Any]) -> ExpectedContent:
    return ExpectedContent(row.target_etag, row.part_size, row.checksum_algorithm, row.checksum)


def _failure(row: sa.Row[Any]) -> tuple[str, str]:
    if row.error_class is None:
        return "Cancelled", "It was given up with the transfer that is retried, and is of no cause."
    return row.error_code or "", row.error_message or ""


def _is_carried(row: sa.Row[Any], cause: str | None) -> bool:
    return cause is not None and cause_id(row.error_class, row.error_code, row.error_operation) != cause


def _is_refused(row: sa.Row[Any]) -> bool:
    """True of an object that planning has refused: no run of a batch has tried it."""
    return row.error_operation == "plan" or (row.error_operation == "HeadObject" and not row.attempts)


# --- lists ------------------------------------------------------------------------------------------------------------


HAS_ERROR: Final = object_.c.error_class.is_not(None)
"""True of all that failed, and of nothing else: lets the index over failures serve, which is over this."""


def failures(connection: sa.Connection, transfer_id: str, keys: int) -> list[FailureGroup]:
    """Failed objects by cause, the most frequent cause first."""
    cause = (object_.c.error_class, object_.c.error_code, object_.c.error_operation)
    failed = (object_.c.transfer_id == transfer_id, object_.c.state == "failed", HAS_ERROR)
    groups = connection.execute(
        sa.select(
            *cause,
            sa.func.count().label("objects"),
            sa.func.sum(object_.c.size).label("bytes"),
            sa.func.min(object_.c.id).label("first"),
        )
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
                bytes=int(group.bytes),  # PostgreSQL sums big integers as Decimal
            )
        )
    return found


def record_of(row: sa.Row[Any]) -> ObjectRecord:
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
