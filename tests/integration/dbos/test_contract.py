"""What ``seqferry.dbos`` relies on beyond the documentation of DBOS holds in the version that is pinned."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final

import pytest
import sqlalchemy as sa
from control import ANY_SPEC
from dbos import _queue, _scheduler, _utils, _workflow_commands
from dbos._sys_db import SystemDatabase, WorkflowStatusString

from seqferry.dbos import ownership
from seqferry.dbos.polling import _Waits
from seqferry.dbos.queue import DEAD_STATES, ENDED_STATE, INTERNAL_QUEUE, table_of
from seqferry.model import names
from seqferry.service.service import Service
from seqferry.workflows.worker import Worker
from support.waiting import eventually

pytestmark = pytest.mark.every_database  # its tables and statements are of each

_OF_ROW: Final = {"workflow_uuid", "inputs", "creator_xid", "created_at", "updated_at", "completed_at", "executor_id"}
"""Columns that differ between two workflows, or between two times."""


class _Batches:
    """Batches of one transfer on the queue, as rows of DBOS."""

    def __init__(self, service: Service, count: int) -> None:
        self.service = service
        self.transfer_id = service.submit(ANY_SPEC, actor="ada")
        self.ids = [names.batch_workflow_id(self.transfer_id, number) for number in range(count)]
        for number in range(count):
            self.enqueue(number)

    def enqueue(self, number: int, priority: int = 7, lane: str | None = None) -> None:
        with self.service.database.write() as connection:
            self.service.queue.enqueue_batch(connection, self.transfer_id, lane, number, priority)

    @property
    def library(self) -> SystemDatabase:
        return self.service.queue._client()._sys_db

    def set(self, **values: Any) -> None:
        changed = ", ".join(f"{name} = :{name}" for name in values)
        with self.service.database.write() as connection:
            statement = sa.text(f"update {table_of(connection)} set {changed} where workflow_uuid like :of")
            assert connection.execute(statement, {**values, "of": f"{self.transfer_id}:%"}).rowcount == len(self.ids)

    def claim(self, *, worker: str) -> list[str]:
        """What a worker of DBOS does when it polls the queue."""
        self.service.queue.register(names.QUEUE_BATCHES, 8, 1.0)
        queue = self.service.queue._client().retrieve_queue(names.QUEUE_BATCHES)
        assert queue is not None
        return self.library.start_queued_workflows(queue, worker, names.WORKFLOW_SHAPE, None)[0]

    def rows(self) -> list[dict[str, Any]]:
        """Rows of the batches, without what differs anyway."""
        with self.service.database.read() as connection:
            query = sa.text(f"select * from {table_of(connection)} where workflow_uuid like :of order by workflow_uuid")
            found = connection.execute(query, {"of": f"{self.transfer_id}:%"}).mappings().all()
        return [{name: value for name, value in row.items() if name not in _OF_ROW} for row in found]


def test_the_version_is_the_one_that_this_is_true_of() -> None:
    assert version("dbos").startswith("3.4."), "read the new source, and delete each workaround that has its verb now"


def test_work_is_claimed_by_priority_and_then_by_age(service: Service) -> None:
    batches = _Batches(service, 0)
    for number, priority in enumerate((9, 3, 9, 5)):
        batches.enqueue(number, priority)

    claimed = batches.claim(worker="me")

    assert claimed == [names.batch_workflow_id(batches.transfer_id, number) for number in (1, 3, 0, 2)]


def test_what_is_queued_twice_is_there_once(service: Service) -> None:
    batches = _Batches(service, 1)
    before = batches.rows()

    batches.enqueue(0)

    assert batches.rows() == before


@pytest.mark.parametrize("queue", [names.QUEUE_BATCHES, None])
def test_a_running_workflow_goes_back_as_by_the_recovery_of_dbos(service: Service, queue: str | None) -> None:
    assert INTERNAL_QUEUE == _utils.INTERNAL_QUEUE_NAME
    batches = _Batches(service, 3)
    assert len(batches.claim(worker="dead")) == 3
    batches.set(recovery_attempts=2, queue_name=queue)

    assert batches.library.reenqueue_for_recovery(batches.ids[0], ["dead"], INTERNAL_QUEUE)
    with service.database.write() as connection:
        service.queue.requeue(connection, batches.ids[1], "another", names.QUEUE_BATCHES)
        service.queue.requeue(connection, batches.ids[1], "dead", queue or INTERNAL_QUEUE)
        if service.database.is_sqlite:
            service.queue.requeue(connection, batches.ids[2], "dead", queue or INTERNAL_QUEUE)
        else:
            assert ownership.find_owned(connection, "dead", batches.ids) == {batches.ids[2]}
            assert ownership.requeue(connection, ["dead"]) == {batches.ids[2]: "dead"}

    by_dbos, *by_us = batches.rows()
    assert by_dbos["status"] == "ENQUEUED"
    assert by_us == [by_dbos, by_dbos]


@pytest.mark.postgres
@pytest.mark.parametrize("settings", ["postgres"], indirect=True)  # several workers need it
def test_a_workflow_of_an_ended_transfer_leaves_the_queue_as_by_a_cancel_of_dbos(service: Service) -> None:
    batches = _Batches(service, 2)
    assert len(batches.claim(worker="dead")) == 2
    service.queue.cancel(batches.ids[:1])
    with service.database.write() as connection:
        connection.execute(sa.text("update transfer set ended_at = 1 where id = :id"), {"id": batches.transfer_id})
        assert ownership.requeue(connection, ["dead"]) == {}

    by_dbos, by_us = batches.rows()
    assert by_dbos["status"] == "CANCELLED"
    assert by_us == by_dbos


def test_the_states_are_those_of_dbos() -> None:
    unfinished = {"ENQUEUED", "DELAYED", "PENDING"}

    assert {state.value for state in WorkflowStatusString} == {*DEAD_STATES, ENDED_STATE, *unfinished}


def test_a_tick_has_the_name_of_its_schedule_and_is_fired_once(service: Service) -> None:
    service.queue._client()._sys_db.create_application_version(names.WORKFLOW_SHAPE)  # as the launch of a worker does
    service.queue.sync_schedules({"nightly": ("0 3 * * *", "UTC", {"schedule": "nightly"}, False)})

    for _ in range(2):
        service.queue.trigger("nightly", datetime(2026, 11, 1, 3, tzinfo=UTC))

    with service.database.read() as connection:
        query = sa.text(f"select workflow_uuid, queue_name, priority from {table_of(connection)} where name = :name")
        ticks = connection.execute(query, {"name": names.WORKFLOW_SCHEDULE}).all()
    assert ticks == [("sched-nightly-2026-11-01T03:00:00+00:00", names.QUEUE_SCHEDULES, 0)]
    assert service.queue.last_fired() == {"nightly": 0.0}


@pytest.mark.parametrize(
    "polls", [_queue, _scheduler.dynamic_scheduler_loop, _scheduler._ScheduleThread, _workflow_commands]
)
def test_threads_of_dbos_wait_only_for_their_end(polls: Any) -> None:
    source = inspect.getsource(polls)

    assert "stop_event.wait(" in source
    assert "sleep(" not in source


def test_a_launched_dbos_has_what_is_read_and_replaced(
    service: Service, start_worker: Callable[[Service], Worker]
) -> None:
    runner = start_worker(service)._dbos
    dbos = runner._dbos

    assert dbos is not None
    assert dbos._listening_queues == runner.polled_queues[:-1]
    assert dbos._listening_queues is runner._listened
    assert dbos._active_workflows_set.activeList() == []
    events = [*dbos.background_thread_stop_events, dbos._background_jobs_stop_event]
    assert len(events) >= 3  # recovery, queues and schedules; jobs
    for event in events:
        assert isinstance(event, threading.Event)
        assert isinstance(getattr(event.wait, "__self__", None), _Waits)


def test_a_queue_takes_as_many_workflows_as_its_limit_leaves(
    service: Service, start_worker: Callable[[Service], Worker]
) -> None:
    source = inspect.getsource(_queue)
    running = start_worker(service)._dbos._dbos._active_workflows_set

    # ``DbosRunner`` replaces the count, so that a worker takes a batch when it has use for it.
    assert "running = dbos._active_workflows_set.count_for_queue(queue.name)" in source
    assert running.count_for_queue.__qualname__.startswith("DbosRunner.")


def test_a_queue_that_is_listed_after_the_launch_is_polled(
    service: Service, start_worker: Callable[[Service], Worker]
) -> None:
    runner = start_worker(service)._dbos
    batches = _Batches(service, 0)
    batches.enqueue(0, lane="late")

    runner.listen(["late"], None)

    eventually(lambda: batches.rows()[0]["status"] == "SUCCESS", what="the end of work on the new queue")
