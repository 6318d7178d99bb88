"""People whose work waits on one queue get equal parts of the workers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest
import sqlalchemy as sa
from control import spec_number

from seqferry.dbos import fair_queue
from seqferry.dbos.queue import first_priority
from seqferry.service import control, schedules
from seqferry.service.service import Service
from seqferry.workflows.worker import Worker
from support.waiting import eventually

pytestmark = pytest.mark.every_database  # the order is SQL of each


class _Queue:
    """The queue of batches, and workers that take from its beginning and never ask whose turn it is."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._owners: dict[str, str] = {}
        self._transfers = 0
        self.table = "workflow_status" if service.database.is_sqlite else "dbos.workflow_status"

    def add(self, person: str, batches: int, *, priority: int = 0, lane: str | None = None) -> str:
        transfer_id = self.service.submit(spec_number(self._transfers), actor=person)
        self._transfers += 1
        self._owners[transfer_id] = person
        if priority:
            control.adjust(self.service, transfer_id, actor=person, priority=priority)
        with self.service.database.write() as connection:
            # No transfer of these is to be taken: batches alone are looked at here.
            connection.execute(sa.text(f"delete from {self.table} where workflow_uuid = :id"), {"id": transfer_id})
            for number in range(batches):
                self.service.queue.enqueue_batch(
                    connection, transfer_id, lane, number, first_priority(priority) + 20 + number % 3
                )
        return transfer_id

    def is_contended(self) -> bool:
        with self.service.database.read() as connection:
            return fair_queue.is_contended(connection)

    def share(self, slots: int) -> None:
        with self.service.database.write() as connection:
            fair_queue.rebalance(connection, slots)

    def first_of(self, transfer_id: str) -> int:
        """The first place of what waits of a transfer."""
        query = sa.text(f"select min(priority) from {self.table} where workflow_uuid like :id")
        with self.service.database.read() as connection:
            return connection.execute(query, {"id": f"{transfer_id}:%"}).scalar_one()

    def take(self, count: int) -> Counter[str]:
        """Take the first ones; returns whose they are."""
        with self.service.database.write() as connection:
            first = sa.text(
                f"select workflow_uuid from {self.table} where status = 'ENQUEUED'"
                " order by priority, created_at limit :count"
            )
            ids = list(connection.execute(first, {"count": count}).scalars())
            self._set(connection, ids, "PENDING")
        return Counter(self._owners[one.partition(":")[0]].partition("@")[0] for one in ids)

    def add_schedule(self, actor: str, number: int) -> str:
        made = schedules.add(self.service, "* * * * *", spec_number(number), actor=actor)
        self._owners[made.id] = actor
        return made.id

    def fire(self, schedule_id: str, minute: int) -> None:
        """Put a run of a schedule on the queue, as DBOS does."""
        new = f"sched-{schedule_id}-2026-11-01T00:{minute:02d}:00+00:00"
        names = {"old": f"{schedule_id}:b{minute:06d}", "new": new}
        with self.service.database.write() as connection:
            self.service.queue.enqueue_batch(connection, schedule_id, None, minute, 1)
            moved = "set workflow_uuid = :new, queue_name = 'schedules', priority = 0 where workflow_uuid = :old"
            connection.execute(sa.text(f"update {self.table} {moved}"), names)

    def take_runs(self, count: int) -> Counter[str]:
        """Take the first runs of schedules; returns whose they are."""
        with self.service.database.write() as connection:
            first = sa.text(
                f"select workflow_uuid from {self.table} where status = 'ENQUEUED' and queue_name = 'schedules'"
                " order by priority, created_at limit :count"
            )
            ids = list(connection.execute(first, {"count": count}).scalars())
            self._set(connection, ids, "SUCCESS")
        return Counter(re.split(" from |@", self._owners[one.removeprefix("sched-")[:36]])[0] for one in ids)

    def end_all(self) -> None:
        with self.service.database.write() as connection:
            connection.execute(sa.text(f"update {self.table} set status = 'SUCCESS' where status = 'PENDING'"))

    def _set(self, connection: sa.Connection, ids: list[str], status: str) -> None:
        statement = sa.text(f"update {self.table} set status = :status where workflow_uuid = :id")
        for one in ids:
            connection.execute(statement, {"status": status, "id": one})


@pytest.fixture
def queue(service: Service) -> _Queue:
    return _Queue(service)


