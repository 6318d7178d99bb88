"""A batch whose job runs in this process, and the report of a transfer from its batches."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Final

from seqferry.db.batches import BatchRun
from seqferry.db.worker_reports import Report
from seqferry.engine.executor import Job, Progress
from seqferry.model.models import ActiveObject
from seqferry.planning import batching
from seqferry.workflows.suspension import StepSuspension, TransferPause

_RATE_SECONDS: Final = 5.0
"""Window of the reported rate: long enough to be calm, short enough to show a stall."""

_SLOWEST: Final = 5

_SHORTEST_SECONDS: Final = 0.1
"""Shortest time of which a rate is computed."""


class RunningBatch:
    """A batch whose job runs in this process. Other threads control it."""

    def __init__(
        self, run: BatchRun, job: Job, *, epoch: int | None, cleaning: bool, sizes: Iterable[int] = ()
    ) -> None:
        self.run: Final = run
        self.job: Final = job
        self.cleaning: Final = cleaning
        """The job only cleans up after a stopped transfer: its own thread decides when to abort."""
        self.cancelled: Final = set[int]()
        """Ids of objects that the job ended as cancelled. Touched by the job's own thread only."""
        self.bytes_recorded = 0
        """Bytes of objects that the job has copied and that are recorded. Written by the job's own thread only."""
        self._requests = batching.count_requests(sizes)
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._epoch = epoch
        self._aborted = False
        self._suspended = False
        self._paused = False

    @property
    def suspended(self) -> bool:
        return self._suspended

    @property
    def paused(self) -> bool:
        return self._paused

    def sum_unrecorded_bytes(self, progress: Progress) -> int:
        """Bytes at the target, of objects under way and of objects whose end is not recorded yet."""
        return max(progress.bytes_done - self.bytes_recorded, 0)

    def estimate_requests(self, now: float) -> tuple[float, float, float]:
        """About how many requests the job has left to make, has made each second, and has in flight."""
        found = self.job.progress()
        ended = found.objects_done + found.objects_skipped + found.objects_failed
        made = batching.count_requests([found.bytes_done]) - 1 + ended
        rate = made / max(now - self._began, _SHORTEST_SECONDS)
        return max(self._requests - made, 0.0), rate, found.in_flight

    def raise_suspension(self) -> None:
        """Raise the exception with which a suspended batch leaves its step."""
        raise TransferPause if self._paused else StepSuspension

    def admit(self, epoch: int | None) -> None:
        """Let the job write in this epoch of the lease, since this process still owns the batch."""
        with self._lock:
            if epoch is not None and epoch != self._epoch:
                self._epoch = epoch
                self.job.admit(epoch)

    def fence(self) -> None:
        """Stop all writes of the job, since another run has the batch, and leave its uploads to that run."""
        with self._lock:
            self.job.disown()
        self.suspend()

    def abort(self) -> None:
        """Stop the job and abort its uploads, since the transfer is to stop."""
        with self._lock:
            if not (self._aborted or self._suspended):
                self._aborted = True
                self.job.cancel(True)

    def pause(self) -> None:
        """Stop the job, since the transfer is paused, and leave its uploads to the next run."""
        self._paused = True
        self.suspend()

    def suspend(self) -> None:
        """Stop the job, since this process stops, and leave its uploads to the next run."""
        with self._lock:
            if not self._suspended:
                self._suspended = True
                self.job.cancel(False)


@dataclass
class TransferMeter:
    """Counts of jobs of one transfer that have ended here, and the recent past of the byte count."""

    bytes: int = 0
    objects: int = 0
    requests: int = 0
    retries: int = 0
    throttled: int = 0
    past: deque[tuple[float, int]] = field(default_factory=lambda: deque[tuple[float, int]]())

    def rate(self, now: float, total: int) -> float:
        self.past.append((now, total))
        while len(self.past) > 2 and self.past[1][0] <= now - _RATE_SECONDS:
            self.past.popleft()
        since, before = self.past[0]
        return (total - before) / (now - since) if now > since else 0.0


def create_report(meter: TransferMeter, batches: list[RunningBatch], now: float) -> Report:
    readings = [running.job.progress() for running in batches]
    total = meter.bytes + sum(reading.bytes_done for reading in readings)
    slowest = sorted((one for reading in readings for one in reading.slowest), key=lambda one: -one.seconds)
    return Report(
        bytes=total,
        objects=meter.objects + sum(one.objects_done + one.objects_skipped + one.objects_failed for one in readings),
        bytes_in_progress=sum(map(RunningBatch.sum_unrecorded_bytes, batches, readings)),
        bytes_per_second=meter.rate(now, total),
        in_flight=sum(reading.in_flight for reading in readings),
        requests=meter.requests + sum(reading.requests for reading in readings),
        retries=meter.retries + sum(reading.retries for reading in readings),
        throttled=meter.throttled + sum(reading.throttled for reading in readings),
        slowest=[
            asdict(ActiveObject(key=one.key, size=one.size, bytes_done=one.bytes_done, seconds=one.seconds))
            for one in slowest[:_SLOWEST]
        ],
    )
