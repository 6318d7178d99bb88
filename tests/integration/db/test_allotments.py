"""Shares of limits over all workers: their sum never exceeds a limit, and they become equal."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
import sqlalchemy as sa

from seqferry.db import allotments
from seqferry.db.database import Database
from seqferry.db.migrate import migrate
from seqferry.db.tables import allotment
from seqferry.dbos.queue import Queue
from seqferry.settings.config import Settings

pytestmark = pytest.mark.postgres
WORKERS = [f"worker{number}" for number in range(5)]


@pytest.fixture
def database(migrated_url: str, unused_settings: Settings) -> Iterator[Database]:
    settings = replace(unused_settings, database_url=migrated_url)
    database = Database(settings)
    migrate(settings, database, Queue(database))
    yield database
    database.close()


def _claim(database: Database, worker: str, limits: dict[str, int]) -> dict[str, int]:
    with database.write() as connection:
        return allotments.claim(connection, worker, limits)


def _sums(database: Database) -> dict[str, int]:
    with database.read() as connection:
        query = sa.select(allotment.c.name, sa.func.sum(allotment.c.amount).label("amount"))
        return {row.name: int(row.amount) for row in connection.execute(query.group_by(allotment.c.name))}


def _be_silent(database: Database, worker: str) -> None:
    """The worker asks for nothing for as long as a share is held."""
    with database.write() as connection:
        mine = allotment.c.worker_id == worker
        connection.execute(allotment.update().where(mine).values(until=allotment.c.until - allotments.HELD_SECONDS))


def test_the_sum_of_shares_never_exceeds_a_limit_and_they_become_equal(database: Database, rng: random.Random) -> None:
    limits = {"a requests": 100, "a starts": 7, "s3://bucket requests": 3}
    wanted: dict[str, dict[str, int]] = {}
    for _ in range(300):
        worker = rng.choice(WORKERS)
        act = rng.random()
        if act < 0.1:
            _be_silent(database, worker)
            wanted.pop(worker, None)
        elif act < 0.2:
            with database.write() as connection:
                allotments.release(connection, [worker])
            wanted.pop(worker, None)
        else:
            if act < 0.5 or worker not in wanted:
                wanted[worker] = {name: limit for name, limit in limits.items() if rng.random() < 0.7}
            shares = _claim(database, worker, wanted[worker])
            assert shares.keys() == wanted[worker].keys()
        for name, amount in _sums(database).items():
            assert amount <= limits[name], name

    # Those that are silent have lapsed by now; two rounds later all others have equal shares.
    for worker in WORKERS:
        if worker not in wanted:
            _be_silent(database, worker)
    for _ in range(2):
        shares = {worker: _claim(database, worker, names) for worker, names in wanted.items()}
    for name, limit in limits.items():
        at_it = [worker for worker, names in wanted.items() if name in names]
        assert {shares[worker][name] for worker in at_it} <= {limit // max(len(at_it), 1)}


def test_what_a_worker_still_uses_is_not_given_to_others(database: Database) -> None:
    def claim_using(in_flight: int) -> dict[str, int]:
        with database.write() as connection:
            return allotments.claim(connection, "one", {"a": 6}, {"a": in_flight})

    assert claim_using(6) == {"a": 6}
    assert _claim(database, "two", {"a": 6}) == {"a": 0}
    assert claim_using(5) == {"a": 3}
    assert _claim(database, "two", {"a": 6}) == {"a": 1}
    assert claim_using(3) == {"a": 3}
    assert _claim(database, "two", {"a": 6}) == {"a": 3}


def test_a_worker_alone_has_all_and_a_lowered_limit_holds_at_once(database: Database) -> None:
    assert _claim(database, "one", {"a": 100}) == {"a": 100}
    assert _claim(database, "two", {"a": 100}) == {"a": 0}
    assert _claim(database, "one", {"a": 100}) == {"a": 50}
    assert _claim(database, "two", {"a": 10}) == {"a": 0}, "what another holds is not taken from it"
    assert _claim(database, "one", {"a": 10}) == {"a": 5}
    assert _claim(database, "two", {"a": 10}) == {"a": 5}
    assert _claim(database, "one", {}) == {}
    assert _claim(database, "two", {"a": 10}) == {"a": 10}
