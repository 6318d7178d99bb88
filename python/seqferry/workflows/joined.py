"""Several jobs as one: a batch whose objects are done by jobs of different kinds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from seqferry.model.models import RESULT_COLUMNS
from seqferry.workflows.jobs import CreatedUpload, Events, Failure, Job, ObjectProgress

_LOOK_SECONDS: Final = 0.05
"""Time limit of a wait for one job while others go on beside it."""


class _JoinedEvents:
    """See ``workflows.jobs.Events``."""

    def __init__(self, events: Sequence[Events]) -> None:
        self.begun: Sequence[CreatedUpload] = [one for each in events for one in each.begun]
        self.cancelled: Sequence[int] = [one for each in events for one in each.cancelled]
        self.ended = sum(each.ended for each in events)
        self._events = events

    def results(self) -> dict[str, str]:
        told = [each.results() for each in self._events if each.ended]
        return {name: ",".join(one[name] for one in told) for name in RESULT_COLUMNS} if told else {}


@dataclass(frozen=True, slots=True)
class _Sums:
    """See ``workflows.jobs.Progress``."""

    bytes_done: int
    bytes_in_progress: int
    objects_done: int
    objects_failed: int
    objects_skipped: int
    requests: int
    in_flight: int
    retries: int
    throttled: int
    slowest: Sequence[ObjectProgress]


_COUNTS: Final = tuple(name for name in _Sums.__slots__ if name != "slowest")


class JoinedJob:
    """See ``workflows.jobs.Job``. ``jobs`` come with the ids of their objects."""

    def __init__(self, jobs: Iterable[tuple[Job, Iterable[int]]]) -> None:
        pairs = [(job, frozenset(ids)) for job, ids in jobs]
        self._jobs = [job for job, _ in pairs]
        self._of = {one: job for job, ids in pairs for one in ids}

    def wait(self, timeout: float, /) -> _JoinedEvents:
        deadline = time.monotonic() + timeout
        while True:
            events = [job.wait(0.0) for job in self._jobs if not job.finished()]
            told = [each for each in events if each.ended or each.begun or each.cancelled]
            left = deadline - time.monotonic()
            if told or left <= 0 or self.finished():
                return _JoinedEvents(told)
            first = next((job for job in self._jobs if not job.finished()), None)
            if first is not None:
                event = first.wait(min(_LOOK_SECONDS, left))
                if event.ended or event.begun or event.cancelled:
                    return _JoinedEvents([event])

    def finished(self) -> bool:
        return all(job.finished() for job in self._jobs)

    def failure(self) -> Failure | None:
        return next((failure for job in self._jobs if (failure := job.failure()) is not None), None)

    def notes(self) -> Sequence[str]:
        return list(dict.fromkeys(note for job in self._jobs for note in job.notes()))

    def progress(self) -> _Sums:
        readings = [job.progress() for job in self._jobs]
        counts = {name: sum(getattr(one, name) for one in readings) for name in _COUNTS}
        slowest = sorted((one for each in readings for one in each.slowest), key=lambda one: -one.seconds)
        return _Sums(**counts, slowest=slowest[:5])

    def acknowledge(self, ids: list[int], /) -> None:
        for job in self._jobs:
            if own := [one for one in ids if self._of[one] is job]:
                job.acknowledge(own)

    def admit(self, epoch: int, /) -> None:
        for job in self._jobs:
            job.admit(epoch)

    def disown(self) -> None:
        for job in self._jobs:
            job.disown()

    def cancel(self, abort_uploads: bool, /) -> None:
        for job in self._jobs:
            job.cancel(abort_uploads)
