"""Bring a database to the shape that this version needs: our tables by alembic, those of the queue by its library.

Safe to call from several processes concurrently: a lock serializes them, and each step checks first what exists.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import sqlalchemy as sa

from seqferry.db.advisory import AdvisoryLock
from seqferry.db.database import Database
from seqferry.model.errors import ConfigError
from seqferry.places import private_files
from seqferry.settings.config import Settings

if TYPE_CHECKING:
    import psycopg
    from alembic.config import Config

INITIAL: Final = "0100"
"""The revision of the initial schema. Lower ones are of builds before the first release, which are not upgraded."""

HEAD: Final = "0100"
"""The newest revision, written down so that a database that is up to date costs one query and no import of alembic."""

VERSIONS: Final = (Path(__file__).parent / "migrations" / "versions",)
"""Folders of the revisions."""

VERSION_TABLE: Final = "seqferry_schema"

_OLDEST_READER: Final = "oldest reader"
"""Note in the database: the newest revision in it that ``contracts``. Programs that know it can use the database."""
_LOCK_POLL_SECONDS: Final = 0.1
_LOCK_SECONDS: Final = 120.0
"""Longest wait for another process that changes the tables: far longer than a migration takes."""

_TABLE_LOCK_SECONDS: Final = 4
"""Longest wait for the lock of a table in use: later statements queue behind this one."""
_TABLE_LOCK_ATTEMPTS: Final = 8
_TABLE_LOCK_PAUSE_SECONDS: Final = 2.0
"""Pause between two attempts, in which the queued statements run."""
_NO_LOCK: Final = "55P03"
"""SQLSTATE of a lock that was not available in time."""


class QueueTables(Protocol):
    """The tables of the work queue in a database, in a schema of their own on PostgreSQL."""

    schema: ClassVar[str]

    def migrate(self) -> None: ...

    def has_workflows(self, connection: sa.Connection) -> bool: ...


def migrate(settings: Settings, database: Database, queue: QueueTables) -> None:
    """Create or upgrade all tables.

    Raises:
        ConfigError: the database cannot be used, a newer version has changed it beyond what this one can use, or it is
            of a build before the first release.
    """
    if _is_usable(database, _current(database)):
        return
    with _lock(settings, database):
        found = _current(database)
        if _is_usable(database, found):
            return
        _refuse_unknown(database, found)
        if not database.is_sqlite:
            from seqferry.db import preconditions

            preconditions.require_rights(database, VERSION_TABLE, queue.schema)
            if found is None:
                preconditions.require_vacancy(database, VERSION_TABLE, queue)
        queue.migrate()
        _migrate_ours(database)


def require_current(database: Database) -> None:
    """See that a database that cannot be written has the tables of this version.

    Raises:
        ConfigError: it has none, or those of another version, or cannot be read.
    """
    found = _current(database)
    if _is_usable(database, found):
        return
    _refuse_unknown(database, found)
    if found is None or found.partition(" ")[0] != HEAD:
        raise ConfigError(
            f"The database {database.label} was made by an earlier version of seqferry, and its folder cannot be "
            "written: run any command where it can, which brings it up to date, or read it with that version."
        )


def _upgrade(connection: sa.Connection) -> None:
    """Run our own migrations on an open transaction."""
    from alembic import command

    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _config() -> Config:
    logging.getLogger("alembic").setLevel(logging.WARNING)  # its import logs already
    from alembic.config import Config

    config = Config()
    # ConfigParser, which alembic uses, gives "%" a meaning.
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    config.set_main_option("version_locations", "\n".join(map(str, VERSIONS)).replace("%", "%%"))
    return config


def _is_usable(database: Database, found: str | None) -> bool:
    """True for a database of this version, or of a newer one that has only added to it."""
    if found == _marker():
        return True
    ours, _, of_dbos = ("" if found is None else found).partition(" ")
    if ours <= HEAD or of_dbos != _marker().partition(" ")[2]:
        return False
    with database.read() as connection:
        query = sa.text("select comment from schema_note where about = :about")
        oldest = connection.execute(query, {"about": _OLDEST_READER}).scalar()
    return oldest is not None and oldest <= HEAD


def oldest_reader() -> str:
    """The newest of our revisions that contracts: it removes or changes something that older programs use.

    A revision has ``contracts = True``, or False if it only adds something that they need not know.
    """
    from alembic.script import ScriptDirectory

    revisions = ScriptDirectory.from_config(_config()).walk_revisions()
    return max(one.revision for one in revisions if one.module.contracts)


def _refuse_unknown(database: Database, found: str | None) -> None:
    """Raise ConfigError for a database that this version neither uses nor upgrades."""
    ours = HEAD if found is None else found.partition(" ")[0]
    other = "state folder" if database.is_sqlite else "database"
    if ours > HEAD:
        raise ConfigError(
            f"The database {database.label} was made by a newer version of seqferry: upgrade seqferry, or give another "
            f"{other}."
        )
    if ours < INITIAL:
        raise ConfigError(
            f"The database {database.label} was made by a build of seqferry before its first release, which this "
            f"version cannot upgrade: give another {other}, and read this one with that build."
        )


def _marker() -> str:
    from importlib.metadata import version

    # Another version of DBOS may bring tables of its own.
    return f"{HEAD} dbos {version('dbos')}"


def _current(database: Database) -> str | None:
    """Versions of the tables in the database, in the form of ``_marker``; None when it has no tables of ours."""
    with database.read() as connection:
        # Not asked by reflection, which takes longer than all else that is done here.
        there = "select 1 from sqlite_master where name = :name" if database.is_sqlite else "select to_regclass(:name)"
        if connection.execute(sa.text(there), {"name": VERSION_TABLE}).scalar() is None:
            return None
        ours = connection.execute(sa.text(f"select version_num from {VERSION_TABLE}")).scalar()  # noqa: S608
        made_by = connection.execute(sa.text("select comment from schema_note where about = 'dbos'")).scalar()
        return f"{ours} dbos {made_by}"


def _migrate_ours(database: Database) -> None:
    for attempts_left in reversed(range(_TABLE_LOCK_ATTEMPTS)):
        try:
            _try_to_migrate_ours(database)
            return
        except ConfigError as why:
            if getattr(getattr(why.__cause__, "orig", None), "sqlstate", None) != _NO_LOCK:
                raise
            if attempts_left == 0:
                raise ConfigError(
                    f"The tables of the database {database.label} are in use{_user(database)}, and cannot be changed. "
                    "Wait for it to end, or end it with `select pg_terminate_backend(PID)`, and start again; nothing "
                    "was changed."
                ) from why
        time.sleep(_TABLE_LOCK_PAUSE_SECONDS)


def _user(database: Database) -> str:
    """The client that holds a lock on our tables for longest, as the middle of a sentence; empty where none does."""
    with database.read() as connection:
        found = connection.execute(_USER, {"table": VERSION_TABLE}).one_or_none()
    return "" if found is None else f" by the process {found.pid} of PostgreSQL ({found.client})"


_USER: Final = sa.text("""
    select pid, coalesce(nullif(application_name, ''), 'user ' || usename, 'a prepared transaction') as client
    from pg_locks left join pg_stat_activity using (pid)
    where granted and pid <> pg_backend_pid()
        and relation in (
            select oid from pg_class
            where relkind = 'r' and relnamespace = (select relnamespace from pg_class where oid = to_regclass(:table))
        )
    order by xact_start limit 1
