"""Waits for the ends of batches: one query for all transfers of a worker, not one for each.

A workflow that waits for the batches of its transfer is woken when one of them ends here, and by ``wake_changed``,
which the worker repeats: it finds transfers whose batches have ended on other workers, and stopped or paused ones.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

from seqferry.db import transfers
from seqferry.db.database import Database


class BatchWaits:
    """The waits of one worker, safe to use from all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waits: dict[threading.Event, str] = {}

    @contextmanager
    def waiting(self, transfer_id: str) -> Generator[threading.Event]:
        """Context of a wait. Its event is set when the transfer may have changed; the waiting thread clears it."""
        event = threading.Event()
        with self._lock:
            self._waits[event] = transfer_id
        try:
            yield event
        finally:
            with self._lock:
                del self._waits[event]

    def wake(self, transfer_id: str) -> None:
        """Wake the waits for a transfer: one of its batches has ended here."""
        self._set({transfer_id})

    def wake_all(self) -> None:
        self._set(None)

    def wake_changed(self, database: Database) -> None:
        """Wake the waits for transfers that have no open batch, or have ended or been stopped or paused."""
        with self._lock:
            waiting = set(self._waits.values())
        if waiting:
            with database.read() as connection:
                self._set(transfers.find_needing_attention(connection, waiting))

    def _set(self, transfer_ids: set[str] | None) -> None:
        with self._lock:
            for event, transfer_id in self._waits.items():
                if transfer_ids is None or transfer_id in transfer_ids:
                    event.set()
