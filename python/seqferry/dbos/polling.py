"""Waits of the threads of DBOS between two polls.

DBOS polls its tables, several times a second, also in an idle worker and for work that this process has just enqueued.
Its threads wait with ``Event.wait(timeout)`` for their end, and nothing else: those methods are replaced here. Would be
replaced by a public verb that polls a queue now, and by an option for the polls of an idle process.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from seqferry.dbos.library import DBOS

_JOBS_SECONDS: Final = 1.0
"""Longest wait of a background job of DBOS within a transaction, which must not be extended."""

_IDLE_SECONDS: Final = 60.0
"""Between two polls of a thread of DBOS while nothing changes: everything that it polls for is a change."""


class ChangeSignal(Protocol):
    """Signal of changes of the database (``workflows.idle_polling``)."""

    @property
    def count(self) -> int: ...

    def notify(self) -> None: ...

    def wait(self, seen: int, seconds: float, stop: threading.Event) -> None: ...


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


def set_waits(dbos: DBOS, signal: ChangeSignal | None, polls: QueuePolls, poll_seconds: float) -> None:
    """Replace the waits of the threads of DBOS between two polls.

    Args:
        signal: ends the longer waits of an idle worker; None: they poll as often as always.
        polls: ends a wait between two polls of a queue.
        poll_seconds: longest wait between two polls of a queue.
    """
    for event in dbos.background_thread_stop_events:
        _PollWait(event, signal, polls, poll_seconds)
    if signal is not None:
        _IdleWait(dbos._background_jobs_stop_event, signal, within=_JOBS_SECONDS)


class _IdleWait:
    """A wait that continues while nothing changes, except for waits between 0 and ``within`` seconds."""

    def __init__(self, event: threading.Event, signal: ChangeSignal | None, within: float = 0.0) -> None:
        self._event = event
        self._wait = event.wait
        self._signal = signal
        self._within = within
        self._thread = threading.local()
        event.wait = self.wait

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is None:
            return self._wait()
        # A change since this thread began its last poll is found after the usual time.
        seen: int = getattr(self._thread, "changes", -1)
        if self._wait_for_poll(timeout):
            return True
        if self._signal is None or 0.0 < timeout <= self._within:
            return False
        self._signal.wait(seen, _IDLE_SECONDS, self._event)
        self._thread.changes = self._signal.count
        return self._event.is_set()

    def _wait_for_poll(self, timeout: float) -> bool:
        return self._wait(timeout)


class _PollWait(_IdleWait):
    """A wait that also ends early when work was enqueued since this thread's last wait, if it is one between polls."""

    def __init__(
        self, event: threading.Event, signal: ChangeSignal | None, polls: QueuePolls, poll_seconds: float
    ) -> None:
        super().__init__(event, signal)
        self._polls = polls
        self._poll_seconds = poll_seconds
        self._set = event.set
        event.set = self.set

    def set(self) -> None:
        self._set()
        self._polls.wake()

    def _wait_for_poll(self, timeout: float) -> bool:
        if timeout > self._poll_seconds:
            return self._wait(timeout)
        seen: int = getattr(self._thread, "polls", self._polls.count)
        is_set = self._polls.wait(seen, timeout, self._event)
        self._thread.polls = self._polls.count  # before the poll, so that what comes meanwhile is polled for again
        return is_set
