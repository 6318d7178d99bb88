"""Anchors of the ledger that were written to a storage, one row each, and the entries that none covers yet."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from seqferry.db.record import ledger
from seqferry.db.record.ledger import Head
from seqferry.db.tables import anchor
from seqferry.db.tables import ledger as ledger_table
from seqferry.model.frozen import frozen

_INSTANCE_DIGITS: Final = 16


@frozen
class PendingEntries:
    """Entries of the ledger that no anchor covers yet."""

    entries: int
    since: float
    """Time at which the first of them was made, seconds since the epoch."""


def ledger_name(connection: sa.Connection) -> str | None:
    """The name of this ledger, from its first entry, which backups have as well; None while it is empty."""
    found = connection.execute(sa.select(ledger_table.c.hash).where(ledger_table.c.number == 1)).scalar()
    return None if found is None else found[:_INSTANCE_DIGITS]


def find_latest(connection: sa.Connection, place: str) -> sa.Row[Any] | None:
    """The row of the anchor with the highest count at a place."""
    query = sa.select(anchor).where(anchor.c.place == place).order_by(anchor.c.number.desc()).limit(1)
    return connection.execute(query).one_or_none()


def is_written(connection: sa.Connection, place: str, head: Head) -> bool:
    query = sa.select(anchor.c.hash).where(anchor.c.place == place, anchor.c.number == head.count)
    return connection.execute(query).scalar() == head.hash


def add(connection: sa.Connection, place: str, head: Head, at: float, locked_until: float | None) -> None:
    """Record a written anchor; of two with one count, as after an older backup, the later one."""
    connection.execute(anchor.delete().where(anchor.c.place == place, anchor.c.number == head.count))
    connection.execute(
        anchor.insert().values(place=place, number=head.count, hash=head.hash, at=at, locked_until=locked_until)
    )


def pending(connection: sa.Connection, place: str) -> PendingEntries | None:
    """Entries that the last anchor at a place does not cover; None when it covers all."""
    row = find_latest(connection, place)
    head = ledger.head(connection)
    covered = 0 if row is None else row.number
    if row is not None and row.number == head.count and row.hash != head.hash:
        covered -= 1  # the ledger was restored from a backup, and has new entries
    if head.count <= covered:
        return None
    since = connection.execute(sa.select(ledger_table.c.at).where(ledger_table.c.number == covered + 1)).scalar()
    return PendingEntries(head.count - covered, since or 0.0)


def read_written(connection: sa.Connection, place: str) -> list[sa.Row[Any]]:
    """All anchors that were written to a place, by their count."""
    return list(connection.execute(sa.select(anchor).where(anchor.c.place == place).order_by(anchor.c.number)))


def heads(connection: sa.Connection) -> list[tuple[str, Head]]:
    """The recorded anchor with the highest count of each place."""
    newest = sa.select(anchor.c.place, sa.func.max(anchor.c.number).label("number")).group_by(anchor.c.place).subquery()
    found = connection.execute(
        sa.select(anchor.c.place, anchor.c.number, anchor.c.hash).join(
            newest, sa.and_(newest.c.place == anchor.c.place, newest.c.number == anchor.c.number)
        )
    )
    return [(row.place, Head(row.number, row.hash)) for row in found]