def test_one_who_comes_later_does_not_wait_for_all_of_those_before(queue: _Queue) -> None:
    queue.add("ada", 40)
    queue.add("bob", 5)

    assert queue.is_contended()
    queue.share(8)
    assert queue.take(8) == {"ada": 4, "bob": 4}
    queue.end_all()
    queue.share(8)
    assert queue.take(8) == {"ada": 7, "bob": 1}


def test_who_has_more_under_way_waits_for_the_others(queue: _Queue) -> None:
    queue.add("ada", 40)
    assert queue.take(8) == {"ada": 8}
    queue.add("bob", 20)
    queue.add("eve", 20)

    queue.share(8)
    taken = queue.take(8)

    assert taken == {"bob": 4, "eve": 4}


def test_parts_are_equal_over_time(queue: _Queue) -> None:
    queue.add("ada@host1", 60)
    queue.add("ada@host2 by schedule nightly", 60)
    queue.add("bob@host1", 60)
    queue.add("eve@host1", 60)

    taken = Counter[str]()
    for _ in range(15):
        queue.share(12)
        taken += queue.take(6)
        taken += queue.take(6)
        queue.end_all()

    assert taken == {"ada": 60, "bob": 60, "eve": 60}


def test_a_token_that_several_addresses_use_is_one_person(queue: _Queue) -> None:
    queue.add("http core from 10.1.2.3", 20)
    queue.add("http core from 10.1.2.4 by schedule nightly", 20)
    queue.add("http vendor from 10.1.2.3", 20)

    queue.share(8)

    taken = queue.take(8)
    assert taken["http vendor from 10.1.2.3"] == 4, taken


def test_a_higher_priority_goes_first_and_sizes_keep_their_order_for_each(queue: _Queue) -> None:
    queue.add("ada", 10)
    queue.add("bob", 10)
    eve = queue.add("eve", 3, priority=1)

    queue.share(4)
    assert queue.take(3) == {"eve": 3}
    assert queue.take(4) == {"ada": 2, "bob": 2}
    with queue.service.database.read() as connection:
        numbers = connection.execute(
            sa.text(f"select workflow_uuid from {queue.table} where status = 'PENDING'")
        ).scalars()
        taken = [int(number) for owner, _, number in (one.partition(":b") for one in numbers) if owner != eve]
    # Batches 0, 3, 6 and 9 of each have the biggest objects.
    assert len(taken) == 4
    assert all(number % 3 == 0 for number in taken), taken


def test_the_first_ones_go_in_turn_however_few_are_taken(queue: _Queue) -> None:
    queue.add("ada", 40)
    queue.add("bob", 40)
    taken: list[str] = []

    for _ in range(10):
        queue.share(64)
        taken += queue.take(1)

    assert [Counter(taken[: number + 1]) for number in range(1, 10, 2)] == [
        {"ada": number, "bob": number} for number in range(1, 6)
    ]


def test_one_person_alone_and_people_of_different_priorities_are_in_nobodys_way(queue: _Queue) -> None:
    queue.add("ada", 10)
    queue.add("ada", 10)
    queue.add("bob", 10, priority=1)

    assert not queue.is_contended()
    queue.share(8)
    assert queue.take(12) == {"bob": 10, "ada": 2}


def test_runs_of_many_schedules_of_one_token_keep_those_of_others_from_no_turn(queue: _Queue) -> None:
    lab = [queue.add_schedule("http lab from 10.1.2.3", number) for number in range(3)]
    core = queue.add_schedule("http core from 10.1.2.4", 3)
    ada = queue.add_schedule("ada@host1", 4)
    for minute in range(8):
        for one in lab:
            queue.fire(one, minute)
    assert not queue.is_contended()
    for minute in range(3):
        for one in (core, ada):
            queue.fire(one, minute)

    assert queue.is_contended()
    queue.share(8)
    assert queue.take_runs(6) == {"http lab": 2, "http core": 2, "ada": 2}
    queue.fire(lab[0], 9)
    queue.share(8)
    assert queue.take_runs(3) == {"http lab": 1, "http core": 1, "ada": 1}
    queue.share(8)
    assert queue.take_runs(30) == {"http lab": 22}


def test_a_worker_looks_whose_turn_it_is(queue: _Queue, start_worker: Callable[[Service], Worker]) -> None:
    # Of a lane that this worker does not take from, so that all of it waits.
    queue.add("ada", 40, lane="elsewhere")
    later = queue.add("bob", 5, lane="elsewhere")
    assert queue.first_of(later) == first_priority(0) + 20

    start_worker(queue.service)

    eventually(lambda: queue.first_of(later) < first_priority(0), what="a turn of who came later")
