"""The objects at the target today, against the receipt of the transfer that brought them there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Literal

from seqferry import access
from seqferry.db import events, receipts
from seqferry.db.database import Database
from seqferry.engine import Engine, ObjectInfo
from seqferry.errors import ConflictError
from seqferry.models import OPERATION_PACK, LocalFolder, Status

AT_ONCE: Final = 1000
"""Keys that are looked up in one call of the engine, which sends their requests in parallel."""

Outcome = Literal["same", "missing", "changed"]


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
    size_only: int = 0
    """Of those that are the same: only their size was on record, or could be compared."""


def verify(
    database: Database, engine: Engine, status: Status, looked: Looked, *, check: Callable[[], None] | None = None
) -> Iterator[Difference]:
    """Look each object up that arrived (HEAD); ``looked`` counts.

    Args:
        check: called now and then, to leave by an exception.

    Raises:
        ConflictError: nothing of the transfer is at its target by its receipt.
        AccessError, StorageError: the target cannot be looked at.
    """
    if not status.ended:
        raise ConflictError(f"Transfer {status.id} has not ended; there is nothing to verify yet.")
    access.require(status.spec)
    arrived = _arrived(database, status)
    while found := list(islice(arrived, AT_ONCE)):
        if check is not None:
            check()
        keys = list(dict.fromkeys(row["target_key"] for row in found))
        there = dict(zip(keys, engine.head(status.spec.target, keys), strict=True))
        for row in found:
            yield from _compared(status, row, there[row["target_key"]], looked)


def record(database: Database, status: Status, looked: Looked, *, at: float, actor: str) -> None:
    """Note in the record that the target was looked at, and with what result."""
    data = {
        "objects": looked.objects,
        "same": looked.same,
        "missing": looked.missing,
        "changed": looked.changed,
        "how": "head",
    }
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


def _compared(status: Status, row: dict[str, Any], there: ObjectInfo | None, looked: Looked) -> Iterator[Difference]:
    looked.objects += 1
    key = row["target_key"]
    size = None if status.spec.operation == OPERATION_PACK else row["size"]
    etag = None if isinstance(status.spec.target, LocalFolder) else row["target_etag"]
    recorded = _shown(size, etag)
    if there is None:
        looked.missing += 1
        yield Difference(key, "missing", recorded, "nothing")
    elif (size is not None and there.size != size) or (etag and there.etag and there.etag != etag):
        looked.changed += 1
        yield Difference(key, "changed", recorded, _shown(there.size, there.etag if etag else None))
    else:
        looked.same += 1
        looked.size_only += not (etag and there.etag)


def _shown(size: int | None, etag: str | None) -> str:
    known = ([] if size is None else [f"{size} bytes"]) + ([] if not etag else [f"ETag {etag}"])
    return ", ".join(known) or "an archive"
