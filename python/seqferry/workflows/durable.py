"""The workflows as DBOS knows them. Importing this module registers them; only a worker with a queue does.

The work is in ``transfer_steps`` and ``batch_steps``. It needs no records of DBOS: what is done is in our rows, and a
workflow that runs again finds it there. The names are stored in rows: see ``names``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from seqferry.dbos.library import DBOS
from seqferry.model import names
from seqferry.workflows import batch_steps, schedule_ticks, transfer_steps
from seqferry.workflows.runtime import ATTEMPTS, Runtime, current

_WAIT_ATTEMPTS: Final = 10

log: Final = logging.getLogger("seqferry.workflows")


@DBOS.workflow(name=names.WORKFLOW_TRANSFER, max_recovery_attempts=10_000)
def transfer(transfer_id: str) -> None:
    runtime, workflow_id = current(), DBOS.workflow_id or transfer_id
    with runtime.supervising(transfer_id), runtime.requeue_when_paused(transfer_id, workflow_id, names.QUEUE_TRANSFERS):
        own_batch = _plan(runtime, transfer_id)
        if own_batch is not None:
            runs = iter([own_batch.begun])  # a second attempt begins anew
            number = own_batch.number
            own = batch_steps.run_own
            _run_batch(runtime, transfer_id, number, lambda: own(runtime, transfer_id, number, next(runs, None)))
        else:
            with runtime.waiting(transfer_id):
                wait = transfer_steps.wait_for_batches
                _repeat(runtime, lambda: wait(runtime, transfer_id), attempts=_WAIT_ATTEMPTS)
        _repeat(runtime, lambda: transfer_steps.close(runtime, transfer_id))


@DBOS.workflow(name=names.WORKFLOW_BATCH, max_recovery_attempts=1000)
def batch(transfer_id: str, number: int) -> None:
    """Run one batch to its end. Returns also when objects failed: that is in their rows.

    Restarts are not limited by DBOS's count but by ``batch.barren_runs``: a batch of giants may well outlive many.
    """
    runtime = current()
    with runtime.requeue_when_paused(transfer_id, names.batch_workflow_id(transfer_id, number), names.QUEUE_BATCHES):
        _run_batch(runtime, transfer_id, number, lambda: batch_steps.run_once(runtime, transfer_id, number))


@DBOS.workflow(name=names.WORKFLOW_SCHEDULE, max_recovery_attempts=1000)
def schedule(due: Any, context: Mapping[str, Any]) -> None:
    """A tick. DBOS passes the due time, and the context that ``schedule_ticks.ScheduleReconciler`` stored."""
    run_due(schedule_ticks.parse_due_time(due), context, DBOS.workflow_id or "")


@DBOS.step(name="run_due", retries_allowed=True, max_attempts=10)
def run_due(due_at: float, context: Mapping[str, Any], run_id: str) -> None:
    runtime = current()
    runtime.retry_until_available(lambda: schedule_ticks.run_due(runtime, due_at, context, run_id))


def _plan(runtime: Runtime, transfer_id: str) -> transfer_steps.OwnBatch | None:
    """Plan the transfer, or record why that cannot be; returns its own batch, if it has one."""
    try:
        return runtime.retry_until_available(lambda: transfer_steps.plan_with_retries(runtime, transfer_id))
    except Exception as why:  # any error: the transfer must come to an end
        log.exception("transfer %s cannot be planned", transfer_id)
        message = f"The transfer could not be planned ({type(why).__name__}); see the log of the worker."
        _repeat(runtime, lambda: transfer_steps.request_stop(runtime, transfer_id, "internal", message))
    return None


def _run_batch(runtime: Runtime, transfer_id: str, number: int, run: Callable[[], None]) -> None:
    """Run a batch; its open objects fail when the batch as a whole cannot be run after some attempts."""
    try:
        _repeat(runtime, run)
    except Exception as why:  # any error: the transfer must not wait without end
        log.exception("batch %s of transfer %s cannot run", number, transfer_id)
        cause = batch_steps.describe_cause(why)
        _repeat(runtime, lambda: batch_steps.end_failed(runtime, transfer_id, number, cause))


def _repeat(runtime: Runtime, act: Callable[[], None], attempts: int = ATTEMPTS) -> None:
    """Do what may fail, in some attempts with pauses between them. The database is waited for as long as it takes."""
    for may_repeat in runtime.attempts(attempts):
        try:
            runtime.retry_until_available(act)
            return
        except Exception as why:
            if not may_repeat:
                raise
            log.warning("the next attempt follows: %s", batch_steps.describe_cause(why))
