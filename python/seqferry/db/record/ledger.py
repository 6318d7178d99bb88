"""The ledger over all transfers: a keyed chain with an entry for each submission, each end, and each event after it.

It shows a transfer that was removed whole, and an end that was cut off. It does not protect its own end: a
head (``count-hash``) that is kept outside of the database shows that everything it covers is unchanged.

**Lock order**: the ledger comes after all rows, at the end of a transaction (``transaction_end``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final

import sqlalchemy as sa

from seqferry.db import transaction_end
from seqferry.db.advisory import AdvisoryLock
from seqferry.db.record import signing
from seqferry.db.tables import ledger
from seqferry.db.transaction_end import LedgerEntry
from seqferry.model.frozen import frozen
from seqferry.settings.audit_key import AuditKey

FIRST: Final = "0" * 64
"""Value that the first entry holds in place of a hash before it."""


@frozen
class Head:
    """Head of the ledger: the number of its entries, and the hash of the last one."""

    count: int
    hash: str

    def __str__(self) -> str:
        return f"{self.count}-{self.hash}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """Parses ``14-9f3c...`` (64 hexadecimal digits).

        Raises:
            ValueError: the text is no head of a ledger.
        """
        count, dash, found = text.strip().lower().partition("-")
        is_hash = len(found) == 64 and not set(found) - set("0123456789abcdef")
        if not dash or not count.isdecimal() or len(count) > 15 or not is_hash:
            raise ValueError(f"'{text[:100]}' is no head of a ledger; it looks like 14-9f3c... with 64 digits")
        return cls(int(count), found)


def append(
    connection: sa.Connection,
    key: AuditKey | None,
    transfer_id: str,
    number: int,
    kind: str,
    event_hash: str,
    at: float,
) -> None:
    """Add an entry for an event, at the end of the transaction that adds the event."""
    entry = LedgerEntry(key, transfer_id, number, kind, event_hash, at)
    if (end := transaction_end.of(connection)) is None:
        write(connection, [entry])
    else:
        end.entries.append(entry)


def write(connection: sa.Connection, entries: Sequence[LedgerEntry]) -> None:
    """Write entries. No other transaction can until this one ends."""
    last = _lock(connection)
    rows: list[dict[str, Any]] = []
    for key, transfer_id, event_number, kind, event_hash, at in entries:
        number = last.count + 1
        found = entry_hash(key, number, at, transfer_id, event_number, kind, event_hash, last.hash)
        rows.append(
            {
                "number": number,
                "at": at,
                "transfer_id": transfer_id,
                "event_number": event_number,
                "kind": kind,
                "event_hash": event_hash,
                "key_id": None if key is None else key.id,
                "previous": last.hash,
                "hash": found,
            }
        )
        last = Head(number, found)
    connection.execute(ledger.insert(), rows)


def _lock(connection: sa.Connection) -> Head:
    """Lock the ledger until the transaction ends; returns its head. In one round trip, since all others wait for it."""
    if connection.dialect.name == "sqlite":
        return head(connection)
    # Statements without parameters are sent together, and each sees what was committed before it.
    with closing(connection.exec_driver_sql(_LOCK_AND_HEAD)) as result:
        assert result.cursor is not None
        result.cursor.nextset()
        row = result.cursor.fetchone()
    return Head(0, FIRST) if row is None else Head(*row)


_LOCK_AND_HEAD: Final = (
    f"select pg_advisory_xact_lock({int(AdvisoryLock.LEDGER)});"  # noqa: S608 - a constant
    "select number, hash from ledger order by number desc limit 1"
)


def entry_hash(
    key: AuditKey | None,
    entry: int,
    at: float,
    transfer_id: str,
    number: int,
    kind: str,
    event_hash: str,
    previous: str,
) -> str:
    return signing.sign(key, "ledger", entry, at, transfer_id, number, kind, event_hash, previous)


_HEAD: Final = sa.select(ledger.c.number, ledger.c.hash).order_by(ledger.c.number.desc()).limit(1)


def head(connection: sa.Connection) -> Head:
    """The head now; of an empty ledger ``0-000...``. Entries of the present transaction are not in it."""
    row = connection.execute(_HEAD).one_or_none()
    return Head(0, FIRST) if row is None else Head(row.number, row.hash)


def is_keyed(connection: sa.Connection) -> bool:
    """True when the last entry was signed with an audit key."""
    last = sa.select(ledger.c.key_id).order_by(ledger.c.number.desc()).limit(1)
    return connection.execute(last).scalar() is not None


def entries(connection: sa.Connection, *, after: int = 0) -> Iterator[sa.Row[Any]]:
    """All entries in their order, in bounded memory."""
    query = sa.select(ledger).where(ledger.c.number > after).order_by(ledger.c.number)
    yield from connection.execute(query, execution_options={"yield_per": 1000})
