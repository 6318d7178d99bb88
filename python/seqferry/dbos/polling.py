"""Waits of the threads of DBOS between two polls.

DBOS polls its tables, several times a second, also in an idle worker and for work that this process has just enqueued.
Its threads wait with ``Event.wait(timeout)`` for their end, and nothing else: those methods are replaced here. Would be
replaced by a public verb that polls a queue now, and by an option for the polls of an idle process.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from seqferry.dbos.library import DBOS

_JOBS_SECONDS: Final = 1.0
"""Longest wait of a background job of DBOS within a transaction, which must not be extended."""

_IDLE_SECONDS: Final = 60.0
"""Between two polls of a thread of DBOS while nothing changes: everything that it polls for is a change."""


class ChangeCount:
    """Number of changes, which threads wait for. Safe to use from all threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    @property
    def count(self) -> int:
        """Changes so far."""
        return self._count

    def notify(self) -> None:
        """Count a change, and wake all waiting threads."""
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def wait(self, seen: int, seconds: float, stop: threading.Event) -> bool:
        """Wait until there are more changes than ``seen``, the time is over, or the thread is to stop (then True)."""
        with self._changed:
            self._changed.wait_for(lambda: self._count != seen or stop.is_set(), seconds)
        return stop.is_set()


def set_waits(dbos: DBOS, signal: ChangeCount | None, queued: ChangeCount, poll_seconds: float) -> None:
    """Replace the waits of the threads of DBOS between two polls.

    Args:
        signal: ends the longer waits of an idle worker; None: they poll as often as always.
        queued: changes of the queues by this process; each ends a wait between two polls of a queue.
        poll_seconds: longest wait between two polls of a queue.
    """
    for event in dbos.background_thread_stop_events:
        _Waits(event, signal, queued, poll_seconds, 0.0)
    if signal is not None:
        _Waits(dbos._background_jobs_stop_event, signal, queued, 0.0, _JOBS_SECONDS)


class _Waits:
    """Waits of an event of DBOS. They end early with new work, or continue while nothing changes.

    Args:
        poll_seconds: longest wait that ends early.
        within: waits between 0 and so many seconds are not extended.
    """

    def __init__(
        self,
        event: threading.Event,
        signal: ChangeCount | None,
        queued: ChangeCount,
        poll_seconds: float,
        within: float,
    ) -> None:
        self._event = event
        self._wait, self._set = event.wait, event.set
        self._signal = signal
        self._queued = queued
        self._poll_seconds = poll_seconds
        self._within = within
        self._seen = threading.local()
        event.wait, event.set = self.wait, self.set

    def set(self) -> None:
        self._set()
        self._queued.notify()

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is None:
            return self._wait()
        # A change since this thread began its last poll is found after the usual time.
        changes: int = getattr(self._seen, "changes", -1)
        if self._wait_for_poll(timeout):
            return True
        if self._signal is None or 0.0 < timeout <= self._within:
            return False
        self._signal.wait(changes, _IDLE_SECONDS, self._event)
        self._seen.changes = self._signal.count
        return self._event.is_set()

    def _wait_for_poll(self, timeout: float) -> bool:
        if timeout > self._poll_seconds:
            return self._wait(timeout)
        queued: int = getattr(self._seen, "queued", self._queued.count)
        is_set = self._queued.wait(queued, timeout, self._event)
        self._seen.queued = self._queued.count  # before the poll, so that what comes meanwhile is polled for again
        return is_set
