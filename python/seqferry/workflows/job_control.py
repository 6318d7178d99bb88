"""Control of running jobs: current limits, cancel, pause, and the loss of a batch to another worker."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Final

import sqlalchemy as sa

from seqferry.db import allotments, transfers
from seqferry.db.transfers import Endpoints, WorkLimits
from seqferry.settings.config import Settings
from seqferry.workflows.limits import BudgetLimits, limits_over_all, limits_with_shares, requests_in_use
from seqferry.workflows.runtime import Runtime

log: Final = logging.getLogger("seqferry.worker")

_ASK_SECONDS: Final = 1.0
"""Time between two claims of a worker for its shares."""


def control_jobs(runtime: Runtime) -> None:
    """Apply the states of transfers in the database to the jobs of running batches."""
    running = runtime.running()
    if not running:
        return
    epoch = runtime.epoch  # before they are found to be ours
    with runtime.database.read() as connection:
        stopping = transfers.find_stopping(connection, {batch.run.transfer_id for batch in running})
        paused = transfers.find_paused(connection, {batch.run.transfer_id for batch in running})
        lost = runtime.find_lost(connection, running)
    present = runtime.running()
    for batch in running:
        if batch not in present:  # it has ended meanwhile, and so has its workflow, which looks lost
            continue
        if batch in lost:
            if not batch.suspended:
                run = batch.run
                log.warning("batch %s of transfer %s was taken over by another worker", run.number, run.transfer_id)
            batch.fence()
            continue
        if batch.run.transfer_id in paused and not batch.cleaning:
            batch.pause()
            continue
        batch.admit(epoch)
        if batch.run.transfer_id in stopping and not batch.cleaning:
            batch.abort()


class LimitUpdater:
    """Updates the limits of the engine when those of the settings or of its transfers change.

    Limits of transfers and of places hold over all workers. On PostgreSQL each worker has a share (``allotments``),
    which it asks for again each second and uses less of before others can have it.

    Args:
        own_work: the process was started for a transfer: see ``limits_of``.
    """

    def __init__(self, runtime: Runtime, settings: Settings, worker_id: str, *, own_work: bool) -> None:
        self._runtime = runtime
        self._settings = settings
        self._worker_id = worker_id
        self._own_work = own_work
        self._limiting = threading.Lock()
        self._counting = threading.Lock()
        self._requested = 0
        self._covered = 0
        """Of the requested updates, those of which the present limits take account."""
        self._wanted: dict[str, int] = {}
        self._shares: dict[str, int] = {}
        self._ask_at = 0.0
        self._by_endpoint = any(limit.endpoint_url is not None for limit in settings.place_limits)
        self._endpoints: dict[str, Endpoints] = {}

    def update(self) -> None:
        """Apply the limits of the transfers that work now. Calls that wait for another one share the next."""
        with self._counting:
            self._requested += 1
            mine = self._requested
        with self._limiting:  # what was read last is set last
            if self._covered < mine:
                covered = self._requested
                self._set()
                self._covered = covered

    def _set(self) -> None:
        database = self._runtime.database
        with database.read() as connection:
            work = self._with_endpoints(
                connection, transfers.read_work_limits(connection, self._runtime.requesting_transfers)
            )
        wanted = limits_over_all(work, self._settings.place_limits)
        if database.is_sqlite:
            self._shares = wanted
        elif wanted != self._wanted or (wanted and time.monotonic() >= self._ask_at):
            self._ask_at = time.monotonic() + _ASK_SECONDS
            with database.write(durable=False) as connection:
                in_use = requests_in_use(wanted, self._runtime.engine.stats().in_flight)
                self._shares = allotments.claim(connection, self._worker_id, wanted, in_use)
                # Less is used before the others may use more.
                self._apply(self._limits(work).least(self._present()))
            self._wanted = wanted
        self._apply(self._limits(work))

    def _with_endpoints(self, connection: sa.Connection, work: Mapping[str, WorkLimits]) -> Mapping[str, WorkLimits]:
        """The work with its endpoints, where a limit needs them: each transfer is read once."""
        if not self._by_endpoint:
            return work
        self._endpoints = {one: self._endpoints.get(one) or transfers.endpoints_of(connection, one) for one in work}
        return {one: at._replace(endpoints=self._endpoints[one]) for one, at in work.items()}

    def _limits(self, work: Mapping[str, WorkLimits]) -> BudgetLimits:
        return limits_with_shares(self._settings, work, self._shares, own_work=self._own_work)

    def _present(self) -> BudgetLimits:
        engine = self._runtime.engine
        return BudgetLimits(engine.max_requests, engine.bandwidth, engine.tpslimit)

    def _apply(self, limits: BudgetLimits) -> None:
        engine = self._runtime.engine
        if limits.starts != engine.tpslimit:
            engine.limit_starts(limits.starts)
            log.info("%s requests started per second at most from now on", limits.starts or "any number of")
        if limits.bandwidth != engine.bandwidth:
            engine.limit_bandwidth(limits.bandwidth)
            rate = limits.bandwidth
            log.info("%s", "no limit of bandwidth from now on" if rate is None else f"{rate} bytes/s from now on")
        if engine.limit_requests(limits.requests):
            log.info("%s requests in flight at most from now on", limits.requests)
