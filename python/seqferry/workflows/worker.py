"""The process that does the work: runs small transfers itself, launches DBOS for all others, and watches over both.

Threads beside those of DBOS: *control* carries orders (cancel, lost ownership) to running jobs, *reporter* writes what
``status`` shows while jobs run, *reviver* takes care of transfers that DBOS has given up, and on Postgres *heart* says
"alive", which extends the lease to write (``workflows.lease``), and gives the work of dead workers back: at once that
of processes of this machine that have ended, and that of others when they were silent for as long as a lease.

SQLite: one worker, guarded by a lock on a file that is taken before DBOS starts, because a second launch would take
over the running work of the first. Postgres: any number, each with an executor id of its own.

A worker without a queue (SQLite only) is all that a small ``seqferry cp`` needs. The holder of the lock is the only
worker, so any other unfinished transfer waits for this process: it brings the queue up as soon as there is one.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import sqlalchemy as sa

from seqferry.db import notice_rows, objects, outage, transfers, worker_lock, worker_reports, worker_rows
from seqferry.db.database import Database
from seqferry.db.dbos_logging import quieten_dbos
from seqferry.db.migrate import HEAD
from seqferry.db.notice_rows import Subject
from seqferry.db.worker_rows import Gone
from seqferry.engine.engine import version
from seqferry.model import names
from seqferry.model.errors import WorkerBusyError
from seqferry.model.labels import NOTHING, Description
from seqferry.model.models import Submission, TransferSpec
from seqferry.model.shortages import shortage
from seqferry.model.workers import URL, Process, ProcessKind
from seqferry.places import processes
from seqferry.places.service_manager import ServiceManager
from seqferry.planning import batching
from seqferry.planning.listing import KnownObjects
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.workflows import inline, liveness, transfer_steps
from seqferry.workflows.lanes import Lanes
from seqferry.workflows.lease import Lease
from seqferry.workflows.limits import limits_of
from seqferry.workflows.pacing import LOOK_SECONDS, REST_SECONDS, Look, WorkSignal, pace
from seqferry.workflows.reporter import Reporter
from seqferry.workflows.runtime import Runtime, StepSuspension, install

if TYPE_CHECKING:
    from dbos import DBOS

    from seqferry.workflows.anchorer import Anchorer
    from seqferry.workflows.notifier import Notifier

log: Final = logging.getLogger("seqferry.worker")

SQLITE_EXECUTOR: Final = "sqlite"
"""Always the same, so that the next start takes up what this one leaves."""

_CONTROL_SECONDS: Final = 0.4
_REPORT_SECONDS: Final = 1.0
_REVIVE_SECONDS: Final = 5.0
_BEAT_SECONDS: Final = 1.0
_NOTIFY_SECONDS: Final = 1.0
_ANCHOR_SECONDS: Final = 1.0
_SCHEDULE_SECONDS: Final = 1.0
_SCHEDULER_SECONDS: Final = 2.0  # until DBOS sees a schedule that was changed; each look is a query
_RUNS_AT_ONCE: Final = 4  # runs of schedules: each only submits
_POLL_SECONDS: Final = 0.25  # each poll of each queue takes 2 ms of CPU; a worker begins 32 batches a second at most
_LISTEN_SECONDS: Final = 0.1  # DBOS's listener on SQLite sleeps so long, and leaving waits for it; nothing is sent
_COALESCE_SECONDS: Final = 1.0  # DBOS's notifier wakes so often, and nothing is sent
_TRANSFERS_AT_ONCE: Final = 64  # each waits in a thread, most of the time asleep
_DBOS_POOL: Final = 20  # on SQLite
_ADOPTED_AT_ONCE: Final = 500


def _looked() -> float:
    return LOOK_SECONDS


def _rested() -> float:
    return REST_SECONDS


# Imported where a setting asks for them: most commands that work have neither.


def _notifier_of(service: Service) -> Notifier | None:
    if not service.settings.notices.channels:
        return None
    from seqferry.workflows.notifier import Notifier

    return Notifier(service, service.settings.notices)


def _anchorer_of(service: Service) -> Anchorer | None:
    if service.settings.audit_anchor is None:
        return None
    from seqferry.workflows.anchorer import Anchorer

    return Anchorer(service)


class Worker:
    """A running worker. One per process, as DBOS is."""

    _present: Worker | None = None

    def __init__(
        self,
        service: Service,
        held: ExitStack,
        on_end: Callable[[], None] | None,
        *,
        own_work: bool = False,
        kind: ProcessKind = "worker",
        url: str | None = None,
    ) -> None:
        """Private constructor: use ``start``."""
        self.service: Final = service
        self._own_work = own_work
        self._facts: dict[str, Any] = {"own_work": own_work} | ({} if url is None else {URL: url})
        self._database = service.database
        host, pid = socket.gethostname(), os.getpid()
        worker_session = f"{host}-{pid}-{uuid.uuid4().hex[:8]}"
        process_id = f"{worker_session}{processes.suffix()}"
        self._process = Process(process_id, kind, host, pid, version(), HEAD, names.WORKFLOW_SHAPE)
        self.executor_id: Final = SQLITE_EXECUTOR if self._database.is_sqlite else process_id
        self._lease = None if self._database.is_sqlite else Lease(service.engine, liveness.DEAD_AFTER_SECONDS)
        # Heartbeats and looks for work wait for no other connection, however busy the process is.
        self._pulse = self._database if self._database.is_sqlite else Database(service.settings, pool_size=1)
        if self._pulse is not self._database:
            held.callback(self._pulse.close)
        self._watcher = liveness.Watcher(liveness.DEAD_AFTER_SECONDS)
        self._runtime = Runtime(
            service.database,
            service.queue,
            service.engine,
            service.settings.state_dir,
            self.executor_id,
            worker_session,
            on_end,
            self._lease,
            service.settings.notices,
            on_work=self._keep_limits,
            confines_writes=service.settings.policy.confines_writes,
        )
        self._notifier = _notifier_of(service)
        self._anchorer = _anchorer_of(service)
        self._runtime.service = service
        self._lanes = Lanes(service)
        self._leaving = threading.Event()
        self._threads: list[threading.Thread] = []
        self._held = held
        self._dbos: DBOS | None = None
        self._stopped = False
        # Guards the launch, the end, and the next two: transfers that are done here without the queue, and those of
        # them that the queue has taken over, while batches that were begun without it go on.
        self._signal: WorkSignal | None = None
        self._lock = threading.RLock()
        self._limiting = threading.Lock()
        self._inline: dict[str, threading.Thread] = {}
        self._handed_over: set[str] = set()
        self._failure: Exception | None = None

    @classmethod
    def start(
        cls,
        settings: Settings,
        service: Service | None = None,
        *,
        queue: bool = True,
        on_end: Callable[[], None] | None = None,
        own_work: bool = False,
        kind: ProcessKind = "worker",
        url: str | None = None,
    ) -> Worker:
        """Start to work; returns at once. A ``service`` that is given shares its engine and database, and stays open.

        Args:
            queue: False leaves the queue for later, when something needs it. On SQLite only; Postgres needs it at once.
            on_end: called, in any thread, whenever a transfer was brought to its end here.
            own_work: the process was started for a transfer: see ``limits_of``.
            kind: of this process, as ``seqferry workers`` shows it.
            url: address that this process serves HTTP at, for links to it.

        Raises:
            WorkerBusyError: another worker holds the state folder (SQLite), or this process has one already.
            ConfigError: the state folder or the database cannot be used.
        """
        settings.prepare_state_dir()
        with ExitStack() as held:
            if Worker._present is not None:
                raise WorkerBusyError("This process has a worker already; stop it before starting another.")
            if settings.uses_sqlite:
                held.enter_context(worker_lock.take(settings.state_dir))
            if service is None:
                service = held.enter_context(Service.open(settings))
            service.check_audit_key()
            worker = cls(service, held.pop_all(), on_end, own_work=own_work, kind=kind, url=url)
            try:
                worker._begin(queue=queue or not settings.uses_sqlite)
            except BaseException:
                worker._leave()
                worker._held.close()
                raise
        Worker._present = worker
        return worker

    def submit(self, spec: TransferSpec, *, actor: str) -> str:
        """``submission``, of which only the id is wanted."""
        return self.submission(spec, actor=actor).id

    def submission(
        self,
        spec: TransferSpec,
        *,
        actor: str,
        new: bool = False,
        known: KnownObjects | None = None,
        priority: int = 0,
        description: Description = NOTHING,
    ) -> Submission:
        """Record a transfer as ``Service.submission`` does; run it inline as long as it is small.

        ``known`` are the findings of ``Service.check`` just before: they are not requested again.

        Raises:
            UsageError: the spec is not valid.
        """
        if not self._database.is_sqlite:
            return self.service.submission(spec, actor=actor, new=new, priority=priority, description=description)
        with self._lock:  # else *control* could take it for another worker's before it is known to be ours
            submission = self.service.submission(
                spec, actor=actor, queued=False, new=new, priority=priority, description=description
            )
            if not (submission.goes_on or submission.blocked):
                if known is not None:
                    self._runtime.keep_preflight(submission.id, known)
                thread = threading.Thread(
                    target=self._run_inline, args=(submission.id,), name="seqferry-inline", daemon=True
                )
                self._inline[submission.id] = thread
                thread.start()
        return submission

    def take_queue(self) -> None:
        """Bring the queue up, if it is not, with all on it that no process is at."""
        with self._lock:
            if self._stopped:
                return
            if self._database.is_sqlite:
                self._adopt()
            if self._dbos is None:
                self._launch()

    def check(self) -> None:
        """Raise what has made this worker unable to work, if anything."""
        if self._failure is not None:
            raise self._failure

    def stop(self, timeout: float = 10.0) -> bool:
        """Suspend what runs, so that the next worker resumes it, and free the lock. Aborts no upload.

        Returns:
            False when something was still running after ``timeout`` seconds; the process should then end.
        """
        with self._lock:  # a launch is waited for
            if self._stopped:
                return True
            self._stopped = True
        drained = self._drain(timeout)
        self._leave()
        if self._lease is not None:
            self._lease.end()
        try:
            with self._database.write() as connection:
                worker_reports.withdraw(connection, self.executor_id)
                worker_rows.leave(connection, self._process.id)
                if self._lease is not None and drained:
                    worker_reports.give_back(connection, [self.executor_id])
        except Exception as why:  # noqa: BLE001 - the database may be gone; others notice our silence
            log.warning("could not sign off: %s", why)
        self._held.close()
        Worker._present = None
        return drained

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- start and end ---

    def _begin(self, *, queue: bool) -> None:
        install(self._runtime)
        if self._database.is_sqlite:
            # The lock shows that every earlier worker is gone, whatever it reported last.
            with self._database.write(durable=False) as connection:
                self._tell_of_gone(connection, worker_reports.withdraw_all(connection))
                worker_rows.beat(connection, self._process, self._facts)
        if not self._own_work:
            self._signal = WorkSignal(self._database, self._is_busy)
        if self._lease is not None:
            lease = self._lease
            self._reap({}, self._beat(lease))  # before the launch: the first claim must find us alive
            self._thread("heart", _BEAT_SECONDS, lambda: self._beat_and_reap(lease), rest=_looked)
        self._lanes.look()
        if queue:
            self.take_queue()
        self._thread("control", _CONTROL_SECONDS, self._control, rest=_rested)
        reporter = Reporter(self._runtime, self._process, self._lanes, self._facts, beats=self._lease is None)
        self._thread("reporter", _REPORT_SECONDS, reporter.report)
        self._thread("reviver", _REVIVE_SECONDS, self._revive, rest=_rested)
        if self._notifier is not None:
            self._thread("notifier", _NOTIFY_SECONDS, self._notifier.turn, rest=_looked)
        if self._anchorer is not None:
            self._thread("anchorer", _ANCHOR_SECONDS, self._anchorer.turn, rest=_looked)
        if not self._own_work:
            from seqferry.workflows.ticks import ScheduleReconciler

            reconciler = ScheduleReconciler(self.service)
            self._thread("schedules", _SCHEDULE_SECONDS, reconciler.turn, rest=reconciler.rest_seconds)

    def _launch(self) -> None:
        # Imported here: it takes longer than copying a small object.
        from dbos import DBOS, DBOSPortableJSONSerializer

        from seqferry.workflows import durable  # noqa: F401 # pyright: ignore[reportUnusedImport] - registers them

        # Before the launch, which looks for queues at its start and then only each second.
        listened = [queue for lane in self._lanes.open for queue in self._register(lane)]
        if not self._own_work:
            self._runtime.queue.register(names.QUEUE_SCHEDULES, _RUNS_AT_ONCE, _POLL_SECONDS)
            listened.append(names.QUEUE_SCHEDULES)
        quieten_dbos()
        engine = self._held.enter_context(self._database.dbos_engine(_DBOS_POOL))
        self._dbos = DBOS(
            config={
                "name": names.APPLICATION,
                "system_database_url": self._database.url.render_as_string(hide_password=False),
                "system_database_engine": engine,
                "application_version": names.WORKFLOW_SHAPE,
                "executor_id": self.executor_id,
                "serializer": DBOSPortableJSONSerializer(),
                "log_level": "WARNING",
                "notification_listener_polling_interval_sec": _LISTEN_SECONDS,
                "notification_coalesce_sec": _COALESCE_SECONDS,
                "scheduler_polling_interval_sec": _SCHEDULER_SECONDS,
                # Nothing of ours waits for what DBOS notifies of, and its listener takes a connection of the pool.
                "use_listen_notify": False,
            }
        )
        quieten_dbos()
        DBOS.listen_queues(listened)
        DBOS.launch()
        if self._signal is not None:
            pace(self._dbos, self._signal)
        quieten_dbos()

    def _register(self, lane: str | None) -> list[str]:
        """Make the queues of a lane, if they are not there; returns their names."""
        limits = {names.QUEUE_TRANSFERS: _TRANSFERS_AT_ONCE, names.QUEUE_BATCHES: inline.BATCHES_AT_ONCE}
        for queue, at_once in limits.items():
            self._runtime.queue.register(names.queue_of(queue, lane), at_once, _POLL_SECONDS)
        return [names.queue_of(queue, lane) for queue in limits]

    def _listen(self) -> None:
        """Take from the queues of lanes that were found since the launch, as well."""
        if self._dbos is None:
            return
        listened = self._dbos._listening_queues  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        assert listened is not None
        for lane in self._lanes.open:
            if names.queue_of(names.QUEUE_TRANSFERS, lane) not in listened:
                listened += self._register(lane)  # DBOS looks at its list each second
                if self._signal is not None:
                    self._signal.tell()

    def _adopt(self) -> None:
        """Queue unfinished transfers that are not on the queue: a process ran them inline, and is gone or gave up.

        A repetition adds nothing, since the ids of workflows follow from those of the rows.
        """
        left: dict[str, transfers.Place] = {}
        after = ""
        while page := self._unfinished(after, _ADOPTED_AT_ONCE):
            after = max(page)
            known = self._runtime.queue.known(list(page))
            ours = self._inline.keys() - self._handed_over
            left |= {transfer_id: page[transfer_id] for transfer_id in page if transfer_id not in known | ours}
        if not left:
            return
        with self._database.write() as connection:
            for transfer_id, place in left.items():
                sizes = objects.open_batch_sizes(connection, transfer_id)
                places = [(number, batching.priority_of(biggest)) for number, biggest in sizes]
                self._runtime.queue.adopt(connection, transfer_id, place.lane, place.priority, places)

    def _unfinished(self, after: str, limit: int) -> dict[str, transfers.Place]:
        with self._database.read() as connection:
            return transfers.unfinished(connection, after=after, limit=limit)

    def _drain(self, timeout: float) -> bool:
        """Stop taking work and wait until what runs has left."""
        dbos = self._dbos
        if self._signal is not None:
            self._signal.stop()
        for event in dbos.background_thread_stop_events if dbos is not None else ():
            event.set()
        self._runtime.stop()
        deadline = time.monotonic() + timeout
        for thread in list(self._inline.values()):
            thread.join(max(deadline - time.monotonic(), 0.0))
        # The library's own drain looks once a second only. Its list is right to the last write of a workflow.
        while active := [*self._inline, *([] if dbos is None else _active(dbos))]:
            if time.monotonic() > deadline:
                log.warning("still running at the end of the worker: %s", ", ".join(active))
                return False
            time.sleep(0.02)
        return True

    def _leave(self) -> None:
        if self._notifier is not None and self._own_work:
            # No other process may come for long. What cannot be sent now is sent by the next worker.
            try:
                self._notifier.deliver()
            except Exception as why:  # noqa: BLE001 - the database may be gone
                log.warning("notices are left to the next worker: %s", why)
        if self._anchorer is not None:
            try:
                self._anchorer.end(last=self._own_work)
            except Exception as why:  # noqa: BLE001 - the next worker writes it
                log.warning("the anchor of the ledger is left to the next worker: %s", why)
        if self._dbos is not None:
            from dbos import DBOS

            DBOS.destroy()
        self._leaving.set()
        for thread in self._threads:
            thread.join(timeout=5.0)
        install(None)

    def _thread(
        self, name: str, interval: float, act: Callable[[], None], *, rest: Callable[[], float] | None = None
    ) -> None:
        """``rest``: seconds between two acts of an idle worker to which nothing is told; None: it acts as always."""
        look = Look(None if rest is None else self._signal, rest or _looked)

        def loop() -> None:
            told = ""
            while not self._leaving.wait(interval):
                if not look.is_due():
                    continue
                try:
                    act()
                    told = ""
                except Exception as why:  # noqa: BLE001 - a thread that dies unseen would be worse
                    # Once, and not each second for as long as it lasts.
                    if told != (told := str(why)):
                        log.warning("%s: %s", name, why)

        thread = threading.Thread(target=loop, name=f"seqferry-{name}", daemon=True)
        thread.start()
        self._threads.append(thread)

    # --- what the threads do ---

    def _run_inline(self, transfer_id: str) -> None:
        def take_queue() -> None:
            with self._lock:
                self._handed_over.add(transfer_id)
            self._take_queue_or_fail()

        ended = True
        try:
            ended = inline.run(self._runtime, transfer_id, take_queue)
        except StepSuspension:
            pass  # the next worker goes on
        except Exception as why:  # noqa: BLE001 - the queue tries again, and tells what cannot be done
            log.warning("transfer %s is tried again by the queue: %s", transfer_id, shortage(why) or why)
            ended = False
        with self._lock:
            del self._inline[transfer_id]
            self._handed_over.discard(transfer_id)
        if not ended:
            self._take_queue_or_fail()

    def _take_queue_or_fail(self) -> None:
        try:
            self.take_queue()
        except Exception as why:  # noqa: BLE001 - reported to the thread that waits for this worker
            self._failure = why
            self._runtime.announce_end()

    def _is_busy(self) -> bool:
        return bool(self._inline) or (self._dbos is not None and bool(_active(self._dbos)))

    def _control(self) -> None:
        self._keep_limits()
        self._give_orders()
        self._lanes.look()
        if self._dbos is None and self._others_wait():
            self._take_queue_or_fail()
        self._listen()

    def _keep_limits(self) -> None:
        """Carry the limits that hold now to the engine whenever they are others: of the settings, and of its work."""
        with self._limiting:  # what was read last is set last
            self._set_limits()

    def _set_limits(self) -> None:
        engine, settings = self.service.engine, self.service.settings
        with self._database.read() as connection:
            adjustments = transfers.adjustments(connection, self._runtime.supervised)
        limits = limits_of(settings, adjustments, own_work=self._own_work)
        if limits.starts != engine.tpslimit:
            engine.limit_starts(limits.starts)
            log.info("%s requests started per second at most from now on", limits.starts or "any number of")
        if limits.bandwidth != engine.bandwidth:
            engine.limit_bandwidth(limits.bandwidth)
            rate = limits.bandwidth
            log.info("%s", "no limit of bandwidth from now on" if rate is None else f"{rate} bytes/s from now on")
        if engine.limit_requests(limits.requests):
            log.info("%s requests in flight at most from now on", limits.requests)

    def _others_wait(self) -> bool:
        """True when a transfer waits that is not done here: submitted meanwhile, or left by a process that is gone."""
        with self._lock:
            return not self._inline.keys() >= self._lanes.workable(len(self._inline) + 1)

    def _give_orders(self) -> None:
        running = self._runtime.running()
        if not running:
            return
        epoch = self._runtime.epoch  # before they are found to be ours
        with self._database.read() as connection:
            stopping = transfers.stopping(connection, {batch.run.transfer_id for batch in running})
            paused = transfers.paused(connection, {batch.run.transfer_id for batch in running})
            lost = self._runtime.lost(connection, running)
        for batch in running:
            if batch in lost:
                if not batch.suspended:
                    run = batch.run
                    log.warning("batch %s of transfer %s was taken over by another worker", run.number, run.transfer_id)
                batch.lose()
                continue
            if batch.run.transfer_id in paused and not batch.cleaning:
                batch.pause()
                continue
            batch.admit(epoch)
            if batch.run.transfer_id in stopping and not batch.cleaning:
                batch.abort()

    def _revive(self) -> None:
        """Begin the workflows of transfers anew that DBOS has given up; end a transfer that dies again and again."""
        if self._dbos is None:
            return
        after = ""
        while page := self._unfinished(after, _ADOPTED_AT_ONCE):
            after = max(page)
            for transfer_id, given_up in self._runtime.queue.dead_transfers(list(page)).items():
                if given_up <= names.REVIVALS:
                    log.warning("the workflow of transfer %s was given up; it is begun anew", transfer_id)
                    with self._database.write() as connection:
                        place = page[transfer_id]
                        self._runtime.queue.enqueue_transfer(
                            connection, transfer_id, place.lane, priority=place.priority, revival=given_up
                        )
                else:
                    transfer_steps.bury(self._runtime, transfer_id)

    def _beat(self, lease: Lease) -> dict[str, worker_reports.Sign | None]:
        """Give a sign of life, which extends the lease; returns the signs of all workers."""
        listened = None if self._dbos is None else self._dbos._listening_queues  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        queues = [*(listened or ()), names.QUEUE_OF_DBOS]
        while True:
            lapsed, sent = lease.lapsed, lease.now()
            with self._pulse.write() as connection:
                if lapsed:
                    # After this, a worker that was about to declare this one dead has done so, or will not.
                    worker_reports.exclude_reapers(connection)
                worker_rows.beat(connection, self._process, self._facts)
                signs, news = worker_reports.signs_and_news(connection, queues)
            if lease.extend(sent, anew=lapsed):
                if lapsed and lease.epoch > 1:
                    log.warning(
                        "the database did not answer for some time, and nothing was written to the storage meanwhile; "
                        "work that no other worker has taken goes on"
                    )
                if self._signal is not None:
                    self._signal.hear(news)
                return signs

    def _beat_and_reap(self, lease: Lease) -> None:
        seen: dict[str, worker_reports.Sign | None] = {}

        def beat() -> dict[str, worker_reports.Sign | None]:
            seen.update(self._beat(lease))
            return seen

        self._reap(self._watcher.look(beat), seen)

    def _reap(
        self, silent: Mapping[str, worker_reports.Sign | None], signs: Mapping[str, worker_reports.Sign | None]
    ) -> None:
        """Give back the work of workers that are silent for long, and of those of this machine that have ended."""
        gone = {name: sign for name, sign in signs.items() if processes.has_ended(name)}
        dead = {name: sign for name, sign in {**silent, **gone}.items() if name != self.executor_id}
        if not dead:
            return
        with self._pulse.write() as connection:
            reaped = worker_reports.reap(connection, dead)
            self._tell_of_gone(connection, reaped.gone, set(reaped.work.values()))
        if reaped.work:
            log.warning("a worker is gone; its work goes back to the queue: %s", ", ".join(reaped.work))

    def _tell_of_gone(
        self, connection: sa.Connection, gone: Iterable[Gone], holders: Collection[str] = frozenset()
    ) -> None:
        """Record a notice of each worker that has vanished with work, but for commands whose user saw their end."""
        channels = self.service.settings.notices.wanting("vanished")
        for one in gone:
            if (one.transfers or one.id in holders) and not one.own_work:
                notice_rows.record(
                    connection, Subject("worker", one.id), "vanished", channels, time.time(), episode=one.beats
                )


def run(settings: Settings, *, started: Callable[[Service], None] | None = None) -> None:
    """Work until SIGTERM or SIGINT; a second signal ends the process at once. Both leave all work resumable.

    A database that is away is waited for.

    Args:
        started: called with the service of the worker once it works.

    Raises:
        WorkerBusyError, ConfigError: as ``Worker.start``.
    """
    asked = threading.Event()

    def ask(number: int, _frame: FrameType | None) -> None:
        if asked.is_set():
            os._exit(128 + number)
        asked.set()

    manager = ServiceManager()
    previous = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        manager.waiting("the database")
        outage.wait_until_there(settings, asked.wait)
        if asked.is_set():
            return
        worker = Worker.start(settings)
        log.info("worker %s is ready", worker.executor_id)
        if started is not None:
            started(worker.service)
        with manager.watched(worker.service.engine.answers):
            manager.ready()
            while not asked.wait(1.0):
                pass
            manager.stopping()
            log.info("worker %s stops; what is left is resumed by the next worker", worker.executor_id)
            if not worker.stop():
                logging.shutdown()
                os._exit(0)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _active(dbos: DBOS) -> list[str]:
    return dbos._active_workflows_set.activeList()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
