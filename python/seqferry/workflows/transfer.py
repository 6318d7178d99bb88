"""One transfer: list the source into batches, wait until they have ended, close.

Each step can be run any number of times: planning adds only what is not there, waiting reads, closing closes once.
Waiting is one step that polls our own rows: it leaves one row however long it takes, sees a cancel at once, and
can be left when the worker stops (a blocking ``recv`` can not).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Final

from dbos import DBOS

from seqferry import names, planning, sources
from seqferry import spec as specs
from seqferry.db import objects, transfers
from seqferry.db.objects import Planned
from seqferry.engine import ObjectInfo
from seqferry.errors import StorageError
from seqferry.models import ENDED_TRANSFER_STATES, TransferSpec
from seqferry.workflows.batch import end_failed
from seqferry.workflows.runtime import Runtime, current

log: Final = logging.getLogger("seqferry.transfer")

_POLL_SECONDS: Final = 0.5
_DEAD_BATCHES_SECONDS: Final = 5.0
_AT_ONCE: Final = 20
"""Batches per transaction: on SQLite all others wait for the lock meanwhile."""

_PLAN_ATTEMPTS: Final = 4


@DBOS.workflow(name=names.WORKFLOW_TRANSFER, max_recovery_attempts=10_000)
def transfer(transfer_id: str) -> None:
    with current().attending(transfer_id):
        try:
            plan(transfer_id)
        except Exception as why:  # whatever it was: the transfer must come to an end
            log.exception("transfer %s cannot be planned", transfer_id)
            give_up(
                transfer_id, f"The transfer could not be planned ({type(why).__name__}); see the log of the worker."
            )
        wait(transfer_id)
        finish(transfer_id)


@DBOS.step(name="plan")
def plan(transfer_id: str) -> None:
    """Add all objects of the source as batches, or record why that cannot be."""
    runtime = current()
    runtime.patiently(lambda: _plan_with_retries(runtime, transfer_id))


def _plan_with_retries(runtime: Runtime, transfer_id: str) -> None:
    for attempt in range(1, _PLAN_ATTEMPTS + 1):
        runtime.check()
        try:
            plan_once(runtime, transfer_id)
            return
        except StorageError as why:
            passing = not why.job_wide and why.error_class in ("retry", "throttle")
            if not passing or attempt == _PLAN_ATTEMPTS:
                _request_stop(runtime, transfer_id, why.error_code or why.code, why.message)
                return
            log.warning("transfer %s: planning is tried again: %s", transfer_id, why)
        runtime.sleep(2.0 ** (attempt - 1))


@DBOS.step(name="give_up", retries_allowed=True)
def give_up(transfer_id: str, message: str) -> None:
    runtime = current()
    runtime.patiently(lambda: _request_stop(runtime, transfer_id, "internal", message))


@DBOS.step(name="wait", retries_allowed=True, max_attempts=10)
def wait(transfer_id: str) -> None:
    """Return when no batch is open any more. Meanwhile ends batches that no worker will run."""
    runtime = current()
    runtime.patiently(lambda: _wait(runtime, transfer_id))


def _wait(runtime: Runtime, transfer_id: str) -> None:
    with runtime.database.write() as connection:
        transfers.attend(connection, transfer_id, time.time(), runtime.actor, runtime.attendant)
    looked_at = time.monotonic()
    while True:
        with runtime.database.read() as connection:
            row = transfers.row_of(connection, transfer_id)
            left = objects.open_batches(connection, transfer_id, limit=1)
        if row is None or row.state in ENDED_TRANSFER_STATES or not left:
            return
        if transfers.is_stopping(row) and _cancel_queued(runtime, transfer_id):
            runtime.check()
            continue
        if time.monotonic() - looked_at > _DEAD_BATCHES_SECONDS:
            _end_dead(runtime, transfer_id)
            looked_at = time.monotonic()
        runtime.pause(_POLL_SECONDS)


@DBOS.step(name="finish", retries_allowed=True)
def finish(transfer_id: str) -> None:
    runtime = current()

    def close() -> None:
        with runtime.database.write() as connection:
            transfers.finish(connection, transfer_id, time.time(), runtime.actor)

    runtime.patiently(close)


def plan_once(runtime: Runtime, transfer_id: str) -> None:
    """Plan from the start; what an earlier planning added is left as it is, whatever the order of pages.

    Raises:
        StorageError: source or target cannot be used.
    """
    with runtime.database.write() as connection:
        row = transfers.begin_plan(connection, transfer_id, time.time(), runtime.actor, runtime.attendant)
    if row is None:
        return
    spec = specs.from_json(row.spec)
    sources.check_buckets(runtime.engine, spec)
    if row.target_absent is None:
        absent = sources.target_is_empty(runtime.engine, spec)
        with runtime.database.write() as connection:
            transfers.set_target_absent(connection, transfer_id, absent)
    planner = Planner(runtime, transfer_id, spec)
    missing: list[str] = []
    for page in sources.objects(runtime.engine, spec, missing.extend):
        runtime.check()
        if not planner.add([_planned(spec, info) for info in page]):
            return
    if not planner.add([_missing(spec, key) for key in missing]) or not planner.close():
        return
    with runtime.database.write() as connection:
        transfers.end_plan(connection, transfer_id, time.time(), runtime.actor)


class Planner:
    """Turns planned objects into batches on the queue, a few batches per transaction."""

    def __init__(self, runtime: Runtime, transfer_id: str, spec: TransferSpec) -> None:
        self._runtime = runtime
        self._transfer_id = transfer_id
        self._spec = spec
        self._batcher = planning.Batcher[Planned]()
        self._looked_at = time.monotonic()

    def add(self, found: Sequence[Planned]) -> bool:
        """Take objects in; False when the transfer is not wanted any more."""
        full: list[list[Planned]] = []
        for group in self._batcher.add(found):
            full.append(group)
            if len(full) >= _AT_ONCE:
                if not self._commit(full):
                    return False
                full = []
        # Also without a full batch, look now and then whether somebody has cancelled.
        if full or time.monotonic() - self._looked_at > _POLL_SECONDS:
            return self._commit(full)
        return True

    def close(self) -> bool:
        return self._commit(list(self._batcher.rest()))

    def _commit(self, groups: list[list[Planned]]) -> bool:
        self._looked_at = time.monotonic()
        with self._runtime.database.write() as connection:
            # The lock keeps a cancel, and another planner that takes us for dead, out until the end.
            row = transfers.row_of(connection, self._transfer_id, lock=True)
            if row is None or row.state in ENDED_TRANSFER_STATES or transfers.is_stopping(row) or row.planned_at:
                return False
            for group in groups:
                number = objects.add_batch(connection, self._transfer_id, group, time.time())
                if number is not None:
                    self._runtime.queue.enqueue_batch(connection, self._transfer_id, number, planning.priority(group))
        return True


def _planned(spec: TransferSpec, info: ObjectInfo) -> Planned:
    target_key = specs.target_key(spec, info.key)
    refusal = None
    if spec.keys is None and not spec.single and specs.is_same_store(spec) and target_key.startswith(spec.source.key):
        where = f"s3://{spec.target.bucket}/{target_key}"
        why = f"Its target {where} lies inside the source: copying it could overwrite another object of the source."
        refusal = ("TargetInsideSource", f"{why} Choose a target outside of the source.")
    return Planned(
        source_key=info.key,
        target_key=target_key,
        size=info.size,
        etag=info.etag,
        last_modified=info.last_modified,
        version_id=info.version_id,
        storage_class=info.storage_class,
        refusal=refusal,
    )


def _missing(spec: TransferSpec, key: str) -> Planned:
    return Planned(
        source_key=key,
        target_key=specs.target_key(spec, key),
        size=0,
        etag="",
        last_modified=0.0,
        version_id=None,
        storage_class=None,
        refusal=("NoSuchKey", f"s3://{spec.source.bucket}/{key} was not there any more when the transfer began."),
    )


def _request_stop(runtime: Runtime, transfer_id: str, code: str, message: str) -> None:
    with runtime.database.write() as connection:
        transfers.request_stop(connection, transfer_id, time.time(), runtime.actor, code, message)


def _cancel_queued(runtime: Runtime, transfer_id: str) -> bool:
    """End some batches that have not begun; False when there are none."""
    with runtime.database.write() as connection:
        numbers = objects.cancel_queued(connection, transfer_id, time.time(), _AT_ONCE)
    if numbers:
        # Only saves the queue the work: run, they would find that they have ended.
        runtime.queue.drop([names.batch_workflow_id(transfer_id, number) for number in numbers])
    return bool(numbers)


def _end_dead(runtime: Runtime, transfer_id: str) -> None:
    """End batches whose workflow DBOS has given up, so that the transfer does not wait for them for ever."""
    with runtime.database.read() as connection:
        left = objects.open_batches(connection, transfer_id, limit=1000)
    for number in runtime.queue.dead_batches(transfer_id, left):
        end_failed(runtime, transfer_id, number, "its workflow was given up after too many restarts.")
