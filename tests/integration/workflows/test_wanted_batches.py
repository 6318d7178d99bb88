"""A worker takes a further batch when requests of it are unused, or soon will be: else another worker may take it."""

from __future__ import annotations

from typing import cast

import pytest

from seqferry.db.batches import BatchRun
from seqferry.engine.executor import Counts, Job
from seqferry.service.service import Service
from seqferry.workflows import runtime as runtime_module
from seqferry.workflows.runtime import Runtime

SECOND = 1.0


class _Job:
    """A job of which only the progress is read."""

    def __init__(self, done: int, in_flight: float) -> None:
        self._progress = Counts(objects_done=done, in_flight=int(in_flight))

    def progress(self) -> Counts:
        return self._progress


@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("objects_left", "used", "waited", "wanted"),
    [
        (0, 0.0, 0 * SECOND, True),  # nothing runs
        (10, 1.0, 0 * SECOND, True),  # the end is near
        (100_000, 1.0, 0 * SECOND, False),
        (100_000, 1.0, 60 * SECOND, False),  # all requests are used, however long it takes
        (100_000, 0.1, 0 * SECOND, False),  # it may have just begun
        (100_000, 0.1, 60 * SECOND, True),  # a few slow objects, or a service that allows few requests
    ],
)
def test_a_further_batch_is_wanted_for_unused_requests(
    service: Service, monkeypatch: pytest.MonkeyPatch, objects_left: int, used: float, waited: float, wanted: bool
) -> None:
    folder = service.settings.state_dir
    runtime = Runtime(service.database, service.queue, service.engine, folder, "executor", "session")
    monkeypatch.setattr(runtime_module, "_LONGEST_SECONDS", 30 * SECOND - waited)
    if objects_left == 0:
        assert runtime.wants_batch(0.0)
        return
    run = BatchRun("t", 0, 1, 0, 0.0, target_absent=True, stopping=False, spec="{}")
    job = cast("Job", _Job(done=5, in_flight=used * service.engine.max_requests))

    with runtime.running_batch(run, job, epoch=None, sizes=[0] * (objects_left + 5)):
        assert runtime.wants_batch(0.0) == wanted
