"""Transfers: submitted, begun when what they wait for has ended, gone on with, and cancelled."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seqferry.db import batches, lanes, transfer_status, transfers, worker_reports
from seqferry.db.database import Database
from seqferry.db.group_commit import GroupCommit
from seqferry.db.worker_reports import ReportingWorker
from seqferry.engine import crash_points
from seqferry.model import labels, names, operations
from seqferry.model.errors import AccessError, ConflictError, UnsupportedError, UsageError
from seqferry.model.labels import NOTHING, Description
from seqferry.model.locations import LocalFolder, S3Location
from seqferry.model.models import MAX_PRIORITY, Adjustment, ResolvedSpec, Status, Submission, TransferSpec
from seqferry.places import paths, processes
from seqferry.service import lazy
from seqferry.service.queries import Queries
from seqferry.settings.config import Settings
from seqferry.spec import hosts, identity, keyspace, stored

if TYPE_CHECKING:
    # Imported by the verb that needs them: a command takes longer to import than to do its work.
    from seqferry.db import submissions
    from seqferry.engine.engine import Engine

log: Final = logging.getLogger("seqferry.service")
_IDEMPOTENCY_KEY_BYTES: Final = 255
_WRITERS: Final = 2
"""Transactions at a time that record submissions: one waits for the lock of the ledger, or its sync, at its end."""

_ABANDONED_BATCHES: Final = 5
"""Batches per transaction: on SQLite all others wait for the lock meanwhile."""


_Submission = tuple["submissions.Keys", Callable[[sa.Connection], Submission]]
"""Keys that a submission may write to, and the function that records it."""


class Transfers(Queries):
    """Verbs that change transfers."""

    def __init__(self, settings: Settings, database: Database, engine: Engine | None = None) -> None:
        super().__init__(settings, database, engine)
        # Those of many clients share a commit.
        self._submissions: Final = GroupCommit(database, _record, writers=_WRITERS)

    def submit(self, spec: TransferSpec, *, actor: str, idempotency_key: str | None = None, queued: bool = True) -> str:
        """``submit_or_resume``; returns the id only."""
        return self.submit_or_resume(spec, actor=actor, idempotency_key=idempotency_key, queued=queued).id

    def submit_or_resume(
        self,
        spec: TransferSpec,
        *,
        actor: str,
        idempotency_key: str | None = None,
        queued: bool = True,
        new: bool = False,
        priority: int = 0,
        description: Description = NOTHING,
        also: Callable[[sa.Connection, Submission], None] | None = None,
    ) -> Submission:
        """Record a transfer and put it on the queue, both or none; or go on with an unfinished one that is the same.

        What the spec leaves open is resolved by the environment of this process and recorded (``spec.identity``). With
        an ``idempotency_key`` that was used before for the same spec, the transfer of then is the answer; each client
        over HTTP has keys of its own. With ``new``, another
        transfer is recorded though the same is unfinished; so it is where that was submitted by another client over
        HTTP. One that writes to the same keys as an unfinished one waits for its end. ``priority`` is that of a
        new transfer (``Adjustment``). Not ``queued`` is for the worker of a state folder that starts it immediately;
        the next worker queues what is left. A ``description`` is no part of the equality: an unfinished transfer that
        goes on gets what is given of it. ``also`` is done in the same transaction, and not where the key was used
        before.

        Raises:
            UsageError: the spec or the description is not valid, or the idempotency key is empty or longer than
                255 bytes.
            ConflictError: the key was used for another spec.
            UnsupportedError: there is no such operation.
        """
        assert spec.files_from is None, "a run reads the list of its schedule before"
        spec = self.resolve_submission(spec, priority=priority)
        description.check()
        unserved = self.find_unserved(spec)
        if idempotency_key is not None and not 0 < len(idempotency_key.encode()) <= _IDEMPOTENCY_KEY_BYTES:
            raise UsageError(f"An idempotency key has 1 to {_IDEMPOTENCY_KEY_BYTES} bytes.")

        def write(connection: sa.Connection) -> Submission:
            if idempotency_key is not None:
                earlier = lazy.submissions.by_idempotency_key(connection, idempotency_key, actor)
                if earlier is not None:
                    return Submission(_same_submission(*earlier, spec))
            near = lazy.blocking.find_near(connection, spec)
            if not new and (unfinished := lazy.submissions.find_same(near, spec, actor)) is not None:
                lazy.submissions.record_join(connection, unfinished, time.time(), actor, idempotency_key)
                self._renew(connection, unfinished, spec, actor)
                _limit(connection, unfinished.id, spec.speed.tpslimit, actor)
                described = description.merged_over(labels.read_stored(unfinished.name, unfinished.labels))
                lazy.submissions.describe(connection, unfinished, described, time.time(), actor)
                joined = Submission(unfinished.id, goes_on=True, blocked=unfinished.blocked_by is not None)
                if also is not None:
                    also(connection, joined)
                return joined
            transfer_id = str(uuid.uuid4())
            blocked_by = lazy.submissions.insert(
                connection,
                spec,
                transfer_id=transfer_id,
                at=time.time(),
                actor=actor,
                idempotency_key=idempotency_key,
                adjustment=Adjustment(priority=priority, tpslimit=spec.speed.tpslimit),
                description=description,
                near=near,
            )
            if unserved is not None:
                lanes.record_skipped(connection, [transfer_id], f"a worker with {unserved}")
            if queued and blocked_by is None:
                lane = identity.lane(identity.needs(spec))
                self.queue.enqueue_transfer(connection, transfer_id, lane, priority=priority)
            submission = Submission(transfer_id, blocked=blocked_by is not None)
            if also is not None:
                also(connection, submission)
            crash_points.reach("before-submission-recorded")
            return submission

        submission = self._submissions.commit((_keys_of(spec, idempotency_key), write))
        crash_points.reach("after-submission-recorded")
        return submission

    def resolve_submission(self, spec: TransferSpec, *, priority: int = 0) -> ResolvedSpec:
        """The spec as ``submit_or_resume`` would record it: resolved by the environment of this process.

        Raises:
            UsageError: the spec is not valid, or needs standard input or output where another process may work.
            UnsupportedError: there is no such operation.
        """
        operations.require_known(spec.operation)
        if spec.kind.recorded_by_gateway:
            raise UsageError(
                "The gateway records what it uploads, and retries failed files itself: seqferry gateway status."
            )
        if not -MAX_PRIORITY <= priority <= MAX_PRIORITY:
            raise UsageError(f"--priority {priority}: a priority is from -{MAX_PRIORITY} to {MAX_PRIORITY}.").about(
                "priority"
            )
        found = identity.resolve(spec)
        if found.speed.tpslimit is None and self.settings.tpslimit is not None:
            # The settings were checked as this option is.
            found = found.derive(speed=replace(found.speed, tpslimit=self.settings.tpslimit))
        return hosts.add_hosts(found, self.settings)

    def allow_local_folders(self, spec: TransferSpec) -> None:
        """Allow this process to use the folders of this machine that the spec names: its user has named them."""
        if self.is_local:
            return
        placed = hosts.add_hosts(identity.resolve(spec), self.settings)
        self.named_folders |= hosts.folder_paths(placed)

    def renew_keys(self, transfer_id: str, spec: TransferSpec, *, actor: str) -> bool:
        """Let the unfinished transfer of a submission go on with the key that its submission has now; ``_renew``.

        Returns:
            False while a worker with another key may still be at it; to be asked again.
        """
        spec = self.resolve_submission(spec)
        with self.database.read() as connection:
            row = transfers.row_of(connection, transfer_id)
            if row is None or row.ended_at is not None or identity.needs(spec) == row.needs:
                return True
            if self._is_attended(connection, row.id):
                return False
        with self.database.write() as connection:
            lazy.submissions.lock(connection, _keys_of(spec))
            row = transfers.row_of(connection, transfer_id, lock=True)
            return row is None or row.ended_at is not None or self._renew(connection, row, spec, actor)

    def _renew(self, connection: sa.Connection, row: sa.Row[Any], spec: ResolvedSpec, actor: str) -> bool:
        """Let an unfinished transfer go on with the key that its submission has now, where that is a newer one.

        A worker that is at it goes on with its own key: taken from it, the rest would wait for that worker's end. So
        does one that was not heard of for less time than its lease. False is returned then.
        """
        needs = identity.needs(spec)
        if needs == row.needs:
            return True
        if self._is_attended(connection, row.id):
            return False
        lazy.submissions.replace_key(connection, row.id, spec, time.time(), actor)
        self.queue.move(connection, row.id, row.lane, identity.lane(needs))
        return True

    def _is_attended(self, connection: sa.Connection, transfer_id: str) -> bool:
        """True when a worker may still write for the transfer."""
        return self._attendant(connection, transfer_id) is not None

    def _attendant(self, connection: sa.Connection, transfer_id: str) -> ReportingWorker | None:
        """The worker that may write for the transfer for longest.

        The end of a worker is known immediately: on SQLite by the lock of the state folder, on PostgreSQL on the
        worker's machine.
        """
        found = worker_reports.find_reporting_workers(connection, self.database, transfer_id)
        if self.database.is_sqlite:
            return found[0] if found and lazy.worker_lock.is_held(self.settings.state_dir) else None
        return next((one for one in found if not processes.has_ended(one.executor_id)), None)

    def active_worker(self, transfer_id: str) -> ReportingWorker | None:
        """The worker that may still write for the transfer; None when none may."""
        with self.database.read() as connection:
            return self._attendant(connection, transfer_id)

    def start_waiting(self) -> None:
        """Start transfers that waited for others which have ended."""
        with self.database.read() as connection:
            ready = lazy.blocking.find_ready(connection)
        for transfer_id, place, prefix in ready:
            try:
                self._release(transfer_id, place, prefix)
            except UnsupportedError as why:
                # All others go on.
                if transfer_id not in self._unreadable:
                    self._unreadable.add(transfer_id)
                    log.warning("transfer %s stays where it is: %s", transfer_id, why)

    def _release(self, transfer_id: str, place: str, prefix: str) -> None:
        with self.database.write() as connection:
            lazy.submissions.lock(connection, lazy.submissions.Keys(place, prefix))
            row = lazy.blocking.unblock(connection, transfer_id)
            if row is not None:
                self.queue.enqueue_transfer(connection, transfer_id, row.lane, priority=row.priority)

    def find_submitted(self, spec: TransferSpec, idempotency_key: str, *, actor: str) -> str | None:
        """The id of the transfer that this client has submitted with this key, None when there is none.

        Raises:
            ConflictError: the key was used for another spec.
        """
        with self.database.read() as connection:
            earlier = lazy.submissions.by_idempotency_key(connection, idempotency_key, actor)
        if earlier is None:
            return None
        return _same_submission(*earlier, _add_hosts(identity.resolve_places(spec), self.settings))

    def submitted_spec(self, idempotency_key: str, *, actor: str) -> TransferSpec | None:
        """The spec of the transfer that this client has submitted with this key, None when there is none."""
        with self.database.read() as connection:
            earlier = lazy.submissions.by_idempotency_key(connection, idempotency_key, actor)
        return None if earlier is None else stored.read(earlier[1])

    def cancel(self, transfer_id: str, *, actor: str, abandon: bool = False) -> Status:
        """Ask the transfer to stop; a worker then aborts its open uploads and ends it as ``cancelled``.

        Cancelling one that is cancelled or being cancelled changes nothing. With ``abandon`` it ends immediately, and
        its open uploads stay: for a transfer with an identity that no worker will have again.

        Raises:
            NotFoundError: there is none.
            ConflictError: the transfer has ended in another way, or is to be abandoned while a worker is at it.
        """
        with self.database.write() as connection:
            row = self.lock_row(connection, transfer_id)
            full_id = row.id
            transfers.request_cancel(connection, full_id, time.time(), actor)
            if transfers.is_paused(row):
                self.requeue(connection, row)
            status = transfer_status.statuses(connection, self.database, ids=[full_id], limit=1)[0]
            supervised = self._is_attended(connection, full_id)
        if abandon and not status.ended:
            if supervised:
                raise ConflictError(
                    f"Transfer {full_id} cannot be abandoned: a worker runs it, and ends it. Stop that worker first; "
                    "after one that was killed on another machine, wait 15 seconds."
                )
            self._abandon(status, actor)
            return self.status(full_id)
        if status.state not in ("cancelling", "cancelled"):
            raise ConflictError(f"Transfer {full_id} cannot be cancelled: it has already ended ({status.state}).")
        return status

    def _abandon(self, status: Status, actor: str) -> None:
        """End a transfer that is being given up, without a word to the storage."""
        more = True
        while more:
            with self.database.write() as connection:
                more = batches.cancel_open(connection, status.id, time.time(), _ABANDONED_BATCHES)
                if not more:
                    transfers.finish(connection, status.id, time.time(), actor)

    def check_folders(self, status: Status) -> None:
        """Check that the folders of a started transfer exist; without them, continuing would end it.

        Raises:
            StorageError: a folder is not there, or cannot be used.
        """
        for place, is_target in ((status.spec.source, False), (status.spec.target, True)):
            if (
                isinstance(place, LocalFolder)
                and not hosts.is_elsewhere(place, self.settings)
                and not status.ended
                and status.state != "cancelling"
                and (status.planned or not is_target)
            ):
                paths.check_exists(place.path, is_target=is_target)

    def check_access(self, status: Status) -> None:
        """Check that this process may continue a transfer that no worker runs.

        Raises:
            AccessError: the transfer was submitted with credentials that this process lacks.
            UnsupportedError: this version does not know what it asks for.
        """
        if status.ended:
            return
        if status.unsupported is not None:
            raise UnsupportedError.of(status.unsupported)
        if status.live.workers:
            return
        if (missing := self.unmet_requirement(status)) is not None:
            places = " and ".join(
                dict.fromkeys(
                    place.endpoint_url or "AWS"
                    for place in (status.spec.source, status.spec.target)
                    if isinstance(place, S3Location)
                )
            )
            if self.find_missing_folder(status) is not None:
                raise AccessError(
                    f"Transfer {status.id} needs a worker with {missing}, and this process has other folders. Resume "
                    "it on that host, or start a worker there that serves the folder (SEQFERRY_FOLDERS)."
                )
            raise AccessError(
                f"Transfer {status.id} was submitted with {missing} at {places}, and this process has other "
                "credentials. Resume it where those are, or run its cp or sync again with them."
            )

    def lock_row(self, connection: sa.Connection, transfer_id: str) -> sa.Row[Any]:
        """The row of a transfer, locked until the transaction ends.

        Raises:
            NotFoundError: no transfer has this id, or the start of the id is not unique.
        """
        row = transfers.row_of(connection, self._resolve(connection, transfer_id), lock=True)
        assert row is not None
        return row

    def park(self, connection: sa.Connection, row: sa.Row[Any]) -> None:
        """Put the work of a transfer where no worker takes it."""
        self.queue.move(connection, row.id, row.lane, names.PAUSED_LANE)

    def requeue(self, connection: sa.Connection, row: sa.Row[Any]) -> None:
        """Put the work of a parked transfer back. What was done without the queue, by a process that left it, is added.

        A transfer that waits for another is queued when that has ended.
        """
        self.queue.move(connection, row.id, names.PAUSED_LANE, row.lane)
        if row.blocked_by is None and not self.queue.contains(connection, row.id):
            self.queue.enqueue_with_batches(connection, row.id, row.lane, row.priority)


def _record(connection: sa.Connection, group: Sequence[_Submission]) -> list[Submission]:
    lazy.submissions.lock(connection, *(keys for keys, _ in group))
    return [write(connection) for _, write in group]


def _keys_of(spec: ResolvedSpec, idempotency_key: str | None = None) -> submissions.Keys:
    return lazy.submissions.Keys(keyspace.target_store(spec), keyspace.target_prefix(spec), idempotency_key)


def _limit(connection: sa.Connection, transfer_id: str, per_second: int | None, actor: str) -> None:
    """Let an unfinished transfer go on with the limit that its submission has now, where that has one."""
    row = transfers.row_of(connection, transfer_id, lock=True)
    if row is not None and per_second is not None and per_second != row.tpslimit:
        transfers.adjust(
            connection, row, replace(transfers.adjustment_of(row), tpslimit=per_second), time.time(), actor
        )


def _add_hosts(spec: TransferSpec, settings: Settings) -> TransferSpec:
    return hosts.add_hosts(ResolvedSpec.of(spec), settings)


def _same_submission(transfer_id: str, earlier: str, now: TransferSpec) -> str:
    if identity.submission_digest(stored.read(earlier)) != identity.submission_digest(now):
        raise ConflictError(
            f"This idempotency key was used before for another transfer ({transfer_id}). Use a new key for a new one."
        )
    return transfer_id
