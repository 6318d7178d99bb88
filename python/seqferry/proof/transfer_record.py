"""The record of one transfer, read for its reports in one transaction; the objects stream after it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from seqferry.db import failed_objects, verifications
from seqferry.db.database import Database
from seqferry.db.record import ledger, receipts
from seqferry.db.record.events import read_data
from seqferry.db.record.findings import Finding
from seqferry.db.tables import event, transfer
from seqferry.db.tables import ledger as ledger_table
from seqferry.model.frozen import frozen
from seqferry.model.labels import NOTHING, Description
from seqferry.model.models import ENDED_TRANSFER_STATES, FailureGroup, TransferSpec, Verification
from seqferry.proof import costs
from seqferry.spec import stored

if TYPE_CHECKING:
    from seqferry.proof.costs import CountedCost

_KEYS_OF_CAUSE = 20
"""Keys that are read of each cause of failures."""


@frozen
class TransferRecord:
    """Everything but the objects."""

    facts: dict[str, Any]
    digest: str | None
    events: list[dict[str, Any]]
    entries: list[dict[str, Any]]
    head: str
    batches: list[int]
    seals: dict[int, tuple[int, str]]
    spec: TransferSpec
    pruned_at: float | None
    cost: CountedCost | None
    findings: Sequence[Finding]
    description: Description
    verifications: Sequence[Verification]
    failures: Sequence[FailureGroup]
    made_at: float

    @property
    def key_id(self) -> str | None:
        """The key of the last event; None where the record is kept without one."""
        return self.events[-1]["key_id"] if self.events else None


def format_time(microseconds: int | None) -> str | None:
    """RFC 3339 in UTC, exact to the microsecond."""
    if microseconds is None:
        return None
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:06d}Z"


def read(database: Database, transfer_id: str, findings: Sequence[Finding], price: str | None) -> TransferRecord:
    with database.read() as connection:
        row = connection.execute(sa.select(transfer).where(transfer.c.id == transfer_id)).one()
        found = connection.execute(
            sa.select(event).where(event.c.transfer_id == transfer_id).order_by(event.c.number)
        ).all()
        entries = connection.execute(
            sa.select(ledger_table.c.number, ledger_table.c.event_number, ledger_table.c.kind, ledger_table.c.hash)
            .where(ledger_table.c.transfer_id == transfer_id)
            .order_by(ledger_table.c.number)
        )
        events: list[dict[str, Any]] = [
            {
                "number": one.number,
                "at": format_time(receipts.microseconds(one.at)),
                "kind": one.kind,
                "actor": one.actor,
                "data": read_data(one.data),
                "key_id": one.key_id,
                "hash": one.hash,
            }
            for one in found
        ]
        ends = [one["data"] for one in events if one["kind"] in ENDED_TRANSFER_STATES]
        about: dict[str, str] | None = ends[-1].get("software") if ends else None
        facts = receipts.receipt_data(
            connection,
            row,
            state=row.state,
            totals=receipts.read_totals(connection, transfer_id),
            ended_at=row.ended_at,
            software=about or receipts.software(),
        )
        spec = stored.read_legible(row.spec)[0]
        totals = facts["totals"]
        known = {name: totals[name] for name in ("skipped", "bytes_done")}
        ended = row.state in ENDED_TRANSFER_STATES
        return TransferRecord(
            cost=costs.transfer_cost(connection, transfer_id, spec, **known, region=price) if ended else None,
            facts=facts,
            digest=row.receipt_digest,
            events=events,
            entries=[dict(one) for one in entries.mappings()],
            head=str(ledger.head(connection)),
            batches=receipts.batch_numbers(connection, transfer_id),
            seals={one.number: (one.objects, one.root) for one in receipts.read_seals(connection, transfer_id)},
            spec=spec,
            pruned_at=row.pruned_at,
            findings=findings,
            description=_description(events),
            verifications=verifications.read(connection, transfer_id),
            failures=failed_objects.group_failures(connection, transfer_id, _KEYS_OF_CAUSE),
            made_at=time.time(),
        )


def _description(events: Sequence[dict[str, Any]]) -> Description:
    """The latest name and labels by the record of events, whose hashes hold them."""
    given = [one["data"] for one in events if one["kind"] in ("submitted", "described") and "labels" in one["data"]]
    return Description(given[-1]["name"], given[-1]["labels"]) if given else NOTHING


def objects(database: Database, known: TransferRecord, first: int = 0) -> Iterator[dict[str, Any]]:
    """Each object from the ``first`` on, with the number of its batch, its times as text."""
    for number in known.batches:
        sealed, _ = known.seals.get(number, (0, ""))
        if 0 < sealed <= first:  # a whole batch is passed over unread
            first -= sealed
            continue
        for page in receipts.read_pages(database, known.facts["id"], number):
            skipped, first = min(first, len(page)), max(first - len(page), 0)
            for row in page[skipped:]:
                found: dict[str, Any] = {"batch": number, **dict(zip(receipts.COLUMNS, row, strict=True))}
                for name in receipts.TIMES:
                    found[name] = format_time(found[name])
                yield found
