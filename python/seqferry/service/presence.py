"""Presence of a process that serves beside the record, as a gateway: its row among the workers, when one can be had.

What must stay true: the process serves whether or not the database is there, and never waits for it.
"""

from __future__ import annotations

import logging
import os
import threading
import uuid
from collections.abc import Callable
from typing import Final, Self

from seqferry.db import worker_rows
from seqferry.db.database import Database
from seqferry.db.migrate import HEAD, require_current
from seqferry.engine.engine import version
from seqferry.model import names
from seqferry.model.errors import SeqferryError
from seqferry.model.workers import Activity, Process, ProcessKind
from seqferry.places import processes
from seqferry.settings.config import Settings

log = logging.getLogger("seqferry.presence")

BEAT_SECONDS: Final = 10.0
"""Between two signs of life: a third of the silence after which a process counts as gone."""

_LEAVE_SECONDS: Final = 2.0
"""Time for the removal of the row at the end; a database that takes longer keeps it, silent, as of a killed process."""


class Presence:
    """Writes the row of this process from a thread of its own, each ``BEAT_SECONDS``, until it is left.

    A database that is absent, out of reach or of another version is asked again the next time. None is made.
    """

    def __init__(self, settings: Settings, kind: ProcessKind, activity: Callable[[], Activity]) -> None:
        self._settings = settings
        self._activity = activity
        host, pid = settings.host_name, os.getpid()
        name = f"{host}-{pid}-{uuid.uuid4().hex[:8]}{processes.name_suffix()}"
        self._process = Process(name, kind, host, pid, version(), HEAD, names.WORKFLOW_SHAPE)
        self._database: Database | None = None
        self._is_logged = False
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._run, name="seqferry-presence", daemon=True)

    @property
    def process_id(self) -> str:
        return self._process.id

    @property
    def database(self) -> Database | None:
        """The database that has the row; None before its first heartbeat there."""
        return self._database

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._thread.join(_LEAVE_SECONDS)

    def _run(self) -> None:
        while not self._left.is_set():
            self._safely(self._beat)
            self._left.wait(BEAT_SECONDS)
        self._safely(self._leave)

    def _safely(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as why:  # noqa: BLE001 - whatever the database has, serving goes on
            text = why.message if isinstance(why, SeqferryError) else f"{type(why).__name__}"
            log.log(logging.DEBUG if self._is_logged else logging.INFO, "not among the workers: %s", text)
            self._is_logged = True

    def _beat(self) -> None:
        database = self._open()
        if database is None:
            return
        activity = self._activity()
        with database.write(durable=False) as connection:
            worker_rows.beat(connection, self._process, activity.facts)
            worker_rows.describe(connection, self._process.id, activity)
        self._is_logged = False

    def _open(self) -> Database | None:
        if self._settings.uses_sqlite and not self._settings.sqlite_path.exists():
            return None  # opening it would make it
        if self._database is None:
            found = Database(self._settings)
            try:
                require_current(found)
            except BaseException:
                found.close()
                raise
            self._database = found
        return self._database

    def _leave(self) -> None:
        if self._database is None:
            return
        with self._database.write(durable=False) as connection:
            worker_rows.remove(connection, self._process.id)
        self._database.close()
