"""The audit of a database: everything on record against its hashes, and heads that were kept elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import sqlalchemy as sa

from seqferry.db import audit, ledger, schedule_rows
from seqferry.db.audit import AuditCounts, Finding, KnownHead
from seqferry.db.database import Database
from seqferry.db.ledger import Head
from seqferry.db.tables import transfer
from seqferry.errors import UsageError

__all__ = ["AuditCounts", "Finding", "Head", "KnownHead", "head", "keyed_head", "known_heads", "verify"]

_AT_ONCE: Final = 100


def head(database: Database) -> Head:
    """The head of the ledger now. Kept elsewhere, it shows later that nothing before it was changed."""
    with database.read() as connection:
        return ledger.head(connection)


def keyed_head(database: Database) -> Head | None:
    """The head of the ledger now; None while no key signs it, since a head without one proves nothing."""
    with database.read() as connection:
        return ledger.head(connection) if ledger.is_keyed(connection) else None


def known_heads(texts: Sequence[str]) -> list[KnownHead]:
    """Heads as a person has kept them.

    Raises:
        UsageError: a text is no head of a ledger.
    """
    try:
        return [KnownHead(Head.parse(text), f"the head {text.strip()[:24]}... that was given") for text in texts]
    except ValueError as why:
        raise UsageError(f"{why}. `seqferry audit head` prints one.") from None


def verify(
    database: Database, checked: AuditCounts, *, transfer_id: str | None = None, known: Sequence[KnownHead] = ()
) -> Iterator[Finding]:
    """All that is not as it was written; ``checked`` counts what was looked at.

    Args:
        transfer_id: only this transfer; the ledger is looked at as a whole.
        known: heads of the ledger that were kept outside of the database.
    """
    with database.read() as connection:
        yield from audit.check_ledger(connection, known, checked)
        broken = schedule_rows.first_broken(connection) if transfer_id is None else None
    if broken is not None:
        of, number = broken
        message = f"Event {number} of the schedule {of} does not fit its hash, or the event before it."
        yield Finding("schedule_changed", message, row=f"event {number}")
    after = ""
    while True:
        with database.read() as connection:
            query = sa.select(transfer).where(transfer.c.id > after).order_by(transfer.c.id).limit(_AT_ONCE)
            if transfer_id is not None:
                query = query.where(transfer.c.id == transfer_id)
            rows = connection.execute(query).all()
        if not rows:
            return
        for row in rows:
            with database.read() as connection:
                # A transfer that runs may be further by now than when the page was read.
                now = connection.execute(sa.select(transfer).where(transfer.c.id == row.id)).one_or_none()
                found = [] if now is None else list(audit.check_transfer(connection, now, checked))
            yield from found
        after = rows[-1].id
