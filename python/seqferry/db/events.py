"""The record of acts. Per transfer, each event holds the hash of the one before, which detects accidental edits.

The hashes have no key: they prove nothing against someone who may write to the database.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

import sqlalchemy as sa

from seqferry.db.tables import event, transfer
from seqferry.models import Event

FIRST: Final = "0" * 64
"""What the first event of a transfer holds in place of a hash before it."""


def append(
    connection: sa.Connection, transfer_id: str, at: float, kind: str, actor: str, data: dict[str, Any] | None = None
) -> None:
    """Add an event, in the caller's transaction. Takes the lock of the transfer's row, so that numbers do not clash."""
    connection.execute(sa.select(transfer.c.id).where(transfer.c.id == transfer_id).with_for_update())
    last = connection.execute(
        sa.select(event.c.number, event.c.hash)
        .where(event.c.transfer_id == transfer_id)
        .order_by(event.c.number.desc())
        .limit(1)
    ).one_or_none()
    number, previous = (last.number + 1, last.hash) if last is not None else (1, FIRST)
    text = json.dumps(data or {}, ensure_ascii=False, sort_keys=True)
    connection.execute(
        event.insert().values(
            transfer_id=transfer_id,
            number=number,
            at=at,
            kind=kind,
            actor=actor,
            data=text,
            previous=previous,
            hash=event_hash(transfer_id, number, at, kind, actor, text, previous),
        )
    )


def event_hash(transfer_id: str, number: int, at: float, kind: str, actor: str, data: str, previous: str) -> str:
    """SHA-256 (hex) over a text form of the event that both databases give back unchanged."""
    form = json.dumps([transfer_id, number, at, kind, actor, data, previous], ensure_ascii=False)
    return hashlib.sha256(form.encode("utf-8", "surrogatepass")).hexdigest()


def read(connection: sa.Connection, transfer_id: str, after: int) -> list[Event]:
    rows = connection.execute(
        sa.select(event).where(event.c.transfer_id == transfer_id, event.c.number > after).order_by(event.c.number)
    )
    return [
        Event(number=row.number, at=row.at, kind=row.kind, actor=row.actor, data=json.loads(row.data), hash=row.hash)
        for row in rows
    ]


def first_broken(connection: sa.Connection, transfer_id: str) -> int | None:
    """The number of the first event that does not fit the one before it or its own hash; None when the chain holds.

    Detects accidental edits. Events cut off at the end cannot be seen from the chain itself; a hash that was handed
    out earlier shows them.
    """
    expected, previous = 1, FIRST
    rows = connection.execute(sa.select(event).where(event.c.transfer_id == transfer_id).order_by(event.c.number))
    for row in rows:
        own = event_hash(transfer_id, row.number, row.at, row.kind, row.actor, row.data, row.previous)
        if row.number != expected or row.previous != previous or row.hash != own:
            return expected
        expected, previous = expected + 1, row.hash
    return None
