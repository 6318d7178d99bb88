"""``serve --no-worker``: servers that answer, with workers beside them or none."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager

import httpx
import pytest
from control import until_ended
from http_client import bearer
from mirror import SMALL, digests, fill

from seqferry.db import worker_rows
from seqferry.model.workers import Process, ProcessKind
from seqferry.service.service import Service
from seqferry.settings import tokens
from seqferry.workflows.worker import Worker
from support.processes import RunningProcess, seqferry
from support.servers import S3Server
from support.waiting import eventually

NO_WORKER = "a worker, and none is at the database"


@contextmanager
def answering(service: Service, **environment: str) -> Generator[tuple[RunningProcess, httpx.Client]]:
    """``seqferry serve --no-worker`` at the state folder and the database of a service, and a client of it."""
    settings = service.settings
    url = {} if settings.database_url is None else {"SEQFERRY_DATABASE_URL": settings.database_url}
    command = [seqferry(), "serve", "--no-worker", "--port", "0", "--state-dir", str(settings.state_dir)]
    with RunningProcess(command, environment={**url, **environment}, is_preloaded=True) as process:
        address = process.wait_for_line("http://").strip()
        headers = bearer(tokens.owner_token(settings.state_dir))
        with httpx.Client(base_url=address, headers=headers, trust_env=False, timeout=60) as client:
            eventually(lambda: kinds(service), what="the row of the server")
            yield process, client


def kinds(service: Service) -> list[str]:
    return [one.process.kind for one in service.workers() if one.alive]


@pytest.fixture
def submit(
    seaweedfs: S3Server, make_bucket: Callable[..., str], rng: random.Random
) -> tuple[Callable[[httpx.Client], str], Callable[[], bool]]:
    """Submits a transfer of three objects; tells whether they have arrived."""
    source, target = make_bucket(seaweedfs), make_bucket(seaweedfs)
    fill(seaweedfs, source, {f"run/{number}": SMALL for number in range(3)}, rng)
    body = {"source": f"s3://{source}/run/", "target": f"s3://{target}", "endpoint_url": seaweedfs.endpoint_url}

    def act(client: httpx.Client) -> str:
        answer = client.post("/api/v1/transfers", json=body)
        assert answer.status_code == 202, answer.text
        return answer.json()["id"]

    return act, lambda: digests(seaweedfs, target) == digests(seaweedfs, source, "run/")


def test_what_is_submitted_waits_for_a_worker(
    service: Service,
    start_worker: Callable[[Service], Worker],
    seaweedfs: S3Server,
    submit: tuple[Callable[[httpx.Client], str], Callable[[], bool]],
) -> None:
    to_submit, has_arrived = submit
    with answering(service, AWS_ENDPOINT_URL=seaweedfs.endpoint_url) as (process, client):
        of = to_submit(client)
        waiting = client.get(f"/api/v1/transfers/{of}").json()
        [shown] = client.get("/api/v1/workers").json()["workers"]
        assert (shown["kind"], shown["alive"], shown["lanes"], shown["transfers"]) == ("http", True, [], 0)
        assert (waiting["state"], waiting["waits_for"]) == ("queued", NO_WORKER)
        assert waiting["queue"] == {"reason": "worker", "ahead": None, "blocked_by": None}
        assert (service.available_workers(), service.gauges().workers) == ([], 0)

        start_worker(service)
        assert until_ended(service, of).totals.done == 3
        assert has_arrived()
        assert client.get(f"/api/v1/transfers/{of}").json()["waits_for"] is None
        assert sorted(kinds(service)) == ["http", "worker"]
        assert (len(service.available_workers()), service.gauges().workers) == (1, 1)

        process.signal(signal.SIGTERM)
        assert process.wait(20) == 0, process
        assert "Traceback" not in process.stderr
        assert kinds(service) == ["worker"]


@pytest.mark.every_database
def test_servers_at_one_database_and_state_folder_are_as_one(
    service: Service, seaweedfs: S3Server, submit: tuple[Callable[[httpx.Client], str], Callable[[], bool]]
) -> None:
    to_submit, _ = submit
    storage = seaweedfs.endpoint_url
    with (
        answering(service, AWS_ENDPOINT_URL=storage) as (first, one),
        answering(service, AWS_ENDPOINT_URL=storage) as (_, other),
    ):
        of = to_submit(one)
        assert other.get(f"/api/v1/transfers/{of}").json()["state"] == "queued"
        path = one.post(f"/api/v1/transfers/{of}/report-ticket").json()["path"]
        assert [client.get(path).status_code for client in (other, one)] == [200, 404]
        first.signal(signal.SIGKILL)
        first.wait(20)
        assert kinds(service) == ["http"]
        assert other.post(f"/api/v1/transfers/{of}/cancel").status_code == 202


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ([], False),
        (["http"], True),
        (["http", "http", "gateway"], True),
        (["gateway"], False),
        (["http", "worker"], False),
        (["http", "serve"], False),
        (["serve"], False),
    ],
)
def test_that_no_worker_is_there_is_said_where_servers_only_answer(
    service: Service, there: list[ProcessKind], expected: bool
) -> None:
    with service.database.write() as connection:
        for number, kind in enumerate(there):
            worker_rows.beat(connection, Process(f"host-{number}", kind, "host", number, "1", "1", "1"))
        assert worker_rows.has_only_http_servers(connection) is expected
        worker_rows.mark_dead(connection)
        assert worker_rows.has_only_http_servers(connection) is ("http" in there)
