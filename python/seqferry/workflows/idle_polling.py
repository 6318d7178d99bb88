"""Polling of an idle worker: its threads sleep until the database changes.

A dozen threads of a worker poll the database several times a second: its own and those of DBOS. While the worker is
idle, one thread waits for a change on behalf of all: SQLite counts the changes of its file, and PostgreSQL notifies at
the commit of an event. On PostgreSQL each heartbeat, every ``POLL_SECONDS``, also reads the facts that replace a lost
notification. While the worker is busy, all threads poll as often as they would without this module.

``QueuePolls`` ends the wait between two polls of the queues when this process has enqueued work.

Invariant: a change wakes every thread that polls for work; no work is delayed by more than ``POLL_SECONDS``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from seqferry.db import changes

if TYPE_CHECKING:
    from dbos import DBOS

    from seqferry.db.database import Database
    from seqferry.db.worker_reports import PendingWork

_JOBS_SECONDS: Final = 1.0
"""Longest wait of a background job of DBOS within a transaction, which must not be extended."""

log: Final = logging.getLogger("seqferry.worker")

POLL_SECONDS: Final = 2.0
"""Longest time until an idle worker finds work without a notification."""

_FILE_LOOK_SECONDS: Final = 0.2
"""Between two polls of the file of SQLite, which cost 50 us of CPU: less than between two polls of a queue by DBOS."""

IDLE_SECONDS: Final = 15.0
"""Between two checks by a worker's thread for changes outside of the database, such as credentials."""

_DBOS_SECONDS: Final = 60.0
"""Between two polls of a thread of DBOS while nothing changes: everything that it polls for is a change."""


class WorkSignal:
    """Signal to the threads of a worker that the database has changed. One per worker, safe to use from all threads."""

    def __init__(self, database: Database, is_busy: Callable[[], bool]) -> None:
        """``is_busy``: True while the worker runs something."""
        self._database = database
        self._is_busy = is_busy
        self._news: PendingWork | None = None
        self._changed = threading.Condition()
        self._count = 0
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

    def notify(self) -> None:
        """Wake all waiting threads."""
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def receive(self, news: PendingWork) -> None:
        """Wake all threads if a heartbeat found work, also without a notification. For one thread."""
        before, self._news = self._news, news
        if news.waiting or news != before:
            self.notify()

    @property
    def count(self) -> int:
        """Changes so far."""
        return self._count

    def is_busy(self) -> bool:
        return self._is_busy()

    def wait(self, seen: int, seconds: float, stop: threading.Event) -> None:
        """Wait until there are more changes than ``seen``, the worker is busy or stops, or the time is over."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._count == seen and not (stop.is_set() or self._stopping.is_set() or self._is_busy()):
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                # Work that begins here, and the end of the worker, are noticed without a change.
                self._changed.wait(min(left, POLL_SECONDS))

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


class QueuePolls:
    """Wakes the threads that poll the queues when this process has enqueued work. One per worker."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    @property
    def count(self) -> int:
        """Number of times that work was enqueued."""
        return self._count

    def poll_now(self) -> None:
        """Poll each queue now."""
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def wake(self) -> None:
        """Wake all threads, so that they check for a stop."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, seen: int, seconds: float, stop: threading.Event) -> bool:
        """Wait until ``count`` is another than ``seen``, the time is over, or the thread is to stop (then True)."""
        with self._changed:
            self._changed.wait_for(lambda: self._count != seen or stop.is_set(), seconds)
        return stop.is_set()


def set_waits(dbos: DBOS, signal: WorkSignal | None, polls: QueuePolls, poll_seconds: float) -> None:
    """Replace the waits of the threads of DBOS between two polls.

    DBOS 3.4 has no such option. Its threads wait with ``Event.wait(timeout)`` for their end, and nothing else.

    Args:
        signal: ends the longer waits of an idle worker; None: they poll as often as always.
        polls: ends a wait between two polls of a queue.
        poll_seconds: longest wait between two polls of a queue.
    """
    for event in dbos.background_thread_stop_events:
        event.wait = _make_hurried_wait(event, polls, poll_seconds)
        event.set = _waking(event, polls)
        if signal is not None:
            event.wait = _resting(event, signal)
    if signal is not None:
        jobs = dbos._background_jobs_stop_event  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        jobs.wait = _resting(jobs, signal, within=_JOBS_SECONDS)


class _Wait(Protocol):
    def __call__(self, timeout: float | None = None) -> bool: ...


def _waking(event: threading.Event, polls: QueuePolls) -> Callable[[], None]:
    """A ``set`` that ends the waits of ``_make_hurried_wait``."""
    set_ = event.set

    def wake() -> None:
        set_()
        polls.wake()

    return wake


def _make_hurried_wait(event: threading.Event, polls: QueuePolls, poll_seconds: float) -> _Wait:
    """A wait that ends early when work was enqueued since this thread's last wait, if it is one between polls."""
    wait, mine = event.wait, threading.local()

    def wait_for_work(timeout: float | None = None) -> bool:
        if timeout is None or timeout > poll_seconds:
            return wait(timeout)
        seen: int = getattr(mine, "seen", polls.count)
        is_set = polls.wait(seen, timeout, event)
        mine.seen = polls.count  # before the poll, so that what comes meanwhile is polled for again
        return is_set

    return wait_for_work


def _resting(event: threading.Event, signal: WorkSignal, within: float = 0.0) -> _Wait:
    """A wait that continues while nothing changes, except for waits between 0 and ``within`` seconds."""
    wait, mine = event.wait, threading.local()

    def rest(timeout: float | None = None) -> bool:
        if timeout is None:
            return wait()
        # A change since this thread began its last poll is found after the usual time.
        seen: int = getattr(mine, "seen", -1)
        if wait(timeout):
            return True
        if 0.0 < timeout <= within:
            return False
        signal.wait(seen, _DBOS_SECONDS, event)
        mine.seen = signal.count
        return event.is_set()

    return rest
