"""Failed objects: their causes, and the objects of a retry."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from seqferry.db.objects import PlannedObject, expected_content
from seqferry.db.tables import object_
from seqferry.model.models import FailureGroup, cause_id

HAS_ERROR: Final = object_.c.error_class.is_not(None)
"""Condition of failed objects, and of no others, as their index has it."""


def read_unfinished(
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
        also_cancelled: cancelled objects besides failed ones.
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
            source_upload_id=row.source_upload_id,
            member_place=row.member_place,
            storage_class=row.storage_class,
            refusal=_failure(row) if _is_refused(row) or _is_carried(row, cause) else None,
            error_class=row.error_class or "object",
            operation=row.error_operation or "plan",
            expected=expected_content(row) if is_expected else None,
            carried=_is_carried(row, cause),
        )
        for row in rows
    ]
    return found, rows[-1].id if len(rows) == limit else None


def _failure(row: sa.Row[Any]) -> tuple[str, str]:
    if row.error_class is None:
        return "Cancelled", "It was cancelled with the transfer that is retried."
    return row.error_code or "", row.error_message or ""


def _is_carried(row: sa.Row[Any], cause: str | None) -> bool:
    return cause is not None and cause_id(row.error_class, row.error_code, row.error_operation) != cause


_LOOKS: Final = ("HeadObject", "GetObject")
"""Operations of a look-up. A refused HEAD has no body: the reason is that of the GET which it stands for."""


def _is_refused(row: sa.Row[Any]) -> bool:
    """True of an object that planning has refused: no run of a batch has attempted it."""
    return row.error_operation == "plan" or (row.error_operation in _LOOKS and not row.attempts)


def group_failures(connection: sa.Connection, transfer_id: str, keys: int) -> list[FailureGroup]:
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
