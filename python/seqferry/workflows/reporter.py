"""The reporter of a worker: its activity, for ``status``, ``seqferry workers`` and charts."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seqferry.db import samples, worker_reports, worker_rows
from seqferry.model.workers import Activity, LimiterWindow, Limits, Process
from seqferry.settings import memory_limits
from seqferry.workflows.lanes import Lanes
from seqferry.workflows.runtime import Runtime

if TYPE_CHECKING:
    from seqferry.engine.engine import EngineStats

_SAMPLE_EVERY: Final = 2  # reports
_THIN_EVERY: Final = 600  # reports
_PRUNE_EVERY: Final = 6  # reports of an idle worker
_FIRST_THINNED: Final = 5  # reports: a worker for small transfers alone does so as well

IDLE_SECONDS: Final = 10.0
"""Between two reports of a worker that does nothing: each is a write, which wakes its threads on SQLite."""

_MOST_WINDOWS: Final = 20
"""Prefixes of which limits are shown, those with the most requests: the engine keeps hundreds."""

_WINDOW: Final = "seqferry_request_window"
_RATE: Final = "seqferry_request_rate_limit"
_IN_FLIGHT: Final = "seqferry_requests_in_flight"
_MEMORY: Final = "seqferry_memory_limit_bytes"


def engine_counts(stats: EngineStats) -> samples.EngineCounts:
    """Counters that are sampled from the statistics of an engine."""
    return samples.EngineCounts(
        bytes=stats.bytes,
        requests=stats.requests,
        retries=stats.retries,
        throttled=stats.throttled,
        hedges=stats.hedges,
        waited_ms=round(1000 * stats.waited),
        busy_ms=round(1000 * stats.busy),
    )


class Reporter:
    """One per worker; one thread calls it each second.

    Args:
        facts: those of the kind of this process.
        beats: a report is a sign of life as well. False where another thread gives those.
    """

    def __init__(self, runtime: Runtime, process: Process, lanes: Lanes, facts: dict[str, Any], *, beats: bool) -> None:
        self._runtime = runtime
        self._process = process
        self._lanes = lanes
        self._facts = facts
        self._beats = beats
        self._reports_written = 0
        self._idle_reports = 0
        self._next_idle = float("-inf")

    def report(self) -> None:
        """Report what is done now: each second while there is work, else each ``IDLE_SECONDS``."""
        database = self._runtime.database
        recorded: dict[str, int] = {}
        if at_work := self._runtime.active_transfers():
            with database.read() as connection:
                # Before the readings: what is recorded in between is in neither, and the next report has it.
                recorded = worker_reports.sum_recorded_bytes(connection, at_work)
        reports = self._runtime.read_reports()
        if not reports:
            if time.monotonic() >= self._next_idle:
                self._next_idle = time.monotonic() + IDLE_SECONDS
                self._idle_reports += 1
                with database.write(durable=False) as connection:
                    if self._idle_reports % _PRUNE_EVERY == 1:
                        worker_rows.prune(connection)
                    self._describe(connection, self._runtime.engine.stats(), 0)
            return
        self._next_idle = float("-inf")
        self._reports_written += 1
        with database.write(durable=False) as connection:
            worker_reports.report(connection, database, self._runtime.executor_id, reports, recorded)
            if self._reports_written % _SAMPLE_EVERY == 0:
                stats = self._runtime.engine.stats()
                samples.record(connection, database, self._runtime.executor_id, reports)
                samples.record_engine(connection, database, self._runtime.executor_id, engine_counts(stats))
                # Last: a sign of life of this worker waits for the end of the transaction.
                self._describe(connection, stats, len(reports))
        if self._reports_written % _THIN_EVERY == _FIRST_THINNED:
            with database.write(durable=False) as connection:
                samples.thin(connection, database)
                worker_rows.prune(connection)

    def _describe(self, connection: sa.Connection, stats: EngineStats, transfers: int) -> None:
        if self._beats:
            worker_rows.beat(connection, self._process)
        worker_rows.describe(connection, self._process.id, self._activity(stats, transfers))

    def _activity(self, stats: EngineStats, transfers: int) -> Activity:
        gauges = _gauges(stats)
        memory = gauges[_MEMORY].get(())
        return Activity(
            lanes=tuple(sorted(self._lanes.open, key=lambda lane: lane or "")),
            limits=Limits(
                max_requests=stats.max_requests,
                max_bandwidth=stats.max_bandwidth,
                tpslimit=self._runtime.engine.tpslimit,
                memory=None if memory is None else round(memory),
            ),
            resident=memory_limits.resident() or None,
            transfers=transfers,
            in_flight=stats.in_flight,
            windows=_windows(gauges),
            facts=self._facts,
        )


Gauges = dict[str, dict[tuple[str, ...], float]]


def _gauges(stats: EngineStats) -> Gauges:
    """Values by metric and labels, of the metrics that are reported."""
    found: Gauges = defaultdict(dict)
    for metric in stats.metrics:
        if metric.name in (_WINDOW, _RATE, _IN_FLIGHT, _MEMORY):
            found[metric.name] = {tuple(sample.labels): sample.value for sample in metric.samples}
    return found


def _windows(gauges: Gauges) -> tuple[LimiterWindow, ...]:
    found = [
        LimiterWindow(
            *labels,
            requests=round(requests),
            rate=gauges[_RATE].get(labels),
            in_flight=round(gauges[_IN_FLIGHT].get(labels, 0)),
        )
        for labels, requests in gauges[_WINDOW].items()
    ]
    found.sort(key=lambda one: (-one.in_flight, -one.requests, one.bucket, one.prefix, one.access))
    return tuple(found[:_MOST_WINDOWS])
