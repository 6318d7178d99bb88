"""The verbs of Seqferry for the outside: what CLI and HTTP call. Knows the queue by name only, never the workflows."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, get_args

import sqlalchemy as sa

from seqferry.db import objects, transfers
from seqferry.db.database import Database
from seqferry.db.migrate import migrate
from seqferry.db.paging import Cursor, ObjectFilter, Page, TransferFilter
from seqferry.db.queue import Queue
from seqferry.db.record import events, ledger, receipts, signing
from seqferry.db.record.ledger import Head
from seqferry.model import names, operations
from seqferry.model.errors import AccessError, ConflictError, NotFoundError, UnsupportedError, UsageError
from seqferry.model.models import (
    MOST_PRIORITY,
    Adjustment,
    Event,
    FailureGroup,
    LocalFolder,
    Location,
    ObjectRecord,
    ObjectState,
    PlannedCopy,
    S3Location,
    Status,
    Submission,
    TransferSpec,
    TransferState,
    Verification,
)
from seqferry.places import paths
from seqferry.planning import batching
from seqferry.settings.config import Settings
from seqferry.spec import identity, stored
from seqferry.spec.build import checked, is_local

if TYPE_CHECKING:
    # Imported by the verb that needs them: a command takes longer to import than to do its work.
    from seqferry.db import feed, file_rows, gauges, samples
    from seqferry.db.record.findings import Finding
    from seqferry.engine.engine import Engine, ObjectInfo
    from seqferry.planning import cleanup, listing, removals
    from seqferry.planning.decision import KeyRules
    from seqferry.planning.removal_rules import RemovalRefusal
    from seqferry.preflight import report
    from seqferry.preflight.forecast import Estimate, Forecast

log: Final = logging.getLogger("seqferry.service")

SHORTEST_ID: Final = 4
_EARLIER: Final = 200
"""Transfers whose rates an estimate looks at."""
MAX_PAGE: Final = 10_000
_IDEMPOTENCY_KEY_BYTES: Final = 255
_ABANDONED_AT_ONCE: Final = 20
"""Batches per transaction: on SQLite all others wait for the lock meanwhile."""


class Service:
    """One per process, safe to use from many threads."""

    def __init__(self, settings: Settings, database: Database, engine: Engine | None = None) -> None:
        self.settings: Final = settings
        self.database: Final = database
        self.queue: Final = Queue(database)
        self._engine = engine
        self._engine_lock = threading.Lock()
        self._unreadable = set[str]()
        self.serves = False
        """This process is the server: its endpoint and identity are those that the policy calls its own."""

    @classmethod
    def open(cls, settings: Settings, engine: Engine | None = None) -> Service:
        """Make the state folder and bring the database up to date; ``engine`` is made on first need when not given.

        Raises:
            ConfigError: the state folder or the database cannot be used.
        """
        settings.prepare_state_dir()
        database = Database(settings)
        try:
            migrate(settings, database)
        except BaseException:
            database.close()
            raise
        return cls(settings, database, engine)

    def check_audit_key(self) -> None:
        """See that this process may go on with the audit record of the database.

        Raises:
            ConfigError: the record is kept with a key that this process lacks, or the file of the key cannot be used.
        """
        with self.database.read() as connection:
            signing.current(connection)

    def close(self) -> None:
        self.queue.close()
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def engine(self) -> Engine:
        from seqferry.engine.engine import Engine

        with self._engine_lock:
            if self._engine is None:
                self._engine = Engine.of(self.settings)
            return self._engine

    # --- transfers ---

    def submit(self, spec: TransferSpec, *, actor: str, idempotency_key: str | None = None, queued: bool = True) -> str:
        """``submission``, of which only the id is wanted."""
        return self.submission(spec, actor=actor, idempotency_key=idempotency_key, queued=queued).id

    def submission(
        self,
        spec: TransferSpec,
        *,
        actor: str,
        idempotency_key: str | None = None,
        queued: bool = True,
        new: bool = False,
        priority: int = 0,
        also: Callable[[sa.Connection, Submission], None] | None = None,
    ) -> Submission:
        """Record a transfer and put it on the queue, both or none; or go on with an unfinished one that is the same.

        What the spec leaves open is resolved by the environment of this process and recorded (``spec.identity``). With
        an ``idempotency_key`` that was used before for the same spec, the transfer of then is the answer; each client
        over HTTP has keys of its own. With ``new``, another
        transfer is recorded though the same is unfinished; so it is where that was submitted by another client over
        HTTP. One that writes to the same keys as an unfinished one waits for its end. ``priority`` is that of a
        new transfer (``Adjustment``). Not ``queued`` is for the worker of a state folder that does it at once; the next
        worker queues what is left. ``also`` is done in the same transaction, and not where the key was used before.

        Raises:
            UsageError: the spec is not valid, or needs this machine's disk while any machine may do the work, or the
                idempotency key is empty or longer than 255 bytes.
            ConflictError: the key was used for another spec.
            UnsupportedError: there is no such operation.
        """
        spec = self.submittable(spec, priority=priority)
        if idempotency_key is not None and not 0 < len(idempotency_key.encode()) <= _IDEMPOTENCY_KEY_BYTES:
            raise UsageError(f"An idempotency key has 1 to {_IDEMPOTENCY_KEY_BYTES} bytes.")
        with self.database.write() as connection:
            transfers.lock_submissions(connection)
            if idempotency_key is not None:
                earlier = transfers.by_idempotency_key(connection, idempotency_key, actor)
                if earlier is not None:
                    return Submission(_same_submission(*earlier, spec))
            if not new and (unfinished := transfers.same(connection, spec, actor)) is not None:
                transfers.join(connection, unfinished, time.time(), actor, idempotency_key)
                self._renew(connection, unfinished, spec, actor)
                _limit(connection, unfinished.id, spec.tpslimit, actor)
                joined = Submission(unfinished.id, goes_on=True, blocked=unfinished.blocked_by is not None)
                if also is not None:
                    also(connection, joined)
                return joined
            transfer_id = str(uuid.uuid4())
            blocked_by = transfers.insert(
                connection,
                spec,
                transfer_id=transfer_id,
                at=time.time(),
                actor=actor,
                idempotency_key=idempotency_key,
                adjustment=Adjustment(priority=priority, tpslimit=spec.tpslimit),
            )
            if queued and blocked_by is None:
                lane = identity.lane(identity.needs(spec))
                self.queue.enqueue_transfer(connection, transfer_id, lane, priority=priority)
            submission = Submission(transfer_id, blocked=blocked_by is not None)
            if also is not None:
                also(connection, submission)
        return submission

    def submittable(self, spec: TransferSpec, *, priority: int = 0) -> TransferSpec:
        """The spec as it would be recorded: with what the environment of this process says of both places.

        Raises:
            UsageError: the spec is not valid, or needs this machine's disk while any machine may do the work.
            UnsupportedError: there is no such operation.
        """
        operations.require(spec.operation)
        if not -MOST_PRIORITY <= priority <= MOST_PRIORITY:
            raise UsageError(f"--priority {priority}: a priority is from -{MOST_PRIORITY} to {MOST_PRIORITY}.")
        if spec.tpslimit is None:
            spec = replace(spec, tpslimit=self.settings.tpslimit)
        spec = checked(identity.resolved(spec))
        local = _is_local(spec)
        if local and not self.database.is_sqlite:
            raise UsageError(
                "Local files cannot be moved with PostgreSQL: any worker may take the work, and each machine has disks "
                "of its own. Unset SEQFERRY_DATABASE_URL for this command."
            )
        return spec

    def renew(self, transfer_id: str, spec: TransferSpec, *, actor: str) -> bool:
        """Let the unfinished transfer of a submission go on with the key that its submission has now; ``_renew``.

        Returns:
            False while a worker with another key may still be at it; to be asked again.
        """
        spec = self.submittable(spec)
        with self.database.read() as connection:
            row = transfers.row_of(connection, transfer_id)
            if row is None or row.ended_at is not None or identity.needs(spec) == row.needs:
                return True
            if self._is_attended(connection, row.id):
                return False
        with self.database.write() as connection:
            transfers.lock_submissions(connection)
            row = transfers.row_of(connection, transfer_id, lock=True)
            return row is None or row.ended_at is not None or self._renew(connection, row, spec, actor)

    def _renew(self, connection: sa.Connection, row: sa.Row[Any], spec: TransferSpec, actor: str) -> bool:
        """Let an unfinished transfer go on with the key that its submission has now, where that is a newer one.

        A worker that is at it goes on with its own key: taken from it, the rest would wait for that worker's end. So
        does one that was not heard of for less time than its lease. False is returned then.
        """
        needs = identity.needs(spec)
        if needs == row.needs:
            return True
        if self._is_attended(connection, row.id):
            return False
        transfers.renew(connection, row.id, spec, time.time(), actor)
        self.queue.move(connection, row.id, row.lane, identity.lane(needs))
        return True

    def _is_attended(self, connection: sa.Connection, transfer_id: str) -> bool:
        """True when a worker may still write for the transfer. On SQLite the lock of the state folder knows at once."""
        if not transfers.supervised(connection, self.database, transfer_id):
            return False
        from seqferry.db import worker_lock

        return not self.database.is_sqlite or worker_lock.is_held(self.settings.state_dir)

    def release(self) -> None:
        """Begin transfers that waited for others which have ended."""
        with self.database.read() as connection:
            ready = transfers.blocked(connection)
        for transfer_id in ready:
            try:
                self._release(transfer_id)
            except UnsupportedError as why:
                # All others go on.
                if transfer_id not in self._unreadable:
                    self._unreadable.add(transfer_id)
                    log.warning("transfer %s stays where it is: %s", transfer_id, why)

    def _release(self, transfer_id: str) -> None:
        with self.database.write() as connection:
            transfers.lock_submissions(connection)
            row = transfers.unblock(connection, transfer_id)
            if row is not None:
                self.queue.enqueue_transfer(connection, transfer_id, row.lane, priority=row.priority)

    def submitted(self, spec: TransferSpec, idempotency_key: str, *, actor: str) -> str | None:
        """The id of the transfer that this client has submitted with this key, None when there is none.

        Raises:
            ConflictError: the key was used for another spec.
        """
        with self.database.read() as connection:
            earlier = transfers.by_idempotency_key(connection, idempotency_key, actor)
        return None if earlier is None else _same_submission(*earlier, identity.resolved(spec))

    def submitted_spec(self, idempotency_key: str, *, actor: str) -> TransferSpec | None:
        """The spec of the transfer that this client has submitted with this key, None when there is none."""
        with self.database.read() as connection:
            earlier = transfers.by_idempotency_key(connection, idempotency_key, actor)
        return None if earlier is None else stored.read(earlier[1])

    def missing(self, status: Status) -> str | None:
        """Requirement of the transfer that this process does not meet, as ``profile lab``; None when it meets all."""
        if status.unsupported is not None:
            return f"a version of Seqferry that knows {status.unsupported}"
        return identity.missing(identity.needs(status.spec))

    def blocker_out_of_reach(self, status: Status) -> tuple[Status, str] | None:
        """The transfer that this one waits for, and what this process lacks for it, in words; None: it lacks nothing.

        Only a worker that has it brings the other to its end, unless that is given up.
        """
        if status.blocked_by is None:
            return None
        other = self.status(status.blocked_by)
        missing = None if other.ended else self.missing(other)
        return None if missing is None else (other, missing)

    def status(self, transfer_id: str) -> Status:
        """One transfer; a unique start of its id of at least 4 characters is enough.

        Raises:
            NotFoundError: no transfer has this id, or the start is not unique.
        """
        with self.database.read() as connection:
            # Mostly the id is whole: then this is asked often, and need not be looked up first.
            wanted = _start_of_id(transfer_id)
            found = transfers.statuses(connection, self.database, ids=[wanted], limit=1)
            if not found:
                full_id = self._resolve(connection, transfer_id)
                found = transfers.statuses(connection, self.database, ids=[full_id], limit=1)
            return found[0]

    def first_asked_by(self, transfer_id: str) -> str:
        """The actor that has asked for a transfer first: of one that retries another, that of the other."""
        with self.database.read() as connection:
            return transfers.first_asked_by(connection, transfer_id)

    def transfers(self, limit: int = 50) -> list[Status]:
        """The newest transfers, newest first."""
        with self.database.read() as connection:
            return transfers.statuses(connection, self.database, ids=None, limit=_page_size(limit))

    def unfinished(self, limit: int = 50) -> dict[str, TransferState]:
        """States of the newest transfers that have not ended, by id, the newest first."""
        with self.database.read() as connection:
            return transfers.unfinished_states(connection, _page_size(limit))

    def transfer_page(
        self, wanted: TransferFilter | None = None, *, cursor: Cursor | None = None, limit: int = 50
    ) -> Page[Status]:
        """A page of transfers, newest first."""
        from seqferry.db import transfer_pages

        with self.database.read() as connection:
            wanted = wanted or TransferFilter()
            return transfer_pages.read(connection, self.database, wanted, cursor, _page_size(limit))

    def object_page(
        self,
        transfer_id: str,
        wanted: ObjectFilter | None = None,
        *,
        cursor: Cursor | None = None,
        limit: int = 1000,
    ) -> Page[ObjectRecord]:
        """A page of the objects of a transfer: in the order they were found, with a prefix in that of their keys.

        Raises:
            NotFoundError: no transfer has this id.
        """
        from seqferry.db import object_pages

        wanted = wanted or ObjectFilter()
        if wanted.state is not None and wanted.state not in get_args(ObjectState):
            known = ", ".join(get_args(ObjectState))
            raise UsageError(f"'{wanted.state}' is not a state of objects; choose one of {known}.")
        with self.database.read() as connection:
            full_id = self._resolve(connection, transfer_id)
            return object_pages.read(connection, full_id, wanted, cursor, _page_size(limit))

    def objects(
        self, transfer_id: str, *, state: str | None = None, after: int = 0, limit: int = 1000
    ) -> list[ObjectRecord]:
        """Objects in the order they were found, fewer than ``limit`` at the end only.

        Go on with ``after`` = ``row`` of the last one.
        """
        found: list[ObjectRecord] = []
        cursor: Cursor | None = Cursor(str(after))
        while cursor is not None and len(found) < limit:
            page = self.object_page(transfer_id, ObjectFilter(state), cursor=cursor, limit=limit - len(found))
            found += page.entries
            cursor = page.next
        return found

    def batches(self, transfer_id: str) -> list[file_rows.BatchState]:
        """The batches of a transfer, by its whole id."""
        from seqferry.db import file_rows

        with self.database.read() as connection:
            return file_rows.batches(connection, transfer_id)

    def files(self, transfer_id: str, number: int) -> Sequence[sa.Row[Any]]:
        """The objects of a batch, as ``file_rows.FileRow``."""
        from seqferry.db import file_rows

        with self.database.read() as connection:
            return file_rows.files(connection, transfer_id, number)

    def failures(self, transfer_id: str, *, keys: int = 20) -> list[FailureGroup]:
        """Failed objects grouped by cause, with up to ``keys`` keys for each."""
        with self.database.read() as connection:
            return objects.failures(connection, self._resolve(connection, transfer_id), keys)

    def samples(
        self, transfer_id: str, *, since: float | None = None, until: float | None = None, points: int = 300
    ) -> list[samples.Point[samples.Counts]]:
        """The course of a transfer in equal intervals, oldest first (``samples.read``)."""
        from seqferry.db import samples

        with self.database.read() as connection:
            full_id = self._resolve(connection, transfer_id)
            return samples.read(connection, full_id, since=since, until=until, points=points)

    def engine_samples(
        self,
        executor_id: str | None = None,
        *,
        since: float | None = None,
        until: float | None = None,
        points: int = 300,
    ) -> list[samples.Point[samples.EngineCounts]]:
        """The course of the requests of one worker, or of all (None), in equal intervals (``samples.read_engine``)."""
        from seqferry.db import samples

        with self.database.read() as connection:
            return samples.read_engine(connection, executor_id, since=since, until=until, points=points)

    def verifications(self, transfer_id: str) -> list[Verification]:
        """Figures of the verification of the objects. The cost grows with the objects: for the end of a transfer."""
        from seqferry.db import verifications

        with self.database.read() as connection:
            return verifications.read(connection, self._resolve(connection, transfer_id))

    def receipt_digest(self, transfer_id: str) -> str | None:
        """SHA-256 of the receipt of a transfer, in hexadecimal; None before its end."""
        with self.database.read() as connection:
            return receipts.read_digest(connection, self._resolve(connection, transfer_id))

    def events(self, transfer_id: str, after: int = 0) -> list[Event]:
        """Events of the transfer, each with its actor, from event number ``after`` + 1 on."""
        with self.database.read() as connection:
            return events.read(connection, self._resolve(connection, transfer_id), after)

    def preflight(self, transfer_id: str) -> dict[str, Any] | None:
        """Findings of the look before its first object (``preflight.report.facts``); None when nothing is on record."""
        from seqferry.preflight import report

        with self.database.read() as connection:
            return events.last(connection, self._resolve(connection, transfer_id), report.PREFLIGHT)

    def newest_events(self, transfer_ids: Iterable[str]) -> dict[str, int]:
        """The number of the newest event of each of these transfers (whole ids)."""
        with self.database.read() as connection:
            return events.newest(connection, transfer_ids)

    def feed_position(self) -> feed.Position:
        """The position behind all events of all transfers, now."""
        from seqferry.db import feed

        with self.database.read() as connection:
            return feed.now(connection)

    def feed_events(
        self, before: feed.Position, until: feed.Position, wanted: Collection[str] | None = None, limit: int = 200
    ) -> tuple[list[feed.FeedEvent], feed.Position]:
        """Events of all transfers from one position on, and the position reached: ``until`` when that is all."""
        from seqferry.db import feed

        with self.database.read() as connection:
            return feed.between(connection, before, until, wanted, limit)

    def statuses(self, transfer_ids: Sequence[str]) -> list[Status]:
        """Statuses of the transfers with these whole ids; unknown ids are left out."""
        with self.database.read() as connection:
            return transfers.statuses(connection, self.database, ids=transfer_ids, limit=len(transfer_ids))

    def gauges(self) -> gauges.Gauges:
        """Amounts of work that waits and work that is done, for a monitoring system."""
        from seqferry.db import gauges

        with self.database.read() as connection:
            return gauges.read(connection, self.database)

    def first_broken_event(self, transfer_id: str) -> int | None:
        """The number of the first event whose hashes do not fit, by an accidental edit; None when all fit."""
        with self.database.read() as connection:
            return events.first_broken(connection, self._resolve(connection, transfer_id))

    def keyed_head(self) -> Head | None:
        """The head of the ledger now; None while no key signs it, since a head without one proves nothing."""
        with self.database.read() as connection:
            return ledger.head(connection) if ledger.is_keyed(connection) else None

    def record_findings(self, transfer_id: str) -> list[Finding]:
        """All that is not as it was written in the record of a transfer: looked at before its receipt is relied on."""
        with self.database.read() as connection:
            full_id = self._resolve(connection, transfer_id)
        from seqferry.proof import auditing  # few commands need it

        return auditing.of_transfer(self.database, full_id)

    def cancel(self, transfer_id: str, *, actor: str, abandon: bool = False) -> Status:
        """Ask the transfer to stop; a worker then aborts its open uploads and ends it as ``cancelled``.

        Cancelling one that is cancelled or being cancelled changes nothing. With ``abandon`` it is ended at once, and
        its open uploads stay: for a transfer with an identity that no worker will have again.

        Raises:
            NotFoundError: there is none.
            ConflictError: the transfer has ended in another way, or is to be abandoned while a worker is at it.
        """
        with self.database.write() as connection:
            row = self.locked(connection, transfer_id)
            full_id = row.id
            transfers.request_cancel(connection, full_id, time.time(), actor)
            if transfers.is_paused(row):
                self.requeue(connection, row)
            status = transfers.statuses(connection, self.database, ids=[full_id], limit=1)[0]
            supervised = self._is_attended(connection, full_id)
        if abandon and not status.ended:
            if supervised:
                raise ConflictError(
                    f"Transfer {full_id} cannot be abandoned: a worker is at it, and ends it. Stop that worker first; "
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
                more = objects.abandon(connection, status.id, time.time(), _ABANDONED_AT_ONCE)
                if not more:
                    transfers.finish(connection, status.id, time.time(), actor)

    # --- the storage ---

    def remove_bucket(self, place: S3Location) -> None:
        """Remove an empty bucket.

        Raises:
            StorageError: the bucket is not empty, or cannot be removed.
        """
        from seqferry.engine import buckets

        buckets.delete(self.engine, place)

    def abort_uploads(self, place: Location) -> None:
        """Abort all open uploads whose key starts with the place's.

        Raises:
            StorageError: an upload could not be aborted.
        """
        from seqferry.engine import buckets

        found = buckets.uploads(self.engine, place)
        for why in buckets.abort(self.engine, place, [(one.key, one.upload_id) for one in found]):
            if why is not None:
                raise why

    def check(self, spec: TransferSpec) -> listing.KnownObjects:
        """See that both buckets can be used and that a source of one object is there.

        Raises:
            UsageError: the spec is not valid, or the object is not there.
            StorageError: a bucket cannot be used, or the storage not be reached.
        """
        from seqferry.preflight import start

        return start.check(self.engine, identity.resolved(spec))

    def check_folders(self, status: Status) -> None:
        """See that the folders of a transfer that has begun are there, before going on ends it for want of them.

        Raises:
            StorageError: a folder is not there, or cannot be used.
        """
        for place, is_target in ((status.spec.source, False), (status.spec.target, True)):
            if (
                isinstance(place, LocalFolder)
                and not status.ended
                and status.state != "cancelling"
                and (status.planned or not is_target)
            ):
                paths.check_there(place.path, is_target=is_target)

    def check_access(self, status: Status) -> None:
        """See that this process may go on with a transfer that no worker is at.

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
        if (missing := self.missing(status)) is not None:
            places = " and ".join(
                dict.fromkeys(
                    place.endpoint_url or "AWS"
                    for place in (status.spec.source, status.spec.target)
                    if isinstance(place, S3Location)
                )
            )
            raise AccessError(
                f"Transfer {status.id} was submitted with {missing} at {places}, and this process has other "
                "credentials. Resume it where those are, or run its cp or sync again with them."
            )

    def preview(self, spec: TransferSpec, *, for_client: bool = False) -> Iterator[PlannedCopy]:
        """Planned copies of a transfer, object by object, in no order and bounded memory; nothing is written.

        ``for_client``: as a transfer that was asked for over HTTP.

        Raises:
            UsageError, StorageError: as ``check``, when the first object is asked for.
        """
        from seqferry.preflight import dry_run

        return dry_run.copies(self.engine, spec, self._key_rules(for_client=for_client))

    def _key_rules(self, *, for_client: bool = False) -> KeyRules:
        from seqferry.planning.decision import KeyRules

        confined = for_client and self.settings.policy.confines_writes
        return KeyRules(str(self.settings.state_dir), confined=confined, nul=self.database.is_sqlite)

    def estimate(self, forecast: Forecast) -> Estimate:
        """Estimate of a transfer's requests, time and cost, with the rates of earlier ones where there are any."""
        return forecast.estimate(self.transfers(_EARLIER), self.settings.max_bandwidth.now())

    def nearest(self, spec: TransferSpec) -> list[str]:
        """Keys of the source that are most like those which were asked for and are not there."""
        from seqferry.preflight import suggestions

        return suggestions.nearest(self.engine, spec)

    def inspect(self, spec: TransferSpec, *, at_most: int | None) -> report.Report:
        """Inspect objects of a transfer, up to ``at_most``, for what would make them fail; nothing is written.

        Raises:
            StorageError: the source cannot be listed.
        """
        from seqferry.preflight import report

        return report.inspect(self.engine, spec, self._key_rules(), at_most=at_most)

    def preview_removal(self, spec: TransferSpec, forecast: Forecast) -> Iterator[str | RemovalRefusal]:
        """Keys that a transfer would remove at the target after all has arrived, or the reason why it would not.

        ``forecast`` has all objects of ``preview``. Memory is bounded.
        """
        from seqferry.preflight import dry_run

        own = str(self.settings.state_dir)
        return dry_run.removals(self.engine, spec, own, objects=forecast.met, failed=forecast.refused)

    def moved(self, transfer_id: str) -> int:
        """Number of objects that have arrived and were removed at the source, of a move."""
        with self.database.read() as connection:
            full_id = self._resolve(connection, transfer_id)
            removed = events.counted_keys(connection, full_id, "removing_sources")
            return removed - events.counted_keys(connection, full_id, "sources_left")

    def preview_cleanup(self, spec: TransferSpec) -> Iterator[list[cleanup.StaleUpload]]:
        """Pages of the uploads that a cleanup would abort, and those that it would keep; nothing is aborted."""
        from seqferry.planning import cleanup
        from seqferry.preflight import start

        checked(spec)
        start.check_buckets(self.engine, spec)

        def in_use(ids: Sequence[str]) -> set[str]:
            with self.database.read() as connection:
                return objects.uploads_in_use(connection, ids)

        return cleanup.stale(self.engine, spec, in_use)

    def preview_remove(self, spec: TransferSpec) -> Iterator[list[removals.RemovalCandidate]]:
        """Pages of what a removal would remove; nothing is removed or recorded."""
        from seqferry.planning import removals
        from seqferry.preflight import start

        checked(spec)
        start.check_buckets(self.engine, spec)
        return removals.doomed(self.engine, spec)

    def removed(self, transfer_id: str) -> int:
        """Number of objects that were removed at the target because the source has none of their name."""
        removed = set[str]()
        for event in self.events(transfer_id):
            if event.kind == "removing":
                removed.update(event.data["keys"])
            elif event.kind == "not_removed":
                removed.difference_update(event.data["keys"])
        return len(removed)

    def free_space(self, spec: TransferSpec) -> int | None:
        """Bytes that may still be written at the target; None where that is unknown, as of S3."""
        return paths.free_bytes(spec.target.path) if isinstance(spec.target, LocalFolder) else None

    def list(self, location: Location) -> Iterator[list[ObjectInfo]]:
        """Pages of all objects whose key starts with the location's, in no order; empty pages while waiting.

        Raises:
            StorageError: the listing failed.
        """
        return self.engine.list(location)

    # --- the queue ---

    def locked(self, connection: sa.Connection, transfer_id: str) -> sa.Row[Any]:
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
        if row.blocked_by is None and not self.queue.holds(connection, row.id):
            sizes = objects.open_batch_sizes(connection, row.id)
            places = [(number, batching.priority_of(biggest)) for number, biggest in sizes]
            self.queue.adopt(connection, row.id, row.lane, row.priority, places)

    def _resolve(self, connection: sa.Connection, text: str) -> str:
        """The full id that ``text`` is, or is the start of."""
        wanted = _start_of_id(text)
        found = transfers.ids_starting_with(connection, wanted, limit=2)
        if not found:
            raise NotFoundError(f"There is no transfer '{text}'. See all with: seqferry status")
        if len(found) > 1 and found[0] != wanted:
            raise NotFoundError(f"Several transfers start with '{text}'; give more of the id.")
        return found[0]


