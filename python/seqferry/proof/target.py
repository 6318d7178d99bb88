"""The objects at the target today, against the receipt of the transfer that brought them there."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any, Final, Literal

from seqferry.db.database import Database
from seqferry.db.record import events, receipts
from seqferry.engine import buckets
from seqferry.engine.engine import Engine, ObjectInfo
from seqferry.model import digests
from seqferry.model.errors import ConflictError, StorageError
from seqferry.model.models import (
    LocalFolder,
    Status,
    TransferSpec,
)
from seqferry.spec import identity, run

AT_ONCE: Final = 1000
"""Keys that are looked up, and then read, in one call of the engine, which sends their requests in parallel."""

Outcome = Literal["same", "missing", "changed", "unreadable"]


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
    """The storage does not give their bytes."""
    size_only: int = 0
    """Equal objects that were compared by size alone: nothing else was on record, or could be compared."""
    content: int = 0
    """Equal objects whose bytes were all read, and have the digest that is on record."""

    @property
    def differ(self) -> int:
        return self.missing + self.changed + self.unreadable


def verify(
    database: Database,
    engine: Engine,
    status: Status,
    looked: VerificationCounts,
    *,
    content: bool = False,
    check: Callable[[], None] | None = None,
) -> Iterator[Difference]:
    """Look up each object that arrived (HEAD), and count the outcomes in ``looked``.

    Args:
        content: also read all bytes, and compare their digest with the checksum on record, or else with the ETag.
        check: called now and then, to leave by an exception.

    Raises:
        ConflictError: the transfer has not ended, or it brings nothing to its target.
        AccessError, StorageError: the target cannot be looked at.
    """
    if not status.ended:
        raise ConflictError(f"Transfer {status.id} has not ended; there is nothing to verify yet.")
    if did := status.spec.kind.did:
        raise ConflictError(f"Transfer {status.id} {did}; nothing arrives by it, so there is nothing to verify.")
    identity.require(status.spec)
    arrived = _arrived(database, status)
    check = check or _no_check
    while found := list(islice(arrived, AT_ONCE)):
        check()
        for spec, rows in _by_spec(found):
            keys = list(dict.fromkeys(row["target_key"] for row in rows))
            there = dict(zip(keys, engine.head(spec.target, keys), strict=True))
            compared = [_ComparedObject.of(spec, row, there[row["target_key"]]) for row in rows]
            for one in _read(engine, spec, compared, check) if content else compared:
                looked.objects += 1
                outcome = one.difference.outcome
                setattr(looked, outcome, getattr(looked, outcome) + 1)
                if outcome != "same":
                    yield one.difference
                    continue
                looked.size_only += one.seen == "size"
                looked.content += one.seen == "content"


def _no_check() -> None:
    """The caller never leaves."""


def record(
    database: Database, status: Status, looked: VerificationCounts, *, at: float, actor: str, content: bool = False
) -> None:
    """Note in the record that the target was looked at, and with what result."""
    data: dict[str, Any] = {
        "objects": looked.objects,
        "same": looked.same,
        "missing": looked.missing,
        "changed": looked.changed,
        "how": "content" if content else "head",
    }
    if content:
        data |= {"unreadable": looked.unreadable, "content": looked.content}
    with database.write() as connection:
        events.append(connection, status.id, at, "verified", actor, data)


_Row = dict[str, Any]
"""Row of a receipt: the values of ``receipts.COLUMNS`` by name, with the key that the object has at its target."""


def _by_spec(found: Sequence[tuple[TransferSpec, _Row]]) -> Iterator[tuple[TransferSpec, list[_Row]]]:
    """Rows of one spec, whose target is one place, together."""
    specs = {id(spec): spec for spec, _ in found}
    for known, spec in specs.items():
        yield spec, [row for own, row in found if id(own) == known]


def _arrived(database: Database, status: Status) -> Iterator[tuple[TransferSpec, _Row]]:
    """Rows of the objects that should be at a target, each with the spec that brought it there."""
    rows = _rows(database, status.id)
    if status.spec.kind.of_lines:
        yield from _of_lines(status.spec, rows)
        return
    if status.spec.kind.packs:
        rows = _once(rows)
    if status.spec.kind.of_versions:
        rows = _newest(rows)
    for row in rows:
        yield status.spec, row


def _rows(database: Database, transfer_id: str) -> Iterator[_Row]:
    with database.read() as connection:
        numbers = receipts.batch_numbers(connection, transfer_id)
    for number in numbers:
        for page in receipts.pages(database, transfer_id, number):
            for row in page:
                one: _Row = dict(zip(receipts.COLUMNS, row, strict=True))
                if one["state"] in ("done", "skipped") and one["error_code"] is None:
                    yield one


def _once(rows: Iterator[_Row]) -> Iterator[_Row]:
    """The first member of each archive: they share it."""
    archives = set[str]()
    for row in rows:
        if row["target_key"] not in archives:
            archives.add(row["target_key"])
            yield row


def _newest(rows: Iterator[_Row]) -> Iterator[_Row]:
    """The last version of each object: they follow one another, oldest first."""
    for _, versions in groupby(rows, key=lambda row: row["target_key"]):
        *_, newest = versions
        yield newest


def _of_lines(spec: TransferSpec, rows: Iterator[_Row]) -> Iterator[tuple[TransferSpec, _Row]]:
    """Rows that the lines of a run wrote, each with the spec of its lines; those of lines that remove are left out."""
    lines = run.Lines(spec)
    for part in lines.parts:
        identity.require(part.spec)
    for row in rows:
        part = lines.parts[lines.number_of(row["source_key"])].spec
        if part.kind.did is None:
            yield part, row | {"target_key": run.key_of(row["target_key"], part.target)}


_ComparedProperty = Literal["size", "etag", "content"]
"""Property that was compared of an object that is the same."""


@dataclass(frozen=True, slots=True)
class _ComparedObject:
    """An object of the receipt and the one at the target.

    Attributes:
        wanted: the digest that its bytes should have; None: they need not be read, or nothing on record covers them.
    """

    seen: _ComparedProperty
    difference: Difference
    there: ObjectInfo | None = None
    wanted: digests.ExpectedDigest | None = None

    @classmethod
    def of(cls, spec: TransferSpec, row: _Row, there: ObjectInfo | None) -> _ComparedObject:
        """Compare what a HEAD tells."""
        key = row["target_key"]
        size = None if spec.kind.packs else row["size"]
        etag = None if isinstance(spec.target, LocalFolder) else row["target_etag"]
        recorded = _shown(size, etag)
        if there is None:
            return cls("size", Difference(key, "missing", recorded, "nothing"))
        found = _shown(there.size, there.etag if etag else None)
        if (size is not None and there.size != size) or (etag and there.etag and there.etag != etag):
            return cls("size", Difference(key, "changed", recorded, found))
        same = Difference(key, "same", recorded, found)
        return cls("etag" if etag and there.etag else "size", same, there, _wanted(spec, row, there.size))

    def read(self, found: list[str] | StorageError) -> _ComparedObject:
        """Compare the digests of its bytes.

        Raises:
            StorageError: no other object can be read either.
        """
        same, wanted = self.difference, self.wanted
        if isinstance(found, StorageError):
            if found.job_wide:
                raise found
            return _ComparedObject(self.seen, Difference(same.key, "unreadable", same.recorded, found.message))
        if wanted is None or wanted.value in found:
            return _ComparedObject("content", same)
        recorded = f"{same.recorded}, {wanted.name} {wanted.value}"
        return _ComparedObject(self.seen, Difference(same.key, "changed", recorded, f"{wanted.name} {found[0]}"))


def _read(
    engine: Engine, spec: TransferSpec, compared: Sequence[_ComparedObject], check: Callable[[], None]
) -> Generator[_ComparedObject]:
    """Each of them in their order, after the bytes of those were read of which a digest is on record."""
    requests = [
        buckets.DigestRequest(
            one.difference.key,
            etag=one.there.etag,
            size=one.there.size,
            algorithm=one.wanted.algorithm,
            part_sizes=one.wanted.part_sizes,
        )
        for one in compared
        if one.there is not None and one.wanted is not None
    ]
    with closing(_digests(engine, spec, requests, check)) as found:
        for one in compared:
            yield one if one.wanted is None else one.read(next(found))


def _digests(
    engine: Engine, spec: TransferSpec, requests: Sequence[buckets.DigestRequest], check: Callable[[], None]
) -> Generator[list[str] | StorageError]:
    if not requests:
        return
    with closing(buckets.digests(engine, spec.target, requests)) as pages:
        for page in pages:
            check()
            yield from page


def _wanted(spec: TransferSpec, row: _Row, size: int) -> digests.ExpectedDigest | None:
    """Expected digest of the bytes: of a file, which has no ETag of its own, that of its source."""
    is_file = isinstance(spec.target, LocalFolder)
    recorded = None if is_file else row["target_etag"]
    same_bytes = not spec.kind.packs
    return digests.expected(
        size,
        checksum_algorithm=row["checksum_algorithm"],
        checksum=row["checksum"],
        etag=recorded or (row["etag"] if same_bytes else None),
        part_size=None if is_file else row["part_size"],
    )


def _shown(size: int | None, etag: str | None) -> str:
    known = ([] if size is None else [f"{size} bytes"]) + ([] if not etag else [f"ETag {etag}"])
    return ", ".join(known) or "an archive"
