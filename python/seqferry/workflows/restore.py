"""Restore of archived objects: RestoreObject is sent for all of them, and planning waits until they can be read.

The storage knows which objects were requested and which are ready, so nothing has to be recorded: after a kill the next
run sends the requests again, which changes nothing. The wait is one step, like that for batches, and takes no slot of
a running batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Final

from seqferry.db import transfers
from seqferry.db.record import events
from seqferry.model.backoff import Backoff
from seqferry.model.locations import S3Location
from seqferry.model.models import ENDED_TRANSFER_STATES, ResolvedSpec
from seqferry.planning import decision, listing
from seqferry.workflows.runtime import Runtime

log: Final = logging.getLogger("seqferry.restore")

_ARCHIVES: Final = frozenset({"GLACIER", "DEEP_ARCHIVE", "INTELLIGENT_TIERING"})
"""Storage classes whose objects may have to be restored; a HEAD of each shows it."""

DAYS: Final = 7
TIER: Final = "Standard"

_BACKOFF: Final = Backoff(1.0, 600.0)
_CANCEL_SECONDS: Final = 2.0
_KEYS_PER_REQUEST: Final = 1000
_WATCHED: Final = 100
"""Objects that are polled of those not ready; when these are ready, all objects are checked."""


def restore(runtime: Runtime, transfer_id: str, spec: ResolvedSpec) -> None:
    """Restore all objects that the spec selects; return when they can be read, or the transfer is being stopped.

    Raises:
        StepSuspension: this process is to stop.
        StorageError: an object cannot be restored, or the source not be listed.
    """
    place = spec.source
    assert isinstance(place, S3Location)
    days, tier = spec.selection.restore_days or DAYS, spec.selection.restore_tier or TIER
    pauses, reported = _BACKOFF.pauses(), False
    while True:
        archived, watched = 0, list[str]()
        for keys in _find_archived(runtime, spec):
            ready = runtime.engine.restore(place, keys, days=days, tier=tier)
            archived += len(keys)
            watched += [key for key, is_ready in zip(keys, ready, strict=True) if not is_ready]
            del watched[_WATCHED:]
            runtime.check()
        if archived and not reported:
            _report(runtime, transfer_id, archived, days, tier, waits=bool(watched))
            reported = True
        if not watched:
            return
        while watched:
            if not _wait(runtime, transfer_id, next(pauses)):
                return
            ready = runtime.engine.restore(place, watched, days=days, tier=tier)
            watched = [key for key, is_ready in zip(watched, ready, strict=True) if not is_ready]


def _wait(runtime: Runtime, transfer_id: str, seconds: float) -> bool:
    """Wait so many seconds; return False as soon as the transfer is being stopped."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        with runtime.database.read() as connection:
            row = transfers.row_of(connection, transfer_id)
        if row is None or row.state in ENDED_TRANSFER_STATES or transfers.is_stopping(row):
            return False
        runtime.sleep(min(left, _CANCEL_SECONDS))
    return True


def _find_archived(runtime: Runtime, spec: ResolvedSpec) -> Iterator[list[str]]:
    """Keys of selected objects in an archive, some at a time."""
    kept: list[str] = []
    for page in listing.list_objects(runtime.engine, spec):
        runtime.check()
        kept += [found.key for found in page if found.storage_class in _ARCHIVES and decision.is_selected(spec, found)]
        if len(kept) >= _KEYS_PER_REQUEST:
            yield kept
            kept = []
    if kept:
        yield kept


def _report(runtime: Runtime, transfer_id: str, objects: int, days: int, tier: str, *, waits: bool) -> None:
    """Log the restore, and record it once, however often the transfer is resumed."""
    if waits:
        log.warning(
            "transfer %s: the restore of %s archived objects was requested (%s); the copy begins when all can be "
            "read.", transfer_id, objects, tier,
        )  # fmt: skip
    with runtime.database.write() as connection:
        known = events.read(connection, transfer_id, 0)
        if not any(event.kind == "restoring" for event in known):
            data = {"objects": objects, "days": days, "tier": tier}
            events.append(connection, transfer_id, time.time(), "restoring", runtime.actor, data)
