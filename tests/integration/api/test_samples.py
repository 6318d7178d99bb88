"""Samples of throughput: read as a chart needs them, thinned and deleted by age."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from pathlib import Path

import pytest
import sqlalchemy as sa
from control import ANY_SPEC
from ended import add_ended_batch, begin, finish
from http_client import http_of

from seqferry.db import charts, samples, submissions, transfers
from seqferry.db.samples import EngineCounts, Point
from seqferry.db.tables import engine_sample, sample
from seqferry.model.locations import LocalFolder
from seqferry.service.service import Service
from seqferry.workflows.reporter import engine_counts

pytestmark = pytest.mark.every_database  # thinning is SQL of each

DAY = 86400.0


@pytest.fixture
def transfer_id(service: Service) -> str:
    name = str(uuid.uuid4())
    with service.database.write() as connection:
        submissions.insert(connection, ANY_SPEC, transfer_id=name, at=time.time(), actor="ada", idempotency_key=None)
    return name


def fill(service: Service, transfer_id: str, executor: str, rows: Iterable[tuple[float, int]]) -> None:
    """Rows of a time and a counter each; an object is 10 bytes and makes two requests."""
    with service.database.write() as connection:
        connection.execute(
            sample.insert(),
            [
                {
                    "transfer_id": transfer_id,
                    "executor_id": executor,
                    "at": at,
                    "bytes": 10 * count,
                    "objects": count,
                    "requests": 2 * count,
                    "throttled": 0,
                }
                for at, count in rows
            ],
        )


def points(
    service: Service, transfer_id: str, count: int, since: float | None = None, until: float | None = None
) -> list[Point[samples.Counts]]:
    with service.database.read() as connection:
        return charts.read(connection, transfer_id, since=since, until=until, points=count)


def thin(service: Service) -> int:
    with service.database.write() as connection:
        return samples.thin(connection, service.database)


def times(service: Service) -> list[float]:
    with service.database.read() as connection:
        return list(connection.execute(sa.select(sample.c.at).order_by(sample.c.at)).scalars())


def test_the_points_of_a_reading_add_up_to_what_all_workers_did(service: Service, transfer_id: str) -> None:
    fill(service, transfer_id, "one", [(100.0 + 2 * number, 7 * number) for number in range(51)])
    fill(service, transfer_id, "two", [(150.0 + 2 * number, 3 * number) for number in range(51)])

    course = points(service, transfer_id, 13)

    assert len(course) == 13
    assert sum(point.counts.objects for point in course) == 7 * 50 + 3 * 50
    assert sum(point.counts.bytes for point in course) == 10 * (7 * 50 + 3 * 50)
    assert course[0].at == 99.0
    assert course[-1].at + course[-1].seconds == pytest.approx(250.0)
    # Where both work at 3.5 and 1.5 objects a second.
    both = points(service, transfer_id, 10, since=160.0, until=190.0)
    assert [point.counts.objects for point in both] == pytest.approx([15] * 10, abs=1)


def test_a_worker_that_counts_anew_adds_to_what_was_there(service: Service, transfer_id: str) -> None:
    fill(service, transfer_id, "sqlite", [(100.0, 5), (102.0, 9), (200.0, 4), (202.0, 6)])

    course = points(service, transfer_id, 1000)

    assert sum(point.counts.objects for point in course) == 9 + 6
    assert len(course) == 103
    assert all(point.seconds >= 1.0 and point.counts.objects >= 0 for point in course)


def test_nothing_sampled_has_no_course(service: Service, transfer_id: str) -> None:
    assert points(service, transfer_id, 10) == []
    assert points(service, str(uuid.uuid4()), 10, since=0.0, until=10.0) == []


def test_old_samples_are_thinned_by_their_age_and_lose_only_detail(service: Service, transfer_id: str) -> None:
    now = time.time()
    fresh = [(now - 3000 + 2 * number, number) for number in range(1000)]
    hours_old = [(now - 0.5 * DAY + 2 * number, number) for number in range(900)]
    weeks_old = [(now - 20 * DAY + 2 * number, number) for number in range(3600)]
    for executor, rows in {"a": fresh, "b": hours_old, "c": weeks_old}.items():
        fill(service, transfer_id, executor, rows)
    before = points(service, transfer_id, 100)

    while thin(service):
        pass

    left = times(service)
    assert sum(now - 3600 <= at for at in left) == 1000
    assert 30 <= sum(now - DAY <= at < now - 3600 for at in left) <= 32  # half an hour
    assert 2 <= sum(at < now - 7 * DAY for at in left) <= 4  # two hours
    after = points(service, transfer_id, 100)
    assert sum(point.counts.bytes for point in after) == sum(point.counts.bytes for point in before)
    assert thin(service) == 0


def test_what_a_worker_did_before_it_counted_anew_is_not_thinned_away(service: Service, transfer_id: str) -> None:
    begin = time.time() - 2 * DAY
    fill(service, transfer_id, "sqlite", [(begin + 1, 50), (begin + 3, 90), (begin + 5, 4), (begin + 7, 6)])

    thin(service)

    assert sum(point.counts.objects for point in points(service, transfer_id, 10)) == 90 + 6


def test_samples_are_deleted_after_their_time(service: Service, transfer_id: str) -> None:
    now = time.time()
    fill(service, transfer_id, "a", [(now - 91 * DAY, 1), (now - 89 * DAY, 2)])

    assert thin(service) == 1

    assert times(service) == pytest.approx([now - 89 * DAY])


def fill_engine(service: Service, executor: str, rows: Iterable[tuple[float, int]]) -> None:
    """Rows of a time and a counter each; a request moves 10 bytes, waits 1 ms and takes 4 ms."""
    with service.database.write() as connection:
        connection.execute(
            engine_sample.insert(),
            [
                {
                    "executor_id": executor,
                    "at": at,
                    "bytes": 10 * count,
                    "requests": count,
                    "retries": 0,
                    "throttled": 0,
                    "hedges": 0,
                    "waited_ms": count,
                    "busy_ms": 4 * count,
                }
                for at, count in rows
            ],
        )


def engine_points(service: Service, count: int, executor: str | None = None) -> list[Point[EngineCounts]]:
    with service.database.read() as connection:
        return samples.read_engine(connection, executor, points=count)


def test_the_work_of_engines_is_read_for_one_worker_or_for_all(service: Service) -> None:
    fill_engine(service, "one", [(100.0 + 2 * number, 7 * number) for number in range(51)])
    fill_engine(service, "two", [(150.0 + 2 * number, 3 * number) for number in range(51)])

    both, one = engine_points(service, 10), engine_points(service, 10, "one")

    assert sum(point.counts.requests for point in both) == 7 * 50 + 3 * 50
    assert sum(point.counts.requests for point in one) == sum(point.counts.busy_ms for point in one) / 4 == 7 * 50
    assert engine_points(service, 10, "none") == []


def test_the_requests_of_all_workers_are_shown_over_http(service: Service) -> None:
    fill_engine(service, "one", [(100.0 + 2 * number, 7 * number) for number in range(51)])
    fill_engine(service, "two", [(150.0 + 2 * number, 3 * number) for number in range(51)])

    with http_of(service) as client:
        both = client.get("/api/v1/samples", params={"points": 10}).json()["samples"]
        one = client.get("/api/v1/samples", params={"worker": "one", "since": "1970-01-01T00:01:50Z"}).json()["samples"]
        refused = client.get("/api/v1/samples", params={"points": 0})

    assert len(both) == 10
    assert both[0]["at"].startswith("1970-01-01T00:01:39")
    assert sum(point["requests"] for point in both) == 7 * 50 + 3 * 50
    assert sum(point["busy_ms"] for point in both) == 4 * (7 * 50 + 3 * 50)
    assert sum(point["requests"] for point in one) == 7 * 45
    assert refused.status_code == 422


def test_samples_of_engines_are_thinned_and_deleted_as_those_of_transfers(service: Service) -> None:
    now = time.time()
    fill_engine(service, "a", [(now - 91 * DAY, 1), (now - 3000, 5), (now - 2990, 6)])
    fill_engine(service, "b", [(now - 0.5 * DAY + 2 * number, number) for number in range(900)])
    # A process that began anew under the same name: nothing that it did before is lost.
    fill_engine(service, "c", [(now - 2 * DAY + 1, 50), (now - 2 * DAY + 3, 90), (now - 2 * DAY + 5, 4)])

    while thin(service):
        pass

    with service.database.read() as connection:
        left = list(connection.execute(sa.select(engine_sample.c.executor_id, engine_sample.c.at)))
    assert sum(row.executor_id == "a" for row in left) == 2
    assert 30 <= sum(row.executor_id == "b" for row in left) <= 32  # half an hour
    assert sum(point.counts.requests for point in engine_points(service, 10, "c")) == 90 + 4


def test_what_is_sampled_of_an_engine_is_what_it_has_counted(service: Service, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"ACGT")
    for _ in service.engine.list(LocalFolder(path=str(tmp_path))):
        pass
    stats = service.engine.stats()
    with service.database.write() as connection:
        samples.record_engine(connection, service.database, "worker", engine_counts(stats))

    with service.database.read() as connection:
        (row,) = connection.execute(sa.select(engine_sample))

    assert (row.executor_id, row.requests, row.throttled) == ("worker", stats.requests, 0)
    assert row.requests >= 1
    assert row.busy_ms == round(1000 * stats.busy)


def test_the_course_of_a_transfer_outlives_its_samples(service: Service) -> None:
    of, now = begin(service), time.time()
    for executor, first in (("one", 0), ("two", 200)):
        fill(service, of, executor, ((now - 1000 + second, second - first) for second in range(first, 400)))
    whole = points(service, of, 200)
    add_ended_batch(service, of, ["a"])
    with service.database.write() as connection:
        transfers.end_plan(connection, of, now, "worker")
        transfers.finish(connection, of, now, "worker")
    assert points(service, of, 200) == whole  # as long as samples tell more
    [pruned] = service.prune(older_than=-60.0, actor="ada")

    kept, coarse, second_half = (
        points(service, of, 200),
        points(service, of, 10),
        points(service, of, 7, since=now - 800),
    )
    with http_of(service) as client:
        told = client.get(f"/api/v1/transfers/{of}/samples", params={"points": 200}).json()["samples"]

    assert pruned.id == of
    assert times(service) == []
    assert [one.counts for one in kept] == [one.counts for one in whole]
    assert [one.at for one in kept] == pytest.approx([one.at for one in whole])
    assert [one.workers for one in kept] == [one.workers for one in whole]
    assert {one.workers for one in whole} == {1, 2}
    assert sum(one.counts.bytes for one in coarse) == sum(one.counts.bytes for one in whole)
    assert sum(one.counts.bytes for one in second_half) < sum(one.counts.bytes for one in whole)
    assert len(told) == 200


def test_a_transfer_without_samples_keeps_no_course(service: Service) -> None:
    of = begin(service)
    finish(service, of)
    list(service.prune(older_than=-60.0, actor="ada"))

    assert points(service, of, 10) == []
