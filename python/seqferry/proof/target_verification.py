"""The objects that a transfer brought to its target, as its receipt has them, and the result of verifying them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, Literal

from seqferry.db import verifications
from seqferry.db.database import Database
from seqferry.db.record import receipts
from seqferry.model.errors import StorageError
from seqferry.model.frozen import frozen
from seqferry.model.models import Status, TransferSpec
from seqferry.spec import run, verification

DifferenceKind = Literal["same", "missing", "changed", "unreadable"]

_OUTCOMES: Final[dict[str, DifferenceKind]] = {verification.MISSING: "missing", verification.CHANGED: "changed"}


@frozen
class Difference:
    """An object that is not at the target as it arrived there."""

    key: str
    outcome: DifferenceKind
    recorded: str
    found: str


@dataclass(slots=True)
class VerificationCounts:
    """Counts of the objects that were checked."""

    objects: int = 0
    same: int = 0
    missing: int = 0
    changed: int = 0
    unreadable: int = 0
    """The storage does not show them, or does not give their bytes."""
    size_only: int = 0
    """Equal objects that were compared by size alone: nothing else was on record, or could be compared."""
    content: int = 0
    """Equal objects whose bytes were all read, and have the digest that is on record."""

    @property
    def differ(self) -> int:
        return self.missing + self.changed + self.unreadable

    def add(self, ended: verifications.EndedObjects) -> None:
        """Count objects of a verification that have ended alike."""
        if ended.state == "failed":
            outcome = _OUTCOMES.get(ended.error_code or "", "unreadable")
            setattr(self, outcome, getattr(self, outcome) + ended.objects)
        elif ended.state == "done":
            self.same += ended.objects
            self.size_only += ended.objects * (ended.verified == "size")
            self.content += ended.objects * (ended.verified == "content")
        else:
            return
        self.objects += ended.objects


# --- what is on record ------------------------------------------------------------------------------------------------

Row = dict[str, Any]
"""Row of a receipt: the values of ``receipts.COLUMNS`` by name."""


def read_arrived(database: Database, transfer_id: str, spec: TransferSpec) -> Iterator[Row]:
    """Rows of the objects that should be at the target of a transfer, each with the key that it has there.

    Raises:
        StorageError: the receipt cannot be read.
    """
    rows = _rows(database, transfer_id)
    if spec.kind.runs_list:
        rows = _of_lines(spec, rows)
    if spec.kind.packs:
        rows = _once(rows)
    if spec.kind.copies_versions:
        rows = _newest(rows)
    if spec.kind.recorded_by_gateway:
        rows = _last_uploaded(rows)
    return rows


def _rows(database: Database, transfer_id: str) -> Iterator[Row]:
    for one in _read_recorded(database, transfer_id):
        if one["state"] in ("done", "skipped") and one["error_code"] is None:
            yield one


def _read_recorded(database: Database, transfer_id: str) -> Iterator[Row]:
    """All rows of a transfer, also when it is pruned."""
    with database.read() as connection:
        numbers = receipts.batch_numbers(connection, transfer_id)
    try:
        for number in numbers:
            for page in receipts.read_pages(database, transfer_id, number):
                for row in page:
                    yield dict(zip(receipts.COLUMNS, row, strict=True))
    except receipts.ArchiveError as why:
        raise StorageError(
            f"The receipt of transfer {transfer_id} cannot be read: {why}. See what is on record with: seqferry audit "
            f"verify {transfer_id}",
            "object",
            "ReceiptDamaged",
            "plan",
            True,
        ) from None


def _once(rows: Iterator[Row]) -> Iterator[Row]:
    """The first member of each archive: they share it."""
    archives = set[str]()
    for row in rows:
        if row["target_key"] not in archives:
            archives.add(row["target_key"])
            yield row


def _newest(rows: Iterator[Row]) -> Iterator[Row]:
    """The last version of each object: they follow one another, oldest first."""
    for _, versions in groupby(rows, key=lambda row: row["target_key"]):
        *_, newest = versions
        yield newest


def _last_uploaded(rows: Iterator[Row]) -> Iterator[Row]:
    """The last upload of each file of a share. An upload batch has few enough rows to be held in memory."""
    last: dict[str, Row] = {}
    for row in rows:
        before = last.get(row["target_key"])
        if before is None or before["upload_number"] < row["upload_number"]:
            last[row["target_key"]] = row
    yield from last.values()


def _of_lines(spec: TransferSpec, rows: Iterator[Row]) -> Iterator[Row]:
    """Rows that the lines of a run wrote; those of lines that remove are left out."""
    lines = run.RunLines(spec)
    for row in rows:
        part = lines.parts[lines.number_of(row["source_key"])].spec
        if part.kind.outcome_text is None:
            yield row | {"target_key": run.key_of_row(row["target_key"], part.target)}


# --- the result of a verification -------------------------------------------------------------------------------------


def read_counts(database: Database, transfer_id: str, *, is_pruned: bool = False) -> VerificationCounts:
    """Read the counts of a verification, so far."""
    found = VerificationCounts()
    ended: Iterable[verifications.EndedObjects]
    if not is_pruned:
        with database.read() as connection:
            ended = verifications.count_ended(connection, transfer_id)
    else:
        rows = _read_recorded(database, transfer_id)
        ended = (verifications.EndedObjects(one["state"], one["verified"], one["error_code"], 1) for one in rows)
    for each in ended:
        found.add(each)
    return found


def read_differences(database: Database, status: Status) -> Iterator[Difference]:
    """Objects of a verification that are not as received, in the order of its rows."""
    for one in _read_failed(database, status):
        recorded, found = verification.parse_states(one.target_key, one.error_message or "")
        yield Difference(one.target_key, _OUTCOMES.get(one.error_code or "", "unreadable"), recorded, found)


def _read_failed(database: Database, status: Status) -> Iterator[verifications.FailedObject]:
    if status.pruned_at is not None:
        for one in _read_recorded(database, status.id):
            if one["state"] == "failed":
                yield verifications.FailedObject(0, one["target_key"], one["error_code"], one["error_message"])
        return
    after: int | None = 0
    while after is not None:
        with database.read() as connection:
            page, after = verifications.read_failed(connection, status.id, after)
        yield from page