def _start_of_id(text: str) -> str:
    wanted = text.strip().lower()
    if not wanted or any(character not in "0123456789abcdef-" for character in wanted):
        raise NotFoundError(f"There is no transfer '{text}'. See all with: seqferry status")
    if len(wanted) < SHORTEST_ID:
        raise NotFoundError(f"'{text}' is too short for the id of a transfer: give {SHORTEST_ID} characters.")
    return wanted


def _limit(connection: sa.Connection, transfer_id: str, per_second: int | None, actor: str) -> None:
    """Let an unfinished transfer go on with the limit that its submission has now, where that has one."""
    row = transfers.row_of(connection, transfer_id, lock=True)
    if row is not None and per_second is not None and per_second != row.tpslimit:
        transfers.adjust(
            connection, row, replace(transfers.adjustment_of(row), tpslimit=per_second), time.time(), actor
        )


def _is_local(spec: TransferSpec) -> bool:
    if not spec.kind.of_lines:
        return is_local(spec)
    from seqferry.spec import run

    return run.is_local(spec)


def _same_submission(transfer_id: str, earlier: str, now: TransferSpec) -> str:
    # An older version has recorded fewer fields, and resolved nothing.
    if identity.submission(identity.resolved(stored.read(earlier))) != identity.submission(now):
        raise ConflictError(
            f"This idempotency key was used before for another transfer ({transfer_id}). Use a new key for a new one."
        )
    return transfer_id


def _page_size(limit: int) -> int:
    return max(1, min(limit, MAX_PAGE))
