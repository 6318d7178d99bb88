"""Orders to what runs in a worker: the limits that hold now, cancel, pause, and the loss of a batch to another."""

from __future__ import annotations

import logging
import threading
from typing import Final

from seqferry.db import transfers
from seqferry.settings.config import Settings
from seqferry.workflows.limits import limits_of
from seqferry.workflows.runtime import Runtime

log: Final = logging.getLogger("seqferry.worker")


def give_orders(runtime: Runtime) -> None:
    """Carry what the database says about running batches to their jobs."""
    running = runtime.running()
    if not running:
        return
    epoch = runtime.epoch  # before they are found to be ours
    with runtime.database.read() as connection:
        stopping = transfers.stopping(connection, {batch.run.transfer_id for batch in running})
        paused = transfers.paused(connection, {batch.run.transfer_id for batch in running})
        lost = runtime.lost(connection, running)
    for batch in running:
        if batch in lost:
            if not batch.suspended:
                run = batch.run
                log.warning("batch %s of transfer %s was taken over by another worker", run.number, run.transfer_id)
            batch.lose()
            continue
        if batch.run.transfer_id in paused and not batch.cleaning:
            batch.pause()
            continue
        batch.admit(epoch)
        if batch.run.transfer_id in stopping and not batch.cleaning:
            batch.abort()


class LimitKeeper:
    """Carries the limits that hold now to the engine whenever they are others: of the settings, and of its work.

    Args:
        own_work: the process was started for a transfer: see ``limits_of``.
    """

    def __init__(self, runtime: Runtime, settings: Settings, *, own_work: bool) -> None:
        self._runtime = runtime
        self._settings = settings
        self._own_work = own_work
        self._limiting = threading.Lock()

    def keep(self) -> None:
        with self._limiting:  # what was read last is set last
            self._set()

    def _set(self) -> None:
        engine = self._runtime.engine
        with self._runtime.database.read() as connection:
            adjustments = transfers.adjustments(connection, self._runtime.supervised)
        limits = limits_of(self._settings, adjustments, own_work=self._own_work)
        if limits.starts != engine.tpslimit:
            engine.limit_starts(limits.starts)
            log.info("%s requests started per second at most from now on", limits.starts or "any number of")
        if limits.bandwidth != engine.bandwidth:
            engine.limit_bandwidth(limits.bandwidth)
            rate = limits.bandwidth
            log.info("%s", "no limit of bandwidth from now on" if rate is None else f"{rate} bytes/s from now on")
        if engine.limit_requests(limits.requests):
            log.info("%s requests in flight at most from now on", limits.requests)
