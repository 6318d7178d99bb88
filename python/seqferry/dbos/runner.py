"""DBOS in the process of a worker: its launch, the queues that it takes from, and its end.

One per process, as DBOS is.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from seqferry.db.database import Database
from seqferry.dbos.polling import ChangeCount, set_waits
from seqferry.dbos.queue import INTERNAL_QUEUE, Queue
from seqferry.model import names

if TYPE_CHECKING:
    from seqferry.dbos.library import DBOS

_SCHEDULER_SECONDS: Final = 2.0  # until DBOS sees a changed schedule; each check is a query
_MAX_RUNNING_SCHEDULES: Final = 4  # runs of schedules: each only submits
_POLL_SECONDS: Final = 0.25  # each poll of each queue takes 2 ms of CPU; a worker begins 32 batches a second at most
_POLL_JITTER: Final = 1.05  # DBOS varies each wait by so much
_LISTEN_SECONDS: Final = 0.1  # sleep of DBOS's listener on SQLite, for which its end waits; nothing is sent
_MAX_RUNNING_TRANSFERS: Final = 64  # each waits in a thread, most of the time asleep
_DBOS_POOL: Final = 20  # on SQLite


@dataclass
class DbosRunner:
    """DBOS of one worker, launched once something needs the queue.

    Attributes:
        register_workflows: registers the workflows of this product with DBOS.
        batches: most batches that run at a time.
        wants_batch: True when another one has use for the requests of this worker, given when the last was wanted.
        schedules: take the runs of schedules as well.
        queued: changes of the queues by this process, for which they are polled immediately.
    """

    database: Database
    queue: Queue
    executor_id: str
    register_workflows: Callable[[], None]
    batches: int
    wants_batch: Callable[[float], bool]
    schedules: bool
    queued: ChangeCount
    _held: ExitStack = field(default_factory=ExitStack, init=False)
    _listened: list[str] = field(default_factory=list[str], init=False)
    _dbos: DBOS | None = field(default=None, init=False)

    @property
    def is_launched(self) -> bool:
        return self._dbos is not None

    @property
    def polled_queues(self) -> list[str]:
        """Names of the queues from which this worker takes work."""
        return [*self._listened, INTERNAL_QUEUE]

    def launch(self, lanes: Iterable[str | None], signal: ChangeCount | None) -> None:
        """Take work from the queues of these lanes; ``signal`` is that of an idle worker."""
        from seqferry.dbos.library import DBOS, DBOSPortableJSONSerializer
        from seqferry.dbos.log_filter import quieten_dbos

        self.register_workflows()
        # Before the launch, which lists the queues at its start and then only each second.
        listened = [queue for lane in lanes for queue in self._register(lane)]
        if self.schedules:
            self.queue.register(names.QUEUE_SCHEDULES, _MAX_RUNNING_SCHEDULES, _POLL_SECONDS)
            listened.append(names.QUEUE_SCHEDULES)
        engine = self._held.enter_context(self.database.dbos_engine(_DBOS_POOL))
        self._dbos = DBOS(
            config={
                "name": names.APPLICATION,
                "system_database_url": self.database.url.render_as_string(hide_password=False),
                "system_database_engine": engine,
                "application_version": names.WORKFLOW_SHAPE,
                "executor_id": self.executor_id,
                "serializer": DBOSPortableJSONSerializer(),
                "log_level": "WARNING",
                "notification_listener_polling_interval_sec": _LISTEN_SECONDS,
                "scheduler_polling_interval_sec": _SCHEDULER_SECONDS,
                # Nothing of ours waits for what DBOS notifies of, and its listener takes a connection of the pool.
                "use_listen_notify": False,
            }
        )
        quieten_dbos()
        DBOS.listen_queues(listened)
        DBOS.launch()
        set_waits(self._dbos, signal, self.queued, _POLL_SECONDS * _POLL_JITTER)
        self._limit_batches(self._dbos)
        quieten_dbos()
        # The list of DBOS itself, which its queue thread reads each second.
        self._listened = self._dbos._listening_queues or []

    def listen(self, lanes: Iterable[str | None], signal: ChangeCount | None) -> None:
        """Take work also from the queues of lanes that were found since the launch."""
        # Would be replaced by a ``DBOS.listen_queues`` that may be called after the launch.
        if self._dbos is None:
            return
        for lane in lanes:
            if names.queue_of(names.QUEUE_TRANSFERS, lane) not in self._listened:
                self._listened += self._register(lane)
                if signal is not None:
                    signal.notify()

    def active(self) -> list[str]:
        """Ids of the workflows that run, until the last write of each."""
        # Would be replaced by a public list of the workflows that run in this process.
        return [] if self._dbos is None else self._dbos._active_workflows_set.activeList()

    def stop_polling(self) -> None:
        """Take nothing from the queues any more."""
        # Would be replaced by a public first half of ``DBOS.destroy``.
        for event in self._dbos.background_thread_stop_events if self._dbos is not None else ():
            event.set()

    def end(self) -> None:
        if self._dbos is not None:
            self._dbos.destroy()
        self._held.close()

    def _limit_batches(self, dbos: DBOS) -> None:
        """Take one batch at a time, and none while this worker has no use for it: another may have."""
        # Would be replaced by a limit of a queue that each process sets for itself.
        running = dbos._active_workflows_set
        count = running.count_for_queue
        wanted_at: dict[str, float] = {}

        def count_for_queue(queue_name: str) -> int:
            found = count(queue_name)
            if not names.is_queue_of(names.QUEUE_BATCHES, queue_name):
                return found
            if not self.wants_batch(wanted_at.get(queue_name, 0.0)):
                return self.batches
            wanted_at[queue_name] = time.monotonic()
            return max(found, self.batches - 1)

        running.count_for_queue = count_for_queue

    def _register(self, lane: str | None) -> list[str]:
        """Make the queues of a lane, if they are not there; returns their names."""
        limits = {names.QUEUE_TRANSFERS: _MAX_RUNNING_TRANSFERS, names.QUEUE_BATCHES: self.batches}
        for queue, concurrency in limits.items():
            self.queue.register(names.queue_of(queue, lane), concurrency, _POLL_SECONDS)
        return [names.queue_of(queue, lane) for queue in limits]
