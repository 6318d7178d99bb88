"""Lanes of a worker: the transfers whose identity this process has.

Transfers with the same needs share a lane: a pair of queues for the workers that meet these needs. Transfers that this
worker cannot run are marked with the reason, for ``status``. Transfers that wait for others begin here when those end.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

from seqferry.db import lanes
from seqferry.db.lanes import Lane
from seqferry.model.formatting import count
from seqferry.service.service import Service
from seqferry.spec import identity

log: Final = logging.getLogger("seqferry.worker")


class Lanes:
    """One per worker. Safe to use from many threads."""

    def __init__(self, service: Service) -> None:
        self._service: Final = service
        self._lock = threading.Lock()
        self._open: set[str | None] = {identity.lane(identity.process_needs())}
        self._left: set[Lane] = set()

    @property
    def open(self) -> set[str | None]:
        """Names of lanes that this worker takes from; None is the one for any worker."""
        with self._lock:
            return set(self._open)

    def find_runnable(self, limit: int) -> set[str]:
        """Ids of unfinished transfers that this worker can run now, at most ``limit``."""
        named = {lane for lane in self.open if lane is not None}
        with self._service.database.read() as connection:
            return lanes.find_runnable(connection, named, limit)

    def refresh(self) -> None:
        """Open new lanes, mark transfers that this worker cannot run, and begin those whose predecessors ended."""
        self._service.start_waiting()
        with self._service.database.read() as connection:
            found = lanes.find_lanes(connection)
        if None in found:
            self._add(None)
        for lane in found - {None}:
            assert lane is not None
            missing = self._service.find_unmet_need(lane.needs)
            if missing is None:
                self._add(lane.name)
            else:
                self._leave_alone(lane, missing)

    def _add(self, name: str | None) -> None:
        with self._lock:
            self._open.add(name)

    def _leave_alone(self, lane: Lane, missing: str) -> None:
        reason = f"a worker with {missing}"
        database = self._service.database
        with database.read() as connection:
            marked = lanes.find_skipped(connection, database, lane, reason)
        if not marked:
            return
        with database.write() as connection:
            lanes.record_skipped(connection, marked, reason)
        log.warning("%s left to %s: %s", count(len(marked), "transfer"), reason, ", ".join(marked[:3]))
