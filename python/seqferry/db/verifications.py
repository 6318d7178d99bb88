"""Figures of the verification of a transfer's objects. Reads every row of the transfer once: for its end only."""

from __future__ import annotations

import sqlalchemy as sa

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
