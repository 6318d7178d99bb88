"""The steps of one transfer: list the source into batches, wait until they have ended, close.

Each step can be run any number of times: planning adds only what is not there, waiting reads, closing closes once.
Waiting is one step that polls our own rows: it leaves one row however long it takes, sees a cancel immediately, and
can be left when the worker stops (a blocking ``recv`` can not).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from seqferry.db import batches, planned_objects, transfers, worker_rows
from seqferry.db.objects import PlannedObject
from seqferry.db.record import receipts
from seqferry.dbos.queue import first_priority
from seqferry.engine import crash_points
from seqferry.engine.traces import trace_as
from seqferry.model import names
from seqferry.model.errors import StorageError, UsageError
from seqferry.model.models import ENDED_TRANSFER_STATES, ResolvedSpec
from seqferry.planning import batching
from seqferry.spec import stored
from seqferry.workflows import restore, retries, sample_check
from seqferry.workflows.batch_steps import BegunBatch, abort_failed_uploads, begin, end_failed
from seqferry.workflows.operations import batch_limit, work_of
from seqferry.workflows.runtime import Runtime
from seqferry.workflows.suspension import raise_if_paused

if TYPE_CHECKING:
    import sqlalchemy as sa

log: Final = logging.getLogger("seqferry.transfer")

_OWN_BATCH: Final = 0
"""Number of the batch that the workflow of a small transfer runs itself."""

_CHECK_SECONDS: Final = 0.5
_DEAD_BATCHES_SECONDS: Final = 5.0
_BATCHES_PER_COMMIT: Final = 5
_CANCELS_PER_COMMIT: Final = 5
"""Batches per transaction: on SQLite all others wait for the lock meanwhile, and what is planned is held in memory."""


@dataclass(frozen=True)
class InlineBatches:
    """Batches that the caller of the planner runs itself: they are not put on the queue."""

    begin: Callable[[Sequence[tuple[int, int]]], None]
    """Called with numbers of batches, and the sizes of their biggest objects, as soon as they are on record."""

    max_batches: int
    """Limit of batches: when there are more, ManyBatchesError is raised. So many may have been added by then."""


class ManyBatchesError(Exception):
    """A transfer has more batches than the caller wants to run."""


class OwnBatch(NamedTuple):
    """The batch that the workflow of a transfer runs itself, which has not ended; ``begun`` if a run is on record."""

    number: int
    begun: BegunBatch | None = None


def plan_with_retries(runtime: Runtime, transfer_id: str, inline: InlineBatches | None = None) -> OwnBatch | None:
    """Add all objects of the source as batches, or record why that cannot be.

    Returns:
        The transfer's own batch, if it has one that has not ended (``Planner``).

    Raises:
        ManyBatchesError: the batches are more than ``inline`` allows.
    """
    for may_repeat in runtime.attempts():
        try:
            return plan_once(runtime, transfer_id, inline)
        except StorageError as why:
            if not (why.is_transient and may_repeat):
                request_stop(runtime, transfer_id, why.error_code or why.code, why.message)
                return None
            log.warning("transfer %s: planning is tried again: %s", transfer_id, why)
        except UsageError as why:
            # Recorded by a version that took it, or too slow for the names that were found.
            request_stop(runtime, transfer_id, why.code, why.message)
            return None
    return None


def wait_for_batches(runtime: Runtime, transfer_id: str) -> None:
    """Return when no batch is open any more. Meanwhile ends batches that no worker will run."""
    _record_session(runtime, transfer_id)
    for row, left in _watch_batches(runtime, transfer_id):
        raise_if_paused(row)
        if row is None or row.state in ENDED_TRANSFER_STATES or not left:
            return
        if transfers.is_stopping(row) and _cancel_queued(runtime, transfer_id):
            runtime.batch_waits.wake(transfer_id)  # there may be more


def _record_session(runtime: Runtime, transfer_id: str) -> None:
    with runtime.database.write() as connection:
        raise_if_paused(transfers.row_of(connection, transfer_id, lock=True))
        transfers.record_session(connection, transfer_id, time.time(), runtime.actor, runtime.worker_session)


def close(runtime: Runtime, transfer_id: str, *, claimed: bool = True) -> None:
    """Do what is left of its operation, and give the transfer its final state; done once, however often it is called.

    Raises:
        StepSuspension: another worker has the transfer by now. Not asked unless ``claimed``: no workflow has it.
        TransferPause: the transfer is paused.
        UnsupportedError: this version does not know its operation.
    """
    if not _try_to_end(runtime, transfer_id, claimed=claimed, is_prepared=False):
        _prepare_end(runtime, transfer_id, claimed=claimed)
        _try_to_end(runtime, transfer_id, claimed=claimed, is_prepared=True)
    crash_points.reach("after-transfer-ended")
    runtime.announce_end()


def _try_to_end(runtime: Runtime, transfer_id: str, *, claimed: bool, is_prepared: bool) -> bool:
    """Give the transfer its final state; False where something is to be done before, unless ``is_prepared``."""

    def write(connection: sa.Connection) -> bool:
        if claimed:
            runtime.claim(connection, *names.transfer_workflow_ids(transfer_id))
        row = transfers.row_of(connection, transfer_id, lock=True)
        if row is None:
            return True
        is_sealed = False
        if not is_prepared:
            raise_if_paused(row)
            spec = stored.read(row.spec)
            left = transfers.read_left(connection, transfer_id)
            if work_of(spec).has_end(spec) or left.open_uploads or left.unsealed > 1:
                return False
            is_sealed = not left.unsealed
        now = time.time()
        transfers.finish(connection, transfer_id, now, runtime.actor, row, is_sealed=is_sealed)
        runtime.record_end(connection, transfer_id, now)
        crash_points.reach("before-transfer-ended")
        return True

    return runtime.ends.commit((transfer_id, write))


def _prepare_end(runtime: Runtime, transfer_id: str, *, claimed: bool) -> None:
    """Do what is left of the operation of a transfer, abort uploads of failed objects, and seal its batches."""
    with runtime.database.read() as connection:
        row = transfers.row_of(connection, transfer_id)
    if row is None:
        return
    spec = stored.read(row.spec)
    with trace_as(transfer_id):
        try:
            work_of(spec).finish(runtime, transfer_id, spec, claimed=claimed)
        except UsageError as why:
            # As in planning: nothing is removed by a pattern that cannot be used.
            request_stop(runtime, transfer_id, why.code, why.message)
    abort_failed_uploads(runtime, transfer_id, claimed=claimed)
    receipts.seal_missing(runtime.database, transfer_id)


def plan_once(runtime: Runtime, transfer_id: str, inline: InlineBatches | None = None) -> OwnBatch | None:
    """Plan from the start. Batches of an earlier planning stay, also if the order of the pages has changed.

    Returns:
        As ``plan_with_retries``.

    Raises:
        StorageError: source or target cannot be used.
        ManyBatchesError: the transfer has more batches than ``inline`` allows.
    """
    with runtime.database.write() as connection:
        locked = transfers.row_of(connection, transfer_id, lock=True)
        raise_if_paused(locked)
        row = transfers.begin_plan(connection, transfer_id, time.time(), runtime.actor, runtime.worker_session, locked)
    crash_points.reach("after-plan-begun")
    if row is None:
        return None if inline is not None else _find_own_batch(runtime, transfer_id)
    if not runtime.check_allowed(transfer_id, row):
        return None
    with trace_as(transfer_id):
        return _plan(runtime, transfer_id, row, inline)


def _find_own_batch(runtime: Runtime, transfer_id: str) -> OwnBatch | None:
    """The open batch of a planned transfer that its own workflow runs; None without one."""
    with runtime.database.read() as connection:
        left = batches.open_batches(connection, transfer_id, limit=2)
        if left != [_OWN_BATCH]:
            return None
        if runtime.queue.contains(connection, names.batch_workflow_id(transfer_id, _OWN_BATCH)):
            return None
    _record_session(runtime, transfer_id)
    return OwnBatch(_OWN_BATCH)


def _plan(runtime: Runtime, transfer_id: str, row: sa.Row[Any], inline: InlineBatches | None) -> OwnBatch | None:
    spec = stored.read(row.spec)
    operation = work_of(spec)
    known = runtime.take_preflight(transfer_id)
    operation.prepare(runtime, spec, known)
    absent = row.target_absent
    planned_before = absent is not None
    if absent is None:
        absent = operation.target_is_empty(runtime, spec, known)
        # Not synced, as the rows of the plan below: the begin of a batch syncs what is before it.
        with runtime.database.write(durable=False) as connection:
            transfers.set_target_absent(connection, transfer_id, absent)
    if spec.selection.restore:
        restore.restore(runtime, transfer_id, spec)
    planner = Planner(runtime, transfer_id, spec, inline)
    pages = operation.find(runtime, spec, known, transfer_id=transfer_id, target_absent=absent)
    if retries.uses_recorded_objects(spec):
        pages = retries.find(runtime, spec, transfer_id)
    if sample_check.is_enabled(spec) and not retries.uses_recorded_objects(spec):
        since = row.created_at if planned_before else None
        pages = sample_check.check_first_pages(
            runtime, transfer_id, spec, iter(pages), target_absent=absent, since=since
        )
    for page in pages:
        runtime.check()
        if not planner.add(page):
            return None
    return planner.close()


class Planner:
    """Turns planned objects into batches, a few per transaction: on the queue, or given to ``inline``.

    The only batch of a small transfer is not put on the queue: the workflow of the transfer runs it. It is recorded
    with the end of planning, so that a planned transfer has either such a batch alone or all of its batches on the
    queue.
    """

    def __init__(
        self, runtime: Runtime, transfer_id: str, spec: ResolvedSpec, inline: InlineBatches | None = None
    ) -> None:
        self._runtime = runtime
        self._transfer_id = transfer_id
        self._inline = inline
        self._batcher = batching.Batcher[PlannedObject](batch_limit(spec))
        self._schedule = batching.GuidedSchedule[PlannedObject]()
        self._single_commit = work_of(spec).pages_are_batches
        self._divides = inline is None and not runtime.database.is_sqlite and work_of(spec).divides_batches
        self._made = 0
        self._fresh = 0
        self._last_place = 0
        self._own_batch: OwnBatch | None = None
        self._is_announced = False
        self._checked_at = time.monotonic()

    def add(self, found: Sequence[PlannedObject]) -> bool:
        """Add objects; False when the transfer is to stop."""
        if self._single_commit:
            if found:
                self._keep(list(found))
            return True
        for group in self._batcher.add(found):
            self._keep(group)
            if self._fresh >= _BATCHES_PER_COMMIT and not self._commit_due():
                return False
        # Also without a full batch, check now and then for a cancel.
        if self._fresh or time.monotonic() - self._checked_at > _CHECK_SECONDS:
            return self._commit_due()
        return True

    def close(self) -> OwnBatch | None:
        """Record the rest and the end of planning; returns the transfer's own batch, if it has one."""
        for group in self._batcher.rest():
            self._keep(group)
        groups = self._schedule.take_rest(self._count_workers() if self._made > 1 else 1)
        while self._divides and len(groups) > _BATCHES_PER_COMMIT:
            first, groups = groups[:_BATCHES_PER_COMMIT], groups[_BATCHES_PER_COMMIT:]
            if not self._commit(first, in_order=True):
                return None
        self._commit(groups, in_order=True, last=True)
        return self._own_batch

    def _keep(self, group: list[PlannedObject]) -> None:
        self._made += 1
        if self._inline is not None and self._made > self._inline.max_batches:
            raise ManyBatchesError
        self._fresh += 1
        self._schedule.add(group)

    def _count_workers(self) -> int:
        """Workers that may share this transfer. On SQLite it is one."""
        if not self._divides:
            return 1
        with self._runtime.database.read() as connection:
            return worker_rows.count_alive(connection)

    def _commit_due(self) -> bool:
        workers, queued = self._count_workers(), 0
        if workers > 1:
            with self._runtime.database.read() as connection:
                queued = batches.count_queued(connection, self._transfer_id)
        return self._commit(self._schedule.take_due(workers, queued))

    def _commit(self, groups: list[list[PlannedObject]], *, in_order: bool = False, last: bool = False) -> bool:
        """Record batches; False when the transfer is to stop.

        Args:
            in_order: they begin after all batches before, but for giants.
            last: they are the last ones.
        """
        self._checked_at = time.monotonic()
        self._fresh = 0
        is_whole = last and self._inline is None and self._made == len(groups) == 1 and batching.is_small(groups[0])
        epoch = self._runtime.epoch
        with self._runtime.database.write(durable=last) as connection:
            # The lock keeps a cancel, and another planner that takes us for dead, out until the end.
            row = transfers.row_of(connection, self._transfer_id, lock=True)
            raise_if_paused(row)
            if row is None or row.state in ENDED_TRANSFER_STATES or transfers.is_stopping(row) or row.planned_at:
                return False

            if self._single_commit and batches.has_batches(connection, self._transfer_id):
                # All of an earlier planning, which was cut off after it had added them.
                groups = []

            def enqueue(number: int, group: Sequence[PlannedObject]) -> None:
                if is_whole and number == _OWN_BATCH:  # else an earlier planning, which was cut off, has added others
                    own_batches.append(number)
                    return
                place = batching.priority(group)
                if batching.biggest(group) < batching.GIANT:
                    self._last_place = max(self._last_place, place)
                    place = self._last_place if in_order else place
                place += first_priority(row.priority)
                self._runtime.queue.enqueue_batch(connection, self._transfer_id, row.lane, number, place)

            def keep(number: int, group: Sequence[PlannedObject]) -> None:
                added.append((number, batching.biggest(group)))

            added: list[tuple[int, int]] = []
            own_batches: list[int] = []
            each = enqueue if self._inline is None else keep
            planned_objects.add_batches(connection, self._transfer_id, groups, time.time(), each)
            if groups:
                crash_points.reach("before-batches-recorded")
            if last:
                transfers.end_plan(connection, self._transfer_id, time.time(), self._runtime.actor, row)
                crash_points.reach("before-plan-ended")
            for number in own_batches:
                begun = begin(
                    self._runtime, connection, self._transfer_id, number, epoch=epoch, in_transfer=True, of=row
                )
                self._own_batch = OwnBatch(number, begun)
        if groups:
            crash_points.reach("after-batches-recorded")
        if last:
            crash_points.reach("after-plan-ended")
        if self._inline is not None:
            self._inline.begin(added)
        elif groups and not self._is_announced and self._own_batch is None:
            # Only the first ones: the queue is polled often enough while these run.
            self._runtime.announce_queued()
            self._is_announced = True
        return True


