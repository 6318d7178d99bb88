"""The product's statements, held against the model of ownership: random walks, each step done on both."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterator
from typing import Any, Final

import pytest
import sqlalchemy as sa
from control import ANY_SPEC, add_batch, planned, results

from seqferry.db import batches, submissions, worker_rows
from seqferry.db.batches import BatchRun
from seqferry.db.database import Database
from seqferry.dbos import ownership
from seqferry.model import names
from seqferry.model.workers import Process
from seqferry.service.service import Service
from support.ownership import OBJECTS, Rules, State, Step, start, steps

pytestmark = [pytest.mark.postgres, pytest.mark.parametrize("settings", ["postgres"], indirect=True)]

_SECONDS: Final = 4.0
_STEPS: Final = 40
_WORKERS: Final = 2


def _process(worker: str) -> Process:
    return Process(worker, "worker", "host", 1, "1", "1", "1")


class _Product:
    """One batch and some workers as rows; a step of the model is the product's own statements."""

    def __init__(self, service: Service) -> None:
        self._database: Final[Database] = service.database
        self._walk = uuid.uuid4().hex[:12]
        self._transfer_id = str(uuid.uuid4())
        self._workflow_id = names.batch_workflow_id(self._transfer_id, 0)
        self._workers = [f"{self._walk}-{number}" for number in range(_WORKERS)]
        self._runs: list[BatchRun | None] = [None] * _WORKERS
        self._seen: list[ownership.LastBeat | None] = [None] * _WORKERS
        with self._database.write() as connection:
            submissions.insert(
                connection, ANY_SPEC, transfer_id=self._transfer_id, at=time.time(), actor="ada", idempotency_key=None
            )
            add_batch(connection, self._transfer_id, [planned(f"k{which}") for which in range(OBJECTS)])
            service.queue.enqueue_batch(connection, self._transfer_id, None, 0, 1)
            for worker in self._workers:
                worker_rows.beat(connection, _process(worker))
            rows = connection.execute(
                sa.text("select id from object where transfer_id = :of order by id"), {"of": self._transfer_id}
            )
            self._rows = list(rows.scalars())

    def do(self, step: Step, before: State) -> None:
        act = getattr(self, f"_{step.action}", None)
        if act is not None:  # the others are the world's, or the engine's
            with self._database.write() as connection:
                act(connection, step, before)

    def _beat(self, connection: sa.Connection, step: Step, before: State) -> None:
        if not before.workers[step.worker].lease:
            ownership.exclude_reapers(connection)
        worker_rows.beat(connection, _process(self._workers[step.worker]))

    def _stale(self, connection: sa.Connection, step: Step, _before: State) -> None:
        self._seen[step.worker] = ownership.read_beats_and_work(connection, [])[0][self._workers[step.worker]]

    def _reap(self, connection: sa.Connection, step: Step, _before: State) -> None:
        ownership.reap(connection, {self._workers[step.worker]: self._seen[step.worker]})

    def _claim(self, connection: sa.Connection, step: Step, _before: State) -> None:
        # What the library does when it takes work off the queue.
        connection.execute(
            sa.text("update dbos.workflow_status set status = 'PENDING', executor_id = :me where workflow_uuid = :it"),
            {"me": self._workers[step.worker], "it": self._workflow_id},
        )

    def _begin(self, connection: sa.Connection, step: Step, before: State) -> None:
        attempt = connection.begin_nested()
        run = batches.begin_batch(connection, self._transfer_id, 0, time.time())
        if run is None or not ownership.find_owned(connection, self._workers[step.worker], [self._workflow_id]):
            attempt.rollback()
            assert before.ended or before.holder != step.worker
            return
        attempt.commit()
        self._runs[step.worker] = run

    def _admit(self, connection: sa.Connection, step: Step, before: State) -> None:
        run = self._runs[step.worker]
        assert run is not None
        lost = bool(batches.find_superseded(connection, [run]))
        held = ownership.find_owned(connection, self._workers[step.worker], [self._workflow_id])
        is_its_own = before.workers[step.worker].run == before.runs and before.holder == step.worker
        assert (not lost and bool(held)) == is_its_own

    def _record(self, connection: sa.Connection, step: Step, before: State) -> None:
        run = self._runs[step.worker]
        assert run is not None
        columns = results({"id": self._rows[step.object], "state": "done"})
        owned = batches.record(connection, [(run, columns)])
        assert (run in owned) == (before.workers[step.worker].run == before.runs)

    def _finish(self, connection: sa.Connection, step: Step, before: State) -> None:
        run = self._runs[step.worker]
        assert run is not None
        closed = batches.close(connection, run, time.time())
        assert closed == (before.workers[step.worker].run == before.runs)
        if closed and before.holder == step.worker:
            connection.execute(
                sa.text("update dbos.workflow_status set status = 'SUCCESS' where workflow_uuid = :it"),
                {"it": self._workflow_id},
            )

    def facts(self) -> dict[str, Any]:
        with self._database.read() as connection:
            batch = connection.execute(
                sa.text("select runs, state, done from batch where transfer_id = :of"), {"of": self._transfer_id}
            ).one()
            work = connection.execute(
                sa.text("select status, executor_id from dbos.workflow_status where workflow_uuid = :it"),
                {"it": self._workflow_id},
            ).one()
            signs = ownership.read_beats_and_work(connection, [])[0]
        return {
            "runs": batch.runs,
            "ended": batch.state == "ended",
            "recorded": batch.done,
            "holder": self._workers.index(work.executor_id) if work.status == "PENDING" else None,
            "beaten": [signs.get(worker) is not None for worker in self._workers],
        }


def _facts(state: State) -> dict[str, Any]:
    return {
        "runs": state.runs,
        "ended": state.ended,
        "recorded": len(state.recorded),
        "holder": state.holder,
        "beaten": [worker.beaten for worker in state.workers],
    }


def _walk(rng: random.Random) -> Iterator[tuple[Step, State, State]]:
    state = start(_WORKERS)
    for _ in range(_STEPS):
        step, after = rng.choice(list(steps(state, Rules())))
        yield step, state, after
        state = after


def test_the_statements_do_what_the_model_says(service: Service, rng: random.Random) -> None:
    until, done = time.monotonic() + _SECONDS, 0
    seen = dict.fromkeys(("reap", "admit", "record", "finish"), 0)
    while time.monotonic() < until or not all(seen.values()):
        product = _Product(service)
        way: list[Step] = []
        for step, before, after in _walk(rng):
            way.append(step)
            product.do(step, before)
            assert product.facts() == _facts(after), way
            seen[step.action] = seen.get(step.action, 0) + 1
            done += 1
    assert done > 0
