"""Objects of a transfer: their rows as planning, runs of batches and moves need them.

``planned_objects`` adds them, ``batches`` records their ends, ``failed_objects`` and ``object_pages`` list them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from seqferry.db.batches import BatchRun, batch_conditions
from seqferry.db.bulk import PlannedSource
from seqferry.db.database import fetch
from seqferry.db.tables import object_, transfer
from seqferry.model.errors import TRANSIENT_CLASSES
from seqferry.model.models import OPEN_OBJECT_STATES, ObjectRecord


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
    """Kind of verification by which it is at the target already: it is skipped."""
    target_etag: str | None = None
    """ETag that it has at the target already; None: that of the source, or of one that is refused none."""
    error_class: str = "object"
    operation: str = "plan"
    expected: ExpectedContent | None = None
    carried: bool = False
    """Its failure is that of the transfer that is retried: a retry of one cause leaves the others as they are."""
    source_upload_id: str = ""
    member_place: str = ""
    file_changed: float | None = None
    """Last change of the file of either side, seen before it is read or compared (``planning.unchanged``)."""

    @property
    def source(self) -> PlannedSource:
        return PlannedSource(self.source_key, self.version_id or "", self.source_upload_id, self.member_place)


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
    upload_etag: str | None
    """``ETag`` of the object that completing the upload makes. None: it was not about to be completed."""
    source_upload_id: str = ""
    member_place: str = ""


def count_arrived(connection: sa.Connection, transfer_id: str) -> int:
    """Number of objects at the target, markers of folders aside."""
    arrived = object_.c.state.in_(("done", "skipped")) & object_.c.error_code.is_(None)
    of_transfer = object_.c.transfer_id == transfer_id
    query = sa.select(sa.func.count()).where(of_transfer, arrived, sa.not_(object_.c.source_key.endswith("/")))
    return connection.execute(query).scalar_one()


def count_included(connection: sa.Connection, transfer_id: str) -> int:
    """Number of objects on record, without those that were left out."""
    left_out = (object_.c.state == "skipped") & object_.c.error_code.is_not(None)
    query = sa.select(sa.func.count()).where(object_.c.transfer_id == transfer_id, sa.not_(left_out))
    return connection.execute(query).scalar_one()


def open_objects(connection: sa.Connection, run: BatchRun) -> list[OpenObject]:
    """The batch's objects that have not ended."""
    return _for_the_engine(connection, sa.and_(*batch_conditions(run), object_.c.state.in_(OPEN_OBJECT_STATES)))


def read_expected(connection: sa.Connection, transfer_id: str, ids: Sequence[int]) -> dict[int, ExpectedContent]:
    """The content that objects of a batch are compared with, by their ids."""
    columns = (object_.c.id, *(object_.c[name] for name in ExpectedContent._fields))
    rows = connection.execute(
        sa.select(*columns).where(object_.c.transfer_id == transfer_id, object_.c.id.in_(list(ids)))
    )
    return {row.id: expected_content(row) for row in rows}


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


def read_arrived(connection: sa.Connection, transfer_id: str, *, after: int, limit: int) -> list[ArrivedObject]:
    """Objects that were copied, or found identical, in the order of their rows.

    Objects that were skipped for their size, or size and time, are neither: the source may be the only one with its
    bytes.
    """
    proven = object_.c.verified.is_not(None) & (object_.c.verified != "none") & object_.c.error_code.is_(None)
    unread = (object_.c.state == "skipped") & object_.c.verified.in_(("size", "time")) & (object_.c.size > 0)
    rows = connection.execute(
        sa.select(*(object_.c[name] for name in ArrivedObject._fields))
        .where(
            object_.c.transfer_id == transfer_id,
            object_.c.id > after,
            object_.c.state.in_(("done", "skipped")),
            proven,
            sa.not_(unread),
        )
        .order_by(object_.c.id)
        .limit(limit)
    )
    return [ArrivedObject(*row) for row in rows]


def find_open_uploads(connection: sa.Connection, transfer_id: str, limit: int) -> list[OpenObject]:
    """Objects that had an upload when they failed because the storage could not be reached or was too busy."""
    return _for_the_engine(connection, sa.and_(*_open_uploads(transfer_id)), limit)


def has_open_uploads(transfer_id: sa.BindParameter[str]) -> sa.ColumnElement[bool]:
    """True when ``find_open_uploads`` finds some, as an SQL expression."""
    return sa.exists().where(*_open_uploads(transfer_id))


def _open_uploads(transfer_id: sa.BindParameter[str] | str) -> list[sa.ColumnElement[bool]]:
    passing = object_.c.error_class.in_(TRANSIENT_CLASSES)
    of_transfer = object_.c.transfer_id == transfer_id
    return [of_transfer, object_.c.state == "failed", passing, object_.c.upload_id.is_not(None)]


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
    rows = connection.execute(_selection().where(which).order_by(object_.c.id).limit(limit))
    return list(map(OpenObject._make, fetch(rows)))


@cache
def _selection() -> sa.Select[*tuple[Any, ...]]:
    return sa.select(
        object_.c.id,
        object_.c.source_key,
        object_.c.target_key,
        object_.c.size,
        object_.c.etag,
        sa.func.nullif(object_.c.version_id, ""),
        object_.c.upload_id,
        object_.c.part_size,
        object_.c.target_etag,
        object_.c.source_upload_id,
        object_.c.member_place,
    )


def record_uploads(connection: sa.Connection, uploads: Iterable[tuple[int, str, int, str | None]]) -> None:
    """Record uploads that were created, or are about to be completed: object id, upload id, part size, ``ETag``."""
    connection.execute(
        object_.update()
        .where(object_.c.id == sa.bindparam("row"))
        .values(upload_id=sa.bindparam("upload"), part_size=sa.bindparam("part"), target_etag=sa.bindparam("made")),
        [{"row": row, "upload": upload, "part": part, "made": etag} for row, upload, part, etag in uploads],
    )


def expected_content(row: sa.Row[Any]) -> ExpectedContent:
    return ExpectedContent(row.target_etag, row.part_size, row.checksum_algorithm, row.checksum)


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
        # Until then it is what completing the upload will make.
        target_etag=None if row.ended_at is None else row.target_etag,
        target_version_id=row.target_version_id,
        checksum_algorithm=row.checksum_algorithm,
        checksum=row.checksum,
        verified=row.verified,
        not_carried=tuple(json.loads(row.not_carried)) if row.not_carried else (),
        error_class=row.error_class,
        error_code=row.error_code,
        error_operation=row.error_operation,
        error_message=row.error_message,
        written_by=row.written_by,
        source_upload_id=row.source_upload_id or None,
    )
