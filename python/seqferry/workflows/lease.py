"""The right to write to the storage where several workers share the work (Postgres).

Others take over the work of a silent worker, so one that does not reach the database stops writing before they do. It
notes the time before it sends a beat; the beat, once acknowledged, lets the engine write until ``dead_after`` minus a
margin after that time. The engine itself looks at the clock before each write, so that the end needs no thread.

After a lapse the worker may count as dead. Its next beat excludes reapers, and begins a new epoch of the
lease: a running job may write again only after the database has shown it to be this worker's still (``Job.admit``).
"""

from __future__ import annotations

import threading
from typing import Final

from seqferry.engine.engine import Engine

MARGIN_SECONDS: Final = 2.0
"""Time between the end of a lease and the first moment at which others may take the work: clocks run unevenly."""

_SECOND: Final = 1_000_000_000


class Lease:
    """Lease of one worker. Begins lapsed. Safe to use from many threads."""

    def __init__(self, engine: Engine, dead_after: float) -> None:
        self._engine: Final = engine
        self._length: Final = int((dead_after - MARGIN_SECONDS) * _SECOND)
        self._lock = threading.Lock()
        self._until = 0
        self._epoch = 0

    @property
    def epoch(self) -> int:
        """Number that changes with each lapse. Read it before the check of ownership that it covers."""
        return self._epoch

    @property
    def lapsed(self) -> bool:
        return self._engine.lease_clock() >= self._until

    def now(self) -> int:
        """Time by the engine's clock, to be read before a beat is sent."""
        return self._engine.lease_clock()

    def extend(self, sent: int, *, new_epoch: bool) -> bool:
        """Extend the lease from ``sent`` on, the time of an acknowledged beat; ``new_epoch`` if it excluded reapers.

        Returns:
            False when the lease has lapsed meanwhile and another beat, one that excludes reapers, is needed.
        """
        with self._lock:
            if new_epoch:
                self._epoch += 1
            elif self.lapsed:
                return False
            self._until = sent + self._length
            self._engine.lease(self._until, self._epoch)
            return True

    def end(self) -> None:
        """End the lease: the engine starts no write any more."""
        with self._lock:
            self._epoch += 1
            self._until = 0
            self._engine.lease(0, self._epoch)
