"""Planning again after a kill adds nothing twice, in whatever order the pages come."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from control import ANY_SPEC, PLACES, add_batch, counters_fit_rows, planned, settings_for
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seqferry.db import submissions, transfers, worker_rows
from seqferry.db.objects import PlannedObject
from seqferry.db.tables import batch, object_
from seqferry.dbos.queue import Queue
from seqferry.model import names
from seqferry.model.workers import Process
from seqferry.planning import batching
from seqferry.planning.batching import GIANT, GIANTS
from seqferry.service.service import Service
from seqferry.workflows.runtime import Runtime
from seqferry.workflows.transfer_steps import OwnBatch, Planner

pytestmark = pytest.mark.every_database  # rows are inserted in bulk by each in its own way


@pytest.fixture(scope="module", params=PLACES)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One database for all examples: each brings a transfer of its own."""
    url, drop = None, None
    if request.param == "postgres":
        server = request.getfixturevalue("postgres")
        name = server.create_database()
        url, drop = server.url(name), lambda: server.drop_database(name)
    with Service.open(settings_for(tmp_path_factory.mktemp("planning"), url)) as service:
        yield service
    if drop is not None:
        drop()


class SimulatedKill(BaseException):
    """Stands for the end of the process."""


class _DyingQueue(Queue):
    """Ends the process when so many batches have been put on the queue, before their transaction is committed."""

    def __init__(self, service: Service, lives: int) -> None:
        super().__init__(service.database)
        self._lives = lives

    def enqueue_batch(
        self, connection: sa.Connection, transfer_id: str, lane: str | None, number: int, priority: int
    ) -> None:
        if self._lives == 0:
            raise SimulatedKill
        self._lives -= 1
        super().enqueue_batch(connection, transfer_id, lane, number, priority)


def _plan(service: Service, queue: Queue, transfer_id: str, pages: list[list[PlannedObject]]) -> OwnBatch | None:
    runtime = Runtime(service.database, queue, service.engine, service.settings.state_dir, "executor", "session")
    with service.database.write() as connection:
        assert transfers.begin_plan(connection, transfer_id, time.time(), "worker", "session") is not None
    planner = Planner(runtime, transfer_id, ANY_SPEC)
    for page in pages:
        assert planner.add(page)
    return planner.close()


# Sizes that are batches of their own among ones that go together, and that several workers share.
_SIZES = st.lists(st.one_of(st.integers(0, 3), st.just(GIANT), st.just(100 * GIANT)), max_size=25)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    _SIZES,
    st.lists(st.integers(0, 8), max_size=3),
    st.integers(1, 10),
    st.sampled_from((1, 3)),
    st.randoms(use_true_random=False),
)
def test_planning_twice_adds_nothing(
    opened: Service, sizes: list[int], lives: list[int], page: int, workers: int, shuffle: random.Random
) -> None:
    transfer_id = str(uuid.uuid4())
    with opened.database.write() as connection:
        for number in range(3):
            worker_rows.remove(connection, f"worker {number}")
        for number in range(workers):
            worker_rows.beat(connection, Process(f"worker {number}", "worker", "lab", number, "0.1.0", "none", "1"))
        submissions.insert(
            connection,
            ANY_SPEC,
            transfer_id=transfer_id,
            at=1.0,
            actor="ada",
            idempotency_key=None,
        )
    found = [planned(f"{number}", size) for number, size in enumerate(sizes)]

    own = None
    for after in [*lives, None]:
        shuffle.shuffle(found)
        pages = [found[start : start + page] for start in range(0, len(found), page)]
        queue = opened.queue if after is None else _DyingQueue(opened, after)
        try:
            if opened.status(transfer_id).planned:
                break
            own = _plan(opened, queue, transfer_id, pages)
        except SimulatedKill:
            assert after is not None
        finally:
            if queue is not opened.queue:
                queue.close()

    assert opened.status(transfer_id).planned
    with opened.database.read() as connection:
        keys = list(
            connection.execute(sa.select(object_.c.source_key).where(object_.c.transfer_id == transfer_id)).scalars()
        )
        numbers = list(
            connection.execute(sa.select(batch.c.number).where(batch.c.transfer_id == transfer_id)).scalars()
        )
        schema = "" if opened.database.is_sqlite else "dbos."
        queued = list(
            connection.execute(
                sa.text(f"select workflow_uuid from {schema}workflow_status where workflow_uuid like :prefix"),
                {"prefix": f"{transfer_id}:%"},
            ).scalars()
        )
    assert sorted(keys) == sorted(one.source_key for one in found)
    assert sorted(numbers) == list(range(len(numbers)))
    # The one batch of a small transfer is left to its workflow.
    assert own is None or numbers == [own.number]
    assert sorted(queued) == [names.batch_workflow_id(transfer_id, number) for number in sorted(numbers) if own is None]
    assert opened.status(transfer_id).totals.objects == len(sizes)
    assert opened.status(transfer_id).totals.bytes == sum(sizes)
    counters_fit_rows(opened, transfer_id)


