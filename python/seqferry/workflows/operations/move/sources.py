"""The end of a move: what has arrived is removed at the source, a page at a time.

Each page is recorded as an event before it is removed, and the next page begins after it: so a run after a kill
continues with the interrupted page. A repeated removal skips missing objects, and keeps new ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import sqlalchemy as sa

from seqferry.db import objects, transfers
from seqferry.db.objects import ArrivedObject
from seqferry.db.record import events
from seqferry.engine import crash_points
from seqferry.engine.engine import CHANGED_SINCE
from seqferry.model import names
from seqferry.model.errors import StorageError
from seqferry.model.models import ENDED_TRANSFER_STATES, ResolvedSpec
from seqferry.spec import stored
from seqferry.workflows.operations import removed_pages
from seqferry.workflows.operations.move import copies
from seqferry.workflows.operations.removed_pages import Removal
from seqferry.workflows.runtime import Runtime
from seqferry.workflows.suspension import raise_if_paused

REMOVING: Final = "removing_sources"
"""Event: ``keys`` are removed at the source; ``after`` and ``through`` are the rows that the page lies between."""

LEFT: Final = "sources_left"
"""Event: those of them that were not removed, and why."""

_PAGE: Final = 1000
_LOOK_ATTEMPTS: Final = 8
"""The checks of copies are repeated for a minute: each makes few requests, and a move that has copied everything must
not fail for an outage that copying would have outlasted."""

_NAMED_AT_MOST: Final = 3


SourceResolver = Callable[[ResolvedSpec, ArrivedObject], tuple[ResolvedSpec, ArrivedObject] | None]
"""The spec and the keys of an object, where the transfer is made of several; None for one that is not moved."""


def _plainly(spec: ResolvedSpec, one: ArrivedObject) -> tuple[ResolvedSpec, ArrivedObject]:
    return spec, one


def remove(
    runtime: Runtime,
    transfer_id: str,
    *,
    claimed: bool,
    resolve: SourceResolver = _plainly,
) -> None:
    """Remove what has arrived, and record what could not be.

    Raises:
        StepSuspension: another worker has the transfer by now (not asked unless ``claimed``).
        ConfigError: this worker was cut off from the database and may not write.
    """
    with runtime.database.read() as connection:
        row = transfers.row_of(connection, transfer_id)
        begun = events.last(connection, transfer_id, REMOVING)
    if row is None or not _goes_on(row) or row.planned_at is None:
        return
    spec = stored.read(row.spec)
    after = 0 if begun is None else int(begun["after"])
    left: list[str] = []
    while True:
        runtime.check()
        with runtime.database.read() as connection:
            page = objects.read_arrived(connection, transfer_id, after=after, limit=_PAGE)
        if not page:
            break
        moved = [(one, found) for one in page if (found := resolve(spec, one)) is not None]
        if moved and not _begin(runtime, transfer_id, [one for one, _ in moved], after, claimed=claimed):
            return
        kept: dict[str, str] = {}
        for part, ones in _by_part(moved):
            named = {found.id: one.source_key for one, found in ones}
            left_there = _remove_page(runtime, transfer_id, part, [found for _, found in ones])
            kept |= {named[number]: why for number, why in left_there.items()}
        crash_points.reach("after-sources-removed")
        if kept:
            _note(runtime, transfer_id, kept)
            left += [f"{key}: {why}" for key, why in kept.items()][: _NAMED_AT_MOST + 1 - len(left)]
        after = page[-1].id
    if left:
        named = "; ".join(left[:_NAMED_AT_MOST]) + ("; and more" if len(left) > _NAMED_AT_MOST else "")
        why = f"Some objects have arrived and were left at {spec.source.uri}: {named}."
        _stop(runtime, transfer_id, "SourcesLeft", f"{why} Put that right, then run the same command again.")


def _by_part(
    moved: Sequence[tuple[ArrivedObject, tuple[ResolvedSpec, ArrivedObject]]],
) -> list[tuple[ResolvedSpec, list[tuple[ArrivedObject, ArrivedObject]]]]:
    """Objects as their rows name them and as they are, by the spec that moved them."""
    found: dict[int, tuple[ResolvedSpec, list[tuple[ArrivedObject, ArrivedObject]]]] = {}
    for one, (part, real) in moved:
        found.setdefault(id(part), (part, []))[1].append((one, real))
    return list(found.values())


def _begin(runtime: Runtime, transfer_id: str, page: Sequence[ArrivedObject], after: int, *, claimed: bool) -> bool:
    """Put on record that a page is removed; False when the transfer is not wanted any more."""
    with runtime.database.write() as connection:
        if claimed:
            runtime.claim(connection, *names.transfer_workflow_ids(transfer_id))
        row = transfers.row_of(connection, transfer_id)
        if row is None or not _goes_on(row):
            return False
        begun = events.last(connection, transfer_id, REMOVING)
        if begun is None or begun["after"] != after:  # else it is on record, and was cut off
            data = {"keys": [one.source_key for one in page], "after": after, "through": page[-1].id}
            events.append(connection, transfer_id, time.time(), REMOVING, runtime.actor, data)
        crash_points.reach("before-sources-recorded")
    crash_points.reach("after-sources-recorded")
    return True


def _remove_page(
    runtime: Runtime, transfer_id: str, spec: ResolvedSpec, page: Sequence[ArrivedObject]
) -> dict[int, str]:
    """Remove a page; the rows of those that were left, and why."""
    kept: dict[int, str] = {}
    there = _look(runtime, spec, page, kept)
    for may_repeat in runtime.attempts():
        wanted = [Removal(one.id, one.source_key, one.etag) for one in there]
        failures = removed_pages.remove(runtime, transfer_id, spec.source, wanted, epoch=runtime.epoch)
        again = {number for number, failure in failures.items() if failure.is_transient and may_repeat}
        for number, failure in failures.items():
            if failure.error_code == CHANGED_SINCE:
                kept[number] = "it was written to after it was copied"
            elif number not in again:
                kept[number] = failure.message.rstrip(".")
        if not again:
            break
        there = [one for one in there if one.id in again]
    return kept


def _look(
    runtime: Runtime, spec: ResolvedSpec, page: Sequence[ArrivedObject], kept: dict[int, str]
) -> list[ArrivedObject]:
    """Objects whose copies are there as they were recorded; ``kept`` gets the rows of the others, and why."""
    for may_repeat in runtime.attempts(_LOOK_ATTEMPTS):
        left: dict[int, str] = {}
        try:
            there = copies.filter_unchanged(runtime, spec, page, left)
        except StorageError as why:
            if not may_repeat:
                kept |= {one.id: why.message.rstrip(".") for one in page}
                return []
        else:
            kept |= left
            return there
    raise AssertionError("the last attempt returns")


def _goes_on(row: sa.Row[Any]) -> bool:
    raise_if_paused(row)
    return row.state not in ENDED_TRANSFER_STATES and not transfers.is_stopping(row)


def _note(runtime: Runtime, transfer_id: str, kept: dict[str, str]) -> None:
    with runtime.database.write() as connection:
        events.append(connection, transfer_id, time.time(), LEFT, runtime.actor, {"keys": kept})


def _stop(runtime: Runtime, transfer_id: str, code: str, message: str) -> None:
    with runtime.database.write() as connection:
        transfers.request_stop(connection, transfer_id, time.time(), runtime.actor, code, message)
