"""Checks the ledger: the chain by itself, against heads that were kept outside, and the transfers that it names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import sqlalchemy as sa

from seqferry.db.record import ledger, signing
from seqferry.db.record.findings import MAX_NAMED_OBJECTS, AuditCounts, Finding, KnownHead
from seqferry.db.record.ledger import Head
from seqferry.db.tables import event, transfer
from seqferry.db.tables import ledger as ledger_table
from seqferry.model.errors import ConfigError


def check_ledger(connection: sa.Connection, known: Iterable[KnownHead], checked: AuditCounts) -> Iterator[Finding]:
    """The chain by itself, against heads that were kept outside, and the transfers that it names."""
    ring = signing.key_ring(connection)
    outside: dict[int, list[KnownHead]] = {}
    for one in known:
        outside.setdefault(one.head.count, []).append(one)
    expected, previous = 1, ledger.FIRST
    for row in ledger.entries(connection):
        checked.entries += 1
        where = f"entry {row.number}"
        if row.number != expected:
            gone = f"{expected}" if row.number == expected + 1 else f"{expected} to {row.number - 1}"
            yield Finding("ledger_removed", f"The ledger lacks entry {gone}.", row=f"entry {expected}")
        try:
            key = signing.key_of(ring, row)
            own = ledger.entry_hash(
                key, row.number, row.at, row.transfer_id, row.event_number, row.kind, row.event_hash, row.previous
            )
            if row.hash != own or (row.number == expected and row.previous != previous):
                yield Finding("ledger_changed", f"{where} of the ledger was changed.", row.transfer_id, where)
            elif key is None and ring.all():
                yield Finding(
                    "not_keyed", f"{where} of the ledger was written without the key.", row.transfer_id, where
                )
            checked.keyed = key is not None
        except ConfigError as why:
            yield Finding("key_unknown", f"{where} of the ledger cannot be checked: {why.message}", row=where)
        for one in outside.pop(row.number, ()):
            if one.head.hash != row.hash:
                yield Finding(
                    "ledger_rewritten",
                    f"{where} of the ledger is not the one that {one.where} knows: the ledger was written anew from "
                    "there or before.",
                    row.transfer_id,
                    where,
                )
        expected, previous = row.number + 1, row.hash
        checked.head = Head(row.number, row.hash)
    yield from _missing(connection, checked)
    yield from _behind([one for ones in outside.values() for one in ones if one.head.count], checked.head)
    yield from _find_gone(connection)


def _missing(connection: sa.Connection, checked: AuditCounts) -> Iterator[Finding]:
    """A record that is signed has a ledger, which is signed as well."""
    if checked.entries:
        return
    signed = sa.select(event.c.transfer_id).where(event.c.key_id.is_not(None)).limit(1)
    if connection.execute(signed).first() is not None:
        yield Finding("ledger_removed", "The whole ledger was removed: it is empty, and events are signed.")


def _behind(known: list[KnownHead], head: Head) -> Iterator[Finding]:
    if not known:
        return
    longest = max(known, key=lambda one: one.head.count)
    named = {number: what for one in known for number, what in one.entries.items() if number > head.count}
    lost = "; ".join(f"entry {number}: {what}" for number, what in sorted(named.items())[:MAX_NAMED_OBJECTS])
    yield Finding(
        "ledger_behind",
        f"The ledger ends at entry {head.count}, and {longest.where} knows entry {longest.head.count}: its end was cut "
        f"off, or an older backup was restored.{f' It lacks {lost}.' if lost else ''}",
        row=f"entry {head.count + 1}",
    )


def _find_gone(connection: sa.Connection) -> Iterator[Finding]:
    rows = connection.execute(
        sa.select(ledger_table.c.transfer_id, sa.func.min(ledger_table.c.number).label("first"))
        .outerjoin(transfer, transfer.c.id == ledger_table.c.transfer_id)
        .where(transfer.c.id.is_(None))
        .group_by(ledger_table.c.transfer_id)
        .order_by(sa.func.min(ledger_table.c.number))
    )
    for row in rows:
        yield Finding(
            "transfer_removed",
            f"Transfer {row.transfer_id} was removed; entry {row.first} of the ledger names it.",
            row.transfer_id,
        )
