"""Orders to running batches."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import pytest
import sqlalchemy as sa
from control import ANY_SPEC

from seqferry.db import transfers
from seqferry.db.batches import BatchRun
from seqferry.service.service import Service
from seqferry.spec import stored
from seqferry.workflows.job_control import control_jobs
from seqferry.workflows.operations import BatchWork, work_of
from seqferry.workflows.running_batch import RunningBatch
from seqferry.workflows.runtime import Runtime


@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)
@pytest.mark.parametrize("ends", [True, False])
def test_a_batch_that_ends_while_the_database_is_asked_is_not_taken_for_lost(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, ends: bool
) -> None:
    runtime = Runtime(
        service.database, service.queue, service.engine, service.settings.state_dir, "executor", "session"
    )
    one = service.submit(ANY_SPEC, actor="ada")
    with service.database.read() as connection:
        row = transfers.row_of(connection, one)
    assert row is not None
    spec = stored.read(row.spec)
    run = BatchRun(one, 0, 1, 0, 0.0, target_absent=False, stopping=False, spec="")
    work = BatchWork(one, [], since=0.0, target_was_empty=False, resumed=True, only_clean=True, epoch=None)
    job = work_of(spec).start(runtime, spec, work)

    with ExitStack() as batch:
        running = batch.enter_context(runtime.running_batch(run, job, epoch=None))

        def find_lost(_connection: sa.Connection, asked: Sequence[RunningBatch]) -> list[RunningBatch]:
            if ends:
                batch.close()  # its workflow has ended by now, and is not found among those of this worker
            return list(asked)

        monkeypatch.setattr(runtime, "find_lost", find_lost)
        control_jobs(runtime)

    said = [record.getMessage() for record in caplog.records if "taken over" in record.getMessage()]
    assert (running.suspended, len(said)) == (not ends, 0 if ends else 1)
