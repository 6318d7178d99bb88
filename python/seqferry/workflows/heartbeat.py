"""The heartbeat of a worker on PostgreSQL: it extends the lease, and requeues the work of dead workers.

A beat extends the lease to write (``workflows.lease``). Ended processes of this machine lose their work immediately,
other workers after a silence as long as a lease (``workflows.liveness``).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa

from seqferry.db import notice_rows, worker_rows
from seqferry.db.database import Database
from seqferry.db.notice_rows import Subject
from seqferry.db.worker_rows import DeadWorker
from seqferry.dbos import ownership
from seqferry.dbos.ownership import LastBeat
from seqferry.model.workers import Process
from seqferry.places import processes
from seqferry.settings.channels import Notices
from seqferry.workflows import liveness
from seqferry.workflows.idle_polling import WorkSignal
from seqferry.workflows.lease import Lease

log: Final = logging.getLogger("seqferry.worker")


@dataclass
class Heartbeat:
    """One per worker; one thread calls ``beat_and_reap`` each second.

    Attributes:
        pulse: a database that waits for no other connection, however busy the process is.
        facts: those of the kind of this process.
        polled: names the queues that this worker takes from.
    """

    pulse: Database
    process: Process
    facts: dict[str, Any]
    lease: Lease
    signal: WorkSignal | None
    notices: Notices
    polled: Callable[[], list[str]]
    _watcher: liveness.LivenessWatcher = field(
        default_factory=lambda: liveness.LivenessWatcher(liveness.DEAD_AFTER_SECONDS), init=False
    )

    def begin(self) -> None:
        """Beat for the first time, and requeue the work of ended workers of this machine."""
        self._reap({}, self._beat())

    def beat_and_reap(self) -> None:
        seen: dict[str, LastBeat | None] = {}

        def beat() -> dict[str, LastBeat | None]:
            seen.update(self._beat())
            return seen

        self._reap(self._watcher.find_dead(beat), seen)

    def _beat(self) -> dict[str, LastBeat | None]:
        """Beat, which extends the lease; returns the last beats of all workers."""
        lease, queues = self.lease, self.polled()
        while True:
            lapsed, sent = lease.lapsed, lease.now()
            with self.pulse.write() as connection:
                if lapsed:
                    # After this, a worker that was about to declare this one dead has done so, or will not.
                    ownership.exclude_reapers(connection)
                worker_rows.beat(connection, self.process, self.facts)
                signs, news = ownership.read_beats_and_work(connection, queues)
            if lease.extend(sent, new_epoch=lapsed):
                if lapsed and lease.epoch > 1:
                    log.warning(
                        "the database did not answer for some time, and nothing was written to the storage meanwhile; "
                        "work that no other worker has taken goes on"
                    )
                if self.signal is not None:
                    self.signal.receive(news)
                return signs

    def _reap(self, silent: Mapping[str, LastBeat | None], signs: Mapping[str, LastBeat | None]) -> None:
        """Requeue the work of silent workers, and of ended workers of this machine."""
        gone = {name: sign for name, sign in signs.items() if processes.has_ended(name)}
        dead = {name: sign for name, sign in {**silent, **gone}.items() if name != self.process.id}
        if not dead:
            return
        with self.pulse.write() as connection:
            gone_workers, work = ownership.reap(connection, dead)
            record_dead_workers(connection, self.notices, gone_workers, set(work.values()))
        if work:
            log.warning("a worker is gone; its work goes back to the queue: %s", ", ".join(work))


def record_dead_workers(
    connection: sa.Connection, notices: Notices, gone: Iterable[DeadWorker], holders: Collection[str] = frozenset()
) -> None:
    """Record a notice for each worker that died with work, except for commands: their users saw the end."""
    channels = notices.wanting("vanished")
    for one in gone:
        if (one.transfers or one.id in holders) and not one.own_work:
            notice_rows.record(
                connection, Subject("worker", one.id), "vanished", channels, time.time(), episode=one.beats
            )
