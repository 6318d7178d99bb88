"""The view of an autoscaler against its formula, on both databases."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import sqlalchemy as sa
from control import command, settings_for, spec_number
from http_client import http_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families as text_format

from seqferry.db import autoscale
from seqferry.db.autoscale import Autoscale
from seqferry.db.database import Database
from seqferry.db.tables import batch, sample, tally, transfer
from seqferry.service.service import Service

pytestmark = pytest.mark.every_database  # the view is SQL of each

MIB = 1024 * 1024
GIB = 1024 * MIB
TIB = 1024 * GIB

R_UNKNOWN, Q_UNKNOWN = 400 * MIB, 1000
R_LEAST, Q_LEAST = 64 * MIB, 200


@dataclass(frozen=True)
class Work:
    """A transfer: what is left of it, its batches that have not ended, and whether its listing has ended."""

    bytes: int = 0
    objects: int = 0
    batches: int = 0
    planned: bool = True
    state: str = "running"
    blocked_by: str | None = None
    ended_at: float | None = None

    @property
    def counts(self) -> bool:
        return self.ended_at is None and self.blocked_by is None and self.state != "paused"


@dataclass(frozen=True)
class Fleet:
    """Rates of each worker in one minute, bytes and requests a second."""

    minutes_ago: int
    rates: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class State:
    works: Sequence[Work] = ()
    fleets: Sequence[Fleet] = ()
    limits: dict[str, float] = field(default_factory=dict[str, float])


def formula(state: State) -> int:
    """The number of workers by the definition, in plain arithmetic."""
    least, most = state.limits.get("minimum", 0), state.limits.get("maximum", 20)
    drain = 60 * state.limits.get("drain_minutes", 15)
    works = [work for work in state.works if work.counts]
    if not works:
        return int(min(max(0, least), most))
    rates = [rate for fleet in state.fleets for rate in fleet.rates]
    r = max((rate[0] for rate in rates), default=0)
    q = max((rate[1] for rate in rates), default=0)
    r = max(r, R_LEAST) if r > 0 else R_UNKNOWN
    q = max(q, Q_LEAST) if q > 0 else Q_UNKNOWN
    recent = [fleet for fleet in state.fleets if fleet.minutes_ago < 59]
    worth = [sum(b / r + n / q for b, n in fleet.rates) for fleet in recent]
    best = max(worth, default=0)
    futile = sum(1 for fleet in recent if len(fleet.rates) > 1 and len(fleet.rates) * 0.8 > best)
    knee = max(1, math.ceil(best)) if futile >= 3 else most
    size = sum(work.bytes for work in works)
    requests = sum(work.objects for work in works) + size / (128 * MIB)
    batches = sum(work.batches + (not work.planned) for work in works)
    wish = min(
        max(1, math.ceil(size / (r * drain)), math.ceil(requests / (q * drain))), max(1, math.ceil(batches / 8)), knee
    )
    return int(min(max(wish, least), most))


def _put(connection: sa.Connection, state: State, now: float) -> None:
    """Have the database be in this state; transfers are those that are there, or copies of the first."""
    pattern = connection.execute(sa.select(transfer).limit(1)).mappings().one()
    for number, work in enumerate(state.works):
        name = f"made-{number}"
        values = dict(pattern) | {
            "id": name,
            "idempotency_key": None,
            "state": work.state,
            "planned_at": 1.0 if work.planned else None,
            "blocked_by": work.blocked_by,
            "ended_at": work.ended_at,
        }
        connection.execute(transfer.insert().values(**values))
        counts = dict.fromkeys(("done", "skipped", "failed", "cancelled", "bytes_done"), 1)
        connection.execute(
            tally.insert().values(transfer_id=name, objects=work.objects + 4, bytes=work.bytes + 1, **counts)
        )
        rows = [
            {"transfer_id": name, "number": one, "state": ("queued", "active")[one % 2], "objects": 1, "bytes": 1}
            for one in range(work.batches)
        ]
        ended = {"transfer_id": name, "number": work.batches, "state": "ended", "objects": 1, "bytes": 1}
        connection.execute(batch.insert(), [*rows, ended])
    connection.execute(transfer.update().where(transfer.c.id == pattern["id"]).values(ended_at=1.0, state="done"))
    for fleet in state.fleets:
        _put_fleet(connection, fleet, pattern["id"], now)
    autoscale.set_limits(connection, state.limits)


def _put_fleet(connection: sa.Connection, fleet: Fleet, transfer_id: str, now: float) -> None:
    """Samples of two minutes, the second with these rates: of each worker its last in each minute, and some before."""
    begin = (now // 60 - fleet.minutes_ago) * 60
    for number, (size, requests) in enumerate(fleet.rates):
        connection.execute(
            sample.insert(),
            [
                {
                    "transfer_id": transfer_id,
                    "executor_id": f"worker-{fleet.minutes_ago}-{number}",
                    "at": begin + at,
                    "bytes": 7 + round(size * (at + 2)),
                    "objects": 0,
                    "requests": 7 + round(requests * (at + 2)),
                    "throttled": 0,
                }
                for at in (-30, -2, 20, 58)
            ],
        )


@contextmanager
def _rolled_back(database: Database) -> Generator[sa.Connection]:
    with database.engine.connect() as connection:
        connection.begin()
        yield connection
        connection.rollback()


def _wish(database: Database, state: State) -> Autoscale:
    with _rolled_back(database) as connection:
        _put(connection, state, database.now(connection))
        return autoscale.read(connection)


@pytest.fixture
def database(service: Service) -> Database:
    """With one transfer, from which others are made."""
    service.submit(spec_number(0), actor="ada")
    return service.database


FAST = (400.0 * MIB, 100.0)
STATES = {
    "nothing to do": State(),
    "nothing to do, some are kept": State(limits={"minimum": 2}),
    "submitted and not listed": State([Work(planned=False, state="queued")]),
    "listed, its batches have ended": State([Work()]),
    "bytes decide": State([Work(bytes=3 * TIB, objects=100, batches=100)]),
    "requests decide": State([Work(bytes=GIB, objects=5_000_000, batches=5000)]),
    "batches decide": State([Work(bytes=30 * TIB, objects=100, batches=17)]),
    "the most": State([Work(bytes=300 * TIB, objects=100, batches=900)]),
    "more at most": State([Work(bytes=300 * TIB, objects=100, batches=900)], limits={"maximum": 50}),
    "longer to drain": State([Work(bytes=3 * TIB, objects=100, batches=100)], limits={"drain_minutes": 60}),
    "paused": State([Work(bytes=3 * TIB, objects=100, batches=100, state="paused")]),
    "waits for another": State([Work(bytes=3 * TIB, objects=9, batches=99, blocked_by="made-1"), Work(MIB, 1, 1)]),
    "has ended": State([Work(bytes=3 * TIB, objects=100, batches=100, ended_at=1.0)]),
    "several": State([Work(TIB, 9, 40), Work(TIB, 9, 40), Work(0, 0, 0, planned=False)]),
    "a fast worker": State([Work(bytes=3 * TIB, objects=9, batches=99)], [Fleet(9, [(2.0 * GIB, 50.0)])]),
    "a slow minute says little": State([Work(bytes=3 * TIB, objects=9, batches=99)], [Fleet(9, [(1000.0, 1.0)])]),
    "two that share, one was faster alone": State(
        [Work(bytes=9 * TIB, objects=9, batches=99)], [Fleet(90, [(800.0 * MIB, 9.0)]), Fleet(9, [FAST, FAST])]
    ),
    "a ceiling, seen three times": State(
        [Work(bytes=9 * TIB, objects=9, batches=999)],
        [Fleet(30, [FAST]), *(Fleet(ago, [(100.0 * MIB, 25.0)] * 12) for ago in (8, 12, 16))],
    ),
    "a ceiling, seen twice": State(
        [Work(bytes=9 * TIB, objects=9, batches=999)],
        [Fleet(30, [FAST]), *(Fleet(ago, [(100.0 * MIB, 25.0)] * 12) for ago in (8, 12))],
    ),
    "a ceiling of yesterday evening": State(
        [Work(bytes=9 * TIB, objects=9, batches=999)],
        [Fleet(30, [FAST]), *(Fleet(ago, [(100.0 * MIB, 25.0)] * 12) for ago in (80, 120, 160))],
    ),
    "many that are of use": State(
        [Work(bytes=9 * TIB, objects=9, batches=999)], [Fleet(ago, [FAST] * 12) for ago in (8, 12, 16)]
    ),
}
EXPECTED = {
    "nothing to do": 0,
    "submitted and not listed": 1,
    "bytes decide": 9,
    "batches decide": 3,
    "the most": 20,
    "a ceiling, seen three times": 5,
    "a ceiling, seen twice": 20,
}


@pytest.mark.parametrize("name", STATES)
def test_the_view_follows_the_formula(database: Database, name: str) -> None:
    state = STATES[name]

    assert _wish(database, state).wanted_workers == formula(state)
    assert EXPECTED.get(name, formula(state)) == formula(state)


def test_the_view_shows_its_inputs(database: Database) -> None:
    found = _wish(database, STATES["a ceiling, seen three times"])

    assert found == Autoscale(
        wanted_workers=5,
        transfers=1,
        backlog_bytes=9 * TIB,
        backlog_requests=9 + 9 * TIB // (128 * MIB),
        open_batches=999,
        bytes_per_second_alone=400.0 * MIB,
        requests_per_second_alone=200.0,
        knee=5,
        minimum=0,
        maximum=20,
        drain_seconds=900,
    )


_WORK = st.builds(
    Work,
    bytes=st.integers(0, 2**50),
    objects=st.integers(0, 10**8),
    batches=st.integers(0, 40),
    planned=st.booleans(),
    state=st.sampled_from(["queued", "running", "paused"]),
    blocked_by=st.sampled_from([None, None, "made-0"]),
)
_RATE = st.tuples(st.floats(0, 4.0 * GIB), st.floats(0, 5000))
_FLEETS = st.lists(
    st.builds(Fleet, st.sampled_from([4, 8, 12, 16, 100, 700]), st.lists(_RATE, min_size=1, max_size=6)),
    max_size=5,
    unique_by=lambda fleet: fleet.minutes_ago,
)
_LIMITS = st.fixed_dictionaries(
    {}, optional={"minimum": st.integers(0, 9), "maximum": st.integers(9, 50), "drain_minutes": st.integers(1, 600)}
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_WORK, max_size=3), _FLEETS, _LIMITS, st.integers(0, 2**50), st.integers(0, 10**8), st.integers(0, 40))
def test_more_work_never_asks_for_fewer(
    database: Database,
    works: list[Work],
    fleets: list[Fleet],
    limits: dict[str, Any],
    more_bytes: int,
    more_objects: int,
    more_batches: int,
) -> None:
    state = State(works, fleets, limits)
    more = [
        replace(
            work,
            bytes=work.bytes + more_bytes,
            objects=work.objects + more_objects,
            batches=work.batches + more_batches,
        )
        for work in works
    ]

    before = _wish(database, state)
    after = _wish(database, replace(state, works=more))
    idle = _wish(database, replace(state, works=()))

    assert before.minimum <= before.wanted_workers <= after.wanted_workers <= after.maximum
    assert before.wanted_workers <= _wish(database, replace(state, works=[*works, Work(batches=1)])).wanted_workers
    assert idle.wanted_workers == idle.minimum


def test_samples_of_a_worker_that_began_anew_are_no_rate(database: Database) -> None:
    with _rolled_back(database) as connection:
        now = database.now(connection)
        _put(connection, State([Work(batches=1)], [Fleet(9, [(8000.0 * MIB, 9000.0)])]), now)
        connection.execute(sample.update().where(sample.c.at > (now // 60 - 9) * 60).values(bytes=3, requests=3))

        found = autoscale.read(connection)

    assert (found.bytes_per_second_alone, found.requests_per_second_alone) == (R_UNKNOWN, Q_UNKNOWN)


def test_metrics_and_the_command_say_what_the_view_says(service: Service, database: Database) -> None:
    with database.write() as connection:
        _put(connection, STATES["a ceiling, seen three times"], database.now(connection))

    with http_of(service) as client:
        families = {family.name: family.samples for family in text_format(client.get("/metrics").text)}
    said = [json.loads(line) for line in command(service, "workers", "--json").stdout.splitlines()]

    wish = service.autoscale()
    assert wish.wanted_workers == 5
    scraped = {name.removeprefix("seqferry_"): found[0].value for name, found in families.items() if len(found) == 1}
    assert scraped["wanted_workers"] == wish.wanted_workers
    assert scraped["wanted_workers_knee"] == wish.knee
    assert scraped["backlog_bytes"] == wish.backlog_bytes
    assert scraped["backlog_requests"] == wish.backlog_requests
    assert scraped["backlog_batches"] == wish.open_batches
    assert scraped["worker_alone_bytes_per_second"] == wish.bytes_per_second_alone
    assert scraped["worker_alone_requests_per_second"] == wish.requests_per_second_alone
    [event] = [one for one in said if one["event"] == "autoscale"]
    assert {name: event[name] for name in event if name in Autoscale.__slots__} == {
        name: getattr(wish, name) for name in Autoscale.__slots__
    }


def test_settings_set_the_limits_until_others_do(service: Service) -> None:
    def keep(**given: int) -> Autoscale:
        limited = replace(service.settings, **given)
        with Service.open(limited) as other:
            other.record_autoscale_limits()
        return service.autoscale()

    first = keep(autoscale_min=2, autoscale_max=7, autoscale_drain_minutes=30)
    second = keep(autoscale_max=5)
    third = keep()

    assert (first.minimum, first.maximum, first.drain_seconds, first.wanted_workers) == (2, 7, 1800, 2)
    assert (second.minimum, second.maximum, second.drain_seconds) == (2, 5, 1800)
    assert third == second


@pytest.mark.postgres
def test_an_autoscaler_reads_the_view_and_nothing_else(tmp_path: Any, postgres_url: str) -> None:
    import psycopg
    from psycopg.errors import InsufficientPrivilege

    with Service.open(settings_for(tmp_path, postgres_url)) as service, service.database.write() as connection:
        role = f"keda_{time.time_ns()}"
        connection.execute(sa.text(f"create role {role} login"))
        connection.execute(sa.text(f"grant select on seqferry_autoscale to {role}"))
    try:
        with psycopg.connect(postgres_url, autocommit=True) as reader:
            reader.execute(f"set role {role}".encode())
            question = "select coalesce((select wanted_workers from seqferry_autoscale), 0)::float8"
            assert reader.execute(question.encode()).fetchone() == (0.0,)
            with pytest.raises(InsufficientPrivilege):
                reader.execute("select * from transfer")
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            admin.execute(f"drop owned by {role}".encode())
            admin.execute(f"drop role {role}".encode())
