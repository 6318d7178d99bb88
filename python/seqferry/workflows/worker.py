"""The process that does the work: runs small transfers itself, launches DBOS for all others, and watches over both.

Threads beside those of DBOS: *control* applies limits, cancels and lost ownership to running jobs, *reporter* writes
what ``status`` shows while jobs run, and *recovery* restarts transfers that DBOS has given up. On PostgreSQL
*heartbeat* extends the lease to write (``workflows.lease``), and requeues the work of dead workers: immediately for
ended processes of this machine, for others after a silence as long as a lease.

SQLite: one worker, guarded by a lock on a file that is taken before DBOS starts, because a second launch would take
over the running work of the first. Postgres: any number, each with an executor id of its own.

A worker without a queue (SQLite only) is all that a small ``seqferry cp`` needs. The holder of the lock is the only
worker, so any other unfinished transfer waits for this process: it brings the queue up as soon as there is one.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from seqferry.db import allotments, outage, worker_lock, worker_reports, worker_rows
from seqferry.db.database import Database
from seqferry.db.migrate import HEAD
from seqferry.dbos import ownership, recovery
from seqferry.dbos.polling import ChangeCount
from seqferry.dbos.runner import DbosRunner
from seqferry.engine.engine import version
from seqferry.model import names
from seqferry.model.errors import WorkerBusyError
from seqferry.model.labels import NOTHING, Description
from seqferry.model.models import Submission, TransferSpec
from seqferry.model.shortages import find_shortage
from seqferry.model.workers import FOLDERS, SHARED_FOLDERS, SLOT, URL, Process, ProcessKind
from seqferry.places import processes
from seqferry.places.service_manager import ServiceManager
from seqferry.planning.listing import KnownObjects
from seqferry.service.service import Service
from seqferry.settings import memory_limits
from seqferry.settings.config import Settings
from seqferry.workflows import inline, lazy, liveness, transfer_steps
from seqferry.workflows.draining import INLINE_PREFIX, DrainMonitor
from seqferry.workflows.heartbeat import Heartbeat, record_dead_workers
from seqferry.workflows.idle_polling import WorkSignal
from seqferry.workflows.job_control import LimitUpdater, control_jobs
from seqferry.workflows.lanes import Lanes
from seqferry.workflows.lease import Lease
from seqferry.workflows.reporter import Reporter
from seqferry.workflows.runtime import Runtime, install
from seqferry.workflows.suspension import StepSuspension
from seqferry.workflows.threads import Threads, idle_seconds, poll_seconds

if TYPE_CHECKING:
    from seqferry.workflows.anchorer import Anchorer
    from seqferry.workflows.notifier import Notifier

log: Final = logging.getLogger("seqferry.worker")

SQLITE_EXECUTOR: Final = "sqlite"
"""Always the same, so that the next start resumes the work of this one."""

_CONTROL_SECONDS: Final = 0.4
_REPORT_SECONDS: Final = 1.0
_RECOVERY_SECONDS: Final = 5.0
_FAIR_QUEUE_SECONDS: Final = 1.0
_BEAT_SECONDS: Final = 1.0
_NOTIFY_SECONDS: Final = 1.0
_ANCHOR_SECONDS: Final = 1.0
_SCHEDULE_SECONDS: Final = 1.0


# Imported where they are needed: most commands that work have none of these.


def _register_workflows() -> None:
    _ = lazy.durable  # its import registers them


def _notifier_of(service: Service) -> Notifier | None:
    if not service.settings.notices.channels:
        return None

    return lazy.notifier.Notifier(service, service.settings.notices)


def _anchorer_of(service: Service) -> Anchorer | None:
    if service.settings.audit_anchor is None:
        return None

    return lazy.anchorer.Anchorer(service)


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
        served = {FOLDERS: service.settings.folders, SHARED_FOLDERS: service.settings.shared_folders}
        self._facts |= {name: list(map(os.path.realpath, found)) for name, found in served.items() if found}
        if service.settings.slot is not None:
            self._facts[SLOT] = service.settings.slot
        self._database = service.database
        host, pid = service.settings.host_name, os.getpid()
        worker_session = f"{host}-{pid}-{uuid.uuid4().hex[:8]}"
        process_id = f"{worker_session}{processes.name_suffix()}"
        self._process = Process(process_id, kind, host, pid, version(), HEAD, names.WORKFLOW_SHAPE)
        self.executor_id: Final = SQLITE_EXECUTOR if self._database.is_sqlite else process_id
        self._lease = None if self._database.is_sqlite else Lease(service.engine, liveness.DEAD_AFTER_SECONDS)
        # Heartbeats and polls wait for no other connection, however busy the process is.
        self._pulse = self._database if self._database.is_sqlite else Database(service.settings, pool_size=1)
        if self._pulse is not self._database:
            held.callback(self._pulse.close)
        queued = ChangeCount()
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
            on_work=lambda: self._limits.update(),
            on_queued=queued.notify,
            confines_writes=service.settings.policy.confines_writes,
        )
        self._notifier = _notifier_of(service)
        self._anchorer = _anchorer_of(service)
        self._runtime.service = service
        self._limits = LimitUpdater(self._runtime, service.settings, process_id, own_work=own_work)
        self._lanes = Lanes(service)
        self._dbos = DbosRunner(
            service.database,
            service.queue,
            self.executor_id,
            _register_workflows,
            batches=inline.MAX_RUNNING_BATCHES,
            wants_batch=self._runtime.wants_batch,
            schedules=not own_work,
            queued=queued,
        )
        self._draining = DrainMonitor(service.database, process_id, self._dbos.stop_polling, self._list_awaited)
        self._threads = Threads()
        self._held = held
        self._stopped = False
        # Guards the launch, the end, and the next two: transfers that are done here without the queue, and those of
        # them that the queue has taken over, while batches that were begun without it go on.
        self._signal: WorkSignal | None = None
        self._lock = threading.RLock()
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
        """Start the worker and return immediately. A given ``service`` shares its engine and database, and stays open.

        Args:
            queue: False launches the queue when something needs it. SQLite only; PostgreSQL needs it from the start.
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
                held.enter_context(worker_lock.acquire(settings.state_dir))
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
        """Record a transfer as ``Service.submit_or_resume`` does; run it inline as long as it is small.

        ``known`` are the findings of ``Service.check`` just before: they are not requested again.

        Raises:
            UsageError: the spec is not valid.
        """
        if not self._database.is_sqlite:
            return self.service.submit_or_resume(spec, actor=actor, new=new, priority=priority, description=description)
        with self._lock:  # else *control* could take it for another worker's before it is known to be ours
            submission = self.service.submit_or_resume(
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
        """Launch the queue, if it is not, and enqueue transfers that no process runs."""
        with self._lock:
            if self._stopped:
                return
            if self._database.is_sqlite:
                inline_ids = self._inline.keys() - self._handed_over
                recovery.enqueue_missing(self._database, self.service.queue, inline_ids)
            if not self._dbos.is_launched:
                memory_limits.share_arena()
                memory_limits.collect_garbage_soon()
                self._dbos.launch(self._lanes.open, self._signal)

    def check(self) -> None:
        """Raise the error because of which this worker cannot work, if any."""
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
                worker_reports.delete_reports(connection, self.executor_id)
                worker_rows.remove(connection, self._process.id)
                allotments.release(connection, [self._process.id])
                if self._lease is not None and drained:
                    ownership.requeue(connection, [self.executor_id])
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
            # The lock shows that every earlier worker has ended.
            with self._database.write(durable=False) as connection:
                record_dead_workers(
                    connection, self.service.settings.notices, worker_reports.delete_all_reports(connection)
                )
                worker_rows.beat(connection, self._process, self._facts)
        if not self._own_work:
            self._signal = WorkSignal(self._database, self._is_busy)
        if self._lease is not None:
            heartbeat = self._create_heartbeat(self._lease)
            heartbeat.begin()  # before the launch: the first claim must find us alive
            self._thread("heartbeat", _BEAT_SECONDS, heartbeat.beat_and_reap, rest=poll_seconds)
        self._lanes.refresh()
        if queue:
            self.take_queue()
        self._thread("control", _CONTROL_SECONDS, self._control, rest=idle_seconds)
        reporter = Reporter(self._runtime, self._process, self._lanes, self._facts, beats=self._lease is None)
        self._thread("reporter", _REPORT_SECONDS, reporter.report)
        self._thread("recovery", _RECOVERY_SECONDS, self._restart_dead, rest=idle_seconds)
        self._thread("fair-queue", _FAIR_QUEUE_SECONDS, self._rebalance_queue, rest=idle_seconds)
        if self._notifier is not None:
            self._thread("notifier", _NOTIFY_SECONDS, self._notifier.run_once, rest=poll_seconds)
        if self._anchorer is not None:
            self._thread("anchorer", _ANCHOR_SECONDS, self._anchorer.write_due, rest=poll_seconds)
        if not self._own_work:
            reconciler = lazy.schedule_ticks.ScheduleReconciler(self.service)
            self._thread("schedules", _SCHEDULE_SECONDS, reconciler.reconcile, rest=reconciler.rest_seconds)

    def _create_heartbeat(self, lease: Lease) -> Heartbeat:
        notices = self.service.settings.notices
        return Heartbeat(
            self._pulse, self._process, self._facts, lease, self._signal, notices, lambda: self._dbos.polled_queues
        )

    def _thread(
        self, name: str, interval: float, act: Callable[[], None], *, rest: Callable[[], float] | None = None
    ) -> None:
        self._threads.start(name, interval, act, self._signal, rest=rest)

    def _drain(self, timeout: float) -> bool:
        """Stop taking work, and wait until all running work has ended."""
        if self._signal is not None:
            self._signal.stop()
        self._dbos.stop_polling()
        self._runtime.stop()
        deadline = time.monotonic() + timeout
        for thread in list(self._inline.values()):
            thread.join(max(deadline - time.monotonic(), 0.0))
        # The library's own drain polls only once a second. Its list is right until the last write of a workflow.
        while active := [*self._inline, *self._dbos.active()]:
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
        self._dbos.end()
        self._threads.end()
        install(None)

    # --- threads ---

    def _run_inline(self, transfer_id: str) -> None:
        def take_queue() -> None:
            with self._lock:
                self._handed_over.add(transfer_id)
            self._take_queue_or_fail()

        ended = True
        try:
            ended = inline.run(self._runtime, transfer_id, take_queue)
        except StepSuspension:
            pass  # the next worker continues
        except Exception as why:  # noqa: BLE001 - the queue repeats it, and records what fails
            log.warning("transfer %s is repeated by the queue: %s", transfer_id, find_shortage(why) or why)
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
        return bool(self._inline) or bool(self._dbos.active())

    def _control(self) -> None:
        self._limits.update()
        control_jobs(self._runtime)
        self._runtime.batch_waits.wake_changed(self._database)
        if not self._own_work and self._draining.check():
            return
        self._lanes.refresh()
        if not self._dbos.is_launched and self._others_wait():
            self._take_queue_or_fail()
        self._dbos.listen(self._lanes.open, self._signal)

    def _list_awaited(self) -> list[str]:
        inline_ids = {*list(self._inline), *(transfer_id for transfer_id, _ in self._runtime.batch_runs)}
        return [*(f"{INLINE_PREFIX}{transfer_id}" for transfer_id in inline_ids), *self._dbos.active()]

    def _restart_dead(self) -> None:
        if self._dbos.is_launched:
            fail = partial(transfer_steps.fail_dead_transfer, self._runtime)
            recovery.restart_dead(self._database, self.service.queue, fail)

    def _rebalance_queue(self) -> None:
        if self._dbos.is_launched:
            lazy.fair_queue.check(self._database)

    def _others_wait(self) -> bool:
        """True when a transfer waits that does not run here: submitted meanwhile, or left by a dead process."""
        with self._lock:
            return not self._inline.keys() >= self._lanes.find_runnable(len(self._inline) + 1)


def run(settings: Settings, *, started: Callable[[Service], None] | None = None) -> None:
    """Work until SIGTERM or SIGINT; a second signal ends the process immediately. Both leave all work resumable.

    The worker waits for an unavailable database.

    Args:
        started: called with the service of the worker once it works; when it fails, the worker ends in order.

    Raises:
        WorkerBusyError, ConfigError: as ``Worker.start``.
    """
    stop_requested = threading.Event()

    def request_stop(number: int, _frame: FrameType | None) -> None:
        if stop_requested.is_set():
            os._exit(128 + number)
        stop_requested.set()

    manager = ServiceManager()
    previous = {number: signal.signal(number, request_stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        manager.waiting("the database")
        outage.wait_until_available(settings, stop_requested.wait)
        if stop_requested.is_set():
            return
        worker = Worker.start(settings)
        worker.service.record_autoscale_limits()
        log.info("worker %s is ready", worker.executor_id)
        if started is not None:
            try:
                started(worker.service)
            except BaseException:
                worker.stop()
                raise
        with manager.feed_watchdog(worker.service.engine.answers):
            manager.ready()
            while not stop_requested.wait(1.0):
                pass
            manager.stopping()
            log.info("worker %s stops; what is left is resumed by the next worker", worker.executor_id)
            if not worker.stop():
                logging.shutdown()
                os._exit(0)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
