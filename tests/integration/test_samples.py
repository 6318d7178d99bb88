"""Samples of throughput: read as a chart needs them, thinned and deleted by age."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable

import pytest
import sqlalchemy as sa
from control import ANY_SPEC

from seqferry.db import samples, transfers
from seqferry.db.tables import sample
from seqferry.service import Service

DAY = 86400.0


@pytest.fixture
def transfer_id(service: Service) -> str:
    name = str(uuid.uuid4())
    with service.database.write() as connection:
        transfers.insert(connection, ANY_SPEC, transfer_id=name, at=time.time(), actor="ada", idempotency_key=None)
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
) -> list[samples.Point]:
    with service.database.read() as connection:
        return samples.read(connection, transfer_id, since=since, until=until, points=count)


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
