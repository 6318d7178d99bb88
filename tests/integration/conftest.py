"""The control plane on each database."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from control import PLACES, settings_for
from ferry import Ferry, FerryFactory

from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.workflows.worker import Worker
from support.postgres import Postgres
from support.run import Run
from support.servers import S3Server
from support.state import prepare


@pytest.fixture(params=PLACES)
def empty_settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Settings on SQLite and on Postgres, in a fresh state folder and database."""
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    return settings_for(tmp_path, url)


@pytest.fixture(scope="session")
def migrated(run: Run, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a database with all tables, to be copied: making them takes seconds, once in a run."""

    def make() -> dict[str, str]:
        name = postgres.create_database()
        Service.open(settings_for(tmp_path_factory.mktemp("migrated"), postgres.url(name))).close()
        return {"name": name}

    return run.once("migrated", make)["name"]


@pytest.fixture
def migrated_url(postgres: Postgres, migrated: str) -> Iterator[str]:
    name = f"copy_{uuid.uuid4().hex[:16]}"
    with psycopg.connect(postgres.url(), autocommit=True) as admin:
        # A third less CPU time than by the log. PostgreSQL 14 has no other way, and no such option.
        how = " strategy file_copy" if admin.info.server_version >= 150000 else ""
        admin.execute(f'create database "{name}" template "{migrated}"{how}'.encode())
    yield postgres.url(name)
    postgres.drop_database(name)


@pytest.fixture(params=PLACES)
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Settings on SQLite and on Postgres, in a state folder of the test's own; the tables may be there already."""
    if request.param == "sqlite":
        return request.getfixturevalue("sqlite_settings")
    return settings_for(tmp_path, request.getfixturevalue("migrated_url"))


@pytest.fixture
def sqlite_settings(run: Run, tmp_path: Path) -> Settings:
    prepare(run, tmp_path / "state")
    return settings_for(tmp_path, None)


@pytest.fixture
def unused_settings(tmp_path: Path) -> Settings:
    """Settings on SQLite, with a state folder that is not there yet."""
    return settings_for(tmp_path, None)


@pytest.fixture
def service(settings: Settings) -> Iterator[Service]:
    with Service.open(settings) as opened:
        yield opened


@pytest.fixture
def start_worker() -> Iterator[Callable[[Service], Worker]]:
    """``start_worker(service)``: a worker in this process, stopped at the test's end."""
    started: list[Worker] = []

    def start(service: Service) -> Worker:
        started.append(Worker.start(service.settings, service))
        return started[-1]

    yield start
    for worker in started:
        assert worker.stop(timeout=30.0)


@pytest.fixture
def own(sqlite_settings: Settings) -> Iterator[Service]:
    """A service on SQLite."""
    with Service.open(sqlite_settings) as opened:
        yield opened


@pytest.fixture
def make_ferry(
    s3server: S3Server,
    make_bucket: Callable[..., str],
    start_worker: Callable[[Service], Worker],
    rng: random.Random,
) -> FerryFactory:
    """``make_ferry(service, reached=server)``: between two fresh buckets on each server in turn."""

    def make(service: Service, *, reached: S3Server = s3server) -> Ferry:
        return Ferry(service, s3server, reached, make_bucket(s3server), make_bucket(s3server), rng, start_worker)

    return make


@pytest.fixture
def ferry(service: Service, make_ferry: FerryFactory) -> Ferry:
    return make_ferry(service)
