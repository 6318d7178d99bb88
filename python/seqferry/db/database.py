"""Connections: one engine per database, and the two kinds of transaction that everything else uses."""

from __future__ import annotations

import re
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DatabaseError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import NullPool

from seqferry.db import changes, transaction_end
from seqferry.db.read_only import connect as connect_read_only
from seqferry.db.record import ledger, signing
from seqferry.db.transaction_end import TransactionEnd
from seqferry.model.errors import ConfigError, UsageError
from seqferry.model.shortages import can_open_files, open_files_error
from seqferry.settings.audit_key import KeyRing
from seqferry.settings.config import Settings

if TYPE_CHECKING:
    import psycopg

BUSY_TIMEOUT_MS: Final = 30_000
"""Milliseconds that a writer waits for another on SQLite: far longer than any of our transactions takes."""

_FILES_OF_SQLITE: Final = 4
"""Files that a connection opens at most: the database, the two beside it, and its folder."""

_READ: Final = "seqferry_read"
_NOT_SYNCED: Final = "seqferry_not_synced"
_LEVEL: Final = "seqferry_synchronous"

_POSTGRES_OPTIONS: Final[Mapping[str, str]] = {
    "connect_timeout": "10",
    # Without these, a lost host or a firewall that dropped the connection is noticed after hours. With them, silence on
    # an idle connection is noticed after 15 s + 3 * 5 s, and unacknowledged data after 30 s.
    "keepalives": "1",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""Options of connections that bound the time until an outage is noticed; those in the address itself win."""


RESERVED_CONNECTIONS: Final = 2
"""Of a process, beside its pool: one that listens, and one for the heartbeat of a worker, which waits for no other."""

_IDLE_IN_TRANSACTION_MS: Final = 8000
"""No transaction of ours waits for its client for long; one that does is ended by the server, and its locks with it."""

_SET_IDLE: Final = f"set_config('idle_in_transaction_session_timeout', '{_IDLE_IN_TRANSACTION_MS}', {{local}})"
_IN_SESSION: Final = f"select {_SET_IDLE.format(local='false')}, pg_backend_pid()"
_IN_TRANSACTION: Final = f"select {_SET_IDLE.format(local='true')}"
_BACKEND: Final = "select pg_backend_pid()"
_POOLED: Final = "seqferry_pooled"
"""Note at a connection that a pooler answers: what is set in a session may hold for another client."""


_NO_CONVERSION: Final = r"conversion between UTF8 and (\w+) is not supported"
"""PostgreSQL's refusal of a connection to a database in an encoding that UTF-8 cannot be converted to."""


_NO_RIGHT: Final = "42501"
_READ_ONLY: Final = "25006"
"""SQLSTATE of PostgreSQL's refusals: insufficient privilege, and a change in a read-only transaction."""

_ISOLATION: Final = "READ COMMITTED"
"""Of each transaction that names none, over the default of a role or database. A writer that has waited for a
lock has to see what was committed meanwhile, as the head of the ledger."""

MIN_POSTGRES_VERSION: Final = 14
"""Major version of PostgreSQL that is needed: older ones are not maintained, and not tested."""

_STATEMENT_MODE: Final = "statement pooling mode"
"""Of PgBouncer's refusal of a transaction."""


class Database:
    """Our tables on SQLite or Postgres. Safe to use from many threads.

    On Postgres our statements and those of DBOS share one pool, since each process of a fleet takes its part of the
    connections that the server has.

    Args:
        read_only: the state folder cannot be written. Only ``read`` works (SQLite).
        pool_size: connections at most (Postgres); None: as the settings say.

    Raises:
        UsageError: the address of the database is not valid. Whether it answers shows when it is used.
    """

    def __init__(self, settings: Settings, *, read_only: bool = False, pool_size: int | None = None) -> None:
        self.is_sqlite: Final = settings.uses_sqlite
        self.is_read_only: Final = read_only
        self.label: Final = settings.database_label
        if settings.database_url is None and read_only:
            url = sa.URL.create("sqlite", database=str(settings.sqlite_path))
            reading = partial(connect_read_only, settings.sqlite_path)
            engine = sa.create_engine(url, creator=reading, poolclass=NullPool, hide_parameters=True)
            event.listen(engine, "connect", _connect_read_only)
            event.listen(engine, "begin", _begin_reading)
        elif settings.database_url is None:
            url = sa.URL.create("sqlite", database=str(settings.sqlite_path))
            engine = sa.create_engine(url, pool_size=8, max_overflow=16, hide_parameters=True)
            event.listen(engine, "connect", _connect_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
        else:
            url = settings.postgres_url()
            engine = sa.create_engine(
                url,
                pool_size=pool_size or settings.database_connections - RESERVED_CONNECTIONS,
                max_overflow=0,
                pool_timeout=30,
                pool_use_lifo=True,  # few are used while little is done
                pool_pre_ping=True,
                hide_parameters=True,  # errors end in logs
                isolation_level=_ISOLATION,
                connect_args=_connect_args(url, "seqferry"),
            )
            # Before SQLAlchemy's own first questions, whose answers it cannot read in another encoding.
            event.listen(engine, "connect", _requires_fit(self.label), insert=True)
            event.listen(engine, "connect", _connect_postgres)
            _check_options(engine)
        engine.update_execution_options(**{signing.OPTION: KeyRing(settings.audit_key)})
        self.url: Final = url
        self._direct_url: Final = settings.direct_url() or url
        self.engine: Final = engine
        self._write_lock: Final[AbstractContextManager[object]] = threading.Lock() if self.is_sqlite else nullcontext()

    @contextmanager
    def read(self) -> Generator[sa.Connection]:
        """One consistent snapshot; never waits for writers."""
        with self._translate_errors(), self.engine.connect() as connection:
            if self.is_sqlite:
                connection = connection.execution_options(**{_READ: True})
            else:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def write(self, *, durable: bool = True) -> Generator[sa.Connection]:
        """One transaction, committed at the end. On SQLite it holds the write lock from its start (BEGIN IMMEDIATE).

        Args:
            durable: the commit returns when the transaction, and every one before it, is on the disk (SQLite's
                ``synchronous=FULL``). False only for what is found again after a power cut: the last such commits may
                be lost, in the order from the newest. On PostgreSQL the server's ``synchronous_commit`` decides.
        """
        if self.is_read_only:
            raise ConfigError(
                f"The state folder of {self.label} cannot be written, so that nothing can be put on record in it: only "
                "what reads it works (status, watch, report, audit verify). Give another folder with --state-dir."
            )
        # SQLite has no queue: a connection that finds it locked sleeps up to 0.1 s before each attempt. Threads of this
        # process wait for each other here instead.
        with self._write_lock, self._translate_errors(), self.engine.connect() as connection:
            end = TransactionEnd()
            connection = connection.execution_options(**{_NOT_SYNCED: not durable, transaction_end.OPTION: end})
            with connection.begin():
                if connection.info.get(_POOLED, False):
                    connection.exec_driver_sql(_IN_TRANSACTION)
                yield connection
                if end.notifies:
                    changes.send(connection)
                if end.entries:
                    ledger.write(connection, end.entries)

    def now(self, connection: sa.Connection) -> float:
        """The time by the one clock that all workers share."""
        return time.time() if self.is_sqlite else connection.execute(sa.select(clock(is_sqlite=False))).scalar_one()

    @contextmanager
    def dbos_engine(self, pool_size: int) -> Generator[sa.Engine]:
        """Context with an engine for DBOS on the same database.

        SQLite: one of its own, with ``pool_size`` connections and the settings that DBOS expects. Postgres: the pool of
        this database.
        """
        if not self.is_sqlite:
            yield self.engine
            return
        engine = sa.create_engine(self.url, pool_size=pool_size, max_overflow=0, pool_timeout=30, hide_parameters=True)
        event.listen(engine, "connect", _connect_sqlite_for_dbos)
        try:
            yield engine
        finally:
            engine.dispose()

    @property
    def direct_url(self) -> sa.URL:
        """Address of the server itself, where the other one is that of a pooler."""
        return self._direct_url

    def direct(self, name: str) -> psycopg.Connection[Any]:
        """A connection outside of any pool, and past a pooler, to listen or to migrate. Postgres only.

        Args:
            name: of the connection, as ``pg_stat_activity`` shows it.

        Raises:
            psycopg.Error: no connection can be had.
        """
        import psycopg
        from psycopg.conninfo import make_conninfo

        _, options = self.engine.dialect.create_connect_args(self._direct_url)
        options.pop("context", None)  # SQLAlchemy's own
        address = make_conninfo("", **{**options, **_server_options(self._direct_url, name)})
        return psycopg.connect(address, autocommit=True, prepare_threshold=None)

    def shares_session(self, direct: psycopg.Connection[Any]) -> bool:
        """True when a pooler gives the session of this connection to others: locks and notifications get lost there.

        Raises:
            ConfigError: the database cannot be used.
        """
        first = _backend(direct)
        with self.read() as other:
            is_shared = other.exec_driver_sql(_BACKEND).scalar_one() == first
        return is_shared or _backend(direct) != first

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def _translate_errors(self) -> Generator[None]:
        """Turn "the database cannot be used" into a message. Faults of our own SQL pass unchanged."""
        try:
            yield
        except (DatabaseError, InterfaceError, PoolTimeoutError) as why:
            if (fault := self.fault(why)) is None:
                raise
            raise fault from why

    def fault(self, why: Exception) -> ConfigError | None:
        """The error for a database that cannot be used; None for any other error, as of our own SQL."""
        if isinstance(why, PoolTimeoutError):
            return ConfigError(
                f"The database {self.label} cannot be used: all connections of this process are taken, and none came "
                "free in time. See that it is up and not overloaded."
            )
        if (refused := self._refusal(why)) is not None:
            return refused
        if type(why) is not DatabaseError and not isinstance(why, (OperationalError, InterfaceError)):
            return None
        if self.is_sqlite and not can_open_files(_FILES_OF_SQLITE):
            return open_files_error()
        return self.unusable(why.orig)

    def _refusal(self, why: Exception) -> ConfigError | None:
        """The error for rights that the user of the database lacks, and for a database that takes no changes."""
        driver_error = getattr(why, "orig", None)
        state = getattr(driver_error, "sqlstate", None)
        cause = str(driver_error).partition("\n")[0].rstrip(".")
        if state == _NO_RIGHT:
            return ConfigError(
                f"The user of the database {self.label} lacks a right: {cause}. Name the user that owns its tables in "
                "SEQFERRY_DATABASE_URL, or grant it that right."
            )
        if state == _READ_ONLY:
            return ConfigError(
                f"The database {self.label} takes no changes: {cause}. Name the primary server in "
                "SEQFERRY_DATABASE_URL, not a standby."
            )
        return None

    def unusable(self, why: BaseException | None) -> ConfigError:
        """The error for a database that cannot be used, of what the driver raised."""
        # The driver's text names host, port and cause, never a password; SQLAlchemy's would add our SQL.
        cause = " ".join(str(why).split()).rstrip(".?")
        if (refused := re.search(_NO_CONVERSION, cause)) is not None:
            return _not_utf8(self.label, refused[1])
        if _STATEMENT_MODE in cause:
            return ConfigError(
                f"The pooler before the database {self.label} is in statement mode, which has no transactions. Set it "
                "to transaction mode (PgBouncer: pool_mode = transaction), or name the address of PostgreSQL itself."
            )
        advice = (
            _advice(cause)
            if not self.is_sqlite
            else "See that this user may read it and the files beside it, or choose another --state-dir."
            if self.is_read_only
            else "See that there is room and that this user may write there, or choose another --state-dir."
        )
        return ConfigError(f"The database {self.label} cannot be used: {cause}. {advice}")


def _advice(cause: str) -> str:
    """The next step for a PostgreSQL server that cannot be used."""
    for sign, step in _STEPS.items():
        if sign in cause:
            return step
    return "See that it is up and that the address is right."


_MORE_CONNECTIONS: Final = "Raise its max_connections, lower SEQFERRY_DATABASE_CONNECTIONS, or put a pooler before it."
_STEPS: Final = {
    "too many clients": _MORE_CONNECTIONS,
    "remaining connection slots": _MORE_CONNECTIONS,
    "too many connections": "Raise the CONNECTION LIMIT of its user, or lower SEQFERRY_DATABASE_CONNECTIONS.",
    "No space left on device": "Make room on the disk of the server.",
    "no pg_hba.conf entry": "Allow this host and user in its pg_hba.conf; where it asks for TLS, add sslmode=require.",
    "password authentication failed": "Correct user and password in the address.",
    "statement timeout": "Raise the limit: `ALTER ROLE ... SET statement_timeout = 0`.",
    "lock timeout": "Raise the limit: `ALTER ROLE ... SET lock_timeout = 0`.",
    "certificate": "See that sslrootcert names the authority of its certificate, and that it names the host.",
}
"""Next steps by what is in a cause, where the server answered."""


def _backend(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute(_BACKEND).fetchone()
    assert row is not None
    return row[0]


def clock(*, is_sqlite: bool) -> sa.ColumnElement[float]:
    """The time by the one clock that all workers share, for use within a statement: when that is executed."""
    if is_sqlite:  # all are on this host
        return sa.bindparam("now", callable_=time.time, type_=sa.Double(), unique=True)
    return sa.cast(sa.extract("epoch", sa.func.clock_timestamp()), sa.Double)


def fetch(rows: sa.CursorResult[Any]) -> list[tuple[Any, ...]]:
    """Rows as the driver gives them: giving names to the values of a thousand takes longer than reading them."""
    found: Sequence[tuple[Any, ...]] = () if rows.cursor is None else rows.cursor.fetchall()
    rows.close()
    return list(found)


def _connect_args(url: sa.URL, name: str) -> dict[str, Any]:
    # Prepared statements belong to a connection of the server, which a pooler in transaction mode changes.
    return {**_server_options(url, name), "prepare_threshold": None}


def _server_options(url: sa.URL, name: str) -> dict[str, Any]:
    wanted = {**_POSTGRES_OPTIONS, "application_name": name}
    given = {option: value for option, value in wanted.items() if option not in url.query}
    # Over the address, PGCLIENTENCODING and settings of the role: the driver reads and writes texts in it.
    return {**given, "client_encoding": "UTF8"}


def _check_options(engine: sa.Engine) -> None:
    """Refuse options in the address that the driver does not know.

    Raises:
        UsageError: an option is unknown. The error does not name it: a password with a ``?`` may look like an option.
    """
    import psycopg
    from psycopg.conninfo import make_conninfo

    _, options = engine.dialect.create_connect_args(engine.url)
    options.pop("context", None)  # SQLAlchemy's own, for the driver and not for the server
    try:
        make_conninfo("", **options)
    except psycopg.ProgrammingError:
        engine.dispose()
        raise UsageError(
            "SEQFERRY_DATABASE_URL: after the ? is an option that PostgreSQL does not know; correct or remove it. "
            "Write a ? in a password as %3F."
        ) from None


def _requires_fit(label: str) -> Callable[[psycopg.Connection[Any], Any], None]:
    """A listener that refuses an old server, and a database in another encoding than UTF-8, which would lose keys."""

    def check(connection: psycopg.Connection[Any], _record: Any) -> None:
        major = connection.info.server_version // 10000
        if major < MIN_POSTGRES_VERSION:
            connection.close()
            raise ConfigError(
                f"The database {label} is PostgreSQL {major}, which is too old: Seqferry needs {MIN_POSTGRES_VERSION} "
                "or newer. Upgrade the server, or name another one in SEQFERRY_DATABASE_URL."
            )
        encoding = connection.info.parameter_status("server_encoding")
        if encoding in (None, "UTF8"):
            return
        connection.close()
        raise _not_utf8(label, encoding)

    return check


def _not_utf8(label: str, encoding: str) -> ConfigError:
    return ConfigError(
        f"The database {label} has the encoding {encoding}, which cannot hold every key: Seqferry needs UTF8. Create "
        "another database with `createdb --template=template0 --encoding=UTF8 NAME` and name it in "
        "SEQFERRY_DATABASE_URL."
    )


def _connect_postgres(connection: Any, record: Any) -> None:
    # A client that hangs, or whose host is down, must not hold locks that workers need to take over its work.
    connection.autocommit = True
    row = connection.execute(_IN_SESSION).fetchone()
    connection.autocommit = False
    # A pooler names a process of its own, if any.
    record.info[_POOLED] = row is None or row[1] != connection.info.backend_pid


def _connect_read_only(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")


def _begin_reading(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _connect_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    # The driver's own BEGIN comes too late for read-then-write, so transactions are begun by hand, below.
    connection.isolation_level = None
    _pragmas(connection)


def _begin_sqlite(connection: sa.Connection) -> None:
    options = connection.get_execution_options()
    if options.get(_READ, False):
        connection.exec_driver_sql("BEGIN")
        return
    level = "NORMAL" if options.get(_NOT_SYNCED, False) else "FULL"
    if connection.info.get(_LEVEL) != level:  # outside of the transaction: SQLite takes it nowhere else
        connection.exec_driver_sql(f"PRAGMA synchronous={level}")
        connection.info[_LEVEL] = level
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _connect_sqlite_for_dbos(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = "IMMEDIATE"
    _pragmas(connection)
    # Nothing of what DBOS writes by itself is acknowledged to anyone, and lost steps are run again. What is enqueued
    # goes through our transactions.
    connection.execute("PRAGMA synchronous=NORMAL")


def _pragmas(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA foreign_keys=ON")
    # Persists in the file. In it a commit with NORMAL is lost at most by a power cut, never by a kill, and one with
    # FULL syncs the file of all commits before it as well.
    connection.execute("PRAGMA journal_mode=WAL")
