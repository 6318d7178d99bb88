"""Connections to PostgreSQL: how many a process holds, and what a pooler between both may do with them."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from control import settings_for, spec_on, until_ended
from mirror import digests, fill

from seqferry.db import changes
from seqferry.db.database import Database
from seqferry.model.errors import ConfigError, UsageError
from seqferry.service.service import Service
from seqferry.settings.config import DATABASE_CONNECTIONS, Settings
from seqferry.workflows.worker import Worker
from support import pooler
from support.pooler import Pooler
from support.postgres import Postgres
from support.run import MissingToolError, Run
from support.servers import S3Server
from support.waiting import eventually

pytestmark = pytest.mark.postgres

_KIB = 1024


@contextmanager
def _most_connections(postgres: Postgres, database: str) -> Iterator[Callable[[], int]]:
    """The number of connections to a database that were seen at once since the block began."""
    seen, stop = [0], threading.Event()

    def look() -> None:
        with psycopg.connect(postgres.url(), autocommit=True) as admin:
            query = b"select count(*) from pg_stat_activity where datname = %s and backend_type = 'client backend'"
            while not stop.wait(0.02):
                row = admin.execute(query, [database]).fetchone()
                assert row is not None
                seen.append(row[0])

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield lambda: max(seen)
    finally:
        stop.set()
        thread.join()


def _name(url: str) -> str:
    return url.rpartition("/")[2]


@pytest.fixture(scope="session")
def start_pooler(run: Run, postgres: Postgres, request: pytest.FixtureRequest) -> Callable[[pooler.Mode], Pooler]:
    """``start_pooler(mode)``: one for each mode in a run of this process."""
    known: dict[str, Pooler] = {}

    def start(mode: pooler.Mode) -> Pooler:
        try:
            return known.setdefault(mode, known.get(mode) or pooler.start(run, postgres, mode))
        except MissingToolError as why:
            pytest.skip(str(why))

    return start


def test_a_busy_worker_keeps_to_its_connections(
    postgres: Postgres,
    migrated_url: str,
    tmp_path: Path,
    versitygw: S3Server,
    make_bucket: Callable[..., str],
    rng: random.Random,
) -> None:
    source, target = make_bucket(versitygw), make_bucket(versitygw)
    fill(versitygw, source, {f"run{number}/{each}": 10 for number in range(8) for each in range(6)}, rng)
    settings = settings_for(tmp_path, migrated_url)
    with _most_connections(postgres, _name(migrated_url)) as most:
        with Service.open(settings) as service, Worker.start(settings, service):
            watchers = [service.watch_changes() for _ in range(4)]  # as streams of the API
            for number in range(8):
                spec = spec_on(versitygw, f"s3://{source}/run{number}/", f"s3://{target}/{number}/")
                service.submit(spec, actor="ada")
            for row in service.transfers():
                status = until_ended(service, row.id)
                assert (status.state, status.totals.done) == ("done", 6)
            for watcher in watchers:
                watcher.close()
        assert 2 <= most() <= DATABASE_CONNECTIONS


def test_a_worker_does_its_work_within_the_fewest_connections(
    postgres: Postgres,
    migrated_url: str,
    tmp_path: Path,
    versitygw: S3Server,
    make_bucket: Callable[..., str],
    rng: random.Random,
) -> None:
    source, target = make_bucket(versitygw), make_bucket(versitygw)
    fill(versitygw, source, {f"run{number}/{each}": 10 for number in range(4) for each in range(3)}, rng)
    settings = _with(settings_for(tmp_path, migrated_url), database_connections=4)
    with _most_connections(postgres, _name(migrated_url)) as most:
        specs = [spec_on(versitygw, f"s3://{source}/run{each}/", f"s3://{target}/{each}/") for each in range(4)]
        with Service.open(settings) as service, ThreadPoolExecutor(len(specs)) as clients:
            # More transactions at once than there are connections, the first of this process.
            submitted = list(clients.map(lambda spec: service.submit(spec, actor="ada"), specs, timeout=20.0))
            with Worker.start(settings, service):
                for transfer_id in submitted:
                    assert until_ended(service, transfer_id).state == "done"
        assert most() <= 4


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_transfers_run_through_a_pooler(
    start_pooler: Callable[[pooler.Mode], Pooler],
    postgres: Postgres,
    postgres_url: str,
    tmp_path: Path,
    versitygw: S3Server,
    make_bucket: Callable[..., str],
    rng: random.Random,
    mode: pooler.Mode,
) -> None:
    name = _name(postgres_url)
    source, target = make_bucket(versitygw), make_bucket(versitygw)
    fill(versitygw, source, {"run/big": 6 * _KIB * _KIB} | {f"run/{number}": 10 for number in range(40)}, rng)
    through = start_pooler(mode).url(name)
    settings = _with(settings_for(tmp_path, through), database_direct_url=_driver(postgres_url))
    with Service.open(settings) as service, Worker.start(settings, service):
        for number in range(4):
            transfer_id = service.submit(
                spec_on(versitygw, f"s3://{source}/run/", f"s3://{target}/{number}/"), actor="ada"
            )
            status = until_ended(service, transfer_id)
            assert (status.state, status.totals.done) == ("done", 41)
        assert digests(versitygw, target, "3/") == digests(versitygw, source, "run/")
        with service.database.write() as connection:
            idle = connection.exec_driver_sql("show idle_in_transaction_session_timeout").scalar()
            assert idle == "8s"


def test_a_transfer_through_a_pooler_begins_at_once_where_the_server_itself_is_named(
    start_pooler: Callable[[pooler.Mode], Pooler], postgres_url: str, migrated_url: str, tmp_path: Path
) -> None:
    through = start_pooler("transaction").url(_name(migrated_url))
    settings = _with(settings_for(tmp_path, through), database_direct_url=_driver(migrated_url))
    database = Database(settings)
    watcher = changes.open_watcher(database)
    assert watcher.wait(10.0)  # it listens
    _until_calm(watcher)
    for _ in range(5):
        with database.write() as connection:
            changes.notify(connection)
        assert watcher.wait(1.0)
    watcher.close()
    database.close()


def test_a_pooler_in_transaction_mode_without_the_address_of_the_server_is_told_of(
    start_pooler: Callable[[pooler.Mode], Pooler], migrated_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    through = start_pooler("transaction").url(_name(migrated_url))
    database = Database(settings_for(tmp_path, through))
    watcher = changes.open_watcher(database)
    eventually(lambda: "transaction mode" in caplog.text, what="the warning", deadline=20.0)
    watcher.close()
    database.close()
    [line] = [record.message for record in caplog.records if "transaction mode" in record.message]
    assert "SEQFERRY_DATABASE_DIRECT_URL" in line


@pytest.mark.parametrize("mode", ["session", None])
def test_notifications_that_arrive_are_not_complained_of(
    start_pooler: Callable[[pooler.Mode], Pooler],
    migrated_url: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    mode: pooler.Mode | None,
) -> None:
    url = migrated_url if mode is None else start_pooler(mode).url(_name(migrated_url))
    database = Database(settings_for(tmp_path, url))
    watcher = changes.open_watcher(database)
    assert watcher.wait(10.0)
    _until_calm(watcher)
    with database.write() as connection:
        changes.notify(connection)
    assert watcher.wait(1.0)
    watcher.close()
    database.close()
    assert not caplog.records


def test_notifications_come_again_after_the_look_for_a_pooler_has_failed(
    migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looked: list[str] = []
    look = Database.shares_session

    def away_at_first(database: Database, direct: psycopg.Connection[tuple[object, ...]]) -> bool:
        looked.append(database.label)
        if len(looked) == 1:  # the server restarts between the connection that listens and that of the pool
            raise ConfigError("The database cannot be used: connection refused.")
        return look(database, direct)

    monkeypatch.setattr(Database, "shares_session", away_at_first)
    database = Database(settings_for(tmp_path, migrated_url))
    watcher = changes.open_watcher(database)
    assert watcher.wait(10.0)
    _until_calm(watcher)
    with database.write() as connection:
        changes.notify(connection)
    assert watcher.wait(1.0)
    watcher.close()
    database.close()
    assert "sends no notifications" in caplog.text


def test_a_watcher_is_closed_after_the_look_for_a_pooler_has_given_its_connection_back(
    migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking, go_on = threading.Event(), threading.Event()

    def slow(_database: Database, _direct: psycopg.Connection[tuple[object, ...]]) -> bool:
        looking.set()
        return not go_on.wait(60.0)

    monkeypatch.setattr(Database, "shares_session", slow)
    database = Database(settings_for(tmp_path, migrated_url))
    watcher = changes.open_watcher(database)
    assert looking.wait(60.0)
    closing = threading.Thread(target=watcher.close)
    closing.start()

    closing.join(0.2)
    assert closing.is_alive()

    go_on.set()
    closing.join(60.0)
    assert not closing.is_alive()
    database.close()


def test_a_pooler_in_statement_mode_is_refused_in_one_line(
    start_pooler: Callable[[pooler.Mode], Pooler], postgres: Postgres, postgres_url: str, tmp_path: Path
) -> None:
    through = start_pooler("statement").url(_name(postgres_url))
    with pytest.raises(ConfigError, match="statement mode") as refused:
        Service.open(settings_for(tmp_path, through))
    assert "\n" not in refused.value.message
    assert "pool_mode = transaction" in refused.value.message
    with psycopg.connect(postgres_url) as connection:
        there = connection.execute("select count(*) from pg_tables where schemaname in ('public', 'dbos')").fetchone()
    assert there == (0,)


def test_tables_are_not_made_through_a_pooler_in_transaction_mode(
    start_pooler: Callable[[pooler.Mode], Pooler], postgres_url: str, tmp_path: Path
) -> None:
    through = start_pooler("transaction").url(_name(postgres_url))
    with pytest.raises(ConfigError, match="transaction mode") as refused:
        Service.open(settings_for(tmp_path, through))
    assert "\n" not in refused.value.message
    assert "SEQFERRY_DATABASE_DIRECT_URL" in refused.value.message
    with psycopg.connect(postgres_url) as connection:
        there = connection.execute("select count(*) from pg_tables where schemaname in ('public', 'dbos')").fetchone()
    assert there == (0,)


@pytest.mark.parametrize("given", ["0", "3", "101", "many"])
def test_a_number_of_connections_that_makes_no_sense_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match="SEQFERRY_DATABASE_CONNECTIONS"):
        Settings.load({"SEQFERRY_DATABASE_CONNECTIONS": given, "HOME": "/nowhere"})


def _until_calm(watcher: changes.ChangeWatcher) -> None:
    """Past the change that the listener's start counts as."""
    eventually(lambda: not watcher.wait(0.5), what="an end of changes", deadline=20.0)


def _driver(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://", 1)


def _with(settings: Settings, **changed: object) -> Settings:
    return replace(settings, **changed)  # pyright: ignore[reportArgumentType]
