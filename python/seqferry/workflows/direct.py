"""A small transfer done without the queue: the same steps on the same rows, called here and now.

Bringing the queue up costs more than copying a few thousand small objects does. Nothing durable depends on it: the
transfer's rows say what is asked and what is left, and every step can be run again by whoever comes next. So the worker
of a state folder does a transfer itself as long as it is small, each batch as soon as it is on record. All else (more
batches, a failure that wants another try, a kill) is left to the queue: a worker that brings it up puts on it what it
finds unfinished (``Worker``). What runs here by then goes on to its end: a batch has one run at a time in a process
(``Runtime.turn``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from seqferry.db import objects
from seqferry.workflows import batch as of_batch
from seqferry.workflows import transfer as of_transfer
from seqferry.workflows.runtime import Runtime

BATCHES_AT_ONCE: Final = 8
"""They share one budget of requests: enough to keep it busy while some begin and end."""

BATCHES: Final = 32
"""More are for the queue: with some ten thousands of objects to come, what it costs does not matter any more."""


def run(runtime: Runtime, transfer_id: str, take_queue: Callable[[], None]) -> bool:
    """Carry the transfer to its end, or as far as that can be done here; False when it is to be put on the queue.

    ``take_queue`` is called when there turn out to be too many batches: from then on the queue has the transfer.

    Raises:
        Suspended: this process is to stop; the transfer is resumed by the next worker.
        Exception: a batch as a whole could not be run; the others have ended.
    """
    with runtime.attending(transfer_id), ThreadPoolExecutor(BATCHES_AT_ONCE, "seqferry-batch") as pool:
        begun: dict[int, Future[None]] = {}

        def run_one(number: int) -> None:
            runtime.patiently(lambda: of_batch.run_once(runtime, transfer_id, number))

        def begin(numbers: Iterable[int]) -> None:
            begun.update({number: pool.submit(run_one, number) for number in numbers if number not in begun})

        try:
            runtime.patiently(
                lambda: of_transfer.plan_with_retries(runtime, transfer_id, of_transfer.Here(begin, at_most=BATCHES))
            )
        except of_transfer.ManyBatchesError:
            take_queue()
            pool.shutdown(cancel_futures=True)
            for running in begun.values():
                if not running.cancelled():
                    running.result()
            return True
        # Were the answer of the database lost, batches may be on record that nobody has told us of.
        begin(_open(runtime, transfer_id))
        for running in begun.values():
            running.result()
        if _open(runtime, transfer_id):
            return False
        runtime.patiently(lambda: of_transfer.close(runtime, transfer_id))
    return True


def _open(runtime: Runtime, transfer_id: str) -> list[int]:
    with runtime.database.read() as connection:
        return objects.open_batches(connection, transfer_id, limit=BATCHES)
