"""Reports of a transfer: all that is on record of it, as JSON, CSV or one page of HTML.

They stream: a report of a million objects needs no more memory than one of a thousand. The JSON holds what the digest
of the receipt is computed from, so that others can check it without Seqferry (``examples/verify_receipt.py``).
"""

from __future__ import annotations

import csv
import io
import json
import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any, Final, Literal

import sqlalchemy as sa

from seqferry.db.database import Database
from seqferry.db.record import ledger, receipts
from seqferry.db.record.events import told
from seqferry.db.record.findings import Finding
from seqferry.db.tables import event, transfer
from seqferry.db.tables import ledger as ledger_table
from seqferry.model import formatting
from seqferry.model.labels import NOTHING, Description
from seqferry.model.models import ENDED_TRANSFER_STATES, TransferSpec
from seqferry.proof import costs
from seqferry.spec import stored

if TYPE_CHECKING:
    from seqferry.proof.costs import CountedCost

Format = Literal["json", "csv", "html"]

MEDIA_TYPES: Final[dict[Format, str]] = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "html": "text/html; charset=utf-8",
}
FORMAT: Final = "seqferry-receipt-1"
_PAGE_CSS: Final = (
    "body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:90em;padding:0 1em;color:#1a1a1a}"
    "h1{font-size:1.6em}h2{font-size:1.15em;margin-top:2em}table{border-collapse:collapse;width:100%}"
    "td,th{text-align:left;vertical-align:top;padding:.2em .8em .2em 0;border-bottom:1px solid #ddd}"
    "td{overflow-wrap:anywhere}code{font:12px ui-monospace,monospace;overflow-wrap:anywhere}"
    ".failed td,.changed{background:#fdecea}thead{display:table-header-group}tr{break-inside:avoid}"
    "@media print{body{margin:0;max-width:none;font-size:9px}code{font-size:8px}@page{size:A4 landscape;margin:12mm}}"
)
_FINDINGS: Final = 100
"""Findings about its own record that a report names; the others are counted."""

_SHOWN: Final = (
    "source_key",
    "target_key",
    "size",
    "state",
    "verified",
    "checksum_algorithm",
    "checksum",
    "etag",
    "version_id",
    "target_etag",
    "target_version_id",
    "started_at",
    "ended_at",
    "attempts",
    "not_carried",
    "error_code",
    "error_message",
)
"""Columns of an object on the page; the others are in JSON and CSV."""


@dataclass(frozen=True, slots=True)
class _TransferRecord:
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

    @property
    def key_id(self) -> str | None:
        """The key of the last event; None where the record is kept without one."""
        return self.events[-1]["key_id"] if self.events else None


def stream(
    database: Database,
    transfer_id: str,
    form: Format,
    findings: Sequence[Finding] = (),
    price: str | None = None,
) -> Iterator[str]:
    """The report in pieces. A failure after the first one is a report that is cut off, and shows as such.

    Args:
        findings: what a look at seals and events has found right before (``Service.record_findings``).
        price: region of AWS whose prices hold, whatever the storage is.

    Raises:
        UsageError: there are no prices of that region.
    """
    known = _read(database, transfer_id, findings, price)
    writers = {"json": _json, "csv": _csv, "html": _html}
    return writers[form](known, _objects(database, known))


def time_text(microseconds: int | None) -> str | None:
    """RFC 3339 in UTC, exact to the microsecond."""
    if microseconds is None:
        return None
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:06d}Z"


