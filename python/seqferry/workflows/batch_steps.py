"""One batch: its open objects through the engine, their ends into our rows.

After a kill at any moment, the next run continues with the open objects. The order of effects makes that safe: an
upload id is committed before the engine may copy a part (``acknowledge``); an object counts as done only
when its row says so, and a run that follows another looks at the target first (``resumed``), so that what was
completed but not recorded is found and not copied again.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import field
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from seqferry.db import batches, objects, transfers
from seqferry.db.batches import BatchRun, ObjectOutcome
from seqferry.db.objects import OpenObject
from seqferry.engine import crash_points
from seqferry.engine.executor import Events, execute
from seqferry.model import names
from seqferry.model.errors import SeqferryError, StorageError
from seqferry.model.frozen import frozen
from seqferry.model.models import RESULT_COLUMNS, ResolvedSpec
from seqferry.spec import identity, stored
from seqferry.workflows import engine_notes
from seqferry.workflows.operations import BatchWork, work_of
from seqferry.workflows.running_batch import RunningBatch
from seqferry.workflows.runtime import Runtime, workflow_ids_of
from seqferry.workflows.suspension import StepSuspension, TransferPause

log: Final = logging.getLogger("seqferry.batch")

_WAIT_SECONDS: Final = 0.5
"""Outcomes are recorded at most this late."""

_CLEAN_SECONDS: Final = 60.0
"""Time limit for aborting the uploads of a batch; the rest is left to the bucket's lifecycle rule."""

_CUT_OFF_AT_MOST: Final = 1000
_CUT_OFF_SECONDS: Final = 10.0
"""Limits on aborting the uploads that are left when a transfer ends: their number, and the time for all."""

_BARREN_RUNS: Final = 30
"""Runs in a row that were cut off before they moved a byte, after which a batch counts as the one that kills its
workers and is given up. The number is high: a harmless batch on the same workers is cut off as often."""


class BegunBatch(NamedTuple):
    """A run that is on record, and what it has to do. ``epoch`` was read before it was found to be this worker's."""

    run: BatchRun
    spec: ResolvedSpec
    items: list[OpenObject]
    epoch: int | None


def run_once(runtime: Runtime, transfer_id: str, number: int) -> None:
    """One run, from taking the batch up to its end."""
    with runtime.exclusive_run(transfer_id, number):
        runtime.check_allowed(transfer_id)
        epoch = runtime.epoch
        with runtime.database.write() as connection:
            begun = begin(runtime, connection, transfer_id, number, epoch=epoch)
        if begun is not None:
            with runtime.supervising(transfer_id):
                _run(runtime, begun)
    runtime.announce_queued()
    runtime.batch_waits.wake(transfer_id)


def run_own(runtime: Runtime, transfer_id: str, number: int, begun: BegunBatch | None) -> None:
    """``run_once`` by the workflow of the transfer, which may have begun the run."""
    with runtime.exclusive_run(transfer_id, number):
        if begun is None:
            epoch = runtime.epoch
            with runtime.database.write() as connection:
                begun = begin(runtime, connection, transfer_id, number, epoch=epoch, in_transfer=True)
        if begun is not None:
            _run(runtime, begun)


def begin(
    runtime: Runtime,
    connection: sa.Connection,
    transfer_id: str,
    number: int,
    *,
    epoch: int | None,
    in_transfer: bool = False,
    of: sa.Row[Any] | None = None,
) -> BegunBatch | None:
    """Begin a run of a batch, in the caller's transaction; None if the batch has ended.

    Args:
        in_transfer: the workflow of the transfer runs it.
        of: row of the transfer, where the caller has just read it.

    Raises:
        TransferPause, AccessError, UnsupportedError: this was no run.
        StepSuspension: another worker has the workflow by now.
    """
    run = batches.begin_batch(connection, transfer_id, number, time.time(), in_transfer=in_transfer, of=of)
    if run is None:
        return None
    if run.paused:
        raise TransferPause
    spec = _readable(run)
    runtime.claim(connection, *workflow_ids_of(run))
    return BegunBatch(run, spec, objects.open_objects(connection, run), epoch)


def _run(runtime: Runtime, begun: BegunBatch) -> None:
    run, spec, items, epoch = begun
    crash_points.reach("after-batch-begun")
    if run.barren_runs > _BARREN_RUNS:
        end_failed(
            runtime, run.transfer_id, run.number,
            f"Its worker stopped {_BARREN_RUNS} times in a row before a byte was copied (out of memory?). "
            "See the log of the worker.",
        )  # fmt: skip
        return
    end = _CopyEnd()
    if items and not run.stopping:
        end = _copy(runtime, spec, run, items, epoch)
    _close(runtime, spec, run, end)


def _readable(run: BatchRun) -> ResolvedSpec:
    """The spec, of which this process can do all.

    Raises:
        AccessError, UnsupportedError: it cannot.
    """
    spec = stored.read(run.spec)
    work_of(spec)
    identity.require(spec)
    return spec


