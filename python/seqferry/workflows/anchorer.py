"""Writes anchors of the ledger while a worker runs. No transfer waits for it, or fails by it."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

from seqferry.proof import anchors
from seqferry.proof.anchors import AnchorWriteError
from seqferry.service.service import Service

log: Final = logging.getLogger("seqferry.audit")

APART_SECONDS: Final = 5.0
"""Anchors of a process are at least so far apart: what comes meanwhile is covered by the next one."""

_PAUSES: Final = (5.0, 30.0, 120.0, 600.0)
"""Seconds before the next try; the last one again and again."""

_LAST_SECONDS: Final = 5.0


class Anchorer:
    """One per worker."""

    def __init__(self, service: Service) -> None:
        self._service: Final = service
        self._lock: Final = threading.Lock()
        self._next = 0.0
        self._failures = 0
        self._ending = False

    def turn(self) -> None:
        """Write an anchor when there is something to cover, and it is time."""
        with self._lock:
            if time.monotonic() >= self._next and not self._ending:
                self._write(anchors.WRITE_SECONDS)

    def end(self, *, last: bool) -> None:
        """End a try that is under way; with ``last`` write one more, unless the storage has failed before.

        The last one follows at once: no other of this process covers what came since the one before.
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
            self._next = time.monotonic() + _PAUSES[min(self._failures, len(_PAUSES) - 1)]
            self._failures += 1
            log.warning("the ledger could not be anchored at %s: %s; it is tried again", self._place, why)
            return
        self._failures = 0
        if written is not None:
            self._next = time.monotonic() + APART_SECONDS
            log.info("anchored entry %d of the ledger at %s", written.head.count, written.uri)

    @property
    def _place(self) -> str:
        return str(self._service.settings.audit_anchor)