def _read(database: Database, transfer_id: str, findings: Sequence[Finding], price: str | None) -> _TransferRecord:
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
                "at": time_text(receipts.microseconds(one.at)),
                "kind": one.kind,
                "actor": one.actor,
                "data": told(one.data),
                "key_id": one.key_id,
                "hash": one.hash,
            }
            for one in found
        ]
        ends = [one["data"] for one in events if one["kind"] in ENDED_TRANSFER_STATES]
        about: dict[str, str] | None = ends[-1].get("software") if ends else None
        facts = receipts.facts(
            connection,
            row,
            state=row.state,
            totals=receipts.read_totals(connection, transfer_id),
            ended_at=row.ended_at,
            software=about or receipts.software(),
        )
        spec = stored.shown(row.spec)[0]
        totals = facts["totals"]
        known = {name: totals[name] for name in ("skipped", "bytes_done")}
        ended = row.state in ENDED_TRANSFER_STATES
        return _TransferRecord(
            cost=costs.counted(connection, transfer_id, spec, **known, region=price) if ended else None,
            facts=facts,
            digest=row.receipt_digest,
            events=events,
            entries=[dict(one) for one in entries.mappings()],
            head=str(ledger.head(connection)),
            batches=receipts.batch_numbers(connection, transfer_id),
            seals={one.number: (one.objects, one.root) for one in receipts.seals(connection, transfer_id)},
            spec=spec,
            pruned_at=row.pruned_at,
            findings=findings,
            description=_description(events),
        )


def _description(events: Sequence[dict[str, Any]]) -> Description:
    """The latest name and labels by the record of events, whose hashes hold them."""
    given = [one["data"] for one in events if one["kind"] in ("submitted", "described") and "labels" in one["data"]]
    return Description(given[-1]["name"], given[-1]["labels"]) if given else NOTHING


def _objects(database: Database, known: _TransferRecord) -> Iterator[dict[str, Any]]:
    """Each object with the number of its batch, its times as text."""
    for number in known.batches:
        for page in receipts.pages(database, known.facts["id"], number):
            for row in page:
                found: dict[str, Any] = {"batch": number, **dict(zip(receipts.COLUMNS, row, strict=True))}
                for name in receipts.TIMES:
                    found[name] = time_text(found[name])
                yield found


def _json(known: _TransferRecord, objects: Iterator[dict[str, Any]]) -> Iterator[str]:
    head = {
        "report": FORMAT,
        "digest": known.digest,
        "made_at": time_text(receipts.microseconds(time.time())),
        "made_by": receipts.software(),
        "name": known.description.name,
        "labels": dict(known.description.labels),
        "source": known.spec.source.uri,
        "target": known.spec.target.uri,
        "pruned_at": time_text(receipts.microseconds(known.pruned_at)),
        "cost": None if known.cost is None else known.cost.facts(),
        "record": {
            "intact": not known.findings,
            "key_id": known.key_id,
            "findings": [
                {"kind": one.kind, "message": formatting.printable(one.message), "row": one.row, "key": one.key}
                for one in known.findings[:_FINDINGS]
            ],
        },
        "facts": known.facts,
        "ledger": {"head": known.head, "entries": known.entries},
        "events": known.events,
        "batches": [{"number": n, "objects": count, "root": root} for n, (count, root) in known.seals.items()],
    }
    yield json.dumps(head, indent=1)[:-2] + ',\n "objects": ['
    before = "\n  "
    for one in objects:
        yield before + json.dumps(one)
        before = ",\n  "
    yield "\n ]\n}\n"


def _csv(_known: _TransferRecord, objects: Iterator[dict[str, Any]]) -> Iterator[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(["batch", *receipts.COLUMNS])
    for one in objects:
        writer.writerow(["" if value is None else value for value in one.values()])
        if buffer.tell() > 1 << 16:
            yield _taken(buffer)
    yield _taken(buffer)


def _taken(buffer: io.StringIO) -> str:
    text = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return text


def _html(known: _TransferRecord, objects: Iterator[dict[str, Any]]) -> Iterator[str]:
    facts = known.facts
    title = f"Transfer {known.description.name or facts['id']}"
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{_text(title)}</title><style>{_PAGE_CSS}</style></head><body>\n<h1>{_text(title)}</h1>\n"
    )
    yield "".join(f'<p class="changed">{_text(one.message)}</p>\n' for one in known.findings[:_FINDINGS])
    yield _table(_summary(known))
    yield "<h2>Options</h2>\n" + _table(_flat(facts["spec"]))
    yield "<h2>Events</h2>\n" + _rows(
        ("number", "at", "kind", "actor", "data"),
        ({**one, "data": json.dumps(one["data"], ensure_ascii=False)} for one in known.events),
    )
    yield f"<h2>Objects</h2>\n<table><thead><tr>{''.join(f'<th>{name}' for name in _SHOWN)}</tr></thead>\n"
    ends: Counter[tuple[str, str]] = Counter()
    for one in objects:
        ends[one["state"], one["verified"] or "none"] += 1
        css = ' class="failed"' if one["state"] == "failed" else ""
        yield f"<tr{css}>{''.join(f'<td>{_text(one[name])}' for name in _SHOWN)}</tr>\n"
    yield "</table>\n<h2>Verified</h2>\n" + _rows(
        ("state", "verified", "objects"),
        ({"state": state, "verified": how, "objects": f"{n:,}"} for (state, how), n in ends.most_common()),
    )
    yield "</body></html>\n"


