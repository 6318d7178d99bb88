"""Databases that cannot be used: one line each, and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from control import settings_for

from seqferry.db import database
from seqferry.model.errors import ConfigError
from seqferry.service.service import Service
from support.postgres import Postgres

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
    with psycopg.connect(migrated_url) as admin:
        admin.execute("update seqferry_schema set version_num = '0018'")
    name = migrated_url.rpartition("/")[2]
    mine = user(
        migrated_url,
        f'create on database "{name}"',
        "create on schema public",
        "select on all tables in schema public",
    )
    before = _tables(migrated_url)

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
    monkeypatch.setattr(database, "LEAST_VERSION", 99)  # the server that is here is newer than those that are refused
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
