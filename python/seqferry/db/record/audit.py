"""Checks what is on record of a transfer against its hashes: its events, its row, and its objects.

Without the key, the checks find accidental changes. With it, they find all changes by a writer of the database that
lacks the key, except a cut at the end of the ledger; heads that were kept elsewhere show that. Once there is a key,
each record that is not signed is a finding.
Never covered: batches that have not ended, and what was written wrongly in the first place.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa

from seqferry.db.record import events, receipts, sealed_row, signing
from seqferry.db.record.findings import MAX_NAMED_OBJECTS, AuditCounts, Finding
from seqferry.db.tables import batch, event, object_, seal
from seqferry.db.tables import ledger as ledger_table
from seqferry.model.errors import ConfigError
from seqferry.model.models import ENDED_TRANSFER_STATES
from seqferry.spec import stored

# --- one transfer -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Record:
    """The events of a transfer."""

    first: Any = None
    end: Any = None
    spec: Any = None
    row: sealed_row.SealedRow = field(default_factory=sealed_row.SealedRow)
    hashes: dict[int, str] = field(default_factory=dict[int, str])
    last: int = 0
    broken: bool = False


def check_transfer(connection: sa.Connection, row: sa.Row[Any], checked: AuditCounts) -> Iterator[Finding]:
    """Everything on record of a transfer. ``row`` is that of the transfer."""
    checked.transfers += 1
    record = _Record()
    seals = list(receipts.read_seals(connection, row.id))
    ends = Counter[str]()
    checks: list[Iterator[Finding]] = [
        _check_events(connection, row.id, record, checked),
        _check_entries(connection, row, record),
        _check_row(connection, row, record),
        *(_check_seal(connection, row.id, each, ends, checked) for each in seals),
        _check_batches(connection, row, seals, checked),
        _check_receipt(connection, row, record, ends),
    ]
    for check in checks:
        try:
            yield from check
        except _NO_RECORD as why:
            text = f"The record of transfer {row.id} holds a value that was never written ({why})."
            yield Finding("transfer_changed", text, row.id)


_NO_RECORD: Final = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError)
"""Errors of reading a value that is not of the kind that was written: text for a time, no JSON."""


def _check_events(connection: sa.Connection, of: str, record: _Record, checked: AuditCounts) -> Iterator[Finding]:
    ring = signing.key_ring(connection)
    expected, previous = 1, events.FIRST
    rows = connection.execute(sa.select(event).where(event.c.transfer_id == of).order_by(event.c.number))
    for row in rows:
        checked.events += 1
        where = f"event {row.number}"
        if row.number != expected and not record.broken:
            record.broken = True
            yield Finding("event_removed", f"Event {expected} of transfer {of} was removed.", of, f"event {expected}")
        try:
            key = signing.key_of(ring, row)
            own = events.event_hash(of, row.number, row.at, row.kind, row.actor, row.data, row.previous, key)
            if not record.broken and (row.hash != own or row.previous != previous):
                record.broken = True
                yield Finding("event_changed", f"{where} ({row.kind}) of transfer {of} was changed.", of, where)
            elif not record.broken and key is None and ring.all():
                record.broken = True
                yield Finding("not_keyed", f"{where} of transfer {of} was written without the key.", of, where)
        except ConfigError as why:
            record.broken = True
            yield Finding("key_unknown", f"{where} of transfer {of} cannot be checked: {why.message}", of, where)
        _keep(record, row)
        expected, previous = row.number + 1, row.hash
    if record.first is None:
        yield Finding("event_removed", f"All events of transfer {of} were removed.", of, "event 1")


def _keep(record: _Record, row: sa.Row[Any]) -> None:
    record.hashes[row.number] = row.hash
    record.last = max(record.last, row.number)
    if record.first is None:
        record.first = row
    if row.kind in ENDED_TRANSFER_STATES:
        record.end = row
    record.row.read(row.kind, row.at, _data(row))
    if row.kind in ("submitted", "key_renewed"):
        record.spec = _data(row).get("spec", record.spec)


def _data(row: Any) -> dict[str, Any]:
    return events.read_data(row.data)


def _check_entries(connection: sa.Connection, row: sa.Row[Any], record: _Record) -> Iterator[Finding]:
    """The transfer as the ledger has it."""
    entries = connection.execute(
        sa.select(ledger_table).where(ledger_table.c.transfer_id == row.id).order_by(ledger_table.c.number)
    ).all()
    for entry in entries:
        found = record.hashes.get(entry.event_number)
        about = f"event {entry.event_number} ({entry.kind}) of transfer {row.id}"
        where = f"event {entry.event_number}"
        if found is None and entry.event_number > record.last:
            yield Finding(
                "end_cut_off",
                f"The end of the record of transfer {row.id} was cut off: entry {entry.number} of the ledger has "
                f"{about}; its state is now '{row.state}'.",
                row.id,
                where,
            )
        elif found is not None and found != entry.event_hash:
            yield Finding("event_changed", f"{about} is not the one of entry {entry.number}.", row.id, where)
    yield from _check_presence(row, record, entries)


def _check_presence(row: sa.Row[Any], record: _Record, entries: Sequence[sa.Row[Any]]) -> Iterator[Finding]:
    """Submission and end of a transfer are in the ledger."""
    kinds = {entry.kind for entry in entries}
    is_keyed = record.first is not None and record.first.key_id is not None
    if is_keyed or events.SUBMITTED in kinds:
        wanted = {events.SUBMITTED: "submission"}
        if record.end is not None:
            wanted[record.end.kind] = "end"
        for kind, what in wanted.items():
            if kind not in kinds:
                text = f"The {what} of transfer {row.id} ({kind}) is not in the ledger."
                yield Finding("ledger_removed", text, row.id)
    else:
        yield Finding("transfer_added", f"Transfer {row.id} is not in the ledger: it was added.", row.id)
    for entry in entries:
        if is_keyed and entry.key_id is None:
            text = f"Entry {entry.number} of the ledger was written without the key, and transfer {row.id} with it."
            yield Finding("not_keyed", text, row.id, f"entry {entry.number}")


def _check_row(connection: sa.Connection, row: sa.Row[Any], record: _Record) -> Iterator[Finding]:
    """The row of the transfer against its first and its last event."""

    def differs(name: str, now: Any, recorded: Any) -> Finding:
        text = f"Transfer {row.id}: {name} is now {_format_value(now)}, and was recorded as {_format_value(recorded)}."
        return Finding("transfer_changed", text, row.id, name)

    if record.first is None:
        return
    wanted: dict[str, tuple[Any, Any]] = {
        "created_by": (row.created_by, record.first.actor),
        "created_at": (row.created_at, record.first.at),
    }
    end = record.end
    wanted["ended_at"] = (row.ended_at, None if end is None else end.at)
    if end is None:
        if row.state in ENDED_TRANSFER_STATES:
            yield differs("state", row.state, "unfinished")
        wanted["receipt_digest"] = (row.receipt_digest, None)
    else:
        data = _data(end)
        wanted["state"] = (row.state, end.kind)
        wanted["receipt_digest"] = (row.receipt_digest, data.get("receipt_digest"))
        if end.kind == "failed":
            wanted["error_code"] = (row.error_code, data.get("code"))
            wanted["error_message"] = (row.error_message, data.get("message"))
        totals = receipts.read_totals(connection, row.id)
        wanted |= {name: (count, data[name]) for name, count in totals.items() if name in data}
    wanted |= {name: (getattr(row, name, None), recorded) for name, recorded in record.row.column_values().items()}
    for name, (now, recorded) in wanted.items():
        if now != recorded:
            yield differs(name, now, recorded)
    if record.spec is not None and not stored.is_same(row.spec, json.dumps(record.spec)):
        yield differs("spec", "another one", "requested at the submission")


def _format_value(value: Any) -> str:
    return "nothing" if value is None else f"'{str(value)[:200]}'"


# --- objects ----------------------------------------------------------------------------------------------------------


def _check_seal(
    connection: sa.Connection, of: str, each: Any, ends: Counter[str], checked: AuditCounts
) -> Iterator[Finding]:
    where = f"batch {each.number}"
    try:
        ring = signing.key_ring(connection)
        key = signing.key_of(ring, each)
        if each.mac != signing.sign(key, "seal", of, each.number, each.objects, each.root):
            yield Finding("seal_changed", f"The seal of {where} of transfer {of} was changed.", of, where)
        elif key is None and ring.all():
            yield Finding("not_keyed", f"The seal of {where} of transfer {of} was written without the key.", of, where)
    except ConfigError as why:
        yield Finding("key_unknown", f"The seal of {where} cannot be checked: {why.message}", of, where)
    recorded = connection.execute(
        sa.select(seal.c.leaves).where(seal.c.transfer_id == of, seal.c.number == each.number)
    ).scalar_one()
    tree, keys = receipts.new_tree(), list[tuple[bytes, str]]()
    state_at, key_at = receipts.COLUMNS.index("state"), receipts.COLUMNS.index("source_key")
    size_at = receipts.COLUMNS.index("size")
    try:
        for row in receipts.read_rows(connection, of, each.number):
            keys.append((tree.add([row]), row[key_at]))
            ends[row[state_at]] += 1
            ends["bytes"] += row[size_at]
    except (ValueError, TypeError, IndexError, receipts.ArchiveError):
        yield Finding("object_changed", f"The archive of {where} of transfer {of} cannot be read.", of, where)
        return
    checked.objects += tree.size
    if tree.root().hex() != each.root:
        yield from _name(of, each.number, _cut(bytes(recorded)), keys)


def _cut(leaves: bytes) -> list[bytes]:
    size = receipts.LEAF_BYTES
    return [leaves[at : at + size] for at in range(0, len(leaves), size)]


def _name(of: str, number: int, recorded: list[bytes], keys: list[tuple[bytes, str]]) -> Iterator[Finding]:
    """Findings that name the objects of a batch that are not as they were. Holds the leaves of one batch."""
    where = f"batch {number}"
    fresh = Counter(recorded)
    strange: list[tuple[int, str]] = []
    for at, (leaf, key) in enumerate(keys):
        if fresh[leaf]:
            fresh[leaf] -= 1
        else:
            strange.append((at, key))
    missing = len(recorded) - len(keys)
    for _, key in strange[:MAX_NAMED_OBJECTS]:
        # With as many rows as before, unknown rows were changed; with more, they were added.
        kind, what = ("object_added", "was added") if -missing >= len(strange) else ("object_changed", "was changed")
        yield Finding(kind, f"Object '{_plain(key)}' ({where} of transfer {of}) {what}.", of, where, key)
    if len(strange) > MAX_NAMED_OBJECTS:
        more = len(strange) - MAX_NAMED_OBJECTS
        yield Finding("object_changed", f"{more} more objects of {where} of transfer {of} were changed.", of, where)
    if missing > 0:
        present = Counter(leaf for leaf, _ in keys)
        at = next((place for place, leaf in enumerate(recorded) if not present[leaf]), len(keys))
        before = f"after '{_plain(keys[min(at, len(keys)) - 1][1])}'" if keys and at else "at its start"
        amount = "1 object was" if missing == 1 else f"{missing} objects were"
        yield Finding("object_removed", f"{amount} removed from {where} of transfer {of}, {before}.", of, where)
    if not strange and missing <= 0:
        yield Finding("object_changed", f"Objects of {where} of transfer {of} were changed, or their order.", of, where)


def _plain(key: str) -> str:
    return key.encode("utf-8", "backslashreplace").decode()


def _check_batches(
    connection: sa.Connection, row: sa.Row[Any], seals: list[Any], checked: AuditCounts
) -> Iterator[Finding]:
    """Batches that have ended have seals, and objects are in batches."""
    sealed = {each.number: each for each in seals}
    numbers = set[int]()
    for found in connection.execute(
        sa.select(batch.c.number, batch.c.state, batch.c.objects)
        .where(batch.c.transfer_id == row.id)
        .order_by(batch.c.number)
    ):
        numbers.add(found.number)
        where = f"batch {found.number}"
        own = sealed.get(found.number)
        if own is None and (row.receipt_digest is not None):
            yield Finding("seal_changed", f"The seal of {where} of transfer {row.id} was removed.", row.id, where)
        elif own is None:
            checked.open_batches += found.state != "ended" or row.ended_at is None
        elif found.state != "ended" or found.objects != own.objects:
            yield Finding("transfer_changed", f"{where} of transfer {row.id} was changed.", row.id, where)
    gone = sorted(set(range(max([*numbers, *sealed], default=-1) + 1)) - numbers)
    for number in gone[:MAX_NAMED_OBJECTS]:
        text = f"Batch {number} of transfer {row.id} was removed."
        yield Finding("object_removed", text, row.id, f"batch {number}")
    strays = connection.execute(
        sa.select(object_.c.source_key)
        .outerjoin(
            batch, sa.and_(batch.c.transfer_id == object_.c.transfer_id, batch.c.number == object_.c.batch_number)
        )
        .where(object_.c.transfer_id == row.id, batch.c.number.is_(None))
        .limit(MAX_NAMED_OBJECTS)
    ).scalars()
    for key in strays:
        yield Finding("object_added", f"Object '{_plain(key)}' of transfer {row.id} was added.", row.id, "", key)


def _check_receipt(
    connection: sa.Connection, row: sa.Row[Any], record: _Record, ends: Counter[str]
) -> Iterator[Finding]:
    """The digest of the end over the current rows."""
    if record.end is None:
        return
    data = _data(record.end)
    recorded = data.get("receipt_digest")
    totals = {name: data.get(name, 0) for name in receipts.TOTALS}
    now = receipts.digest(
        receipts.receipt_data(
            connection, row, state=record.end.kind, totals=totals, ended_at=record.end.at, software=data["software"]
        )
    )
    counted = {name: ends[name] for name in ("done", "skipped", "failed", "cancelled", "bytes")}
    if now != recorded or any(totals[name] != count for name, count in counted.items()):
        text = f"What is on record of transfer {row.id} does not give the digest of its receipt any more."
        yield Finding("receipt_changed", text, row.id)
