"""The process that does the work: launches DBOS with our workflows, and watches over it.

Threads beside those of DBOS: *control* carries orders (cancel, lost ownership) to running jobs, *reporter* writes what
``status`` shows while jobs run, and on Postgres *heart* says "alive" and gives the work of dead workers back.

SQLite: one worker, guarded by a lock on a file that is taken before DBOS starts, because a second launch would take
over the running work of the first. Postgres: any number, each with an executor id of its own.
"""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Final, Self

import sqlalchemy as sa
from dbos import DBOS, DBOSPortableJSONSerializer

from seqferry import names, workflows
from seqferry.config import Settings
from seqferry.db import live, objects, transfers
from seqferry.db.quiet import quieten_dbos
from seqferry.errors import WorkerBusyError
from seqferry.service import Service
from seqferry.workflows.runtime import Runtime, install

log: Final = logging.getLogger("seqferry.worker")

WORKFLOWS: Final = (workflows.transfer, workflows.batch)
"""What this process runs. Importing them has registered them with DBOS."""

SQLITE_EXECUTOR: Final = "sqlite"
"""Always the same, so that the next start takes up what this one leaves."""

_CONTROL_SECONDS: Final = 0.4
_REPORT_SECONDS: Final = 1.0
_SAMPLE_EVERY: Final = 2  # reports
_BEAT_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 0.1
_TRANSFERS_AT_ONCE: Final = 64  # each waits in a thread, most of the time asleep
_BATCHES_AT_ONCE: Final = 8  # they share one budget of requests: enough to keep it busy while some begin and end
_DBOS_POOL: Final = 20


class Worker:
    """A running worker. One per process, as DBOS is."""

    _present: Worker | None = None

    def __init__(self, service: Service) -> None:
        """Not to be called: use ``start``."""
        self._database = service.database
        attendant = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.executor_id: Final = SQLITE_EXECUTOR if self._database.is_sqlite else attendant
        self._runtime = Runtime(service.database, service.queue, service.engine, self.executor_id, attendant)
        self._leaving = threading.Event()
        self._threads: list[threading.Thread] = []
        self._held = ExitStack()
        self._dbos: DBOS | None = None
        self._stopped = False

    @classmethod
    def start(cls, settings: Settings, service: Service | None = None) -> Worker:
        """Start to work; returns at once. A ``service`` that is given shares its engine and database, and stays open.

        Raises:
            WorkerBusyError: another worker holds the state folder (SQLite), or this process has one already.
            ConfigError: the state folder or the database cannot be used.
        """
        settings.prepare_state_dir()
        with ExitStack() as held:
            if Worker._present is not None:
                raise WorkerBusyError("This process has a worker already; stop it before starting another.")
            if settings.uses_sqlite:
                held.enter_context(_lock(settings.state_dir))
            if service is None:
                service = held.enter_context(Service.open(settings))
            worker = cls(service)
            try:
                worker._launch(held)
            except BaseException:
                worker._leave()
                raise
            worker._held = held.pop_all()
        Worker._present = worker
        return worker

    def stop(self, timeout: float = 10.0) -> bool:
        """Suspend what runs, so that the next worker resumes it, and free the lock. Aborts no upload.

        Returns:
            False when something was still running after ``timeout`` seconds; the process should then end.
        """
        if self._stopped:
            return True
        self._stopped = True
        drained = self._drain(timeout)
        self._leave()
        try:
            with self._database.write() as connection:
                live.withdraw(connection, self.executor_id)
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

    def _launch(self, held: ExitStack) -> None:
        install(self._runtime)
        if not self._database.is_sqlite:
            self._beat()  # before the launch: the first claim must find us alive
            self._thread("heart", _BEAT_SECONDS, self._beat_and_reap)
        # Before the launch, which looks for queues at its start and then only each second.
        self._runtime.queue.register(names.QUEUE_TRANSFERS, _TRANSFERS_AT_ONCE, _POLL_SECONDS)
        self._runtime.queue.register(names.QUEUE_BATCHES, _BATCHES_AT_ONCE, _POLL_SECONDS)
        quieten_dbos()
        engine = held.enter_context(_disposed(self._database.dbos_engine(_DBOS_POOL)))
        self._dbos = DBOS(
            config={
                "name": names.APPLICATION,
                "system_database_url": self._database.url.render_as_string(hide_password=False),
                "system_database_engine": engine,
                "application_version": names.WORKFLOW_SHAPE,
                "executor_id": self.executor_id,
                "serializer": DBOSPortableJSONSerializer(),
                "log_level": "WARNING",
            }
        )
        quieten_dbos()
        DBOS.launch()
        quieten_dbos()
        self._thread("control", _CONTROL_SECONDS, self._give_orders)
        self._thread("reporter", _REPORT_SECONDS, _Reporter(self._runtime).report)

    def _drain(self, timeout: float) -> bool:
        """Stop taking work and wait until the running workflows have left."""
        dbos = self._dbos
        assert dbos is not None
        for event in dbos.background_thread_stop_events:
            event.set()
        self._runtime.stop()
        deadline = time.monotonic() + timeout
        # The library's own drain looks once a second only. Its list is right to the last write of a workflow.
        while active := dbos._active_workflows_set.activeList():  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
            if time.monotonic() > deadline:
                log.warning("still running at the end of the worker: %s", ", ".join(active))
                return False
            time.sleep(0.02)
        return True

    def _leave(self) -> None:
        DBOS.destroy()
        self._leaving.set()
        for thread in self._threads:
            thread.join(timeout=5.0)
        install(None)

    def _thread(self, name: str, interval: float, act: Callable[[], None]) -> None:
        def loop() -> None:
            while not self._leaving.wait(interval):
                try:
                    act()
                except Exception as why:  # noqa: BLE001 - a thread that dies unseen would be worse
                    log.warning("%s: %s", name, why)

        thread = threading.Thread(target=loop, name=f"seqferry-{name}", daemon=True)
        thread.start()
        self._threads.append(thread)

    # --- what the threads do ---

    def _give_orders(self) -> None:
        running = self._runtime.running()
        if not running:
            return
        with self._database.read() as connection:
            stopping = transfers.stopping(connection, {batch.run.transfer_id for batch in running})
            lost = objects.lost(connection, [batch.run for batch in running])
        for batch in running:
            if batch.run in lost:
                if not batch.suspended:
                    run = batch.run
                    log.warning("batch %s of transfer %s was taken over by another worker", run.number, run.transfer_id)
                batch.suspend()
            elif batch.run.transfer_id in stopping and not batch.cleaning:
                batch.abort()

    def _beat(self) -> None:
        with self._database.write() as connection:
            live.beat(connection, self.executor_id)

    def _beat_and_reap(self) -> None:
        self._beat()
        with self._database.write() as connection:
            given_back = live.reap(connection)
        if given_back:
            log.warning("a worker is gone; its work goes back to the queue: %s", ", ".join(given_back))


