"""Figures of the verification of a transfer's objects. Reads every row of the transfer once: for its end only."""

from __future__ import annotations

from typing import Final, NamedTuple

import sqlalchemy as sa

from seqferry.db.failed_objects import HAS_ERROR
from seqferry.db.tables import object_
from seqferry.model.models import Verification

# Planning says why, in the place of an error.
_LEFT_OUT = sa.and_(object_.c.state == "skipped", object_.c.error_code.is_not(None))


def read(connection: sa.Connection, transfer_id: str) -> list[Verification]:
    """Objects by state and kind of verification, the largest group first."""
    rows = connection.execute(
        sa.select(
            object_.c.state,
            object_.c.verified,
            sa.func.count().label("objects"),
            sa.func.sum(object_.c.size).label("bytes"),
            sa.func.sum(object_.c.retries).label("retries"),
            sa.func.count(object_.c.not_carried).label("not_carried"),
            sa.func.count().filter(object_.c.method == "stream", object_.c.state == "done").label("streamed"),
            sa.func.count().filter(_LEFT_OUT).label("left_out"),
        )
        .where(object_.c.transfer_id == transfer_id)
        .group_by(object_.c.state, object_.c.verified)
        .order_by(sa.func.count().desc(), object_.c.state, object_.c.verified)
    )
    return [
        Verification(
            state=row.state,
            verified=row.verified or "none",
            objects=row.objects,
            # Postgres sums big integers as Decimal.
            bytes=int(row.bytes),
            retries=int(row.retries),
            not_carried=row.not_carried,
            streamed=row.streamed,
            left_out=row.left_out,
        )
        for row in rows
    ]


def count_exceptions(connection: sa.Connection, transfer_id: str) -> tuple[int, int]:
    """Numbers of objects that were copied without a verification, and that were left out as requested.

    Groups nothing: a fifth of the time of ``read`` on a million objects.
    """
    unverified = sa.and_(object_.c.state == "done", sa.func.coalesce(object_.c.verified, "none") == "none")
    row = connection.execute(
        sa.select(
            sa.func.count().filter(unverified).label("unverified"), sa.func.count().filter(_LEFT_OUT).label("left_out")
        ).where(object_.c.transfer_id == transfer_id)
    ).one()
    return row.unverified, row.left_out


_PAGE: Final = 1000


class EndedObjects(NamedTuple):
    """Number of objects of a verification with the same result."""

    state: str
    verified: str | None
    error_code: str | None
    objects: int


class FailedObject(NamedTuple):
    """An object of a verification that is not as received."""

    id: int
    target_key: str
    error_code: str | None
    error_message: str | None


def count_ended(connection: sa.Connection, transfer_id: str) -> list[EndedObjects]:
    """Objects by state, kind of verification and code of their failure."""
    alike = (object_.c.state, object_.c.verified, object_.c.error_code)
    rows = connection.execute(
        sa.select(*alike, sa.func.count()).where(object_.c.transfer_id == transfer_id).group_by(*alike)
    )
    return [EndedObjects(*row) for row in rows]


def read_failed(connection: sa.Connection, transfer_id: str, after: int) -> tuple[list[FailedObject], int | None]:
    """A page of the failed objects in the order of their rows, and where the next page begins."""
    rows = connection.execute(
        sa.select(*(object_.c[name] for name in FailedObject._fields))
        .where(object_.c.transfer_id == transfer_id, object_.c.id > after, object_.c.state == "failed", HAS_ERROR)
        .order_by(object_.c.id)
        .limit(_PAGE)
    )
    found = [FailedObject(*row) for row in rows]
    return found, found[-1].id if len(found) == _PAGE else None