def _watch_batches(runtime: Runtime, transfer_id: str) -> Iterator[tuple[sa.Row[Any] | None, bool]]:
    """Row of the transfer and whether a batch of it is open: now, and whenever that may have changed.

    Meanwhile ends batches that no worker will run.

    Raises:
        StepSuspension: this process is to stop.
    """
    checked_at = time.monotonic()
    with runtime.batch_waits.waiting(transfer_id) as woken:
        while True:
            woken.clear()
            runtime.check()  # after the event is cleared: a stop sets it, or is seen here
            with runtime.database.read() as connection:
                row = transfers.row_of(connection, transfer_id)
                left = batches.open_batches(connection, transfer_id, limit=1)
            yield row, bool(left)
            if time.monotonic() - checked_at > _DEAD_BATCHES_SECONDS:
                _end_dead(runtime, transfer_id)
                checked_at = time.monotonic()
            woken.wait(_DEAD_BATCHES_SECONDS)


def request_stop(runtime: Runtime, transfer_id: str, code: str, message: str) -> None:
    with runtime.database.write() as connection:
        transfers.request_stop(connection, transfer_id, time.time(), runtime.actor, code, message)


def _cancel_queued(runtime: Runtime, transfer_id: str) -> bool:
    """End some batches that have not begun; False when there are none."""
    with runtime.database.write(durable=False) as connection:
        numbers = batches.cancel_queued(connection, transfer_id, time.time(), _CANCELS_PER_COMMIT)
    if numbers:
        # Only saves the queue the work: run, they would find that they have ended.
        runtime.queue.cancel([names.batch_workflow_id(transfer_id, number) for number in numbers])
    return bool(numbers)


