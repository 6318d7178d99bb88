"""Several jobs as one: what begins when, what is told, and what becomes of the rest after a stop or a failure."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from seqferry.engine.executor import (
    Counts,
    Events,
    Failure,
    Job,
    JobPlan,
    JobSequence,
    UploadRecord,
    abort,
    collect,
    execute,
    record_nothing,
    rows,
)
from seqferry.model.models import RESULT_COLUMNS


class _Ends:
    """Objects of a job that have ended."""

    uploads: Sequence[UploadRecord] = ()
    cancelled: Sequence[int] = ()

    def __init__(self, ids: Sequence[int], state: str) -> None:
        self._ids = ids
        self._state = state
        self.ended = len(ids)

    def results(self) -> dict[str, str]:
        told = {"id": ",".join(map(str, self._ids)), "state": ",".join([f'"{self._state}"'] * self.ended)}
        return {name: told.get(name, ",".join(["null"] * self.ended)) for name in RESULT_COLUMNS} if self._ids else {}


class _Job:
    """A job whose objects of one byte end when ``gate`` is set."""

    def __init__(self, ids: Sequence[int], gate: threading.Event | None, failure: Failure | None) -> None:
        self._ids = list(ids)
        self._gate = gate
        self._failure = failure
        self._ended = 0

    def wait(self, timeout: float, /) -> Events:
        if self._gate is not None and not self._gate.wait(timeout):
            return _Ends((), "done")
        ids, self._ids = self._ids, []
        self._ended += len(ids)
        return _Ends(ids, "done" if self._failure is None else "failed")

    def finished(self) -> bool:
        return not self._ids

    def failure(self) -> Failure | None:
        return self._failure if self._ended else None

    def notes(self) -> Sequence[str]:
        return ()

    def progress(self) -> Counts:
        return Counts(objects_done=self._ended, bytes_done=self._ended)

    def acknowledge(self, ids: list[int], /) -> None: ...
    def admit(self, epoch: int, /) -> None: ...
    def disown(self) -> None: ...
    def cancel(self, abort_uploads: bool, /) -> None: ...


@dataclass(frozen=True)
class _Failure:
    error_class: str
    error_code: str
    operation: str
    message: str
    job_wide: bool = True


def _job(ids: Sequence[int], *, gate: threading.Event | None = None, failure: Failure | None = None) -> Job:
    return _Job(ids, gate, failure)


@dataclass
class _Plan(JobPlan):
    """Jobs of these objects; None stands for a time at which there is none yet."""

    batches: list[Sequence[int] | None]
    gate: threading.Event | None = None
    failing: Failure | None = None
    begun: list[Sequence[int]] = field(default_factory=list[Sequence[int]])

    def next(self, epoch: int | None, /) -> Job | None:
        batch = self.batches.pop(0) if self.batches else None
        if batch is None:
            return None
        self.begun.append(batch)
        return _job(batch, gate=self.gate, failure=self.failing)

    def has_more(self) -> bool:
        return bool(self.batches)


def _ids(job: Job) -> list[int]:
    found: list[int] = []

    def record(events: Events) -> Sequence[int]:
        found.extend(row["id"] for row in rows(events))
        return record_nothing(events)

    execute(job, lambda: 0.5, record)
    return found


def test_all_objects_of_all_jobs_end_once() -> None:
    plan = _Plan([[1, 2], None, [3], None, None, [4, 5], [6]])

    sequence = JobSequence(plan, max_running=2)

    assert sorted(_ids(sequence)) == [1, 2, 3, 4, 5, 6]
    assert sequence.finished()
    assert sequence.failure() is None
    assert sequence.progress().objects_done == 6
    assert sequence.progress().bytes_done == 6


def test_no_more_jobs_run_at_once_than_may() -> None:
    gate = threading.Event()
    plan = _Plan([[1], [2], [3]], gate)
    sequence = JobSequence(plan, max_running=2)

    sequence.wait(0.0)

    assert plan.begun == [[1], [2]]
    gate.set()
    assert sorted(_ids(sequence)) == [1, 2, 3]


def test_jobs_that_have_begun_are_one() -> None:
    sequence = JobSequence.of([_job([1, 2]), _job([3])])

    assert sorted(_ids(sequence)) == [1, 2, 3]


def test_an_empty_sequence_has_finished() -> None:
    assert JobSequence.of([]).finished()
    assert JobSequence(_Plan([]), max_running=4).finished()


def test_after_a_failure_of_a_whole_job_no_other_begins() -> None:
    failing = _Failure("person", "NoSuchBucket", "CopyObject", "No such bucket.")
    plan = _Plan([[1], [2]], failing=failing)
    sequence = JobSequence(plan, max_running=1)

    _ids(sequence)

    assert plan.begun == [[1]]
    failure: Failure | None = sequence.failure()
    assert failure is not None
    assert (failure.error_code, failure.operation) == ("NoSuchBucket", "CopyObject")


def test_a_stopped_sequence_begins_no_other_job_and_ends() -> None:
    gate = threading.Event()
    plan = _Plan([[1], [2]], gate)
    sequence = JobSequence(plan, max_running=1)

    sequence.cancel(False)
    gate.set()
    abort(sequence, seconds=30)

    assert sequence.finished()
    assert plan.begun == [[1]]


def test_execution_ends_early_when_it_is_told_to() -> None:
    gate = threading.Event()
    sequence = JobSequence(_Plan([[1]], gate), max_running=1)
    looks: list[float] = []

    execute(sequence, lambda: looks.append(0.0) or 0.0, until=lambda: len(looks) == 3)

    assert len(looks) == 3
    assert not sequence.finished()
    gate.set()
    assert _ids(sequence) == [1]


def test_a_job_that_is_not_on_record_is_collected() -> None:
    found = collect(_job([1, 2]), lambda: 0.5)

    assert {number: row["state"] for number, row in found.items()} == {1: "done", 2: "done"}
