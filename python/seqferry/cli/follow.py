"""Seeing a transfer through: show its progress, do its work when nobody else does, and stop cleanly on Ctrl-C.

Used by ``cp``, ``resume``, ``cancel`` and ``status --watch``. Stopping here never harms a transfer: its state is in the
database and at the storage, and whichever worker comes next goes on.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Final

from seqferry.cli import exits
from seqferry.cli.display import Display
from seqferry.config import Settings
from seqferry.errors import WorkerBusyError
from seqferry.models import Status

if TYPE_CHECKING:
    from seqferry.service import Service
    from seqferry.worker import Worker

_POLL: Final = 0.2
"""Seconds between looks at the database: quick enough for the eye, one cheap query each."""
_STOP: Final = 2.0
"""Seconds that a worker may take to stop after Ctrl-C."""
_TAKE_OVER: Final = 1.0
"""Seconds between tries to become the worker when another process was it."""


class Interrupted(Exception):  # noqa: N818 - a request of the user, no error
    """Ctrl-C or SIGTERM: stop, leaving the work resumable.

    Attributes:
        going_on: another process is at the transfer, so it goes on without us.
    """

    def __init__(self, *, going_on: bool) -> None:
        super().__init__(going_on)
        self.going_on = going_on


@contextmanager
def interruptible() -> Generator[threading.Event]:
    """Within: the first Ctrl-C or SIGTERM sets the event, the second ends the process at once."""
    stop = threading.Event()

    def note(_signal: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(exits.INTERRUPTED)
        stop.set()

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Attendant:
    """Makes sure that somebody works on the queue: this process, when no other holds the state folder.

    With Postgres any number of workers may run, so this process always becomes one.
    """

    def __init__(self, settings: Settings, service: Service) -> None:
        self._settings = settings
        self._service = service
        self._worker: Worker | None = None
        self._next_try = 0.0
        self._busy = False

    @property
    def other_works(self) -> bool:
        """When we last tried, another process held the state folder."""
        return self._busy

    def attend(self) -> None:
        """Become the worker if nobody is. Cheap when called often."""
        if self._worker is not None or time.monotonic() < self._next_try:
            return
        # Imported here: it brings DBOS along, which a mere look at the status must not pay for.
        from seqferry.worker import Worker

        try:
            self._worker = Worker.start(self._settings, self._service)
        except WorkerBusyError:
            self._busy = True
            self._next_try = time.monotonic() + _TAKE_OVER
            return
        self._busy = False

    def leave(self) -> None:
        """Stop working; what is in flight stays resumable."""
        worker, self._worker = self._worker, None
        if worker is not None:
            # What does not stop in time ends with the process, which is at its end anyway.
            worker.stop(timeout=_STOP)


def follow(
    service: Service, settings: Settings, transfer_id: str, show: Display, *, work: bool, stop: threading.Event
) -> Status:
    """Show the transfer until it has ended; with ``work`` also do the work whenever nobody else does.

    Raises:
        Interrupted: ``stop`` was set; the transfer is resumable.
    """
    attendant = Attendant(settings, service)
    try:
        while True:
            status = service.status(transfer_id)
            show.update(status)
            if status.ended:
                return status
            if work:
                attendant.attend()
            if stop.wait(_POLL):
                show.note("Stopping (a second Ctrl-C ends at once) ...")
                raise Interrupted(going_on=attendant.other_works if work else status.live.workers > 0)
    finally:
        show.close()
        attendant.leave()
