"""A job in waves: the next version of each object, in one job of the engine, when all of the wave before have ended."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from seqferry.db.objects import OpenObject
from seqferry.model.errors import StorageError
from seqferry.workflows import jobs
from seqferry.workflows.chunks import End, Ends
from seqferry.workflows.jobs import Events, ObjectProgress

WaveStarter = Callable[[Sequence[OpenObject], int | None], jobs.Job]

_COUNTS = (
    "bytes_done", "objects_done", "objects_failed", "objects_skipped", "requests", "retries", "throttled",
)  # fmt: skip
"""The first fields of ``_Sum``, in their order."""


@dataclass(frozen=True, slots=True)
class _Sum:
    """See ``workflows.jobs.Progress``."""

    bytes_done: int
    objects_done: int
    objects_failed: int
    objects_skipped: int
    requests: int
    retries: int
    throttled: int
    bytes_in_progress: int = 0
    in_flight: int = 0
    slowest: Sequence[ObjectProgress] = ()


def _sum(sums: Sequence[int]) -> _Sum:
    done, objects, failed, skipped, requests, retries, throttled = sums
    return _Sum(done, objects, failed, skipped, requests, retries, throttled)


class Waves:
    """See ``workflows.jobs.Job``. ``written`` are the ends of versions that an earlier run has written."""

    def __init__(
        self, items: Sequence[OpenObject], start: WaveStarter, *, epoch: int | None, written: Sequence[End] = ()
    ) -> None:
        self._start = start
        self._epoch = epoch
        self._lock = threading.RLock()
        known = {one.id for one in written}
        self._left: dict[str, list[OpenObject]] = {}
        for one in items:
            if one.id not in known:
                self._left.setdefault(one.target_key, []).append(one)
        self._key_of = {one.id: one.target_key for one in items}
        self._ends: list[End] = list(written)
        self._cancelled: list[int] = []
        self._sums = dict.fromkeys(_COUNTS, 0)
        self._notes: list[str] = []
        self._stopped = False
        self._tells_cancelled = False
        self._job: jobs.Job | None = None
        self._next()

    def _next(self) -> None:
        """Begin the next wave."""
        wave = [versions.pop(0) for versions in self._left.values() if versions]
        self._left = {key: versions for key, versions in self._left.items() if versions}
        self._job = self._start(wave, self._epoch) if wave else None

    def _advance(self) -> None:
        job = self._job
        if job is None or not job.finished():
            return
        if job.failure() is not None:
            return
        if self._stopped:
            if self._tells_cancelled:
                self._cancelled += [one.id for versions in self._left.values() for one in versions]
            self._left = {}
        progress = job.progress()
        for name in _COUNTS:
            self._sums[name] += getattr(progress, name)
        self._notes += job.notes()
        self._next()

    def wait(self, timeout: float, /) -> Events:
        with self._lock:
            self._advance()
            if self._ends or self._cancelled or self._job is None:
                now = time.time()
                told = Ends([(now, now, end) for end in self._ends], self._cancelled)
                self._ends, self._cancelled = [], []
                return told
            job = self._job
        events = job.wait(timeout)
        if events.ended:
            self._look_at(events)
        return events

    def _look_at(self, events: Events) -> None:
        """No version follows one that has failed, or that the target does not keep as a version."""
        told = events.results()
        columns: list[list[Any]] = [
            json.loads(f"[{told[name]}]", strict=False) for name in ("id", "state", "target_version_id")
        ]
        with self._lock:
            for number, state, version in zip(*columns, strict=True):
                key = self._key_of[number]
                if state == "done" and version is None and key in self._left:
                    self._give_up(key, "NoVersions", "its target keeps no versions; switch that on")
                elif state == "failed":
                    self._give_up(key, "EarlierVersionFailed", "an earlier version of it has failed; retry that one")

    def _give_up(self, key: str, code: str, why: str) -> None:
        for one in self._left.pop(key, ()):
            text = f"Version {one.version_id} of {one.source_key} was not copied: {why}."
            self._ends.append(End(one.id, "failed", failure=StorageError(text, "object", code, "plan")))

    def finished(self) -> bool:
        with self._lock:
            self._advance()
            if self._ends or self._cancelled:
                return False
            return self._job is None or (self._job.finished() and self._job.failure() is not None)

    def failure(self) -> jobs.Failure | None:
        with self._lock:
            return None if self._job is None else self._job.failure()

    def notes(self) -> Sequence[str]:
        with self._lock:
            return [*self._notes, *(() if self._job is None else self._job.notes())]

    def progress(self) -> jobs.Progress:
        with self._lock:
            now = None if self._job is None else self._job.progress()
            sums = [self._sums[name] + (0 if now is None else int(getattr(now, name))) for name in _COUNTS]
        found = _sum(sums)
        if now is None:
            return found
        return replace(found, bytes_in_progress=now.bytes_in_progress, in_flight=now.in_flight, slowest=now.slowest)

    def acknowledge(self, ids: list[int], /) -> None:
        with self._lock:
            if self._job is not None:
                self._job.acknowledge(ids)

    def admit(self, epoch: int, /) -> None:
        with self._lock:
            self._epoch = epoch
            if self._job is not None:
                self._job.admit(epoch)

    def disown(self) -> None:
        with self._lock:
            self._stopped = True
            if self._job is not None:
                self._job.disown()

    def cancel(self, abort_uploads: bool, /) -> None:
        with self._lock:
            self._stopped = True
            self._tells_cancelled = abort_uploads
            if self._job is not None:
                self._job.cancel(abort_uploads)
