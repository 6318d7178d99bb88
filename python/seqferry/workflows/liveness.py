"""Detection of dead workers by watching their heartbeats: no clock of another machine is read.

A beat changes a worker's row. A watcher remembers each row and the time, by its own monotonic clock, at which it first
saw the row as it is. A row that stays the same for long belongs to a dead worker. A watcher that was held up itself (by
a frozen database, a paused process) cannot tell the others' silence from its own, so it starts over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from seqferry.dbos.ownership import LastBeat

DEAD_AFTER_SECONDS: Final = 10.0
"""Ten beats: a worker with a longer silence counts as dead, and its work goes back to the queue."""

GAP_SECONDS: Final = 3.0
"""Three beats: after a longer gap between two readings a watcher starts over."""


class LivenessWatcher:
    """Last beats of all workers as one worker has seen them. Not safe to use from several threads."""

    def __init__(self, dead_after: float, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._dead_after: Final = dead_after
        self._monotonic: Final = monotonic
        self._seen: dict[str, tuple[LastBeat | None, float]] = {}
        self._read_at: float | None = None

    def find_dead(self, read: Callable[[], Mapping[str, LastBeat | None]]) -> dict[str, LastBeat | None]:
        """Read the last beats of all workers; return the dead workers with theirs.

        To be called after each beat of this worker's own.
        """
        before = self._monotonic()
        signs = read()
        after = self._monotonic()
        if self._read_at is None or after - self._read_at > GAP_SECONDS:
            self._seen.clear()
        self._read_at = after
        # Between these two moments the beats were read: a change is dated late and its age is measured early, so that
        # an unchanged beat never counts as older than it is.
        self._seen = {
            executor_id: known
            if (known := self._seen.get(executor_id)) is not None and known[0] == sign
            else (sign, after)
            for executor_id, sign in signs.items()
        }
        return {
            executor_id: sign for executor_id, (sign, since) in self._seen.items() if before - since >= self._dead_after
        }
