"""The end of a sync: what the target has and the source has not is removed.

Only when all of the source has arrived: a source that could not be read, or is empty, is no reason to remove anything.
Each removal is on record before it is made. After a kill the target is listed again, and the rest removed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from seqferry.db import objects, planned_objects, transfer_status, transfers
from seqferry.db.record import events
from seqferry.engine import crash_points
from seqferry.engine.engine import CHANGED_SINCE
from seqferry.model import names
from seqferry.model.errors import StorageError
from seqferry.model.locations import LocalFolder
from seqferry.model.models import ENDED_TRANSFER_STATES, ResolvedSpec
from seqferry.planning import listing, removal_rules
from seqferry.spec import stored
from seqferry.spec.target_keys import source_key
from seqferry.workflows.operations import removed_pages
from seqferry.workflows.operations.removed_pages import Removal
from seqferry.workflows.runtime import Runtime
from seqferry.workflows.suspension import raise_if_paused


def remove_extras(runtime: Runtime, transfer_id: str, *, claimed: bool = True) -> None:
    """Remove what the transfer's spec wants removed, or record why that was not done.

    Raises:
        StepSuspension: another worker has the transfer by now (not asked unless ``claimed``).
        ConfigError: this worker was cut off from the database and may not write.
    """
    spec = _read_wanted(runtime, transfer_id)
    if spec is None:
        return
    for may_repeat in runtime.attempts():
        try:
            _remove(runtime, transfer_id, spec, claimed=claimed)
            return
        except StorageError as why:
            if not (why.is_transient and may_repeat):
                _stop(runtime, transfer_id, why.error_code or why.code, why.message)
                return


def _read_wanted(runtime: Runtime, transfer_id: str) -> ResolvedSpec | None:
    """The spec, if anything is to be removed at all."""
    with runtime.database.read() as connection:
        row = transfers.row_of(connection, transfer_id)
        if row is None or not _goes_on(row) or row.planned_at is None:
            return None
        spec = stored.read(row.spec)
        totals = transfer_status.statuses(connection, runtime.database, ids=[transfer_id], limit=1)[0].totals
    if not spec.removal.delete:
        return None
    if (kept := removal_rules.refuse_incomplete_source(spec, totals.objects, totals.failed)) is not None:
        if kept.is_failure:
            _stop(runtime, transfer_id, kept.code, kept.reason)
        else:
            _note(runtime, transfer_id, "nothing_removed", {"why": kept.cause})
        return None
    return spec


def _remove(runtime: Runtime, transfer_id: str, spec: ResolvedSpec, *, claimed: bool) -> None:
    if (changed := removal_rules.refuse_changed_names(spec, _count_unseen(runtime, transfer_id, spec))) is not None:
        _stop(runtime, transfer_id, changed.code, changed.reason)
        return
    if spec.removal.max_delete is not None:
        found = 0
        for page in _extras(runtime, transfer_id, spec):
            found += len(page)
            if (too_many := removal_rules.refuse_over_max_delete(spec, found)) is not None:
                _stop(runtime, transfer_id, too_many.code, too_many.reason)
                return
    refused: list[str] = []
    for page in _extras(runtime, transfer_id, spec, refused):
        keys = sorted(page)
        epoch = runtime.epoch
        with runtime.database.write() as connection:
            if claimed:
                runtime.claim(connection, *names.transfer_workflow_ids(transfer_id))
            row = transfers.row_of(connection, transfer_id)
            if row is None or not _goes_on(row):
                return
            events.append(connection, transfer_id, time.time(), "removing", runtime.actor, {"keys": keys})
            crash_points.reach("before-extras-recorded")
        crash_points.reach("after-extras-recorded")
        # A file is removed even if it was changed: it has no ETag to compare.
        is_file = isinstance(spec.target, LocalFolder)
        wanted = [Removal(number, key, "" if is_file else page[key]) for number, key in enumerate(keys)]
        failures = removed_pages.remove(runtime, transfer_id, spec.target, wanted, epoch=epoch, stop_at_failure=True)
        kept = [keys[number] for number, why in failures.items() if why.error_code == CHANGED_SINCE]
        if (failure := next((why for why in failures.values() if why.error_code != CHANGED_SINCE), None)) is not None:
            _note(runtime, transfer_id, "not_removed", {"keys": _still_there(runtime, spec, keys)})
            raise failure
        crash_points.reach("after-extras-removed")
        if kept:
            _note(runtime, transfer_id, "not_removed", {"keys": kept, "why": "written since they were listed"})
    if (unseen := removal_rules.refuse_unseen_folders(refused)) is not None:
        _stop(runtime, transfer_id, unseen.code, unseen.reason)


def _still_there(runtime: Runtime, spec: ResolvedSpec, keys: list[str]) -> list[str]:
    """Keys, among the given ones, that were not removed, as far as the storage answers."""
    try:
        return [key for key, info in zip(keys, runtime.engine.head(spec.target, keys), strict=True) if info is not None]
    except StorageError:
        return keys


def _count_unseen(runtime: Runtime, transfer_id: str, spec: ResolvedSpec) -> int:
    """Number of objects that have arrived and are not listed at the target under their names.

    Some storages change names (a backslash to a slash): what was just copied would pass for what the source has not.
    Markers of folders are not listed by all of them, and on a disk not as objects.
    """
    if isinstance(spec.target, LocalFolder):
        return 0
    with runtime.database.read() as connection:
        missing = objects.count_arrived(connection, transfer_id)
    for page in runtime.engine.list(spec.target):
        runtime.check()
        keys = list({source_key(spec, info.key) for info in page if not info.key.endswith("/")})
        with runtime.database.read() as connection:
            missing -= len(keys) - len(planned_objects.find_missing_keys(connection, transfer_id, keys))
    return max(missing, 0)


def _extras(
    runtime: Runtime, transfer_id: str, spec: ResolvedSpec, refused: list[str] | None = None
) -> Iterator[dict[str, str]]:
    """Keys at the target of which neither the transfer nor the source has an object, and their ETags, page by page.

    ``refused`` gets some of the folders that could not be looked into.
    """

    def find_unknown(keys: list[str]) -> list[str]:
        runtime.check()
        with runtime.database.read() as connection:
            return sorted(planned_objects.find_missing_keys(connection, transfer_id, keys))

    yield from filter(None, listing.find_extras(runtime.engine, spec, str(runtime.state_dir), find_unknown, refused))


def _goes_on(row: sa.Row[Any]) -> bool:
    raise_if_paused(row)
    return row.state not in ENDED_TRANSFER_STATES and not transfers.is_stopping(row)


def _note(runtime: Runtime, transfer_id: str, kind: str, data: dict[str, Any]) -> None:
    with runtime.database.write() as connection:
        events.append(connection, transfer_id, time.time(), kind, runtime.actor, data)


def _stop(runtime: Runtime, transfer_id: str, code: str, message: str) -> None:
    with runtime.database.write() as connection:
        transfers.request_stop(connection, transfer_id, time.time(), runtime.actor, code, message)