""")


def _try_to_migrate_ours(database: Database) -> None:
    from importlib.metadata import version

    with database.write() as connection:
        if not database.is_sqlite:
            # Over what a role has: it is meant for queries, and a migration may take longer than one.
            connection.exec_driver_sql(f"set local lock_timeout = '{_TABLE_LOCK_SECONDS}s'")
            connection.exec_driver_sql("set local statement_timeout = 0")
        _upgrade(connection)
        for about, comment in (("dbos", version("dbos")), (_OLDEST_READER, oldest_reader())):
            connection.execute(sa.text("delete from schema_note where about = :about"), {"about": about})
            connection.execute(
                sa.text("insert into schema_note (about, comment) values (:about, :comment)"),
                {"about": about, "comment": comment},
            )


def _holder(connection: psycopg.Connection[Any]) -> str:
    found = connection.execute(_HOLDER, [int(AdvisoryLock.MIGRATION)]).fetchone()
    return "" if found is None else f": the process {found[0]} of PostgreSQL, whose client is at {found[1]}"


_HOLDER: Final = """
    select pid, coalesce(host(client_addr), 'this host') from pg_locks join pg_stat_activity using (pid)
    where locktype = 'advisory' and granted and classid = 0 and objid = %s and objsubid = 1
        and database = (select oid from pg_database where datname = current_database())
"""


@contextmanager
def _lock(settings: Settings, database: Database) -> Generator[None]:
    if database.is_sqlite:
        lock = settings.state_dir / "migrate.lock"
        with os.fdopen(private_files.open_private(lock, os.O_RDWR | os.O_CREAT), "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
    else:
        yield from _postgres_lock(database)


def _postgres_lock(database: Database) -> Generator[None]:
    """Hold the lock in the session of a connection of its own: migrations commit as they go."""
    import psycopg

    key = [int(AdvisoryLock.MIGRATION)]
    try:
        connection = database.direct("seqferry-migration")
    except psycopg.Error as why:
        raise database.unusable(why) from why
    with connection:
        if database.shares_session(connection):
            raise ConfigError(
                f"The tables of the database {database.label} cannot be made through a pooler in transaction mode. "
                "Name the address of PostgreSQL itself in SEQFERRY_DATABASE_DIRECT_URL."
            )
        # Polled, not waited for: a waiting statement would block the holder of the lock while it makes indexes
        # concurrently, and so would never end.
        give_up = time.monotonic() + _LOCK_SECONDS
        while connection.execute("select pg_try_advisory_lock(%s)", key).fetchone() != (True,):
            if time.monotonic() > give_up:
                raise ConfigError(
                    f"Another process has been changing the tables of the database {database.label} for "
                    f"{_LOCK_SECONDS:.0f} s{_holder(connection)}. Wait for it to end, or end it, and start again."
                )
            time.sleep(_LOCK_POLL_SECONDS)
        try:
            yield
        finally:
            with suppress(psycopg.Error):  # the lock has ended with the connection
                connection.execute("select pg_advisory_unlock(%s)", key)
