"""A small transfer done without the queue: the same steps on the same rows, called here and now.

Bringing the queue up costs more than copying a few objects does. Nothing durable depends on it: the transfer's rows say
what is asked and what is left, and every step can be run again by whoever comes next. So a transfer of a few batches
may be done by the worker of a state folder itself. All else (more batches, a failure that wants another try, a kill) is
left to the queue: a worker that brings it up puts on it what it finds unfinished (``Worker``).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Final

from seqferry.db import objects
from seqferry.workflows import batch as of_batch
from seqferry.workflows import transfer as of_transfer
from seqferry.workflows.runtime import Runtime

BATCHES: Final = 8
"""As many as a worker runs side by side. More would wait for their turn, which is what the queue is for; and listing
more without copying meanwhile would cost more time than the queue does."""


def run(runtime: Runtime, transfer_id: str) -> bool:
    """Carry the transfer to its end; False when it is to be put on the queue.

    Raises:
        Suspended: this process is to stop; the transfer is resumed by the next worker.
        Exception: a batch as a whole could not be run; the others have ended.
    """
    with runtime.attending(transfer_id):
        try:
            runtime.patiently(lambda: of_transfer.plan_with_retries(runtime, transfer_id, at_most=BATCHES))
        except of_transfer.ManyBatchesError:
            return False
        _run_batches(runtime, transfer_id, _open(runtime, transfer_id))
        if _open(runtime, transfer_id):
            return False
        runtime.patiently(lambda: of_transfer.close(runtime, transfer_id))
    return True


def _run_batches(runtime: Runtime, transfer_id: str, numbers: list[int]) -> None:
    def run_one(number: int) -> None:
        runtime.patiently(lambda: of_batch.run_once(runtime, transfer_id, number))

    if len(numbers) < 2:
        for number in numbers:
            run_one(number)
        return
    with ThreadPoolExecutor(BATCHES, thread_name_prefix="seqferry-batch") as pool:
        for running in [pool.submit(run_one, number) for number in numbers]:
            running.result()


def _open(runtime: Runtime, transfer_id: str) -> list[int]:
    with runtime.database.read() as connection:
        return objects.open_batches(connection, transfer_id, limit=BATCHES)
