"""Notifications of changes in the database, by any process."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from seqferry.db import transaction_end
from seqferry.model.errors import SeqferryError

if TYPE_CHECKING:
    import psycopg

    from seqferry.db.database import Database

CHANNEL: Final = "seqferry_event"
"""Channel that PostgreSQL notifies at the commit of an event."""

_POLL_SECONDS: Final = 0.02
_RETRY_SECONDS: Final = 1.0
_LEAVE_SECONDS: Final = 0.5
"""Longest time that the connection stays open after its last listener has left."""

log: Final = logging.getLogger("seqferry.database")


class ChangeWatcher(Protocol):
    """A source of change notifications for one thread, which also closes it."""

    def wait(self, seconds: float) -> bool:
        """Wait for a change. False: certainly nothing has changed, or ``interrupt`` was called."""
        ...

    def interrupt(self) -> None:
        """End this wait and all later ones immediately. For any thread."""
        ...

    def close(self) -> None: ...


def notify(connection: sa.Connection) -> None:
    """Wake waiting threads when the transaction commits. SQLite needs no notification: its file shows changes."""
    if connection.dialect.name == "sqlite":
        return
    if (end := transaction_end.of(connection)) is None:
        send(connection)
    else:
        end.notifies = True


def send(connection: sa.Connection) -> None:
    """Send the notification of a transaction, which PostgreSQL passes on at its commit."""
    connection.execute(_NOTIFY)


_NOTIFY: Final = sa.text(f"select pg_notify('{CHANNEL}', '')")


def open_watcher(database: Database, poll_seconds: float = _POLL_SECONDS) -> ChangeWatcher:
    """A watcher of changes in this database. The file of SQLite is polled every ``poll_seconds``."""
    if database.is_sqlite:
        return _File(str(database.url.database), poll_seconds)
    with _opening:
        channel = _channels.get(database)
        if channel is None:
            channel = _channels[database] = _Channel(database)
    return channel.join()


_opening: Final = threading.Lock()
_channels: Final[weakref.WeakKeyDictionary[Database, _Channel]] = weakref.WeakKeyDictionary()


class _File:
    """SQLite counts, for each connection, the changes by others."""

    def __init__(self, path: str, poll_seconds: float) -> None:
        self._poll_seconds = poll_seconds
        self._interrupted = threading.Event()
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._seen = self._version()

    def wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while (version := self._version()) == self._seen:
            left = deadline - time.monotonic()
            if left <= 0 or self._interrupted.wait(min(self._poll_seconds, left)):
                return False
        self._seen = version
        return True

    def interrupt(self) -> None:
        self._interrupted.set()

    def close(self) -> None:
        self._connection.close()

    def _version(self) -> int:
        with suppress(sqlite3.OperationalError):  # busy
            return self._connection.execute("pragma data_version").fetchone()[0]
        return -1


class _Listener:
    """One of the threads that wait for the channel of a database."""

    def __init__(self, channel: _Channel) -> None:
        self._channel = channel
        self._seen = -1  # there may have been changes before
        self._interrupted = threading.Event()
        self._is_closed = False

    def wait(self, seconds: float) -> bool:
        count = self._channel.wait(self._seen, seconds, self._interrupted)
        was, self._seen = self._seen, count
        return was != count

    def interrupt(self) -> None:
        self._interrupted.set()
        self._channel.wake()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._channel.leave()


class _Channel:
    """The connection of a process that listens, past any pool, on behalf of all its threads. Safe to use from many.

    It is open while a listener exists. A notification that may have been missed counts as a change.
    """

    def __init__(self, database: Database) -> None:
        self._database = weakref.proxy(database)
        self._label = database.label
        self._changed = threading.Condition()
        self._checking = threading.Lock()
        self._count = 0
        self._users = 0
        self._generation = 0
        self._last_warning: str | None = None

    def join(self) -> _Listener:
        with self._changed:
            self._users += 1
            if self._users == 1:
                self._generation += 1
                thread = threading.Thread(
                    target=self._listen, args=(self._generation,), name="seqferry-listener", daemon=True
                )
                thread.start()
        return _Listener(self)

    def leave(self) -> None:
        with self._changed:
            self._users -= 1
            self._changed.notify_all()
        with self._checking:
            pass  # the database may be closed next, and the check for a pooler holds a connection of its pool

    def wait(self, seen: int, seconds: float, interrupted: threading.Event) -> int:
        """Number of changes so far, once it is another than ``seen``, on an interrupt, or after so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._count != seen or interrupted.is_set(), seconds)
            return self._count

    def wake(self) -> None:
        """Wake all waiting threads, so that they check their conditions."""
        with self._changed:
            self._changed.notify_all()

    def _is_wanted(self, generation: int) -> bool:
        with self._changed:
            return self._users > 0 and self._generation == generation

    def _count_change(self) -> None:
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def _listen(self, generation: int) -> None:
        import psycopg

        while self._is_wanted(generation):
            try:
                with self._database.direct("seqferry-events") as connection:
                    connection.execute(f"listen {CHANNEL}".encode())
                    with self._checking:
                        if self._is_wanted(generation):
                            self._check(connection)
                    self._count_change()  # there may have been changes before this connection listened
                    while self._is_wanted(generation):
                        if any(True for _ in connection.notifies(timeout=_LEAVE_SECONDS, stop_after=1)):
                            self._count_change()
            except ReferenceError:  # the database is closed and gone
                return
            # The check for a pooler uses the pool, which raises other errors. None of them may end this thread.
            except (psycopg.Error, SQLAlchemyError, SeqferryError) as why:
                cause = " ".join(str(why).split()).rstrip(".")
                self._warn(f"The database {self._label} sends no notifications: {cause}. Work may begin 2 s late.")
                time.sleep(_RETRY_SECONDS)

    def _check(self, connection: psycopg.Connection[Any]) -> None:
        """Warn where a pooler hands this connection's session to others: notifications get lost there."""
        if self._database.shares_session(connection):
            self._warn(
                f"The pooler before the database {self._label} is in transaction mode, where notifications get lost: "
                "work begins up to 2 s late. Name the address of PostgreSQL itself in SEQFERRY_DATABASE_DIRECT_URL."
            )

    def _warn(self, text: str) -> None:
        if self._last_warning != text:
            self._last_warning = text
            log.warning("%s", text)