@pytest.mark.parametrize("lives", [1, 3, 6])
def test_a_kill_while_batches_grow_loses_no_object(
    service: Service, monkeypatch: pytest.MonkeyPatch, lives: int
) -> None:
    monkeypatch.setattr(batching, "SMALL", batching.Limit(objects=2, bytes=batching.SMALL.bytes))
    monkeypatch.setattr(batching, "MAX_OBJECTS", 8)
    monkeypatch.setattr(batching, "_SHARE", 8)
    transfer_id = service.submit(ANY_SPEC, actor="ada")
    found = [planned(f"{number:03}", 1) for number in range(90)]
    dying = _DyingQueue(service, lives)
    with pytest.raises(SimulatedKill):
        _plan(service, dying, transfer_id, [found[start : start + 3] for start in range(0, 90, 3)])
    dying.close()
    committed = service.status(transfer_id).totals.objects

    # The second planning grows its batches from the start, so that they are cut elsewhere.
    _plan(service, service.queue, transfer_id, [found[start : start + 7] for start in range(0, 90, 7)][::-1])

    assert 0 < committed < 90 or lives == 1
    assert sorted(record.source_key for record in service.objects(transfer_id)) == [one.source_key for one in found]
    with service.database.read() as connection:
        of_transfer = batch.c.transfer_id == transfer_id
        sizes = connection.execute(sa.select(batch.c.objects).where(of_transfer).order_by(batch.c.number)).scalars()
        assert max(sizes) > 2
    counters_fit_rows(service, transfer_id)


def test_texts_that_separate_or_escape_in_copies_of_rows_come_back_unchanged(service: Service) -> None:
    transfer_id = service.submit(ANY_SPEC, actor="ada")
    names = ["plain", "tab\there", "line\nfeed", "return\r", "back\\slash", "\\N", "\\.", "ü\u2028", "\\\\", "'\""]
    found = {name: planned(name) for name in names}
    for number, one in enumerate(found.values()):
        one.storage_class = None if number % 2 else "STANDARD"
        one.last_modified = 1_764_000_000.123457 + number

    with service.database.write() as connection:
        for name in names:  # each alone, and with one that needs no escape
            add_batch(connection, transfer_id, [found[name], planned(f"beside {name}")])
        columns = (object_.c.source_key, object_.c.target_key, object_.c.storage_class, object_.c.last_modified)
        rows = connection.execute(sa.select(*columns).where(object_.c.source_key.not_like("run/beside %"))).all()

    assert {row.source_key: tuple(row) for row in rows} == {
        one.source_key: (one.source_key, one.target_key, one.storage_class, one.last_modified) for one in found.values()
    }
    counters_fit_rows(service, transfer_id)


def test_a_key_that_changed_between_two_plannings_stays_as_it_was_found_first(service: Service) -> None:
    transfer_id = service.submit(ANY_SPEC, actor="ada")
    before, after = planned("f", 1), planned("f", 2)

    with service.database.write() as connection:
        assert add_batch(connection, transfer_id, [before]) == 0
        assert add_batch(connection, transfer_id, [after]) is None

    assert [record.size for record in service.objects(transfer_id)] == [1]


def test_a_key_that_a_listing_names_twice_is_planned_once(service: Service) -> None:
    transfer_id = service.submit(ANY_SPEC, actor="ada")

    with service.database.write() as connection:
        add_batch(connection, transfer_id, [planned("f"), planned("g"), planned("f")])

    assert [record.source_key for record in service.objects(transfer_id)] == ["run/f", "run/g"]


def test_a_group_of_nothing_is_no_batch(service: Service) -> None:
    transfer_id = service.submit(ANY_SPEC, actor="ada")
    with service.database.write() as connection:
        assert add_batch(connection, transfer_id, []) is None
        assert add_batch(connection, transfer_id, [planned("a", 1)]) == 0
    assert service.status(transfer_id).totals.objects == 1


def test_a_cancelled_transfer_takes_no_more_objects(service: Service) -> None:
    transfer_id = service.submit(ANY_SPEC, actor="ada")
    runtime = Runtime(
        service.database, service.queue, service.engine, service.settings.state_dir, "executor", "session"
    )
    with service.database.write() as connection:
        transfers.begin_plan(connection, transfer_id, 1.0, "worker", "session")
    planner = Planner(runtime, transfer_id, ANY_SPEC)
    # Each is too big to go with another, so that the first one is written when the second comes.
    assert planner.add([planned("giant", GIANTS.bytes), planned("next", GIANTS.bytes)])

    service.cancel(transfer_id, actor="ada")

    assert not planner.add([planned("another", GIANTS.bytes)])
    assert [record.source_key for record in service.objects(transfer_id)] == ["run/giant"]