def end_failed(runtime: Runtime, transfer_id: str, number: int, cause: str) -> None:
    """End a batch that cannot be run: its open objects fail. Supersedes a run that may still exist."""
    now = time.time()
    with runtime.database.write() as connection:
        run = batches.begin_batch(connection, transfer_id, number, now)
        if run is None:
            return
        spec = _readable(run)
        left = objects.open_objects(connection, run)
    if not _clean(runtime, spec, run, left):
        return
    with runtime.database.write() as connection:
        if not batches.is_latest_run(connection, run):
            return
        end = ObjectOutcome(
            state="failed",
            ended_at=now,
            error_class="retry",
            error_code="BatchFailed",
            error_operation="run batch",
            error_message=f"The batch of this object could not be run: {cause}",
        )
        batches.end_open_objects(connection, run, end)
        batches.end_batch(connection, run, now)
    runtime.batch_waits.wake(transfer_id)


@frozen
class _CopyEnd:
    """The end of a job.

    Attributes:
        failure: code and message of a job-wide error.
        cancelled: ids of objects that the job ended as cancelled.
        requests: all that it made.
    """

    failure: tuple[str, str] | None = None
    cancelled: set[int] = field(default_factory=set[int])
    requests: int = 0


def _copy(runtime: Runtime, spec: ResolvedSpec, run: BatchRun, items: list[OpenObject], epoch: int | None) -> _CopyEnd:
    """Copy the items.

    Raises:
        StepSuspension: the job was suspended.
    """
    first = run.run == 1
    try:
        work = BatchWork(
            transfer_id=run.transfer_id,
            items=items,
            since=run.created_at,
            target_was_empty=run.target_absent,
            resumed=not first,
            only_clean=False,
            epoch=epoch,
        )
        job = work_of(spec).start(runtime, spec, work)
    except StorageError as why:
        if why.job_wide:
            return _CopyEnd((why.error_code or why.code, why.message))
        raise
    with runtime.running_batch(run, job, epoch=epoch, sizes=[one.size for one in items]) as running:
        if not run.in_transfer:
            runtime.announce_queued()  # there may be room for another batch, now and at the end of this one
        execute(job, _until_next_write, _BatchRecorder(runtime, running))
        if running.suspended:
            with runtime.database.write(durable=False) as connection:
                batches.count_requests(connection, run, job.progress().requests)
                if running.paused:
                    # A pause says nothing about the batch.
                    batches.clear_barren(connection, run)
            running.raise_suspension()
    engine_notes.log_notes(runtime, run.transfer_id, spec, job.notes())
    failure = job.failure()
    error = None if failure is None else (failure.error_code or failure.error_class, failure.message)
    return _CopyEnd(error, running.cancelled, job.progress().requests)


class _BatchRecorder:
    """Carries the events of a batch into our rows."""

    def __init__(self, runtime: Runtime, running: RunningBatch) -> None:
        self._runtime = runtime
        self._running = running
        self._barren = running.run.barren_runs > 0

    def __call__(self, events: Events) -> Sequence[int]:
        running = self._running
        has_events = events.ended or events.uploads or events.cancelled
        if self._barren and (has_events or running.job.progress().bytes_done > 0):
            self._barren = False
            if not events.ended:  # else it is cleared by what is recorded
                with self._runtime.database.write(durable=False) as connection:
                    batches.clear_barren(connection, running.run)
        recorded = _record(self._runtime, running, events)
        # A suspended job must not continue an upload, least of all in a superseded run.
        return () if running.suspended else recorded


def _until_next_write() -> float:
    """Seconds until results are written next: all batches of a process at the same time, in one transaction."""
    return _WAIT_SECONDS - time.monotonic() % _WAIT_SECONDS


def _record(runtime: Runtime, running: RunningBatch, events: Events) -> list[int]:
    """Write events into our rows; suspends the job when another run has superseded this one.

    Returns:
        The ids of objects whose upload is on record now.
    """
    run = running.run
    uploads = events.uploads
    # Those stay open until it is certain that no upload of theirs is: see ``_clean``.
    running.cancelled.update(events.cancelled)
    owned = True
    if uploads:
        with runtime.database.write() as connection:
            owned = batches.is_latest_run(connection, run)
            if owned:
                records = [(one.id, one.upload_id, one.part_size, one.etag) for one in uploads]
                objects.record_uploads(connection, records)
                crash_points.reach("before-upload-recorded")
        crash_points.reach("after-upload-recorded")
    if owned and events.ended:
        results = _results(events)
        crash_points.reach("before-results-recorded")
        owned = runtime.results.commit((run, results))
        crash_points.reach("after-results-recorded")
        if owned:
            running.bytes_recorded += _sum_copied_bytes(results)
    if not owned:
        log.warning("batch %s of transfer %s was taken over by another worker", run.number, run.transfer_id)
        running.fence()
        return []
    return [one.id for one in uploads]