def fail_dead_transfer(runtime: Runtime, transfer_id: str) -> None:
    """End a transfer whose workflow fails after each restart: its open objects end as failed."""
    cause = "the transfer's workflow failed after each restart; see the log of the worker."
    request_stop(runtime, transfer_id, "internal", f"The transfer could not be brought to its end: {cause}")
    while left := _open_batches(runtime, transfer_id):
        for number in left:
            end_failed(runtime, transfer_id, number, cause)
    close(runtime, transfer_id, claimed=False)


def _open_batches(runtime: Runtime, transfer_id: str) -> list[int]:
    with runtime.database.read() as connection:
        return batches.open_batches(connection, transfer_id, limit=1000)


def _end_dead(runtime: Runtime, transfer_id: str) -> None:
    """Take care of batches that no worker will run, so that the transfer does not wait for them indefinitely.

    Those that DBOS has given up end. Those that have ended for DBOS alone are restarted: their end was lost.
    """
    left = _open_batches(runtime, transfer_id)
    dead, ended = runtime.queue.stopped_batches(transfer_id, left)
    for number in dead:
        end_failed(runtime, transfer_id, number, "its workflow failed after too many restarts.")
    if not ended:
        return
    with runtime.database.read() as connection:
        row = transfers.row_of(connection, transfer_id)
    for number in sorted(set(ended) & set(_open_batches(runtime, transfer_id))):
        log.warning("the database has lost the end of batch %s of transfer %s; it is restarted", number, transfer_id)
        runtime.queue.restart_batch(transfer_id, number, None if row is None else row.lane)
