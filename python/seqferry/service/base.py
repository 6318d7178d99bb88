"""The process of a service: its settings, database, queue and engine."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import sqlalchemy as sa

from seqferry.db import transfers
from seqferry.db.database import Database
from seqferry.db.migrate import migrate, require_current
from seqferry.db.record import signing
from seqferry.dbos.queue import Queue
from seqferry.model.errors import NotFoundError
from seqferry.model.labels import Description, compose
from seqferry.service import lazy
from seqferry.settings.config import Settings
from seqferry.spec import stored

if TYPE_CHECKING:
    # Imported by the verb that needs them: a command takes longer to import than to do its work.
    from seqferry.engine.engine import Engine

SHORTEST_ID: Final = 4

_SHOWN_IDS: Final = 3
"""Ids of transfers of one name that an error shows."""

_SEARCHED: Final = 100
"""Newest transfers of one name among which the one that is meant is searched."""


class Base:
    """One per process, safe to use from many threads."""

    def __init__(self, settings: Settings, database: Database, engine: Engine | None = None) -> None:
        self.settings: Final = settings
        self.database: Final = database
        self.queue: Final = Queue(database)
        self._engine = engine
        self._engine_lock = threading.Lock()
        self._unreadable = set[str]()
        self.named_folders: set[str] = set()
        """Folders that the user of this process has named: it may use them whatever it serves to others."""
        self.serves = False
        """This process is the server: its endpoint and identity are those that the policy calls its own."""

    @classmethod
    def open(cls, settings: Settings, engine: Engine | None = None, *, reads: bool = False) -> Self:
        """Make the state folder and bring the database up to date; ``engine`` is made on first need when not given.

        Args: ``reads``: only queries are asked, which a state folder that cannot be written answers as well.

        Raises:
            ConfigError: the state folder or the database cannot be used.
        """
        read_only = reads and settings.prepare_reading()
        if not reads:
            settings.prepare_state_dir()
        database = Database(settings, read_only=read_only)
        try:
            if read_only:
                require_current(database)
            else:
                migrate(settings, database, Queue(database))
        except BaseException:
            database.close()
            raise
        return cls(settings, database, engine)

    def check_audit_key(self) -> None:
        """Check that this process has the audit key of the database.

        Raises:
            ConfigError: the record is kept with a key that this process lacks, or the file of the key cannot be used.
        """
        with self.database.read() as connection:
            signing.current_key(connection)

    def close(self) -> None:
        self.queue.close()
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def is_local(self) -> bool:
        """True when the database is a file of this machine, at which one process works at a time."""
        return self.database.is_sqlite

    @property
    def engine(self) -> Engine:
        with self._engine_lock:
            if self._engine is None:
                self._engine = lazy.engine.Engine.of(self.settings)
            return self._engine

    def _resolve(self, connection: sa.Connection, text: str) -> str:
        """The full id that ``text`` is, or is the start of; at the command line also of the only one of this name."""
        named = self._find_by_name(connection, text)
        if named is not None and not is_id_prefix(text):
            return named
        wanted = parse_id_prefix(text)
        found = transfers.find_by_id_prefix(connection, wanted, limit=2)
        if not found:
            if named is not None:
                return named
            raise NotFoundError(f"There is no transfer '{text}'. See all with: seqferry status")
        if len(found) > 1 and found[0] != wanted:
            raise NotFoundError(f"Several transfers start with '{text}'; give more of the id.")
        return found[0]

    def _find_by_name(self, connection: sa.Connection, name: str) -> str | None:
        """The full id of the only transfer of this name; None when no transfer has it.

        A name is for people at the command line. Over HTTP only ids count: a client must not be able to have another
        one's request mean a transfer that it has named so.
        """
        if self.serves or not Description(name).is_valid():
            return None
        rows = transfers.find_by_name(connection, compose(name), limit=_SEARCHED)
        # A verification has the name of what it verified, which is meant.
        found = [one.id for one in rows if not stored.read(one.spec).kind.verifies_record] or [one.id for one in rows]
        if len(found) > 1 and not is_id_prefix(name):
            ids = ", ".join(found[:_SHOWN_IDS])
            raise NotFoundError(f"Several transfers have the name '{name}': give the id of one, as {ids}.")
        return found[0] if len(found) == 1 else None


def is_id_prefix(text: str) -> bool:
    """True for a text that can be the start of the id of a transfer."""
    wanted = text.strip().lower()
    return len(wanted) >= SHORTEST_ID and all(one in "0123456789abcdef-" for one in wanted)


def parse_id_prefix(text: str) -> str:
    wanted = text.strip().lower()
    if not wanted or any(character not in "0123456789abcdef-" for character in wanted):
        raise NotFoundError(f"There is no transfer '{text}'. See all with: seqferry status")
    if len(wanted) < SHORTEST_ID:
        raise NotFoundError(f"'{text}' is too short for the id of a transfer: give {SHORTEST_ID} characters.")
    return wanted
