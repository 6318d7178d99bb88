"""Waiting for events of any transfer, whichever process writes them."""

from __future__ import annotations

import sqlite3
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

import sqlalchemy as sa

if TYPE_CHECKING:
    import psycopg

    from seqferry.db.database import Database

CHANNEL: Final = "seqferry_event"
"""Channel that PostgreSQL notifies at the commit of an event."""

_LOOK_SECONDS: Final = 0.02
_RETRY_SECONDS: Final = 1.0


class Changes(Protocol):
    """One waiting thread. To be closed by the thread that waits."""

    def wait(self, seconds: float) -> bool:
        """Wait at most so long; False when certainly nothing has changed meanwhile."""
        ...

    def close(self) -> None: ...


def notify(connection: sa.Connection) -> None:
    """Wake waiting threads when the transaction commits. SQLite needs no notification: its file shows changes."""
    if connection.dialect.name != "sqlite":
        connection.execute(_NOTIFY)


_NOTIFY: Final = sa.text(f"select pg_notify('{CHANNEL}', '')")


def of(database: Database, look_seconds: float = _LOOK_SECONDS) -> Changes:
    """A watcher of changes in this database; the file of SQLite is looked at every ``look_seconds``."""
    if database.is_sqlite:
        return _File(str(database.url.database), look_seconds)
    return _Listener(database)


class _File:
    """SQLite counts, for each connection, the changes by others."""

    def __init__(self, path: str, look_seconds: float) -> None:
        self._look_seconds = look_seconds
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._seen = self._version()

    def wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while (version := self._version()) == self._seen:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(self._look_seconds, left))
        self._seen = version
        return True

    def close(self) -> None:
        self._connection.close()

    def _version(self) -> int:
        with suppress(sqlite3.OperationalError):  # busy
            return self._connection.execute("pragma data_version").fetchone()[0]
        return -1


class _Listener:
    """A connection of its own that listens, since a pool would hand it out."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: psycopg.Connection[Any] | None = None

    def wait(self, seconds: float) -> bool:
        import psycopg

        try:
            if self._connection is None:
                self._connection = self._connect()
                return True  # there may have been changes before this connection listened
            return any(True for _ in self._connection.notifies(timeout=seconds, stop_after=1))
        except psycopg.Error:
            self.close()
            time.sleep(min(seconds, _RETRY_SECONDS))
            return True

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> psycopg.Connection[Any]:
        connection = self._database.listening()
        connection.execute(f"listen {CHANNEL}".encode())
        return connection
