"""Records that are older than the audit key: which ones, and the event that seals such a record once.

An ``adopted`` event is signed, so that it covers all events before it; its data cover the row and the objects of the
transfer. It is appended at the request of a person: a writer of the database without the key can date what they
forge back, but not have it sealed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa

from seqferry.db.record import events, receipts, sealed_row
from seqferry.db.tables import object_

ADOPTED: Final = "adopted"
"""Event: a record from before the key is sealed as it was found then."""


def adopt(connection: sa.Connection, row: sa.Row[Any], at: float, actor: str) -> None:
    """Seal a transfer that has ended, and whose batches have seals. ``row`` is that of the transfer."""
    data = {"digest": digest(connection, row), sealed_row.SEALED: sealed_row.sealed_values(row)}
    events.append(connection, row.id, at, ADOPTED, actor, data)


def digest(connection: sa.Connection, row: sa.Row[Any]) -> str:
    """Digest of the row and the objects of a transfer as they are now."""
    totals = receipts.read_totals(connection, row.id)
    return receipts.digest(
        receipts.receipt_data(connection, row, state=row.state, totals=totals, ended_at=row.ended_at, software={})
    )


def is_younger(connection: sa.Connection, row: sa.Row[Any], since: float) -> bool:
    """True when the row or an object of a transfer tells of a time at which there was a key."""
    if max(row.created_at, row.ended_at or 0.0) >= since:
        return True
    last = connection.execute(sa.select(sa.func.max(object_.c.ended_at)).where(object_.c.transfer_id == row.id))
    return (last.scalar() or 0.0) >= since


def time_text(since: float) -> str:
    """The time from which there is a key, for a person."""
    return "the beginning" if since <= 0 else f"{datetime.fromtimestamp(since, UTC):%Y-%m-%d %H:%M:%S} UTC"
