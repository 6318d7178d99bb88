"""Shared state of this process's steps: database, engine, the batches that run here, and the order to stop.

DBOS calls workflows as plain functions, so this cannot be passed to them: the worker sets it before launch.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TypeVar

import sqlalchemy as sa

from seqferry.db import actors, batches, notice_rows, retry_chains, transfers
from seqferry.db.batches import BatchRun
from seqferry.db.database import Database
from seqferry.db.group_commit import GroupCommit
from seqferry.db.notice_rows import Subject
from seqferry.db.record import events
from seqferry.db.worker_reports import Report
from seqferry.dbos import ownership
from seqferry.dbos.queue import Queue
from seqferry.engine.engine import Engine
from seqferry.engine.executor import Job
from seqferry.model import names
from seqferry.model.backoff import Backoff
from seqferry.model.errors import AccessError, ConfigError, PolicyError, UnsupportedError
from seqferry.model.models import ResolvedSpec
from seqferry.planning.decision import KeyRules
from seqferry.planning.listing import KnownObjects
from seqferry.service import authority
from seqferry.service.service import Service
from seqferry.settings.channels import Notices
from seqferry.spec import hosts, stored
from seqferry.workflows.batch_waits import BatchWaits
from seqferry.workflows.lease import Lease
from seqferry.workflows.running_batch import RunningBatch, TransferMeter, create_report
from seqferry.workflows.suspension import StepSuspension, TransferPause

_ALLOWED_KEPT: Final = 10_000
"""Transfers whose last check by the policy is remembered; others are checked again."""

_ROUNDS_AHEAD: Final = 4
_SECONDS_AHEAD: Final = 1.0
"""Requests that the running batches have left when the next one begins: so many times those in flight, and those of so
many seconds. A poll of the queue and the begin of a batch take half a second."""

_END_WRITERS: Final = 2
"""Transactions at a time that end transfers: each makes a dozen round trips for each transfer."""

_LONGEST_SECONDS: Final = 2.0
_USED: Final = 0.5
"""Time after which another batch begins while less than this part of the requests is used, up to the limit of the
queue."""

ATTEMPTS: Final = 4
"""Attempts of a step at a storage whose failure passes; a request of it has been repeated by the engine before."""

_BACKOFF: Final = Backoff(1.0, 16.0)
_DATABASE_BACKOFF: Final = Backoff(1.0, 30.0, random=random.random)

_NO_NOTICES: Final = Notices()

_Result = TypeVar("_Result")

log: Final = logging.getLogger("seqferry.worker")


class Runtime:
    """State and means of one worker. ``worker_session`` names this start of it, ``executor_id`` its place in the queue.

    ``on_end`` is called, in any thread, when a transfer has ended here; ``on_work`` before work at a transfer begins,
    so that its limits hold from its first request; ``on_queued`` when batches that a worker can begin now have been put
    on the queue. ``lease`` is set where other workers may take over the work of this one. With ``confines_writes`` the
    policy lets clients write to some places only.
    """

    def __init__(
        self,
        database: Database,
        queue: Queue,
        engine: Engine,
        state_dir: Path,
        executor_id: str,
        worker_session: str,
        on_end: Callable[[], None] | None = None,
        lease: Lease | None = None,
        notices: Notices = _NO_NOTICES,
        *,
        on_work: Callable[[], None] | None = None,
        on_queued: Callable[[], None] | None = None,
        confines_writes: bool = False,
    ) -> None:
        self.database: Final = database
        # Not synced: the next run finds at the target what is lost, and the transfer's end syncs all before it.
        self.results: Final = GroupCommit(database, batches.record_each, durable=False)
        self.ends: Final = GroupCommit(database, _write_ends, writers=_END_WRITERS)
        self.batch_waits: Final = BatchWaits()
        self.queue: Final = queue
        self.engine: Final = engine
        self.state_dir: Final = state_dir
        self.executor_id: Final = executor_id
        self.worker_session: Final = worker_session
        self.actor: Final = f"worker {worker_session}"
        self.lease: Final = lease
        self.confines_writes: Final = confines_writes
        self.service: Service | None = None
        """The service that submits the runs of schedules; set by the worker."""
        self._end_channels: Final = notices.wanting("finished")
        self._on_end = on_end
        self._on_work = on_work
        self._on_queued = on_queued
        self._stopping = threading.Event()
        self._changed = threading.Condition()
        self._running: dict[tuple[str, int], RunningBatch] = {}
        self._meters: dict[str, TransferMeter] = {}
        self._supervised: dict[str, int] = {}
        self._waiting: dict[str, int] = {}
        self._exclusive_runs: set[tuple[str, int]] = set()
        self._begun_at = 0.0
        self._preflights: dict[str, KnownObjects] = {}
        self._allowed = set[str]()

    def key_rules(self, transfer_id: str) -> KeyRules:
        """Rules for the keys of a transfer, for planning."""
        confined = False
        if self.confines_writes:
            with self.database.read() as connection:
                row = transfers.row_of(connection, transfer_id)
            confined = row is not None and actors.is_http(row.created_by)
        record = partial(self._record_manifest, transfer_id)
        return KeyRules(str(self.state_dir), confined, self.database.is_sqlite, record)

    def _record_manifest(self, transfer_id: str, sha256: str) -> None:
        """Put the manifest that lists a transfer on its record, unless the last one there is the same."""
        with self.database.write() as connection:
            row = transfers.row_of(connection, transfer_id, lock=True)
            before = events.last(connection, transfer_id, events.LIST_READ)
            if row is not None and (before is None or before.get("sha256") != sha256):
                data = {"list": stored.read(row.spec).inventory, "sha256": sha256}
                events.append(connection, transfer_id, time.time(), events.LIST_READ, self.actor, data)

    def check_allowed(self, transfer_id: str, row: sa.Row[Any] | None = None) -> bool:
        """Check a transfer of an HTTP client against the current policy; stop it if it is not allowed any more.

        Args:
            row: of the transfer, where the caller has just read it.

        Returns:
            False when it is stopped.

        Raises:
            AccessError: this process does not serve a local folder of the transfer.
        """
        with self._changed:
            if self.service is None or transfer_id in self._allowed:
                return True
        if row is None:
            with self.database.read() as connection:
                row = transfers.row_of(connection, transfer_id)
        if row is not None and not self.database.is_sqlite:
            self._require_folders(transfer_id, stored.read(row.spec))
        if row is not None and actors.is_http(row.created_by):
            try:
                is_whole = self.service.serves and actors.is_http(self._find_creator(row))
                authority.check_policy(self.service.settings, stored.read(row.spec), places_only=not is_whole)
            except PolicyError as why:
                with self.database.write() as connection:
                    transfers.request_stop(connection, transfer_id, time.time(), self.actor, why.code, why.message)
                return False
        with self._changed:
            while len(self._allowed) >= _ALLOWED_KEPT:
                self._allowed.pop()
            self._allowed.add(transfer_id)
        return True

    def _find_creator(self, row: sa.Row[Any]) -> str:
        if not retry_chains.follows_another(row):
            return row.created_by
        with self.database.read() as connection:
            return retry_chains.find_first_actor(connection, row.id)

    def _require_folders(self, transfer_id: str, spec: ResolvedSpec) -> None:
        assert self.service is not None
        lacks = hosts.find_unserved_folder(spec, self.service.settings, self.service.named_folders)
        if lacks is not None:
            raise AccessError(f"Transfer {transfer_id} waits for a worker with {lacks}.")

    # --- findings before the start ---

    def keep_preflight(self, transfer_id: str, known: KnownObjects) -> None:
        """Keep the findings of the check before the submission here, for the first planning."""
        with self._changed:
            self._preflights[transfer_id] = known

    def take_preflight(self, transfer_id: str) -> KnownObjects | None:
        """Remove and return the findings for this transfer: a later planning sends its own requests."""
        with self._changed:
            return self._preflights.pop(transfer_id, None)

    # --- stopping ---

    def stop(self) -> None:
        """Suspend all steps soon; the next worker resumes them."""
        with self._changed:
            self._stopping.set()
            self._changed.notify_all()
        self.batch_waits.wake_all()
        for running in self.running():
            running.suspend()

    def check(self) -> None:
        """Raise StepSuspension when this process is to stop."""
        if self._stopping.is_set():
            raise StepSuspension

    def sleep(self, seconds: float) -> None:
        """Wait so many seconds; raises StepSuspension when this process is to stop."""
        self._stopping.wait(seconds)
        self.check()

    def attempts(self, limit: int = ATTEMPTS) -> Iterator[bool]:
        """Yield for each attempt whether another one may follow, with pauses between them.

        Raises:
            StepSuspension: this process is to stop.
        """
        for failures in range(limit):
            if failures:
                self.sleep(_BACKOFF.pause(failures))
            self.check()
            yield failures < limit - 1

    def retry_until_available(self, act: Callable[[], _Result]) -> _Result:
        """Call ``act``, and repeat it while the database is unavailable or this process cannot do the work.

        An outage of the database says nothing about the objects, and DBOS waits for the database as well. A worker
        takes only the lanes whose credentials it has (``Lanes``); if these have changed since, they may change again. A
        spec that this version does not support is left to another worker.
        """
        for pause in _DATABASE_BACKOFF.pauses():
            self.check()
            try:
                return act()
            except (ConfigError, AccessError, UnsupportedError) as why:
                log.warning("%s The next attempt is in %.0f s.", why.message, pause)
            self.sleep(pause)
        raise AssertionError("the pauses never end")

    def record_end(self, connection: sa.Connection, transfer_id: str, at: float) -> None:
        """Record a notice of a transfer's end for the notifier, where the configuration asks for one."""
        notice_rows.record(connection, Subject("transfer", transfer_id), "finished", self._end_channels, at)

    def announce_end(self) -> None:
        """Report the end of a transfer to ``on_end``."""
        if self._on_end is not None:
            self._on_end()

    def announce_queued(self) -> None:
        """Report to ``on_queued`` that batches have been enqueued that a worker can begin now."""
        if self._on_queued is not None:
            self._on_queued()

    # --- ownership ---

    @property
    def epoch(self) -> int | None:
        """Epoch of the lease. Read it before ``claim`` finds the work to be ours, and give it to the work's job."""
        return None if self.lease is None else self.lease.epoch

    def claim(self, connection: sa.Connection, *workflow_ids: str) -> None:
        """Raise StepSuspension unless one of the workflows is this worker's to run.

        A worker that counted as dead while it was cut off does not take back work that others have by now.
        """
        if self.lease is not None and not ownership.find_owned(connection, self.executor_id, workflow_ids):
            log.warning("the work %s was taken over by another worker", workflow_ids[0])
            raise StepSuspension

    def find_lost(self, connection: sa.Connection, running: Sequence[RunningBatch]) -> list[RunningBatch]:
        """Batches, among those that run, which are not this worker's any more."""
        shut_out = batches.find_superseded(connection, [batch.run for batch in running])
        held = None
        if self.lease is not None:
            workflow_ids = [one for batch in running for one in workflow_ids_of(batch.run)]
            held = ownership.find_owned(connection, self.executor_id, workflow_ids)
        return [
            batch
            for batch in running
            # A batch that its transfer ends after its workflow has failed is fenced by its run alone.
            if batch.run in shut_out
            or (held is not None and not batch.cleaning and held.isdisjoint(workflow_ids_of(batch.run)))
        ]

    @contextmanager
    def requeue_when_paused(self, transfer_id: str, workflow_id: str, queue: str) -> Generator[None]:
        """Context of a workflow, which goes back to the queue when its transfer is paused."""
        try:
            yield
        except TransferPause:
            self.retry_until_available(lambda: self._requeue(transfer_id, workflow_id, queue))
            raise

    def _requeue(self, transfer_id: str, workflow_id: str, queue: str) -> None:
        with self.database.write() as connection:
            row = transfers.row_of(connection, transfer_id, lock=True)  # a person may resume it meanwhile
            if row is None:
                return
            lane = names.PAUSED_LANE if transfers.is_paused(row) else row.lane
            self.queue.requeue(connection, workflow_id, self.executor_id, names.queue_of(queue, lane))

    # --- running work ---

    @property
    def requesting_transfers(self) -> set[str]:
        """Ids of the transfers for which this process may send requests: those that do not just wait for batches."""
        with self._changed:
            found = {one for one, count in self._supervised.items() if count > self._waiting.get(one, 0)}
            return found | {transfer_id for transfer_id, _ in self._running}

    @contextmanager
    def waiting(self, transfer_id: str) -> Generator[None]:
        """Context of a workflow that waits for the batches of its transfer: it sends no requests meanwhile.

        Its share of the limits is released, and claimed again at the end.
        """
        with self._changed:
            self._waiting[transfer_id] = self._waiting.get(transfer_id, 0) + 1
        try:
            yield
        finally:
            with self._changed:
                self._waiting[transfer_id] -= 1
                if self._waiting[transfer_id] == 0:
                    del self._waiting[transfer_id]
        if self._on_work is not None:
            self.retry_until_available(self._on_work)

    @contextmanager
    def supervising(self, transfer_id: str) -> Generator[None]:
        """Count the transfer as supervised while a workflow of it runs here."""
        with self._changed:
            self._supervised[transfer_id] = self._supervised.get(transfer_id, 0) + 1
            self._meters.setdefault(transfer_id, TransferMeter())
        try:
            if self._on_work is not None:
                self.retry_until_available(self._on_work)
            yield
        finally:
            with self._changed:
                self._supervised[transfer_id] -= 1
                if self._supervised[transfer_id] == 0:
                    del self._supervised[transfer_id]
                    self._forget(transfer_id)

    @contextmanager
    def exclusive_run(self, transfer_id: str, number: int) -> Generator[None]:
        """Context of a run of a batch: another run of it in this process waits for its end.

        A batch may be on the queue while it is run without it. Which process runs it is a matter of its row.

        Raises:
            StepSuspension: this process is to stop.
        """
        key = (transfer_id, number)
        with self._changed:
            self._changed.wait_for(lambda: key not in self._exclusive_runs or self._stopping.is_set())
            self.check()
            self._exclusive_runs.add(key)
        try:
            yield
        finally:
            with self._changed:
                self._exclusive_runs.remove(key)
                self._changed.notify_all()

    @property
    def batch_runs(self) -> list[tuple[str, int]]:
        """Transfers and numbers of the batches of which a run has begun and not ended here."""
        with self._changed:
            return list(self._exclusive_runs)

    @contextmanager
    def running_batch(
        self, run: BatchRun, job: Job, *, epoch: int | None, cleaning: bool = False, sizes: Iterable[int] = ()
    ) -> Generator[RunningBatch]:
        """Register the job for control and for progress readings. On an exception it is suspended.

        ``sizes`` are those of the objects that it copies.
        """
        running = RunningBatch(run, job, epoch=epoch, cleaning=cleaning, sizes=sizes)
        key = (run.transfer_id, run.number)
        with self._changed:
            self._meters.setdefault(run.transfer_id, TransferMeter())
            self._running[key] = running
            self._begun_at = time.monotonic()
        try:
            # After it is listed, so that a stop in between is seen by one of both.
            if self._stopping.is_set():
                running.suspend()
            yield running
        except BaseException:
            running.suspend()
            raise
        finally:
            self._retire(key, running)

    def running(self) -> list[RunningBatch]:
        with self._changed:
            return list(self._running.values())

    def wants_batch(self, wanted_at: float) -> bool:
        """True when the running batches leave requests of this worker unused soon, so that another is to begin.

        Also when they use few requests and none has begun for some time: what is left may be a few slow objects.

        Args:
            wanted_at: when the last one was wanted (``time.monotonic``), which may not have begun yet.
        """
        now = time.monotonic()
        estimates = [running.estimate_requests(now) for running in self.running() if not running.cleaning]
        left, rate, used = (sum(values) for values in zip(*estimates, strict=True)) if estimates else (0.0, 0.0, 0.0)
        if left < max(_ROUNDS_AHEAD * self.engine.max_requests, _SECONDS_AHEAD * rate):
            return True
        is_idle = used < _USED * self.engine.max_requests
        return is_idle and now - max(self._begun_at, wanted_at) > _LONGEST_SECONDS

    def _retire(self, key: tuple[str, int], running: RunningBatch) -> None:
        progress = running.job.progress()
        with self._changed:
            if self._running.get(key) is running:
                del self._running[key]
            meter = self._meters.setdefault(key[0], TransferMeter())
            meter.bytes += progress.bytes_done
            meter.objects += progress.objects_done + progress.objects_skipped + progress.objects_failed
            meter.requests += progress.requests
            meter.retries += progress.retries
            meter.throttled += progress.throttled
            self._forget(key[0])

    def _forget(self, transfer_id: str) -> None:
        """Delete the counts of a transfer that no longer runs here, so that they do not accumulate."""
        if transfer_id not in self._supervised and all(key[0] != transfer_id for key in self._running):
            self._meters.pop(transfer_id, None)

    def active_transfers(self) -> list[str]:
        """Ids of the transfers that run in this process."""
        with self._changed:
            return list(self._meters)

    def read_reports(self) -> dict[str, Report]:
        """A report for each transfer that runs in this process."""
        now = time.monotonic()
        with self._changed:
            batches: dict[str, list[RunningBatch]] = {transfer_id: [] for transfer_id in self._meters}
            for (transfer_id, _), running in self._running.items():
                batches[transfer_id].append(running)
            return {one: create_report(self._meters[one], of_one, now) for one, of_one in batches.items()}


TransferEnd = tuple[str, Callable[[sa.Connection], bool]]
"""A transfer, and what writes its end; False when something is to be done before."""


def _write_ends(connection: sa.Connection, ends: Sequence[TransferEnd]) -> list[bool]:
    """Write ends of transfers, in the order in which all lock transfers."""
    written = {transfer_id: write(connection) for transfer_id, write in sorted(ends, key=itemgetter(0))}
    return [written[transfer_id] for transfer_id, _ in ends]


def workflow_ids_of(run: BatchRun) -> list[str]:
    """Ids of the workflows of which one has the right to this run."""
    if run.in_transfer:
        return names.transfer_workflow_ids(run.transfer_id)
    return [names.batch_workflow_id(run.transfer_id, run.number)]


_current: Runtime | None = None


def install(runtime: Runtime | None) -> None:
    """Make ``runtime`` the one of this process. DBOS, too, is one per process."""
    global _current
    _current = runtime


def current() -> Runtime:
    if _current is None:
        # The worker has ended while DBOS still starts a workflow: leave it for the next one.
        raise StepSuspension
    return _current
