"""One executor of jobs, for all that copies, removes or compares objects, on record or not.

A job is the work on some objects while it runs, as ``engine.Job``. ``JobSequence`` makes one of several, each begun
when there is room for it. ``execute`` carries what jobs tell to a recorder.

Invariant: each object of a job ends once, in ``Events``, unless the job is cancelled without cleaning up.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, Protocol

from seqferry.model.frozen import frozen
from seqferry.model.models import RESULT_COLUMNS

_LOOK_SECONDS: Final = 0.05
"""Time limit of a wait for one job while others go on beside it."""

_SLOWEST: Final = 5
"""Objects under way that the progress of several jobs names."""


class UploadRecord(Protocol):
    """An upload, recorded before its first part is sent, and before it is completed with the ``ETag`` that it makes."""

    @property
    def id(self) -> int: ...
    @property
    def upload_id(self) -> str: ...
    @property
    def part_size(self) -> int: ...
    @property
    def etag(self) -> str | None: ...


class Events(Protocol):
    """Events of a job since the last call of ``Job.wait``."""

    @property
    def uploads(self) -> Sequence[UploadRecord]: ...
    @property
    def cancelled(self) -> Sequence[int]:
        """Ids of objects that ended because the job was cancelled."""
        ...

    @property
    def ended(self) -> int:
        """Number of objects that ended in any other way."""
        ...

    def results(self) -> Mapping[str, str]:
        """Results of these objects: the inside of a JSON list for each of ``RESULT_COLUMNS``. Empty when none ended."""
        ...


class ObjectProgress(Protocol):
    """An object that is under way."""

    @property
    def key(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def bytes_done(self) -> int: ...
    @property
    def seconds(self) -> float: ...


class Progress(Protocol):
    """Counts of a job so far."""

    @property
    def bytes_done(self) -> int: ...
    @property
    def objects_done(self) -> int: ...
    @property
    def objects_failed(self) -> int: ...
    @property
    def objects_skipped(self) -> int: ...
    @property
    def requests(self) -> int: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def retries(self) -> int: ...
    @property
    def throttled(self) -> int: ...
    @property
    def slowest(self) -> Sequence[ObjectProgress]: ...


class Failure(Protocol):
    """Reason why a job stopped as a whole, or why a request about one object failed while others went on."""

    @property
    def error_class(self) -> str: ...
    @property
    def error_code(self) -> str: ...
    @property
    def operation(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def job_wide(self) -> bool: ...


class Job(Protocol):
    """The work on some objects while it runs. ``engine.Job`` is one. Orders come from other threads."""

    def wait(self, timeout: float, /) -> Events: ...
    def finished(self) -> bool: ...
    def failure(self) -> Failure | None: ...
    def notes(self) -> Sequence[str]: ...
    def progress(self) -> Progress: ...
    def acknowledge(self, ids: list[int], /) -> None: ...
    def admit(self, epoch: int, /) -> None: ...
    def disown(self) -> None: ...
    def cancel(self, abort_uploads: bool, /) -> None: ...


Recorder = Callable[[Events], Sequence[int]]
"""Keeps events, and returns the ids of objects whose uploads are on record now: they may go on."""


def record_nothing(events: Events) -> Sequence[int]:
    """Record nothing: an upload is not resumed by another process, so that its parts may be sent."""
    return [one.id for one in events.uploads]


def execute(
    job: Job,
    seconds: Callable[[], float],
    record: Recorder = record_nothing,
    *,
    until: Callable[[], bool] = lambda: False,
) -> None:
    """Carry what the job tells to its record until it has finished, or ``until`` says so.

    Args:
        seconds: the longest time of the next wait.
    """
    while not job.finished() and not until():
        if begun := record(job.wait(seconds())):
            job.acknowledge(list(begun))


def rows(events: Events) -> Iterator[dict[str, Any]]:
    """The results of objects that have ended, by the names of ``RESULT_COLUMNS``."""
    if not events.ended:
        return
    results = events.results()
    columns = [json.loads(f"[{results[name]}]", strict=False) for name in RESULT_COLUMNS]
    for values in zip(*columns, strict=True):
        yield dict(zip(RESULT_COLUMNS, values, strict=True))


def collect(job: Job, seconds: Callable[[], float]) -> dict[int, dict[str, Any]]:
    """Carry out a job that is not on record; the results of its objects by their ids. ``seconds`` may raise to stop."""
    found: dict[int, dict[str, Any]] = {}

    def record(events: Events) -> Sequence[int]:
        found.update((row["id"], row) for row in rows(events))
        return record_nothing(events)

    execute(job, seconds, record)
    return found


def abort(job: Job, *, seconds: float) -> None:
    """End a job with its open uploads aborted; what it still tells is not wanted. Waits for it at most so long."""
    deadline = time.monotonic() + seconds
    job.cancel(True)
    while not job.finished() and (left := deadline - time.monotonic()) > 0:
        job.wait(left)


@frozen
class Counts:
    """See ``Progress``."""

    bytes_done: int = 0
    objects_done: int = 0
    objects_failed: int = 0
    objects_skipped: int = 0
    requests: int = 0
    in_flight: int = 0
    retries: int = 0
    throttled: int = 0
    slowest: Sequence[ObjectProgress] = ()


_SUMMED: Final = tuple(one.name for one in fields(Counts) if one.name != "slowest")


def _sum(readings: Sequence[Progress]) -> Counts:
    counts = {name: sum(int(getattr(one, name)) for one in readings) for name in _SUMMED}
    slowest = sorted((one for each in readings for one in each.slowest), key=lambda one: -one.seconds)
    return Counts(**counts, slowest=slowest[:_SLOWEST])


class _JoinedEvents:
    """See ``Events``."""

    def __init__(self, events: Sequence[Events]) -> None:
        self.uploads: Sequence[UploadRecord] = [one for each in events for one in each.uploads]
        self.cancelled: Sequence[int] = [one for each in events for one in each.cancelled]
        self.ended = sum(each.ended for each in events)
        self._events = events

    def results(self) -> dict[str, str]:
        results = [each.results() for each in self._events if each.ended]
        return {name: ",".join(one[name] for one in results) for name in RESULT_COLUMNS} if results else {}


class JobPlan:
    """The jobs of a sequence; as it stands here, none."""

    def next(self, epoch: int | None, /) -> Job | None:
        """Begin the next job; None if there is none now. ``epoch`` is that of the lease to write."""
        del epoch

    def has_more(self) -> bool:
        """False when ``next`` will begin no other job."""
        return False


class JobSequence:
    """Several jobs as one: see ``Job``. The first begins immediately, others when there is room and ``wait`` is called.

    At most ``max_running`` run. After a failure of a whole job no other begins.
    """

    def __init__(self, plan: JobPlan, *, max_running: int, epoch: int | None = None) -> None:
        self._plan = plan
        self._max_running = max_running
        self._epoch = epoch
        self._lock = threading.RLock()
        self._running: list[Job] = []
        self._of_upload: dict[int, Job] = {}
        self._finished = Counts()
        self._notes: list[str] = []
        self._failure: Failure | None = None
        self._stopped = False
        self._begin(1)

    @classmethod
    def of(cls, jobs: Sequence[Job]) -> JobSequence:
        """Of jobs that have begun."""
        made = cls(JobPlan(), max_running=0)
        made._running += jobs
        return made

    def _advance(self) -> None:
        """Part with jobs that have finished, and begin others."""
        with self._lock:
            for job in [one for one in self._running if one.finished()]:
                self._running.remove(job)
                self._failure = self._failure or job.failure()
                self._finished = _sum([self._finished, job.progress()])
                self._notes += job.notes()
            if self._failure is None and not self._stopped:
                self._begin(self._max_running)

    def _begin(self, most: int) -> None:
        """Begin jobs until so many run, or the plan has none yet."""
        while len(self._running) < min(most, self._max_running):
            job = self._plan.next(self._epoch)
            if job is None:
                break
            self._running.append(job)

    def wait(self, timeout: float, /) -> Events:
        deadline = time.monotonic() + timeout
        found: list[Events] = []
        while True:
            self._advance()
            with self._lock:
                running = list(self._running)
                begins = self._begins_others()
            left = deadline - time.monotonic()
            if len(running) == 1 and not begins:
                self._take(running[0], max(left, 0.0), found)
            else:
                for job in running:
                    self._take(job, 0.0, found)
                if running and left > 0 and not (found or begins):
                    self._take(running[0], min(_LOOK_SECONDS, left), found)
            if found or left <= 0 or self.finished():
                return found[0] if len(found) == 1 else _JoinedEvents(found)

    def _begins_others(self) -> bool:
        """True when there is room for another job, which the plan has not begun yet."""
        has_room = len(self._running) < self._max_running and self._failure is None and not self._stopped
        return has_room and self._plan.has_more()

    def _take(self, job: Job, seconds: float, found: list[Events]) -> None:
        """Add the events of the job to ``found``, if it has any."""
        events = job.wait(seconds)
        if not (events.ended or events.uploads or events.cancelled):
            return
        with self._lock:
            self._of_upload |= {one.id: job for one in events.uploads}
        found.append(events)

    def finished(self) -> bool:
        with self._lock:
            self._advance()
            if self._running:
                return False
            return self._failure is not None or self._stopped or not self._plan.has_more()

    def failure(self) -> Failure | None:
        """Reason why a job that has finished stopped as a whole."""
        return self._failure

    def notes(self) -> Sequence[str]:
        with self._lock:
            return list(dict.fromkeys([*self._notes, *(note for job in self._running for note in job.notes())]))

    def progress(self) -> Counts:
        with self._lock:
            return _sum([self._finished, *(job.progress() for job in self._running)])

    def acknowledge(self, ids: list[int], /) -> None:
        own: dict[int, tuple[Job, list[int]]] = {}
        with self._lock:
            for one in ids:
                job = self._of_upload.pop(one, None)
                if job is not None:
                    own.setdefault(id(job), (job, []))[1].append(one)
        for job, found in own.values():
            job.acknowledge(found)

    def admit(self, epoch: int, /) -> None:
        with self._lock:
            self._epoch = epoch
            for job in self._running:
                job.admit(epoch)

    def disown(self) -> None:
        with self._lock:
            self._stopped = True
            for job in self._running:
                job.disown()

    def cancel(self, abort_uploads: bool, /) -> None:
        with self._lock:
            self._stopped = True
            for job in self._running:
                job.cancel(abort_uploads)
