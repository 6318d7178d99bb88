"""The audit of a database: everything on record against its hashes, and heads that were kept elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import sqlalchemy as sa

from seqferry.db import schedule_rows, share_link_rows
from seqferry.db.database import Database
from seqferry.db.record import anchor_rows, audit, audit_ledger, ledger
from seqferry.db.record.findings import AuditCounts, Finding, KnownHead
from seqferry.db.record.ledger import Head
from seqferry.db.schedule_rows import ScheduleFault
from seqferry.db.share_link_rows import ShareLinkFault
from seqferry.db.tables import transfer
from seqferry.model.errors import ConfigError, UsageError

__all__ = [
    "AuditCounts",
    "Finding",
    "Head",
    "KnownHead",
    "head",
    "parse_heads",
    "verify",
    "verify_transfer",
]

_PAGE: Final = 100
"""Transfers of one query."""


def head(database: Database) -> Head:
    """The head of the ledger now. Kept elsewhere, it shows later that nothing before it was changed."""
    with database.read() as connection:
        return ledger.head(connection)


def parse_heads(texts: Sequence[str]) -> list[KnownHead]:
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
    """Everything that is not as it was written; ``checked`` counts what was read.

    Args:
        transfer_id: only this transfer; the ledger is checked as a whole.
        known: heads of the ledger that were kept outside of the database.
    """
    with database.read() as connection:
        noted = [KnownHead(one, f"the note of the anchor at {place}") for place, one in anchor_rows.heads(connection)]
        yield from audit_ledger.check_ledger(connection, [*known, *noted], checked)
    if transfer_id is None:
        yield from _of_schedules(database)
        yield from _of_share_links(database)
    for row in _transfers(database, transfer_id):
        yield from _check_again(database, row.id, checked)


def verify_transfer(database: Database, transfer_id: str) -> list[Finding]:
    """All that is not as it was written of one transfer; the ledger as far as it names the transfer."""
    return _check_again(database, transfer_id, AuditCounts())


def _check_again(database: Database, transfer_id: str, checked: AuditCounts) -> list[Finding]:
    with database.read() as connection:
        # A transfer that runs may be further by now than when the page was read.
        now = connection.execute(sa.select(transfer).where(transfer.c.id == transfer_id)).one_or_none()
        return [] if now is None else list(audit.check_transfer(connection, now, checked))


def _transfers(database: Database, transfer_id: str | None = None) -> Iterator[sa.Row[Any]]:
    after = ""
    while True:
        with database.read() as connection:
            query = sa.select(transfer).where(transfer.c.id > after).order_by(transfer.c.id).limit(_PAGE)
            if transfer_id is not None:
                query = query.where(transfer.c.id == transfer_id)
            rows = connection.execute(query).all()
        if not rows:
            return
        yield from rows
        after = rows[-1].id


_CHAIN_FAULTS: Final = {
    "schedule_changed": "does not fit its hash, or the event before it.",
    "schedule_added": "is in no event: it was added.",
    "schedule_removed": "was removed, and no event tells of it.",
    "share_link_changed": "does not fit its hash, or the event before it.",
    "share_link_added": "is in no event: it was added.",
    "share_link_removed": "was removed.",
    "not_keyed": "was written without the key.",
}


def _of_schedules(database: Database) -> Iterator[Finding]:
    try:
        with database.read() as connection:
            found = schedule_rows.find_faults(connection)
    except ConfigError as why:
        yield Finding("key_unknown", f"The record of schedules cannot be checked: {why.message}")
        return
    for one in found:
        yield _of_chain(f"schedule {one.name} ({one.schedule_id})", one)


def _of_share_links(database: Database) -> Iterator[Finding]:
    try:
        for one in _share_link_faults(database):
            yield _of_chain(f"share link {one.link_id}", one)
    except ConfigError as why:
        yield Finding("key_unknown", f"The record of share links cannot be checked: {why.message}")


def _share_link_faults(database: Database) -> Iterator[ShareLinkFault]:
    """Some hundred links are read at a time, each time in a transaction of its own."""
    after: str | None = ""
    while after is not None:
        with database.read() as connection:
            found, after = share_link_rows.find_faults(connection, after)
        yield from found


def _of_chain(about: str, one: ScheduleFault | ShareLinkFault) -> Finding:
    if one.column:
        text = f"The {about}: {one.column} is not what its events tell."
    elif one.number:
        text = f"Event {one.number} of the {about} {_CHAIN_FAULTS[one.kind]}"
    else:
        text = f"The {about} {_CHAIN_FAULTS[one.kind]}"
    return Finding(one.kind, text, row=f"event {one.number}" if one.number else one.column)
