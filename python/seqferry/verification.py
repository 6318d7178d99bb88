"""The objects at the target today, against the receipt of the transfer that brought them there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

from seqferry import access, buckets, digests
from seqferry.db import events, receipts
from seqferry.db.database import Database
from seqferry.engine import Engine, ObjectInfo
from seqferry.errors import ConflictError, StorageError
from seqferry.models import OPERATION_PACK, LocalFolder, Status

AT_ONCE: Final = 1000
"""Keys that are looked up in one call of the engine, which sends their requests in parallel."""

_READ_AT_ONCE: Final = 8
_RANGE: Final = 8 * 1024 * 1024
"""Bytes that are read at a time: with all objects that are read at once, 64 MiB in memory."""

Outcome = Literal["same", "missing", "changed", "unreadable"]


@dataclass(frozen=True, slots=True)
class Difference:
    """An object that is not at the target as it arrived there."""

    key: str
    outcome: Outcome
    recorded: str
    found: str


@dataclass(slots=True)
class Looked:
    """What was looked at."""

    objects: int = 0
    same: int = 0
    missing: int = 0
    changed: int = 0
    unreadable: int = 0
    """The storage does not give their bytes."""
    size_only: int = 0
    """Of those that are the same: only their size was on record, or could be compared."""
    content: int = 0
    """Of those that are the same: all bytes were read, and have the digest that is on record."""

    @property
    def differ(self) -> int:
        return self.missing + self.changed + self.unreadable


def verify(
    database: Database,
    engine: Engine,
    status: Status,
    looked: Looked,
    *,
    content: bool = False,
    check: Callable[[], None] | None = None,
) -> Iterator[Difference]:
    """Look each object up that arrived (HEAD); ``looked`` counts.

    Args:
        content: also read all bytes, and compare their digest with the checksum on record, or else with the ETag.
        check: called now and then, to leave by an exception.

    Raises:
        ConflictError: nothing of the transfer is at its target by its receipt.
        AccessError, StorageError: the target cannot be looked at.
    """
    if not status.ended:
        raise ConflictError(f"Transfer {status.id} has not ended; there is nothing to verify yet.")
    access.require(status.spec)
    arrived = _arrived(database, status)
    with ThreadPoolExecutor(_READ_AT_ONCE, "seqferry-verify") as pool:
        while found := list(islice(arrived, AT_ONCE)):
            if check is not None:
                check()
            keys = list(dict.fromkeys(row["target_key"] for row in found))
            there = dict(zip(keys, engine.head(status.spec.target, keys), strict=True))

            def compare(row: dict[str, Any], there: dict[str, ObjectInfo | None] = there) -> tuple[_Seen, Difference]:
                return _compared(engine, status, row, there[row["target_key"]], content=content)

            for seen, difference in pool.map(compare, found) if content else map(compare, found):
                looked.objects += 1
                setattr(looked, difference.outcome, getattr(looked, difference.outcome) + 1)
                if difference.outcome != "same":
                    yield difference
                    continue
                looked.size_only += seen == "size"
                looked.content += seen == "content"


def record(database: Database, status: Status, looked: Looked, *, at: float, actor: str, content: bool = False) -> None:
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


def _arrived(database: Database, status: Status) -> Iterator[dict[str, Any]]:
    with database.read() as connection:
        numbers = receipts.batch_numbers(connection, status.id)
    archives = set[str]()
    for number in numbers:
        for page in receipts.pages(database, status.id, number):
            for row in page:
                one: dict[str, Any] = dict(zip(receipts.COLUMNS, row, strict=True))
                if one["state"] not in ("done", "skipped") or one["error_code"] is not None:
                    continue
                if status.spec.operation == OPERATION_PACK:
                    # Members share an archive, which is looked up once.
                    if one["target_key"] in archives:
                        continue
                    archives.add(one["target_key"])
                yield one


_Seen = Literal["size", "etag", "content"]
"""What was compared of an object that is the same."""


def _compared(
    engine: Engine, status: Status, row: dict[str, Any], there: ObjectInfo | None, *, content: bool
) -> tuple[_Seen, Difference]:
    key = row["target_key"]
    size = None if status.spec.operation == OPERATION_PACK else row["size"]
    etag = None if isinstance(status.spec.target, LocalFolder) else row["target_etag"]
    recorded = _shown(size, etag)
    if there is None:
        return "size", Difference(key, "missing", recorded, "nothing")
    found = _shown(there.size, there.etag if etag else None)
    if (size is not None and there.size != size) or (etag and there.etag and there.etag != etag):
        return "size", Difference(key, "changed", recorded, found)
    seen: _Seen = "etag" if etag and there.etag else "size"
    wanted = _wanted(status, row, there.size) if content else None
    if wanted is None:
        return seen, Difference(key, "same", recorded, found)
    digest = digests.Digest(wanted)
    try:
        for piece in _content(engine, status, key):
            digest.update(piece)
    except StorageError as why:
        if why.job_wide:
            raise
        return seen, Difference(key, "unreadable", recorded, why.message)
    except OSError as why:
        return seen, Difference(key, "unreadable", recorded, why.strerror or str(why))
    if digest.fits():
        return "content", Difference(key, "same", recorded, found)
    return seen, Difference(key, "changed", f"{recorded}, {wanted.name} {wanted.value}", digest.shown())


def _wanted(status: Status, row: dict[str, Any], size: int) -> digests.Expected | None:
    """What is on record of the bytes: of a file, which has no ETag of its own, that of its source."""
    is_file = isinstance(status.spec.target, LocalFolder)
    recorded = None if is_file else row["target_etag"]
    same_bytes = status.spec.operation != OPERATION_PACK
    return digests.expected(
        size,
        checksum_algorithm=row["checksum_algorithm"],
        checksum=row["checksum"],
        etag=recorded or (row["etag"] if same_bytes else None),
        part_size=None if is_file else row["part_size"],
    )


def _content(engine: Engine, status: Status, key: str) -> Iterator[bytes]:
    """The bytes of an object at the target, in order.

    Raises:
        StorageError, OSError: they cannot be read.
    """
    target = status.spec.target
    if isinstance(target, LocalFolder):
        with Path(os.path.join(target.container, key)).open("rb") as file:  # noqa: PTH118 - keys may begin with dots
            while piece := file.read(_RANGE):
                yield piece
        return
    place = replace(target, key=key)
    found = buckets.facts(engine, place)
    for first in range(0, found.size, _RANGE):
        yield buckets.read_range(engine, place, found, first, min(first + _RANGE, found.size) - 1)


def _shown(size: int | None, etag: str | None) -> str:
    known = ([] if size is None else [f"{size} bytes"]) + ([] if not etag else [f"ETag {etag}"])
    return ", ".join(known) or "an archive"
