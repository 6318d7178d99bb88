"""Databases that cannot be used: one line each, and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import later
import psycopg
import pytest
from control import settings_for

from seqferry.db import database, migrate
from seqferry.db.advisory import AdvisoryLock
from seqferry.model.errors import ConfigError
from seqferry.service.service import Service
from support.postgres import Postgres
from support.servers import free_ports

pytestmark = pytest.mark.postgres

_TABLES = b"select count(*) from pg_tables where schemaname in ('public', 'dbos')"


@pytest.fixture
def user(postgres: Postgres) -> Iterator[Callable[..., str]]:
    """``user(url, *grants)``: the address for a new user of that database, with these rights."""
    made: list[tuple[str, str]] = []

    def make(url: str, *grants: str) -> str:
        name = f"user_{url[-12:]}"
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(f'create role "{name}" login'.encode())
            for grant in grants:
                admin.execute(f'grant {grant} to "{name}"'.encode())
        made.append((url, name))
        return url.replace("postgres@", f"{name}@")

    yield make
    for url, name in made:
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(f'drop owned by "{name}" cascade'.encode())
            admin.execute(f'drop role "{name}"'.encode())


def _change(url: str, folder: Path) -> None:
    with Service.open(settings_for(folder, url)) as service, service.database.write() as connection:
        connection.exec_driver_sql("delete from schedule")


def _refusal(url: str, folder: Path) -> str:
    with pytest.raises(ConfigError) as refused:
        _change(url, folder)
    assert "\n" not in refused.value.message
    return refused.value.message


def _tables(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(_TABLES).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize(
    ("grants", "lacking"),
    [
        ((), "CREATE on the database, CREATE on the schema public"),
        (("create on database {name}",), "CREATE on the schema public"),
        (("create on schema public",), "CREATE on the database"),
    ],
)
def test_a_user_that_may_not_make_the_tables_is_told_before_any_is_made(
    postgres_url: str, user: Callable[..., str], tmp_path: Path, grants: tuple[str, ...], lacking: str
) -> None:
    name = postgres_url.rpartition("/")[2]
    mine = user(postgres_url, *(grant.format(name=f'"{name}"') for grant in grants))

    assert f"its user lacks {lacking}. " in _refusal(mine, tmp_path)
    assert _tables(postgres_url) == 0


def test_a_user_that_may_not_change_tables_of_another_is_told_before_any_is_changed(
    migrated_url: str, user: Callable[..., str], tmp_path: Path
) -> None:
    name = migrated_url.rpartition("/")[2]
    mine = user(
        migrated_url,
        f'create on database "{name}"',
        "create on schema public",
        "select on all tables in schema public",
    )
    before = _tables(migrated_url)

    with later.version():
        assert "its user lacks the rights of the owner of the tables. " in _refusal(mine, tmp_path)
    assert _tables(migrated_url) == before


@pytest.mark.parametrize("grants", [(), ("select on all tables in schema public",)])
def test_a_user_without_rights_to_the_tables_gets_one_line(
    migrated_url: str, user: Callable[..., str], tmp_path: Path, grants: tuple[str, ...]
) -> None:
    assert "lacks a right: permission denied for table" in _refusal(user(migrated_url, *grants), tmp_path)


def test_a_database_that_takes_no_changes_gets_one_line(migrated_url: str, tmp_path: Path) -> None:
    url = f"{migrated_url}?options=-c%20default_transaction_read_only%3Don"
    assert "takes no changes" in _refusal(url, tmp_path)


def test_an_old_server_is_refused(postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        database, "MIN_POSTGRES_VERSION", 99
    )  # the server that is here is newer than those that are refused
    assert "is too old: Seqferry needs 99 or newer" in _refusal(postgres_url, tmp_path)
    assert _tables(postgres_url) == 0


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("/absent", 'database "absent" does not exist'),
        (":1/none", "Connection refused"),
    ],
)
def test_a_wrong_address_gets_one_line(postgres: Postgres, tmp_path: Path, changed: str, said: str) -> None:
    url = postgres.url().removesuffix("/postgres") + changed
    if changed.startswith(":"):
        url = f"postgresql://postgres@127.0.0.1{changed}"
    assert said in _refusal(url, tmp_path)


def _alter(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        for statement in statements:
            admin.execute(statement.encode())


def _with_path(url: str, path: str) -> str:
    """The address of a database whose users have this search_path from now on."""
    _alter(url, f'alter database "{url.rpartition("/")[2]}" set search_path = {path}')
    return url


def test_a_search_path_without_a_schema_gets_one_line(postgres_url: str, tmp_path: Path) -> None:
    assert "names no existing schema" in _refusal(_with_path(postgres_url, "nowhere"), tmp_path)
    assert _tables(postgres_url) == 0


def test_the_tables_are_made_in_the_first_schema_of_the_search_path(postgres_url: str, tmp_path: Path) -> None:
    _alter(postgres_url, "create schema mine")
    _change(_with_path(postgres_url, "mine, public"), tmp_path)

    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("select to_regclass('mine.transfer') is not null").fetchone() == (True,)
        assert connection.execute("select to_regclass('public.transfer') is null").fetchone() == (True,)


def test_no_second_set_of_tables_is_made_where_the_search_path_hides_the_first(
    migrated_url: str, tmp_path: Path
) -> None:
    _alter(migrated_url, "create schema mine")
    before = _tables(migrated_url)

    assert "are in its schema public, which" in _refusal(_with_path(migrated_url, "mine"), tmp_path)
    assert _tables(migrated_url) == before
    with psycopg.connect(migrated_url) as connection:
        assert connection.execute("select to_regclass('mine.transfer') is null").fetchone() == (True,)


def test_tables_of_another_product_are_left_alone(postgres_url: str, tmp_path: Path) -> None:
    _alter(postgres_url, "create table event (id int)", "create table transfer (id int)")

    assert "tables of another product by the names event, transfer. " in _refusal(postgres_url, tmp_path)
    assert _tables(postgres_url) == 2


def test_a_queue_that_another_application_uses_is_left_alone(postgres_url: str, tmp_path: Path) -> None:
    _alter(
        postgres_url,
        "create schema dbos",
        "create table dbos.workflow_status (workflow_uuid text)",
        "insert into dbos.workflow_status values ('theirs')",
    )

    assert "Another application has work in the schema dbos" in _refusal(postgres_url, tmp_path)
    assert _tables(postgres_url) == 1


def test_tables_that_another_client_uses_are_waited_for_within_bounds(
    migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "_TABLE_LOCK_ATTEMPTS", 2)
    monkeypatch.setattr(migrate, "_TABLE_LOCK_SECONDS", 1)
    monkeypatch.setattr(migrate, "_TABLE_LOCK_PAUSE_SECONDS", 0.1)
    before = _tables(migrated_url)

    with later.version(), psycopg.connect(migrated_url, application_name="a report") as other:
        other.execute("lock table seqferry_schema in exclusive mode")
        refusal = _refusal(migrated_url, tmp_path)
        assert f"are in use by the process {other.info.backend_pid} of PostgreSQL (a report)" in refusal
        assert _tables(migrated_url) == before

    with later.version():
        _change(migrated_url, tmp_path)
    assert _tables(migrated_url) == before + 1


def test_a_process_that_hangs_in_a_migration_is_waited_for_within_bounds(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "_LOCK_SECONDS", 0.5)
    with psycopg.connect(postgres_url, autocommit=True) as other:
        other.execute("select pg_advisory_lock(%s)", [int(AdvisoryLock.MIGRATION)])
        refusal = _refusal(postgres_url, tmp_path)
        assert f"the process {other.info.backend_pid} of PostgreSQL, whose client is at 127.0.0.1" in refusal
        assert _tables(postgres_url) == 0


def test_of_several_hosts_the_one_that_takes_changes_is_used(postgres_url: str, tmp_path: Path) -> None:
    [unused] = free_ports(1)
    url = postgres_url.replace("@127.0.0.1:", f"@127.0.0.1:{unused},127.0.0.1:")

    _change(f"{url}?target_session_attrs=read-write", tmp_path)

    assert _tables(postgres_url) > 0
    assert "session is not read-only" in _refusal(f"{url}?target_session_attrs=read-only", tmp_path)


def test_a_server_without_a_free_connection_gets_its_own_advice(
    migrated_url: str, user: Callable[..., str], tmp_path: Path
) -> None:
    mine = user(migrated_url, "select on all tables in schema public")
    name = f"user_{migrated_url[-12:]}"
    _alter(migrated_url, f'alter role "{name}" connection limit 1')

    with psycopg.connect(mine):
        assert "Raise the CONNECTION LIMIT of its user" in _refusal(mine, tmp_path)
