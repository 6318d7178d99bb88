"""Inline runs of small transfers: the same steps on the same rows, without the queue.

Starting the queue costs more than copying a few thousand small objects. Nothing durable depends on it: the transfer's
rows record what is requested and what is left, and the next worker can run every step again. So the worker of a state
folder runs a small transfer itself, each batch as soon as it is on record. All other work (more batches, a failure that
needs a retry, a kill) is left to the queue: a worker that starts it puts the unfinished transfers on it (``Worker``).
Running inline batches then continue to their end: a process has one run of a batch at a time
(``Runtime.exclusive_run``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import PriorityQueue
from typing import Final

from seqferry.db import batches
from seqferry.planning import batching
from seqferry.workflows import batch_steps, transfer_steps
from seqferry.workflows.runtime import Runtime

MAX_RUNNING_BATCHES: Final = 8
"""Batches that run at a time. They share one budget of requests: enough to keep it busy while some begin and end."""

MAX_BATCHES: Final = 32
"""Most batches of an inline transfer. For more, with tens of thousands of objects, the queue's cost is negligible."""


def run(runtime: Runtime, transfer_id: str, take_queue: Callable[[], None]) -> bool:
    """Run the transfer to its end, or as far as possible without the queue; False when it is to be put on the queue.

    ``take_queue`` is called when there turn out to be too many batches, or planning fails: from then on the queue has
    the transfer.

    Raises:
        StepSuspension: this process is to stop; the transfer is resumed by the next worker.
        Exception: a batch as a whole could not run, or the planning failed; batches that had begun have ended.
    """
    with runtime.supervising(transfer_id), ThreadPoolExecutor(MAX_RUNNING_BATCHES, "seqferry-batch") as pool:
        # Which batch a thread takes is decided when it is free: the one with the biggest object, as on the queue.
        waiting: PriorityQueue[tuple[int, int]] = PriorityQueue()
        known, runs = set[int](), list[Future[None]]()

        def run_next() -> None:
            number = waiting.get_nowait()[1]
            runtime.retry_until_available(lambda: batch_steps.run_once(runtime, transfer_id, number))

        def begin(batches: Iterable[tuple[int, int]]) -> None:
            fresh = [(batching.priority_of(biggest), number) for number, biggest in batches if number not in known]
            for place in fresh:
                waiting.put(place)
            known.update(number for _, number in fresh)
            runs.extend(pool.submit(run_next) for _ in fresh)

        inline = transfer_steps.InlineBatches(begin, MAX_BATCHES)
        try:
            runtime.retry_until_available(lambda: transfer_steps.plan_with_retries(runtime, transfer_id, inline))
        except Exception as why:
            take_queue()
            pool.shutdown(cancel_futures=True)
            _raise_from(runs)
            if isinstance(why, transfer_steps.ManyBatchesError):
                return True
            raise
        # If the answer of the database was lost, batches are on record that this function does not know.
        begin(_open(runtime, transfer_id))
        _raise_from(runs)
        if _open(runtime, transfer_id):
            return False
        runtime.retry_until_available(lambda: transfer_steps.close(runtime, transfer_id))
    return True


def _raise_from(runs: Iterable[Future[None]]) -> None:
    """Wait for the end of the runs that have begun; raise the first of their errors."""
    for run in runs:
        if not run.cancelled():
            run.result()


def _open(runtime: Runtime, transfer_id: str) -> list[tuple[int, int]]:
    """Numbers of batches that have not ended, and the sizes of their biggest objects."""
    with runtime.database.read() as connection:
        return batches.open_batch_sizes(connection, transfer_id)