def _close(runtime: Runtime, spec: ResolvedSpec, run: BatchRun, end: _CopyEnd) -> None:
    """End the batch. Objects that are still open end as cancelled, and their uploads are aborted."""
    if end.failure is not None:
        with runtime.database.write() as connection:
            transfers.request_stop(connection, run.transfer_id, time.time(), runtime.actor, *end.failure)
    with runtime.database.write(durable=False) as connection:
        closed = batches.close(connection, run, time.time(), end.requests)
        if closed:
            crash_points.reach("before-batch-ended")
        left = [] if closed else objects.open_objects(connection, run)
        row = None if closed else transfers.row_of(connection, run.transfer_id)
    if closed:
        crash_points.reach("after-batch-ended")
        return
    stopping = row is not None and transfers.is_stopping(row)
    if left and not stopping:
        raise StorageError(
            f"The engine ended a job with {len(left)} objects neither copied nor failed; they are retried."
        )
    if not (run.run == 1 and run.stopping):  # else nothing was ever begun
        # The job of this run has aborted the uploads of those that it cancelled.
        given_up = [one._replace(upload_id=None) if one.id in end.cancelled else one for one in left]
        crash_points.reach("before-given-up-aborted")
        if not _clean(runtime, spec, run, given_up):
            raise StepSuspension
        crash_points.reach("after-given-up-aborted")
    now = time.time()
    with runtime.database.write(durable=False) as connection:
        if not batches.is_latest_run(connection, run):
            raise StepSuspension
        batches.end_open_objects(connection, run, ObjectOutcome(state="cancelled", ended_at=now))
        batches.end_batch(connection, run, now)


def _clean(runtime: Runtime, spec: ResolvedSpec, run: BatchRun, given_up: list[OpenObject]) -> bool:
    """Abort the uploads of cancelled objects: those on record, and those that a killed worker did not record.

    Best effort: the transfer is over in any case, and the ids of the uploads stay in the rows.

    Returns:
        False when another run has the batch, and with it the uploads: none was aborted.
    """
    if not given_up:
        return True
    epoch = runtime.epoch
    with runtime.database.write() as connection:
        if not batches.is_latest_run(connection, run):
            return False
    deadline = time.monotonic() + _CLEAN_SECONDS
    try:
        work = _cleaning(run.transfer_id, given_up, run.created_at, epoch)
        job = work_of(spec).start(runtime, spec, work)
        with runtime.running_batch(run, job, epoch=epoch, cleaning=True) as running:
            execute(job, lambda: _WAIT_SECONDS, until=lambda: time.monotonic() > deadline)
            if not job.finished():
                running.suspend()
                execute(job, lambda: _WAIT_SECONDS)
        engine_notes.log_notes(runtime, run.transfer_id, spec, job.notes())
        failure = job.failure()
        if failure is not None:
            log.warning("open uploads of transfer %s could not be aborted: %s", run.transfer_id, failure.message)
    except StorageError as why:
        log.warning("open uploads of transfer %s could not be aborted: %s", run.transfer_id, why)
    # When this process stops in the middle of it, the next run of the batch does it over.
    runtime.check()
    return True


def abort_failed_uploads(runtime: Runtime, transfer_id: str, *, claimed: bool = True) -> None:
    """Abort uploads that could not be aborted when their objects failed: the storage may be reachable again.

    Best effort, for a limited time: the failure of the object has reported its open upload already.
    """
    epoch = runtime.epoch
    with runtime.database.read() as connection:
        if claimed:
            runtime.claim(connection, *names.transfer_workflow_ids(transfer_id))
        left = objects.find_open_uploads(connection, transfer_id, _CUT_OFF_AT_MOST)
        row = transfers.row_of(connection, transfer_id)
    if not left or row is None:
        return
    deadline = time.monotonic() + _CUT_OFF_SECONDS
    try:
        spec = stored.read(row.spec)
        job = work_of(spec).start(runtime, spec, _cleaning(transfer_id, left, row.created_at, epoch))

        def is_over() -> bool:
            runtime.check()
            return time.monotonic() >= deadline

        execute(job, lambda: _WAIT_SECONDS, until=is_over)
        job.cancel(False)
    except StorageError as why:
        log.warning("open uploads of transfer %s could not be aborted: %s", transfer_id, why)


def _cleaning(transfer_id: str, items: list[OpenObject], since: float, epoch: int | None) -> BatchWork:
    return BatchWork(
        transfer_id=transfer_id,
        items=items,
        since=since,
        target_was_empty=False,
        resumed=True,
        only_clean=True,
        epoch=epoch,
    )


def _results(events: Events) -> list[str]:
    found = events.results()
    return [found[name] for name in RESULT_COLUMNS]


def _sum_copied_bytes(results: Sequence[str]) -> int:
    """Bytes of the objects that a job has copied, as its progress counts them."""
    states, sizes = (json.loads(f"[{results[RESULT_COLUMNS.index(name)]}]") for name in ("state", "size"))
    return sum(size for state, size in zip(states, sizes, strict=True) if state == "done")


def describe_cause(why: Exception) -> str:
    """A cause for a person: ours as written, others by name only, since their texts are not made for rows."""
    return why.message if isinstance(why, SeqferryError) else f"{type(why).__name__}; see the log of the worker."
