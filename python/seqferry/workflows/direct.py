"""A small transfer done without the queue: the same steps on the same rows, called here and now.

Bringing the queue up costs more than copying a few thousand small objects does. Nothing durable depends on it: the
transfer's rows say what is asked and what is left, and every step can be run again by the next worker. So the worker
of a state folder does a transfer itself as long as it is small, each batch as soon as it is on record. All else (more
batches, a failure that wants another try, a kill) is left to the queue: a worker that brings it up puts on it what it
finds unfinished (``Worker``). What runs here by then goes on to its end: a batch has one run at a time in a process
(``Runtime.turn``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import PriorityQueue
from typing import Final

from seqferry import batching
from seqferry.db import objects
from seqferry.workflows import batch_steps, transfer_steps
from seqferry.workflows.runtime import Runtime

BATCHES_AT_ONCE: Final = 8
"""They share one budget of requests: enough to keep it busy while some begin and end."""

BATCHES: Final = 32
"""More are for the queue: with some ten thousands of objects to come, what it costs does not matter any more."""


def run(runtime: Runtime, transfer_id: str, take_queue: Callable[[], None]) -> bool:
    """Carry the transfer to its end, or as far as that can be done here; False when it is to be put on the queue.

    ``take_queue`` is called when there turn out to be too many batches, or planning fails: from then on the queue has
    the transfer.

    Raises:
        StepSuspension: this process is to stop; the transfer is resumed by the next worker.
        Exception: a batch as a whole could not be run, or the transfer not be planned; what had begun has ended.
    """
    with runtime.attending(transfer_id), ThreadPoolExecutor(BATCHES_AT_ONCE, "seqferry-batch") as pool:
        # Which batch a thread takes is decided when it is free: the one with the biggest object, as on the queue.
        waiting: PriorityQueue[tuple[int, int]] = PriorityQueue()
        known, runs = set[int](), list[Future[None]]()

        def run_next() -> None:
            number = waiting.get_nowait()[1]
            runtime.patiently(lambda: batch_steps.run_once(runtime, transfer_id, number))

        def begin(batches: Iterable[tuple[int, int]]) -> None:
            fresh = [(batching.priority_of(biggest), number) for number, biggest in batches if number not in known]
            for place in fresh:
                waiting.put(place)
            known.update(number for _, number in fresh)
            runs.extend(pool.submit(run_next) for _ in fresh)

        inline = transfer_steps.InlineBatches(begin, at_most=BATCHES)
        try:
            runtime.patiently(lambda: transfer_steps.plan_with_retries(runtime, transfer_id, inline))
        except Exception as why:
            take_queue()
            pool.shutdown(cancel_futures=True)
            _raise_from(runs)
            if isinstance(why, transfer_steps.ManyBatchesError):
                return True
            raise
        # Were the answer of the database lost, batches may be on record that are not known here.
        begin(_open(runtime, transfer_id))
        _raise_from(runs)
        if _open(runtime, transfer_id):
            return False
        runtime.patiently(lambda: transfer_steps.close(runtime, transfer_id))
    return True


def _raise_from(runs: Iterable[Future[None]]) -> None:
    """Wait for the end of those that have begun; raise what the first one raised that did."""
    for run in runs:
        if not run.cancelled():
            run.result()


def _open(runtime: Runtime, transfer_id: str) -> list[tuple[int, int]]:
    """Numbers of batches that have not ended, and the sizes of their biggest objects."""
    with runtime.database.read() as connection:
        return objects.open_batch_sizes(connection, transfer_id)
