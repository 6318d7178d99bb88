"""Anchors: heads of the ledger as objects of a bucket, out of reach of writers of the database.

The key ``<prefix>/<instance>/<count>-<hash>`` says all that is compared. The object is written with
``If-None-Match: *``: doing it twice changes nothing, so a process may be killed at any point and the next one goes on.
Anchors are read by their versions, since a plain delete and an overwriting succeed also where old versions are locked.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal, cast

import sqlalchemy as sa

from seqferry.db.database import Database
from seqferry.db.record import anchor_rows, ledger
from seqferry.db.record.anchor_rows import PendingEntries
from seqferry.db.record.findings import Finding, KnownHead
from seqferry.db.record.ledger import Head
from seqferry.engine import buckets
from seqferry.engine.buckets import ObjectVersion
from seqferry.engine.engine import CopyItem, Engine, JobContext
from seqferry.engine.executor import Events, execute, record_nothing, rows
from seqferry.model.errors import SeqferryError, StorageError
from seqferry.model.frozen import frozen
from seqferry.model.locations import S3Location
from seqferry.model.models import AT_REST
from seqferry.places import endpoints
from seqferry.settings.config import Settings
from seqferry.settings.scratch import scratch_folder
from seqferry.spec import identity, properties
from seqferry.spec.addresses import parse_uri
from seqferry.spec.build import draft_spec

WRITE_SECONDS: Final = 15.0
"""Time limit for one try to write an anchor."""

_OVERDUE_SECONDS: Final = 60.0
_ENTRIES: Final = 1000
"""Entries of the ledger that an anchor describes, the last ones."""

_MOST_BYTES: Final = 1024 * 1024
_DESCRIBED: Final = 20
_TIMEOUT_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.2
"""Longest wait before ``ends`` is asked again."""
_NAME: Final = re.compile(r"([0-9a-f]{16})/([0-9]{1,15})-([0-9a-f]{64})")
_FILE: Final = "anchor.json"


class AnchorWriteError(Exception):
    """An anchor could not be written, or not read back. It is tried again."""


@frozen
class WrittenAnchor:
    """An anchor that is there. ``locked_until`` is seconds since the epoch; None: its storage has not locked it."""

    head: Head
    uri: str
    locked_until: float | None


@dataclass(slots=True)
class StoredAnchors:
    """The anchors of a ledger as their bucket has them today.

    Attributes:
        last: the count of the highest one, 0 without any.
        unlocked: anchors of which it is on record that nothing locks them.
    """

    uri: str
    known: list[KnownHead] = field(default_factory=list[KnownHead])
    findings: list[Finding] = field(default_factory=list[Finding])
    last: int = 0
    unlocked: int = 0


def anchor_location(settings: Settings) -> S3Location | None:
    """The place of the anchors; None when the configuration names none."""
    if settings.audit_anchor is None:
        return None
    bucket, prefix = parse_uri(settings.audit_anchor)
    return S3Location(
        bucket,
        f"{prefix.rstrip('/')}/" if prefix else "",
        endpoint_url=settings.audit_endpoint_url,
        region=settings.audit_region,
        profile=settings.audit_profile,
    )


def pending_entries(database: Database, settings: Settings) -> PendingEntries | None:
    """Entries that no anchor covers yet; None when all are covered, or the configuration names no place."""
    place = anchor_location(settings)
    if place is None:
        return None
    with database.read() as connection:
        return anchor_rows.pending(connection, _name(place))


def overdue_entries(database: Database, settings: Settings) -> PendingEntries | None:
    """``pending_entries`` that have waited longer than a worker takes to write an anchor."""
    left = pending_entries(database, settings)
    return None if left is None or time.time() - left.since < _OVERDUE_SECONDS else left


def _name(place: S3Location) -> str:
    """The place in the table of anchors."""
    return f"{endpoints.resolve(place) or 'aws'} {place.uri}"


# --- writing ----------------------------------------------------------------------------------------------------------


def write_anchor(
    database: Database,
    engine: Engine,
    settings: Settings,
    *,
    stopping: Callable[[], bool] = lambda: False,
    seconds: float = WRITE_SECONDS,
) -> WrittenAnchor | None:
    """Write the head of the ledger as an anchor, unless it is there; None when there is nothing to write.

    Raises:
        NotWrittenError: the anchor could not be written in that time, or what is stored differs from it.
    """
    place = anchor_location(settings)
    if place is None:
        return None
    with database.read() as connection:
        head, instance = ledger.head(connection), anchor_rows.ledger_name(connection)
        if instance is None or anchor_rows.is_written(connection, _name(place), head):
            return None
        body = _body(connection, place, head, instance)
    deadline = time.monotonic() + seconds

    def ends() -> bool:
        return stopping() or time.monotonic() >= deadline

    try:
        at_key = replace(cast("S3Location", identity.resolve_place(place)), key=f"{place.key}{instance}/{head}")
        put = "no_lock"
        if settings.audit_retention is not None:
            put = _put(engine, settings, at_key, body, ends, locked=True)
        if put == "no_lock":
            _put(engine, settings, at_key, body, ends, locked=False)
        locked_until = _read_back(engine, at_key, head)
        if locked_until is None and put == "locked":
            # Some services show the lock to HEAD alone, by which the engine has seen it.
            locked_until = properties.parse_until(str(settings.audit_retention)).timestamp()
    except (SeqferryError, OSError, ValueError) as why:
        raise AnchorWriteError(getattr(why, "message", None) or str(why)) from why
    with database.write(durable=False) as connection:
        anchor_rows.add(connection, _name(place), head, time.time(), locked_until)
    return WrittenAnchor(head, at_key.uri, locked_until)


def _body(connection: sa.Connection, place: S3Location, head: Head, instance: str) -> bytes:
    row = anchor_rows.find_latest(connection, _name(place))
    before = 0 if row is None or row.number >= head.count else row.number
    entries = [
        {"number": one.number, "at": one.at, "transfer_id": one.transfer_id, "kind": one.kind}
        for one in ledger.entries(connection, after=max(before, head.count - _ENTRIES))
        if one.number <= head.count
    ]
    facts = {"format": 1, "instance": instance, "count": head.count, "hash": head.hash, "entries": entries}
    return json.dumps(facts, ensure_ascii=True, separators=(",", ":")).encode()


_PutOutcome = Literal["put", "locked", "there", "no_lock"]
"""``there``: it was there before; ``no_lock``: its bucket has no Object Lock, and nothing was put."""


def _put(
    engine: Engine, settings: Settings, at_key: S3Location, body: bytes, ends: Callable[[], bool], *, locked: bool
) -> _PutOutcome:
    """Put the object, unless it is there.

    With ``locked`` the engine checks the object afterwards, and removes it unless it shows its lock.
    """
    lock: dict[str, Any] = (
        {"object_lock_mode": settings.audit_lock_mode, "object_lock_until": settings.audit_retention} if locked else {}
    )
    with scratch_folder(settings.state_dir, "anchor") as folder:
        (folder / _FILE).write_bytes(body)
        asked = draft_spec(
            f"{folder}/", f"s3://{at_key.bucket}/", allow_local=True, if_exists="fail", settle=AT_REST, **lock
        )
        spec = identity.resolve(replace(asked, target=replace(at_key, key="")))
        [info] = engine.head(spec.source, [_FILE])
        assert info is not None
        item = CopyItem(id=0, source_key=_FILE, target_key=at_key.key, size=info.size, etag=info.etag)
        job = engine.start(spec, [item], JobContext("", time.time()))
        results: dict[str, Any] = {}

        def record(events: Events) -> Sequence[int]:
            for row in rows(events):
                results.update(row)
            return record_nothing(events)

        execute(job, lambda: _LOOK_SECONDS, record, until=ends)
        if not job.finished():
            job.cancel(False)
            raise AnchorWriteError(f"{at_key.uri} could not be written in time")
    if (failure := job.failure()) is not None:
        results = {"state": "failed", "error_code": failure.error_code, "error_message": failure.message}
    if results.get("state") != "failed":
        return "locked" if locked else "put"
    if results["error_code"] in _IS_THERE:
        return "there"
    if locked and results["error_code"] in _NO_LOCK:
        return "no_lock"
    raise AnchorWriteError(str(results["error_message"]))


_IS_THERE: Final = ("TargetExists", "AlreadyExists", "PreconditionFailed", "ConditionalRequestConflict")
_NO_LOCK: Final = ("InvalidRequest", "NotLocked", "ObjectLockConfigurationNotFoundError", "InvalidBucketState")


def _read_back(engine: Engine, at_key: S3Location, head: Head) -> float | None:
    """Time until which the anchor is locked, None when it is not locked.

    Raises:
        NotWrittenError: the object there is not the anchor of this head.
    """
    import httpx

    url = buckets.presign(engine, at_key, seconds=60)
    bundle = None if at_key.access is None else at_key.access.ca_bundle
    answer = httpx.get(url, timeout=_TIMEOUT_SECONDS, verify=bundle or True)
    if answer.status_code != 200:
        raise AnchorWriteError(f"{at_key.uri} was written and cannot be read back: HTTP {answer.status_code}")
    try:
        facts = answer.json()
        same = (facts["count"], facts["hash"]) == (head.count, head.hash)
    except (ValueError, TypeError, KeyError):
        same = False
    if not same:
        raise AnchorWriteError(f"{at_key.uri} holds something else than this anchor")
    until = answer.headers.get("x-amz-object-lock-retain-until-date")
    if not until or answer.headers.get("x-amz-object-lock-mode") not in ("COMPLIANCE", "GOVERNANCE"):
        return None
    return datetime.fromisoformat(until).timestamp()


# --- reading ----------------------------------------------------------------------------------------------------------


def read_anchors(database: Database, engine: Engine, settings: Settings) -> StoredAnchors | None:
    """Anchors of this ledger in their bucket, compared with the record; None when the configuration names no place.

    A bucket that cannot be read is a finding: what it would show is not known.
    """
    place = anchor_location(settings)
    if place is None:
        return None
    found = StoredAnchors(place.uri)
    with database.read() as connection:
        instance, head = anchor_rows.ledger_name(connection), ledger.head(connection)
        noted = anchor_rows.read_written(connection, _name(place))
    found.unlocked = sum(row.locked_until is None for row in noted)
    try:
        resolved = cast("S3Location", identity.resolve_place(place))
        heads, others = _list_anchors(engine, resolved, instance, found)
        for one in heads:
            about = _entries(engine, resolved, one, heads[one]) if _is_described(one, head, heads) else {}
            found.known.append(KnownHead(one, f"the anchor {resolved.at(_key(place, instance, one))}", about))
    except StorageError as why:
        text = f"The anchors at {place.uri} cannot be read: {why.message}"
        found.findings.append(Finding("anchor_unreadable", text))
        return found
    found.last = max((one.count for one in heads), default=0)
    found.findings += _not_there(place, noted, heads)
    for name, count in sorted(others.items()):
        found.findings.append(
            Finding(
                "ledger_unknown",
                f"{place.uri} holds anchors of the ledger {name} up to entry {count}, which is not the ledger of this "
                "database: it was removed or replaced. If it belongs to another database, give each a place of its "
                "own.",
            )
        )
    return found


def _key(place: S3Location, instance: str | None, head: Head) -> str:
    return f"{place.key}{instance}/{head}"


def _is_described(one: Head, head: Head, heads: dict[Head, ObjectVersion]) -> bool:
    """True when the entries of an anchor are worth reading: the ledger ends before it, and it is one of the newest."""
    return one.count > head.count and one in sorted(heads, key=lambda each: each.count)[-_DESCRIBED:]


def _list_anchors(
    engine: Engine, place: S3Location, instance: str | None, found: StoredAnchors
) -> tuple[dict[Head, ObjectVersion], dict[str, int]]:
    """The first version of each anchor of this ledger, and the highest counts of other ledgers."""
    heads: dict[Head, ObjectVersion] = {}
    others: dict[str, int] = {}
    changed: dict[str, str] = {}
    for page in buckets.list_versions(engine, place):
        for version in page:
            match = _NAME.fullmatch(version.key[len(place.key) :])
            if match is None:
                continue
            if match[1] != instance:
                others[match[1]] = max(others.get(match[1], 0), int(match[2]))
                continue
            head = Head(int(match[2]), match[3])
            if version.is_delete_marker:
                changed[version.key] = "deleted, and only hidden by a delete marker"
                heads.setdefault(head, version)
                continue
            if head in heads and not heads[head].is_delete_marker:
                changed[version.key] = "overwritten"
            heads[head] = version  # listings begin with the newest: the last one is the first that was written
    for key, what in sorted(changed.items()):
        kind = "anchor_overwritten" if what == "overwritten" else "anchor_deleted"
        found.findings.append(Finding(kind, f"The anchor {place.at(key)} was {what}; its first version counts."))
    return heads, others


def _not_there(place: S3Location, noted: list[Any], heads: dict[Head, ObjectVersion]) -> Iterator[Finding]:
    for row in noted:
        if Head(row.number, row.hash) not in heads:
            text = f"The anchor of entry {row.number} is not at {place.uri} any more."
            yield Finding("anchor_removed", text, row=f"entry {row.number}")


def _entries(engine: Engine, place: S3Location, head: Head, version: ObjectVersion) -> dict[int, str]:
    """Descriptions of the entries in an anchor, by number; empty where it cannot be read or was never written by us."""
    at_key, number = replace(place, key=version.key), version.version_id
    if version.is_delete_marker or not 0 < version.size <= _MOST_BYTES:
        return {}
    version_id = None if number in ("", "null") else number
    try:
        facts = buckets.head_object(engine, at_key, version_id)
        body: Any = json.loads(buckets.read_range(engine, at_key, facts, 0, facts.size - 1, version_id))
        entries = cast("list[dict[str, Any]]", body["entries"])
        return {
            int(one["number"]): f"{str(one['kind'])[:40]} of transfer {str(one['transfer_id'])[:40]}"
            for one in entries
            if one["number"] <= head.count
        }
    except (StorageError, ValueError, TypeError, KeyError, AttributeError):
        return {}
