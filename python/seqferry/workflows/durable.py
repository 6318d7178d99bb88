"""The workflows and steps as DBOS knows them. Importing this module registers them; only a worker with a queue does.

What the steps do is in ``transfer`` and ``batch``. Their names are stored in rows: see ``names``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from seqferry.dbos.library import DBOS
from seqferry.model import names
from seqferry.workflows import batch_steps, schedule_ticks, transfer_steps
from seqferry.workflows.runtime import current

log: Final = logging.getLogger("seqferry.workflows")


@DBOS.workflow(name=names.WORKFLOW_TRANSFER, max_recovery_attempts=10_000)
def transfer(transfer_id: str) -> None:
    runtime, workflow_id = current(), DBOS.workflow_id or transfer_id
    with runtime.supervising(transfer_id), runtime.requeue_when_paused(transfer_id, workflow_id, names.QUEUE_TRANSFERS):
        try:
            plan(transfer_id)
        except Exception as why:  # any error: the transfer must come to an end
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
    runtime.retry_until_available(lambda: transfer_steps.plan_with_retries(runtime, transfer_id))


@DBOS.step(name="give_up", retries_allowed=True)
def give_up(transfer_id: str, message: str) -> None:
    runtime = current()
    runtime.retry_until_available(lambda: transfer_steps.request_stop(runtime, transfer_id, "internal", message))


@DBOS.step(name="wait", retries_allowed=True, max_attempts=10)
def wait(transfer_id: str) -> None:
    runtime = current()
    with runtime.waiting(transfer_id):
        runtime.retry_until_available(lambda: transfer_steps.wait_for_batches(runtime, transfer_id))


@DBOS.step(name="finish", retries_allowed=True)
def finish(transfer_id: str) -> None:
    runtime = current()
    runtime.retry_until_available(lambda: transfer_steps.close(runtime, transfer_id))


@DBOS.workflow(name=names.WORKFLOW_BATCH, max_recovery_attempts=1000)
def batch(transfer_id: str, number: int) -> None:
    """Run one batch to its end. Returns also when objects failed: that is in their rows.

    Restarts are not limited by DBOS's count but by ``batch.barren_runs``: a batch of giants may well outlive many.
    """
    with current().requeue_when_paused(transfer_id, names.batch_workflow_id(transfer_id, number), names.QUEUE_BATCHES):
        try:
            run_batch(transfer_id, number)
        except Exception as why:  # any error: the transfer must not wait without end
            log.exception("batch %s of transfer %s cannot run", number, transfer_id)
            fail_batch(transfer_id, number, batch_steps.describe_cause(why))


# 3 retries, after 1, 2 and 4 seconds, when the batch as a whole cannot run. The step waits for an unavailable database.
@DBOS.step(name="run_batch", retries_allowed=True, max_attempts=4, interval_seconds=1, backoff_rate=2)
def run_batch(transfer_id: str, number: int) -> None:
    runtime = current()
    runtime.retry_until_available(lambda: batch_steps.run_once(runtime, transfer_id, number))


@DBOS.step(name="fail_batch", retries_allowed=True, max_attempts=4, interval_seconds=1, backoff_rate=2)
def fail_batch(transfer_id: str, number: int, cause: str) -> None:
    runtime = current()
    runtime.retry_until_available(lambda: batch_steps.end_failed(runtime, transfer_id, number, cause))


@DBOS.workflow(name=names.WORKFLOW_SCHEDULE, max_recovery_attempts=1000)
def schedule(due: Any, context: Mapping[str, Any]) -> None:
    """A tick. DBOS passes the due time, and the context that ``schedule_ticks.ScheduleReconciler`` stored."""
    run_due(schedule_ticks.parse_due_time(due), context, DBOS.workflow_id or "")


@DBOS.step(name="run_due", retries_allowed=True, max_attempts=10)
def run_due(due_at: float, context: Mapping[str, Any], run_id: str) -> None:
    runtime = current()
    runtime.retry_until_available(lambda: schedule_ticks.run_due(runtime, due_at, context, run_id))
