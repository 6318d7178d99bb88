"""Polling of an idle worker: its threads sleep until the database changes.

A dozen threads of a worker poll the database several times a second: its own and those of DBOS. While the worker is
idle, one thread waits for a change on behalf of all: SQLite counts the changes of its file, and PostgreSQL notifies at
the commit of an event. On PostgreSQL each heartbeat, every ``POLL_SECONDS``, also reads the facts that replace a lost
notification. While the worker is busy, all threads poll as often as they would without this module.

Invariant: a change wakes every thread that polls for work; no work is delayed by more than ``POLL_SECONDS``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from seqferry.db import changes
from seqferry.dbos.polling import ChangeCount

if TYPE_CHECKING:
    from seqferry.db.database import Database
    from seqferry.dbos.ownership import PendingWork

log: Final = logging.getLogger("seqferry.worker")

POLL_SECONDS: Final = 2.0
"""Longest time until an idle worker finds work without a notification."""

_FILE_LOOK_SECONDS: Final = 0.2
"""Between two polls of the file of SQLite, which cost 50 us of CPU: less than between two polls of a queue by DBOS."""

IDLE_SECONDS: Final = 15.0
"""Between two checks by a worker's thread for changes outside of the database, such as credentials."""


class WorkSignal(ChangeCount):
    """Signal to the threads of a worker that the database has changed. One per worker, safe to use from all threads."""

    def __init__(self, database: Database, is_busy: Callable[[], bool]) -> None:
        """``is_busy``: True while the worker runs something."""
        super().__init__()
        self._database = database
        self._is_busy = is_busy
        self._news: PendingWork | None = None
        self._stopping = threading.Event()
        self._watcher: changes.ChangeWatcher | None = None
        self._thread = threading.Thread(target=self._watch, name="seqferry-changes", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self.notify()
        if (watcher := self._watcher) is not None:
            watcher.interrupt()
        self._thread.join(timeout=5.0)

    def receive(self, news: PendingWork) -> None:
        """Wake all threads if a heartbeat found work, also without a notification. For one thread."""
        before, self._news = self._news, news
        if news.waiting or news != before:
            self.notify()

    def is_busy(self) -> bool:
        return self._is_busy()

    def wait(self, seen: int, seconds: float, stop: threading.Event) -> bool:
        """As ``ChangeCount.wait``; also ends while the worker is busy, and when it stops."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._count == seen and not (stop.is_set() or self._stopping.is_set() or self._is_busy()):
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                # Work that begins here, and the end of the worker, are noticed without a change.
                self._changed.wait(min(left, POLL_SECONDS))
        return stop.is_set()

    def _watch(self) -> None:
        while not self._stopping.is_set():
            try:
                # Created before the next check of ``_stopping``: ``stop`` interrupts the watcher, or is seen here.
                if self._watcher is None:
                    self._watcher = changes.open_watcher(self._database, _FILE_LOOK_SECONDS)
                elif self._watcher.wait(POLL_SECONDS):
                    self.notify()
            except Exception as why:  # noqa: BLE001 - without the database, all threads poll as usual
                log.debug("changes of the database: %s", why)
                self.notify()
                self._stopping.wait(POLL_SECONDS)
        if self._watcher is not None:
            self._watcher.close()


class IdleTimer:
    """Timer of one thread that wakes at short intervals, and acts less often while nothing changes."""

    def __init__(self, signal: WorkSignal | None, rest: Callable[[], float]) -> None:
        """``signal``: None for a thread that always acts. ``rest``: seconds between two acts of an idle worker."""
        self._signal = signal
        self._rest = rest
        self._seen = -1
        self._at = 0.0

    def is_due(self) -> bool:
        """True when the thread has to act now."""
        if self._signal is None:
            return True
        count, now = self._signal.count, time.monotonic()  # before the act, so that nothing is missed
        if count == self._seen and now - self._at < self._rest() and not self._signal.is_busy():
            return False
        self._seen, self._at = count, now
        return True
