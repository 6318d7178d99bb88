"""Processes that work: each has a row with what it does, and a killed one leaves a trace for a while."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from control import command, until_ended
from ferry import Ferry, FerryFactory
from http_client import bearer, http_of

from seqferry.db import worker_lock, worker_rows
from seqferry.db.migrate import HEAD
from seqferry.db.tables import worker
from seqferry.engine.engine import version
from seqferry.model import names
from seqferry.model.workers import NO_ACTIVITY, Process, ProcessStatus
from seqferry.service import tokens
from seqferry.service.service import Service
from seqferry.workflows.worker import Worker
from support.processes import RunningProcess, seqferry
from support.proxy import Proxy, held
from support.servers import S3Server
from support.waiting import eventually

pytestmark = pytest.mark.every_database  # the clock and the rows of workers are SQL of each

BucketFactory = Callable[..., str]


@pytest.fixture
def s3server(versitygw: S3Server) -> S3Server:
    return versitygw


@pytest.fixture
def ferry(service: Service, make_ferry: FerryFactory, proxy: Proxy) -> Ferry:
    """Reaches the storage through ``proxy``."""
    return make_ferry(service, reached=proxy.server)


def _process(name: str, kind: str = "worker") -> Process:
    return Process(name, kind, "lab1", 7, "0.1", "0015", "1")  # type: ignore[arg-type]


def _beat(service: Service, *processes: Process) -> None:
    with service.database.write() as connection:
        for one in processes:
            worker_rows.beat(connection, one)


def _silence(service: Service, seconds: float, *ids: str) -> None:
    """Have their last sign of life be so long ago."""
    with service.database.write() as connection:
        found = worker.update().where(worker.c.id.in_(ids))
        connection.execute(found.values(seen_at=worker.c.seen_at - seconds))


def _on_record(service: Service) -> dict[str, bool]:
    """Whether it is alive, by id."""
    with service.database.read() as connection:
        return {one.process.id: one.alive for one in worker_rows.read(connection)}


def _states(service: Service) -> dict[str, str]:
    return {one.process.id: one.state for one in service.workers()}


def test_a_worker_says_who_it_is_and_what_it_does_until_it_ends(ferry: Ferry, proxy: Proxy) -> None:
    ferry.fill({"run/a": 10})
    service = ferry.service
    assert service.workers() == []
    with Worker.start(service.settings, service), held(proxy, "CopyObject") as rule:
        transfer_id = ferry.submit()
        proxy.wait_held(rule)

        def busy() -> ProcessStatus | None:
            [found] = service.workers()
            return found if found.activity.transfers else None

        found = eventually(busy, what="the report of the worker")
        proxy.remove_rule(rule)
        until_ended(service, transfer_id)

        process = found.process
        assert (process.kind, process.host, process.pid) == ("worker", socket.gethostname(), os.getpid())
        assert (process.version, process.schema_head, process.shape) == (version(), HEAD, names.WORKFLOW_SHAPE)
        assert found.alive
        assert found.seen_at >= found.since
        activity = found.activity
        assert (activity.transfers, activity.in_flight) == (1, 1)
        assert activity.limits is not None
        assert activity.limits.max_requests == service.engine.stats().max_requests
        assert activity.resident is not None
        assert activity.resident > 10_000_000
        # A lane is there for those that take as this process.
        assert len([lane for lane in activity.lanes if lane is not None]) >= 1
        target = [one for one in activity.windows if one.bucket == ferry.target]
        assert [(one.prefix, one.access, one.in_flight) for one in target if one.in_flight] == [("in/", "write", 1)]
        assert target[0].requests >= 1
        assert activity.facts == {"own_work": False}
        events = [one.actor for one in service.events(transfer_id) if one.actor.startswith("worker ")]
        assert set(events) == {f"worker {process.name}"}

    assert service.workers() == []


def test_the_silent_are_told_from_the_living_and_a_sign_of_life_brings_one_back(service: Service) -> None:
    _beat(service, _process("a"), _process("b"), _process("c"))
    _silence(service, worker_rows.SILENT_SECONDS + 1, "b")
    with service.database.write() as connection:
        worker_rows.mark_dead(connection, ["c"])

    assert _on_record(service) == {"a": True, "b": False, "c": False}
    assert list(_on_record(service)) == ["a", "b", "c"], "the living come first"

    _beat(service, _process("b"), _process("c"))

    assert _on_record(service) == {"a": True, "b": True, "c": True}
    with service.database.read() as connection:
        beats = {row.id: row.beats for row in connection.execute(sa.select(worker))}
    assert beats == {"a": 1, "b": 2, "c": 2}


def test_workers_that_are_gone_are_marked_and_gateways_are_not(service: Service) -> None:
    _beat(service, _process("a"), _process("s", "serve"), _process("g", "gateway"))

    with service.database.write() as connection:
        worker_rows.mark_dead(connection)
        assert worker_rows.count_alive(connection) == 0

    assert _on_record(service) == {"a": False, "g": True, "s": False}


def test_what_was_killed_and_replaced_is_gone_and_not_silent(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_lock, "is_held", lambda _folder: True)  # as if the worker of the folder were there
    shares: dict[str, list[str]] = {"g1": ["runs"], "g2": ["runs"], "g3": ["other"]}
    _beat(service, _process("w1"), _process("w2"), _process("h1", "http"), _process("s1", "serve"))
    _beat(service, *(_process(name, "gateway") for name in ("g1", "g3")))
    with service.database.write() as connection:
        connection.execute(worker.update().values(since=worker.c.since - 100))
    _silence(service, worker_rows.SILENT_SECONDS + 1, "w1", "h1", "g1", "g3")
    _beat(service, _process("g2", "gateway"))
    with service.database.write() as connection:
        for name, facts in shares.items():
            worker_rows.describe(connection, name, replace(NO_ACTIVITY, facts={"shares": facts}))
    found = _states(service)
    assert found == {
        "w1": "silent",  # no other worker has looked after it yet
        "w2": "alive",
        "h1": "silent",  # s1 was there before
        "s1": "alive",
        "g1": "gone",
        "g2": "alive",
        "g3": "silent",
    }

    with service.database.write() as connection:
        worker_rows.mark_dead(connection, ["w1"])
    _beat(service, _process("h2", "http"))

    assert _states(service) == found | {"w1": "gone", "h1": "gone", "h2": "alive"}
    _beat(service, _process("w1"), _process("h1", "http"), _process("g1", "gateway"))
    assert [name for name, state in _states(service).items() if state != "alive"] == ["g3"]


def _gateway(folder: Path, server: S3Server, bucket: str, **place: str) -> RunningProcess:
    config = folder / "gateway.toml"
    config.write_text(f'[[share]]\nname = "runs"\nsource = "s3://{bucket}/run/"\n')
    environment = {**server.environment(), "SEQFERRY_CONFIG": str(config), **place}
    return RunningProcess([seqferry(), "gateway", "serve", "--port", "0"], environment=environment, is_preloaded=True)


def test_a_gateway_is_among_the_workers_until_it_ends(
    service: Service, s3server: S3Server, make_bucket: BucketFactory, tmp_path: Path
) -> None:
    place = {
        "SEQFERRY_STATE_DIR": str(service.settings.state_dir),
        "SEQFERRY_DATABASE_URL": service.settings.database_url or "",
    }
    bucket = make_bucket(s3server)
    with _gateway(tmp_path, s3server, bucket, **place) as gateway:
        [row] = eventually(service.workers, what="the row of the gateway")
        assert (row.process.kind, row.process.pid, row.process.version, row.alive) == (
            "gateway",
            gateway.pid,
            version(),
            True,
        )
        assert row.process.host == socket.gethostname()
        assert (row.activity.in_flight, row.activity.transfers, row.activity.facts["shares"]) == (0, 0, ["runs"])
        assert (row.activity.resident or 0) > 1 << 20
        if service.is_local:
            shown = command(service, "workers").stdout.splitlines()
            assert shown[1].split()[:3] == [row.process.name, "gateway", "alive"]
        with http_of(service) as client:
            [told] = client.get("/api/v1/workers").json()["workers"]
        assert (told["kind"], told["pid"]) == ("gateway", gateway.pid)
        gateway.signal(signal.SIGTERM)
        assert gateway.wait() == 0
    assert service.workers() == []

    with _gateway(tmp_path, s3server, bucket, **place) as killed:
        eventually(service.workers, what="the row of the gateway")
        killed.signal(signal.SIGKILL)
        killed.wait()
    assert [one.state for one in service.workers()] == ["silent"]
    with _gateway(tmp_path, s3server, bucket, **place):
        eventually(lambda: len(service.workers()) == 2, what="the row of the gateway in its place")
        assert [one.state for one in service.workers()] == ["alive", "gone"]


@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)
@pytest.mark.parametrize("url", ["", "postgresql://nobody@127.0.0.1:9/none"])
def test_a_gateway_serves_without_a_database_and_makes_none(
    service: Service, s3server: S3Server, make_bucket: BucketFactory, tmp_path: Path, url: str
) -> None:
    del service
    place = {"SEQFERRY_STATE_DIR": str(tmp_path / "own"), "SEQFERRY_DATABASE_URL": url}
    with _gateway(tmp_path, s3server, make_bucket(s3server), **place) as gateway:
        gateway.wait_for_output("is served at")
        gateway.signal(signal.SIGTERM)
        assert gateway.wait() == 0
    assert [one.name for one in (tmp_path / "own").iterdir()] == ["gateway"]


def test_rows_of_silent_processes_are_bounded_in_time_and_number(service: Service) -> None:
    many = [f"silent{number:03d}" for number in range(worker_rows.MAX_SILENT + 5)]
    _beat(service, _process("alive"), _process("old"), *map(_process, many))
    _silence(service, worker_rows.KEPT_SECONDS + 1, "old")
    for name in many:
        _silence(service, worker_rows.SILENT_SECONDS + 1000 - many.index(name), name)

    with service.database.write() as connection:
        worker_rows.prune(connection)
        worker_rows.prune(connection)

    assert _on_record(service) == {"alive": True} | dict.fromkeys(many[5:], False)


def test_a_killed_worker_is_silent_at_once_and_the_next_one_stands_beside_it(service: Service) -> None:
    line = [seqferry(), "worker", "--state-dir", str(service.settings.state_dir)]
    place = {"SEQFERRY_DATABASE_URL": service.settings.database_url or ""}
    with RunningProcess(line, environment=place, is_preloaded=True) as killed:
        eventually(lambda: [one for one in service.workers() if one.activity.limits], what="the worker's first report")
        killed.signal(signal.SIGKILL)
        killed.wait()

    [left] = service.workers()
    assert (left.process.pid, left.alive) == (killed.pid, False)

    if service.is_local:
        shown = command(service, "workers")
        assert shown.returncode == 0
        assert [line.split()[:3] for line in shown.stdout.splitlines()][1:] == [[left.process.name, "worker", "silent"]]

    with Worker.start(service.settings, service):
        alive, gone = service.workers()
        assert (alive.process.pid, alive.state) == (os.getpid(), "alive")
        assert (gone.process.id, gone.state) == (left.process.id, "gone")


@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)
def test_the_command_and_a_token_that_may_read_show_the_same(service: Service) -> None:
    none = command(service, "workers")
    assert (none.returncode, none.stdout) == (0, "")
    assert "No worker runs" in none.stderr
    with Worker.start(service.settings, service, kind="serve"), http_of(service) as client:
        eventually(lambda: service.workers()[0].activity.limits is not None, what="the first report")
        row, wish = map(json.loads, command(service, "workers", "--json").stdout.splitlines())
        reader = tokens.add(service, "reader", "read", None)
        answer = client.get("/api/v1/workers", headers=bearer(reader))
        assert answer.status_code == 200
        [told] = answer.json()["workers"]
        assert client.get("/api/v1/workers", headers={"Authorization": "Bearer nobody"}).status_code == 401

    assert (row.pop("event"), row["kind"], row["alive"]) == ("worker", "serve", True)
    assert wish["event"] == "autoscale"
    row.pop("at")
    steady = set(told) - {"seen_at", "since", "resident_bytes"}
    assert set(row) == set(told)
    assert {name: row[name] for name in steady} == {name: told[name] for name in steady}