class _Reporter:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._turn = 0

    def report(self) -> None:
        reports = self._runtime.reports()
        if not reports:
            return
        self._turn += 1
        database = self._runtime.database
        with database.write() as connection:
            live.report(connection, database, self._runtime.executor_id, reports)
            if self._turn % _SAMPLE_EVERY == 0:
                live.take_samples(connection, database, self._runtime.executor_id, reports)


def run(settings: Settings) -> None:
    """Work until SIGTERM or SIGINT; a second signal ends the process at once. Both leave all work resumable.

    Raises:
        WorkerBusyError, ConfigError: as ``Worker.start``.
    """
    asked = threading.Event()

    def ask(number: int, _frame: FrameType | None) -> None:
        if asked.is_set():
            os._exit(128 + number)
        asked.set()

    previous = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        worker = Worker.start(settings)
        log.info("worker %s is ready", worker.executor_id)
        while not asked.wait(1.0):
            pass
        log.info("worker %s stops; what is left is resumed by the next worker", worker.executor_id)
        if not worker.stop():
            logging.shutdown()
            os._exit(0)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class _disposed:  # noqa: N801 - a context manager, like contextlib.closing
    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def __enter__(self) -> sa.Engine:
        return self._engine

    def __exit__(self, *_: object) -> None:
        self._engine.dispose()


def _lock(state_dir: Path) -> IO[str]:
    """The lock of the one worker of a state folder. The system frees it when the process ends, however it ends."""
    path = state_dir / "worker.lock"
    file = path.open("a+", encoding="ascii")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        holder = file.read(32).strip()
        file.close()
        who = f" (process {holder})" if holder.isdecimal() else ""
        raise WorkerBusyError(
            f"Another worker{who} is at work in the state folder {state_dir}. It does what is submitted; "
            "stop it first to take over, or give another folder with --state-dir or SEQFERRY_STATE_DIR."
        ) from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file
