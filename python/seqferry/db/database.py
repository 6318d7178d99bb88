"""Connections: one engine per database, and the two kinds of transaction that everything else uses."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DatabaseError, InterfaceError, OperationalError

from seqferry.config import Settings
from seqferry.errors import ConfigError

BUSY_TIMEOUT_MS: Final = 30_000
"""How long a writer waits for another on SQLite: far longer than any of our transactions takes."""

_READ: Final = "seqferry_read"


class Database:
    """Our tables on SQLite or Postgres. Safe to use from many threads."""

    def __init__(self, settings: Settings) -> None:
        self.is_sqlite: Final = settings.uses_sqlite
        self.label: Final = settings.database_label
        if settings.database_url is None:
            url = sa.URL.create("sqlite", database=str(settings.sqlite_path))
            engine = sa.create_engine(url, pool_size=8, max_overflow=16, hide_parameters=True)
            event.listen(engine, "connect", _connect_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
        else:
            url = sa.make_url(settings.database_url)
            engine = sa.create_engine(
                url,
                pool_size=4,
                max_overflow=16,
                pool_pre_ping=True,
                hide_parameters=True,  # errors end in logs
                # An unreachable host is noticed in seconds.
                connect_args={"connect_timeout": 10, "application_name": "seqferry"},
            )
        self.url: Final = url
        self.engine: Final = engine

    @contextmanager
    def read(self) -> Generator[sa.Connection]:
        """One consistent snapshot; never waits for writers."""
        with self._translated(), self.engine.connect() as connection:
            if self.is_sqlite:
                connection = connection.execution_options(**{_READ: True})
            else:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def write(self) -> Generator[sa.Connection]:
        """One transaction, committed at the end. On SQLite it holds the write lock from its start (BEGIN IMMEDIATE)."""
        with self._translated(), self.engine.begin() as connection:
            yield connection

    def now(self, connection: sa.Connection) -> float:
        """The time by the one clock that all workers share."""
        if self.is_sqlite:  # all are on this host
            return time.time()
        return float(connection.exec_driver_sql("select extract(epoch from clock_timestamp())::float8").scalar_one())

    def dbos_engine(self, pool_size: int) -> sa.Engine:
        """An engine for DBOS: the same database, with the connection settings that DBOS expects."""
        if self.is_sqlite:
            engine = sa.create_engine(
                self.url, pool_size=pool_size, max_overflow=0, pool_timeout=30, hide_parameters=True
            )
            event.listen(engine, "connect", _connect_sqlite_for_dbos)
            return engine
        return sa.create_engine(
            self.url,
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=30,
            pool_pre_ping=True,
            hide_parameters=True,
            connect_args={"connect_timeout": 10, "application_name": "seqferry-dbos"},
        )

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def _translated(self) -> Generator[None]:
        """Turn "the database cannot be used" into a message. Faults of our own SQL pass unchanged."""
        try:
            yield
        except (OperationalError, InterfaceError, DatabaseError) as why:
            if type(why) is DatabaseError or isinstance(why, (OperationalError, InterfaceError)):
                # The driver's text names host, port and cause, never a password; SQLAlchemy's would add our SQL.
                cause = " ".join(str(why.orig).split())
                raise ConfigError(
                    f"The database {self.label} cannot be used: {cause}. "
                    "See that it is up and that the address is right."
                ) from why
            raise


def _connect_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    # The driver's own BEGIN comes too late for read-then-write, so transactions are begun by hand, below.
    connection.isolation_level = None
    _pragmas(connection)


def _begin_sqlite(connection: sa.Connection) -> None:
    reading = connection.get_execution_options().get(_READ, False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def _connect_sqlite_for_dbos(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = "IMMEDIATE"
    _pragmas(connection)


def _pragmas(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA foreign_keys=ON")
    # Persists in the file. With it, NORMAL loses at most the last commits at a power cut, none at a kill, and
    # what is lost is found again: objects are looked at in the target before they are copied a second time.
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
