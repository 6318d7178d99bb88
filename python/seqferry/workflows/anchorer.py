"""Writer of anchors of the ledger in a worker. No transfer depends on it."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

from seqferry.model.backoff import Backoff
from seqferry.proof import anchors
from seqferry.proof.anchors import AnchorWriteError
from seqferry.service.service import Service

log: Final = logging.getLogger("seqferry.audit")

MIN_INTERVAL_SECONDS: Final = 5.0
"""Shortest time between two anchors of a process: the next one covers the entries between."""

_BACKOFF: Final = Backoff(5.0, 600.0, factor=5.0)

_LAST_SECONDS: Final = 5.0


class Anchorer:
    """One per worker."""

    def __init__(self, service: Service) -> None:
        self._service: Final = service
        self._lock: Final = threading.Lock()
        self._next = 0.0
        self._failures = 0
        self._ending = False

    def write_due(self) -> None:
        """Write an anchor when there are new entries and the pause is over."""
        with self._lock:
            if time.monotonic() >= self._next and not self._ending:
                self._write(anchors.WRITE_SECONDS)

    def end(self, *, last: bool) -> None:
        """Stop an attempt that is under way; with ``last`` write one more anchor, unless the storage has failed before.

        The last anchor is written immediately: no other one of this process covers the latest entries.
        """
        self._ending = True
        with self._lock:
            if last and not self._failures:
                self._ending = False
                self._write(_LAST_SECONDS)

    def _write(self, seconds: float) -> None:
        service = self._service
        try:
            written = anchors.write_anchor(
                service.database, service.engine, service.settings, stopping=lambda: self._ending, seconds=seconds
            )
        except AnchorWriteError as why:
            if self._ending:
                return
            self._failures += 1
            self._next = time.monotonic() + _BACKOFF.pause(self._failures)
            log.warning("the ledger could not be anchored at %s: %s; the next attempt follows", self._place, why)
            return
        self._failures = 0
        if written is not None:
            self._next = time.monotonic() + MIN_INTERVAL_SECONDS
            log.info("anchored entry %d of the ledger at %s", written.head.count, written.uri)

    @property
    def _place(self) -> str:
        return str(self._service.settings.audit_anchor)
