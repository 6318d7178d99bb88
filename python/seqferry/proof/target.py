"""The objects at the target today, against the receipt of the transfer that brought them there."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final, Literal

from seqferry.db import verifications
from seqferry.db.database import Database
from seqferry.db.objects import ExpectedContent
from seqferry.db.record import receipts
from seqferry.engine import buckets
from seqferry.engine.engine import Engine, FailedLookup, Listed, ObjectInfo
from seqferry.model import digests
from seqferry.model.errors import StorageError
from seqferry.model.locations import LocalFolder, Location
from seqferry.model.models import Status, TransferSpec
from seqferry.spec import run, verification

Outcome = Literal["same", "missing", "changed", "unreadable"]

_OUTCOMES: Final[dict[str, Outcome]] = {verification.MISSING: "missing", verification.CHANGED: "changed"}


@dataclass(frozen=True, slots=True)
class Difference:
    """An object that is not at the target as it arrived there."""

    key: str
    outcome: Outcome
    recorded: str
    found: str


@dataclass(slots=True)
class VerificationCounts:
    """Counts of the objects that were looked at."""

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


def arrived(database: Database, transfer_id: str, spec: TransferSpec) -> Iterator[Row]:
    """Rows of the objects that should be at the target of a transfer, each with the key that it has there.

    Raises:
        StorageError: the receipt cannot be read.
    """
    rows = _rows(database, transfer_id)
    if spec.kind.of_lines:
        rows = _of_lines(spec, rows)
    if spec.kind.packs:
        rows = _once(rows)
    if spec.kind.of_versions:
        rows = _newest(rows)
    return rows


def _rows(database: Database, transfer_id: str) -> Iterator[Row]:
    for one in _recorded(database, transfer_id):
        if one["state"] in ("done", "skipped") and one["error_code"] is None:
            yield one


def _recorded(database: Database, transfer_id: str) -> Iterator[Row]:
    """All rows of a transfer, also when it is pruned."""
    with database.read() as connection:
        numbers = receipts.batch_numbers(connection, transfer_id)
    try:
        for number in numbers:
            for page in receipts.pages(database, transfer_id, number):
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


def _of_lines(spec: TransferSpec, rows: Iterator[Row]) -> Iterator[Row]:
    """Rows that the lines of a run wrote; those of lines that remove are left out."""
    lines = run.Lines(spec)
    for row in rows:
        part = lines.parts[lines.number_of(row["source_key"])].spec
        if part.kind.did is None:
            yield row | {"target_key": run.key_of(row["target_key"], part.target)}


# --- what is there today ----------------------------------------------------------------------------------------------

ComparedProperty = Literal["size", "etag", "content"]
"""Property that was compared of an object that is the same."""


@dataclass(frozen=True, slots=True)
class RecordedObject:
    """An object as it arrived.

    Attributes:
        size: of the object at the target; None where it is not on record.
        etag: of its source; None where that has other bytes.
    """

    id: int
    key: str
    size: int | None
    etag: str | None
    content: ExpectedContent


@dataclass(frozen=True, slots=True)
class ComparedObject:
    """An object of the receipt and the one at the target.

    Attributes:
        size: of the object at the target, if it is there.
        seen: of an object that is the same.
        failure: why it is not the same.
    """

    recorded: RecordedObject
    size: int | None = None
    seen: ComparedProperty = "size"
    failure: StorageError | None = None


@dataclass(frozen=True, slots=True)
class _WantedObject:
    """An object that is the same by HEAD, and whose bytes are compared with a digest on record."""

    compared: ComparedObject
    there: ObjectInfo
    digest: digests.ExpectedDigest


def compare(
    engine: Engine, place: Location, found: Sequence[RecordedObject], *, content: bool
) -> Generator[Sequence[ComparedObject]]:
    """Look up each object (HEAD), and with ``content`` read those of which a digest is on record.

    Returns:
        Pages of the outcomes as they come; empty ones while waiting. To close the iterator stops the reads.

    Raises:
        StorageError: no other object can be looked at either.
    """
    keys = list(dict.fromkeys(one.key for one in found))
    there = dict(zip(keys, engine.head_each(place, keys), strict=True))
    ended: list[ComparedObject] = []
    wanted: list[_WantedObject] = []
    for one in found:
        info = there[one.key]
        compared = _by_head(place, one, info)
        digest = None
        if content and compared.failure is None:
            digest = _digest(place, one, info.size)
        if digest is None or isinstance(info, FailedLookup):
            ended.append(compared)
        else:
            wanted.append(_WantedObject(compared, info, digest))
    yield ended
    if wanted:
        yield from _read(engine, place, wanted)


def _by_head(place: Location, one: RecordedObject, info: Listed) -> ComparedObject:
    etag = None if isinstance(place, LocalFolder) else one.content.target_etag
    recorded = _shown(one.size, etag)
    uri = place.at(one.key)
    if isinstance(info, FailedLookup):
        if not info.is_absent:
            return ComparedObject(one, failure=_unreadable(uri, recorded, info.failure))
        return ComparedObject(one, failure=_differs(uri, recorded, "nothing", verification.MISSING, "HeadObject"))
    if (one.size is not None and info.size != one.size) or (etag and info.etag and info.etag != etag):
        found = _shown(info.size, info.etag if etag else None)
        return ComparedObject(one, info.size, failure=_differs(uri, recorded, found, operation="HeadObject"))
    return ComparedObject(one, info.size, "etag" if etag and info.etag else "size")


def _read(engine: Engine, place: Location, wanted: Sequence[_WantedObject]) -> Generator[Sequence[ComparedObject]]:
    """Each of them in their order, after its bytes were read."""
    requests = [
        buckets.DigestRequest(
            one.compared.recorded.key,
            etag=one.there.etag,
            size=one.there.size,
            algorithm=one.digest.algorithm,
            part_sizes=one.digest.part_sizes,
        )
        for one in wanted
    ]
    left = iter(wanted)
    with closing(buckets.digests(engine, place, requests)) as pages:
        for page in pages:
            yield [_by_content(place, next(left), found) for found in page]


def _by_content(place: Location, one: _WantedObject, found: list[str] | StorageError) -> ComparedObject:
    """Compare the digests of its bytes.

    Raises:
        StorageError: no other object can be read either.
    """
    recorded, uri = one.compared.recorded, place.at(one.compared.recorded.key)
    known = _shown(recorded.size, None if isinstance(place, LocalFolder) else recorded.content.target_etag)
    if isinstance(found, StorageError):
        if found.job_wide:
            raise found
        return replace(one.compared, failure=_unreadable(uri, known, found))
    if one.digest.value in found:
        return replace(one.compared, seen="content")
    was, now = f"{known}, {one.digest.name} {one.digest.value}", f"{one.digest.name} {found[0]}"
    return replace(one.compared, failure=_differs(uri, was, now, operation="GetObject"))


def _differs(
    uri: str, recorded: str, found: str, code: str = verification.CHANGED, operation: str = ""
) -> StorageError:
    return StorageError(verification.describe(uri, recorded, found), "mismatch", code, operation)


def _unreadable(uri: str, recorded: str, why: StorageError) -> StorageError:
    message = verification.describe(uri, recorded, why.message)
    return StorageError(message, why.error_class, why.error_code or why.code, why.operation)


def _digest(place: Location, one: RecordedObject, size: int) -> digests.ExpectedDigest | None:
    """Expected digest of the bytes: of a file, which has no ETag of its own, that of its source."""
    is_file, content = isinstance(place, LocalFolder), one.content
    return digests.expected(
        size,
        checksum_algorithm=content.checksum_algorithm,
        checksum=content.checksum,
        etag=(None if is_file else content.target_etag) or one.etag,
        part_size=None if is_file else content.part_size,
    )


def _shown(size: int | None, etag: str | None) -> str:
    known = ([] if size is None else [f"{size} bytes"]) + ([] if not etag else [f"ETag {etag}"])
    return ", ".join(known) or "an archive"


# --- the result of a verification -------------------------------------------------------------------------------------


def counts(database: Database, transfer_id: str, *, is_pruned: bool = False) -> VerificationCounts:
    """Counts of a verification, so far."""
    found = VerificationCounts()
    ended: Iterable[verifications.EndedObjects]
    if not is_pruned:
        with database.read() as connection:
            ended = verifications.ended(connection, transfer_id)
    else:
        rows = _recorded(database, transfer_id)
        ended = (verifications.EndedObjects(one["state"], one["verified"], one["error_code"], 1) for one in rows)
    for each in ended:
        found.add(each)
    return found


def differences(database: Database, status: Status) -> Iterator[Difference]:
    """Objects of a verification that are not as received, in the order of its rows."""
    for one in _failed(database, status):
        recorded, found = verification.parse(one.target_key, one.error_message or "")
        yield Difference(one.target_key, _OUTCOMES.get(one.error_code or "", "unreadable"), recorded, found)


def _failed(database: Database, status: Status) -> Iterator[verifications.FailedObject]:
    if status.pruned_at is not None:
        for one in _recorded(database, status.id):
            if one["state"] == "failed":
                yield verifications.FailedObject(0, one["target_key"], one["error_code"], one["error_message"])
        return
    after: int | None = 0
    while after is not None:
        with database.read() as connection:
            page, after = verifications.failed(connection, status.id, after)
        yield from page