def _summary(known: _TransferRecord) -> dict[str, Any]:
    facts, totals = known.facts, known.facts["totals"]
    return {
        "Record": _record_text(known),
        "Id": facts["id"],
        "Name": known.description.name,
        "Labels": ", ".join(f"{key}={value}" for key, value in known.description.labels.items()) or None,
        "State": facts["state"],
        "Asked for by": facts["created_by"],
        "Operation": known.spec.operation,
        "From": known.spec.source.uri,
        "To": known.spec.target.uri,
        "Asked for": time_text(facts["created_at"]),
        "Started": time_text(facts["started_at"]),
        "Ended": time_text(facts["ended_at"]),
        "Error": facts["error_message"],
        "Objects": f"{totals['objects']:,}: "
        + ", ".join(f"{totals[name]:,} {name}" for name in ("done", "skipped", "failed", "cancelled")),
        "Bytes": f"{totals['bytes']:,} ({formatting.size(totals['bytes'])})",
        "Cost at list prices": _cost_text(known),
        "Software": f"Seqferry {facts['software']['version']}, build {facts['software']['build']}",
        "Digest of the receipt (SHA-256)": known.digest or "none yet",
        "Entries of the ledger": ", ".join(f"{one['number']} ({one['kind']})" for one in known.entries),
        "Head of the ledger": known.head,
    }


def _cost_text(known: _TransferRecord) -> str | None:
    """The cost of the counted requests on AWS, at most; None where they have no price."""
    if known.cost is None:
        return None
    cost = known.cost.cost
    egress = f"; up to ${cost.egress:,.2f} for traffic out of AWS" if cost.egress else ""
    most = math.ceil(cost.requests * 10_000) / 10_000
    return (
        f"at most ${most:,.4f} for {known.cost.requests:,} requests, {cost.region}{egress} "
        f"(DataSync asks ${cost.datasync_enhanced:,.2f}, in Basic mode ${cost.datasync_basic:,.2f})"
    )


def _record_text(known: _TransferRecord) -> str:
    if known.findings:
        return f"NOT as it was written: {len(known.findings):,} findings (seqferry audit verify {known.facts['id']})"
    if known.key_id is None:
        return "as it was written, as far as shows without a key: only accidental changes do"
    return f"as it was written, by the signatures of the key {known.key_id}"


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {name: value}
    found: dict[str, Any] = {}
    for key, inner in value.items():  # pyright: ignore[reportUnknownVariableType]
        found |= _flat(inner, f"{name}.{key}" if name else str(key))  # pyright: ignore[reportUnknownArgumentType]
    return found


def _table(facts: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><th>{_text(name)}<td>{_text(value)}</tr>\n" for name, value in facts.items() if value is not None
    )
    return f"<table>{rows}</table>\n"


def _rows(names: tuple[str, ...], rows: Iterator[dict[str, Any]]) -> str:
    head = "".join(f"<th>{_text(name)}" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{_text(row[name])}' for name in names)}</tr>\n" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead>\n{body}</table>\n"


def _text(value: Any) -> str:
    return "" if value is None else escape(formatting.printable(str(value)))
