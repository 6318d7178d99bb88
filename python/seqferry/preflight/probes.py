"""Probes of the permission to read an object as a transfer reads it, and to write at its target.

One byte of the object is read. An upload is created at the target and aborted: by the engine as for the transfer itself
(encryption, storage class, tags, grants), for a key that the transfer writes. No part is sent, and so nothing is at the
target afterwards. A process that is killed between the two requests leaves an open upload without parts: the next probe
of the transfer aborts it, or else ``seqferry cleanup``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from seqferry.engine import buckets
from seqferry.engine.engine import CopyItem, Engine, JobContext
from seqferry.engine.executor import Events, abort, execute, rows
from seqferry.model.errors import StorageError
from seqferry.model.frozen import frozen
from seqferry.model.locations import LocalFolder
from seqferry.model.models import ResolvedSpec
from seqferry.preflight.report import ARCHIVED, PredictedFailure

PROBED: Final = 3
"""Keys that are probed before a target counts as refusing writes: a policy may concern one folder."""

_CREATE: Final = "CreateMultipartUpload"
_SECONDS: Final = 10.0
"""Time limit of a probe. A slower storage is not an error here: the transfer has longer time limits."""
_WAIT: Final = 0.2
_DENIED: Final = ("Forbidden", "403")
_NO_REFUSAL: Final = ("RangeIgnored", "TransformedBody", "InvalidRange")
"""Answers to a read of one byte that say nothing of a read of the whole object."""


@frozen
class WriteRefusal:
    """Refusal of a write, as the storage states it."""

    code: str
    operation: str
    message: str
    keys: tuple[str, ...]
    """Source keys whose targets were probed."""


def find_write_refusal(
    engine: Engine,
    spec: ResolvedSpec,
    items: Sequence[CopyItem],
    keys: Sequence[str],
    *,
    transfer: str = "",
    since: float | None = None,
    epoch: int | None = None,
    check: Callable[[], None] = lambda: None,
    report_notes: Callable[[Sequence[str]], None],
) -> WriteRefusal | None:
    """Refusal of all of up to ``PROBED`` items; None as soon as one can be written, or when nothing certain is known.

    Args:
        items: objects that can be read and are not empty, and their ``keys``.
        since: when the transfer was submitted, if an earlier probe of it may have been cut off: the uploads to the key
            that were opened since then are aborted first, as when an object is taken up again.
        check: raises when this process is to stop.
        report_notes: gets notes of the engine, which makes each only once.
    """
    if isinstance(spec.target, LocalFolder):  # checked by ``paths.check_target``
        return None
    # Any object goes in parts then, and files are not read for their MD5.
    spec = spec.derive(parts=replace(spec.parts, copy_threshold=0), storage=replace(spec.storage, md5=False))
    found: WriteRefusal | None = None
    for item, key in zip(items[:PROBED], keys, strict=False):
        why = _try_upload(engine, spec, item, transfer, since, epoch, check, report_notes)
        if why is None:
            return None
        found = WriteRefusal(*why, keys=(*(found.keys if found is not None else ()), key))
    return found


def _try_upload(
    engine: Engine,
    spec: ResolvedSpec,
    item: CopyItem,
    transfer: str,
    since: float | None,
    epoch: int | None,
    check: Callable[[], None],
    report_notes: Callable[[Sequence[str]], None],
) -> tuple[str, str, str] | None:
    """Code, operation and message of a refusal; None when the upload was created, or something else came first."""
    try:
        at = time.time() if since is None else since
        job = engine.start(spec, [item], JobContext(transfer, at, resumed=since is not None, epoch=epoch))
    except StorageError:
        return None
    if epoch is not None:
        job.admit(epoch)
    why: tuple[str, str, str] | None = None
    is_created = False
    deadline = time.monotonic() + _SECONDS

    def is_over() -> bool:
        if is_created or time.monotonic() >= deadline:
            return True
        check()
        return False

    def record(events: Events) -> Sequence[int]:
        nonlocal why, is_created
        is_created = bool(events.uploads)
        why = why if is_created else _find_refusal(events) or why
        return ()  # no part is sent

    try:
        execute(job, lambda: _WAIT, record, until=is_over)
        failure = job.failure()
        if why is None and failure is not None and (failure.error_class, failure.operation) == ("person", _CREATE):
            why = failure.error_code, failure.operation, failure.message
    finally:
        abort(job, seconds=_SECONDS)
        report_notes(job.notes())
    return why


def _find_refusal(events: Events) -> tuple[str, str, str] | None:
    [*ended] = rows(events)
    if not ended or (ended[0]["error_class"], ended[0]["error_operation"]) != ("person", _CREATE):
        return None
    return ended[0]["error_code"], _CREATE, ended[0]["error_message"]


def check_readable(
    engine: Engine, spec: ResolvedSpec, key: str, version_id: str | None = None, *, size: int, etag: str
) -> PredictedFailure | None:
    """The failure of reading an object, found with one request; None if it can be read.

    Args:
        size, etag: as a listing shows them.

    Raises:
        StorageError: the answer of the storage is inconclusive.
    """
    place = spec.source
    if isinstance(place, LocalFolder):
        path = place.at(key)
        if os.path.exists(path) and not os.access(path, os.R_OK):  # noqa: PTH110 - a path is a text here
            message = f"{path} may not be read. Allow it for the user of this process."
            return PredictedFailure("AccessDenied", "open", message)
        return None
    at = replace(place, key=key)
    try:
        # What is in the disk cache is not fetched again, not even a byte of it.
        if size and etag and not engine.cached_source(spec):
            buckets.read_first_byte(engine, at, etag, version_id)
        elif buckets.head_object(engine, at, version_id).archived:
            return _archived(place.at(key))
    except StorageError as why:
        if why.error_class == "not_found":
            message = f"{place.at(key)} was listed and is not there any more."
            return PredictedFailure("NoSuchKey", why.operation or "GetObject", message)
        if why.error_code == "InvalidObjectState":
            return _archived(place.at(key))
        if why.error_class == "source_changed" or why.error_code in _NO_REFUSAL:
            return None
        if why.error_class != "person":
            raise
        return predict_failure(why)
    except UnicodeError:
        return None
    return None


def _archived(uri: str) -> PredictedFailure:
    return PredictedFailure(ARCHIVED, "GetObject", f"{uri} is archived, and has to be restored before it can be read.")


def predict_failure(why: StorageError) -> PredictedFailure:
    """An error of the storage as the failure that the transfer would have."""
    # An answer to HEAD has no body, and so no better code.
    code = "AccessDenied" if why.error_code in _DENIED else why.error_code or why.code
    return PredictedFailure(code, why.operation or "HeadObject", why.message)
