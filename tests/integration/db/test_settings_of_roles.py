"""Settings that an administrator gave to a role or a database: what we rely on is set for each transaction."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from control import settings_for

from seqferry.db.advisory import AdvisoryLock, acquire
from seqferry.db.database import Database
from support.waiting import eventually

pytestmark = pytest.mark.postgres

_NOTE = sa.text("insert into schema_note (about, comment) values ('here', 'first')")
_NOTES = sa.text("select count(*) from schema_note where about = 'here'")
_WAITING = """
    select count(*) from pg_locks
    where not granted and database = (select oid from pg_database where datname = current_database())
"""


@pytest.fixture(params=["repeatable read", "serializable"])
def database(request: pytest.FixtureRequest, migrated_url: str, tmp_path: Path) -> Iterator[Database]:
    """A database whose transactions have another isolation than PostgreSQL's default, unless they say so."""
    name = migrated_url.rpartition("/")[2]
    with psycopg.connect(migrated_url, autocommit=True) as admin:
        admin.execute(f"alter database \"{name}\" set default_transaction_isolation = '{request.param}'".encode())
    opened = Database(settings_for(tmp_path, migrated_url))
    yield opened
    opened.close()


@pytest.mark.parametrize("of_dbos", [False, True])
def test_a_writer_that_waited_for_a_lock_sees_what_was_committed_meanwhile(database: Database, of_dbos: bool) -> None:
    def begin() -> AbstractContextManager[sa.Connection]:
        return database.engine.begin() if of_dbos else database.write()

    def count() -> int:
        with begin() as connection:
            acquire(connection, AdvisoryLock.LEDGER)
            return connection.execute(_NOTES).scalar_one()

    def is_waiting() -> bool:
        with database.read() as connection:
            return connection.exec_driver_sql(_WAITING).scalar_one() == 1

    with ThreadPoolExecutor(1) as threads:
        with begin() as first:
            acquire(first, AdvisoryLock.LEDGER)
            second = threads.submit(count)
            eventually(is_waiting, what="the second writer at the lock", deadline=30.0)
            first.execute(_NOTE)
        assert second.result(30.0) == 1
