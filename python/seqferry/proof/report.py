"""Reports of a transfer: all that is on record of it, as JSON, CSV or one page of HTML.

They stream: a report of a million objects needs no more memory than one of a thousand. The JSON holds what the digest
of the receipt is computed from, so that others can check it without Seqferry (``examples/verify_receipt.py``).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

from seqferry.db.database import Database
from seqferry.db.record import receipts
from seqferry.db.record.findings import Finding
from seqferry.model import formatting
from seqferry.model.errors import UsageError
from seqferry.proof import receipt_page, transfer_record
from seqferry.proof.receipt_page import FINDINGS, OBJECTS_OF_PAGE
from seqferry.proof.transfer_record import TransferRecord, format_time

Format = Literal["json", "csv", "html"]

MEDIA_TYPES: Final[dict[Format, str]] = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "html": "text/html; charset=utf-8",
}
FORMAT: Final = "seqferry-receipt-1"


def stream(
    database: Database,
    transfer_id: str,
    form: Format,
    findings: Sequence[Finding] = (),
    price: str | None = None,
    page: int = 1,
) -> Iterator[str]:
    """The report in pieces. A failure after the first one is a report that is cut off, and shows as such.

    Args:
        findings: the result of a check of seals and events just before (``Service.record_findings``).
        price: region of AWS whose prices hold, whatever the storage is.
        page: of HTML, whose table has ``OBJECTS_OF_PAGE`` objects.

    Raises:
        UsageError: there are no prices of that region, or there is no such page.
    """
    known = transfer_record.read(database, transfer_id, findings, price)
    objects = transfer_record.objects(database, known)
    if form == "html":
        pages = max(1, -(-known.facts["totals"]["objects"] // OBJECTS_OF_PAGE))
        if not 1 <= page <= pages:
            raise UsageError(f"There is no page {page:,}: the receipt has {formatting.count(pages, 'page')}.")
        first = (page - 1) * OBJECTS_OF_PAGE
        return receipt_page.render(known, transfer_record.objects(database, known, first), page)
    if page != 1:
        raise UsageError("Only HTML has pages: leave --page out, or write --format html.")
    return _json(known, objects) if form == "json" else _csv(known, objects)


def _json(known: TransferRecord, objects: Iterator[dict[str, Any]]) -> Iterator[str]:
    head = {
        "report": FORMAT,
        "digest": known.digest,
        "made_at": format_time(receipts.microseconds(known.made_at)),
        "made_by": receipts.software(),
        "name": known.description.name,
        "labels": dict(known.description.labels),
        "source": known.spec.source.uri,
        "target": known.spec.target.uri,
        "pruned_at": format_time(receipts.microseconds(known.pruned_at)),
        "cost": None if known.cost is None else known.cost.facts(),
        "record": {
            "intact": not known.findings,
            "key_id": known.key_id,
            "findings": [
                {"kind": one.kind, "message": formatting.printable(one.message), "row": one.row, "key": one.key}
                for one in known.findings[:FINDINGS]
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


def _csv(_known: TransferRecord, objects: Iterator[dict[str, Any]]) -> Iterator[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(["batch", *receipts.COLUMNS])
    for one in objects:
        writer.writerow(["" if value is None else value for value in one.values()])
        if buffer.tell() > 1 << 16:
            yield _drain(buffer)
    yield _drain(buffer)


def _drain(buffer: io.StringIO) -> str:
    text = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return text
