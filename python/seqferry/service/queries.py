"""Queries: what is on record of transfers, objects, events and work."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, get_args

import sqlalchemy as sa

from seqferry.db import transfer_status, transfers
from seqferry.db.paging import ALL_TRANSFERS, AS_FOUND, Cursor, ObjectFilter, ObjectOrder, Page, TransferFilter
from seqferry.db.record import events, ledger, receipts
from seqferry.db.record.ledger import Head
from seqferry.model.errors import ConflictError, NotFoundError, UsageError
from seqferry.model.models import (
    Event,
    FailureGroup,
    ObjectRecord,
    ObjectState,
    Status,
    TransferSpec,
    TransferState,
    Verification,
)
from seqferry.model.workers import WORKING_KINDS, ProcessStatus
from seqferry.places import processes
from seqferry.service import lazy
from seqferry.spec import hosts, identity

if TYPE_CHECKING:
    # Imported by the verb that needs them: a command takes longer to import than to do its work.
    from seqferry.db import changes, feed, file_rows, gauges, samples
    from seqferry.db.autoscale import Autoscale
    from seqferry.db.record.findings import Finding

from seqferry.service.base import Base, is_id_prefix

MAX_PAGE: Final = 10_000


class Queries(Base):
    """Reads the record. Changes nothing."""

    def unmet_requirement(self, status: Status) -> str | None:
        """The first requirement of a transfer not met by this process, as ``profile lab``; None: all are met."""
        if status.unsupported is not None:
            return f"a version of Seqferry that knows {status.unsupported}"
        return self.find_missing_folder(status) or identity.find_unmet_need(identity.needs(status.spec))

    def find_missing_folder(self, status: Status) -> str | None:
        """A folder of the transfer that this process cannot use, as text; None: it can use all.

        A command may use those of its machine as its user may, and a server those that it serves.
        """
        needed = hosts.folders(status.spec)
        named = self.named_folders if self.serves else hosts.folder_paths(status.spec)
        found = (hosts.find_unserved(one, self.settings, named) for one in needed)
        return next((one for one in found if one is not None), None)

    def find_unmet_need(self, needs: str | None) -> str | None:
        """The first need that this process does not meet as a worker, as text; None: it meets all."""
        for folder in identity.needed_folders(needs):
            if (found := hosts.find_unserved(folder, self.settings, self.named_folders)) is not None:
                return found
        return identity.find_unmet_need(needs)

    def find_unreachable_blocker(self, status: Status) -> tuple[Status, str] | None:
        """The transfer that this one waits for, and the requirement of it that this process does not meet.

        Only a worker that has it brings the other to its end, unless that is given up.
        """
        if status.blocked_by is None:
            return None
        other = self.status(status.blocked_by)
        missing = None if other.ended else self.unmet_requirement(other)
        return None if missing is None else (other, missing)

    def status(self, transfer_id: str) -> Status:
        """One transfer; a unique start of its id of at least 4 characters, or a unique name, is enough.

        Raises:
            NotFoundError: no transfer has this id, or the start is not unique.
        """
        with self.database.read() as connection:
            # Mostly the id is whole: then this is asked often, and need not be looked up first.
            found: list[Status] = []
            if is_id_prefix(transfer_id):
                found = transfer_status.statuses(connection, self.database, ids=[transfer_id.strip().lower()], limit=1)
            if not found:
                full_id = self._resolve(connection, transfer_id)
                found = transfer_status.statuses(connection, self.database, ids=[full_id], limit=1)
            return found[0]

    def retry_chain(self, transfer_id: str) -> list[Status]:
        """The chain of retries of a transfer, oldest first.

        Raises:
            NotFoundError: no transfer has this id.
        """
        with self.database.read() as connection:
            ids = lazy.retry_chains.read_chain(
                connection, lazy.retry_chains.find_root(connection, self._resolve(connection, transfer_id))
            )
            found = transfer_status.statuses(connection, self.database, ids=ids, limit=len(ids))
        return sorted(found, key=lambda one: ids.index(one.id))

    def find_first_actor(self, transfer_id: str) -> str:
        """The actor that first requested a transfer: of a retry, that of the retried transfer."""
        with self.database.read() as connection:
            return lazy.retry_chains.find_first_actor(connection, transfer_id)

    def transfers(self, limit: int = 50) -> list[Status]:
        """The newest transfers, newest first."""
        with self.database.read() as connection:
            return transfer_status.statuses(connection, self.database, ids=None, limit=_page_size(limit))

    def unfinished_states(self, limit: int = 50) -> dict[str, TransferState]:
        """States of the newest transfers that have not ended, by id, the newest first."""
        with self.database.read() as connection:
            return transfers.unfinished_states(connection, _page_size(limit))

    def transfer_page(
        self, wanted: TransferFilter = ALL_TRANSFERS, *, cursor: Cursor | None = None, limit: int = 50
    ) -> Page[Status]:
        """A page of transfers, newest first."""

        wanted.check()
        with self.database.read() as connection:
            return lazy.transfer_pages.read(connection, self.database, wanted, cursor, _page_size(limit))

    def object_page(
        self,
        transfer_id: str,
        wanted: ObjectFilter | None = None,
        *,
        cursor: Cursor | None = None,
        limit: int = 1000,
        order: ObjectOrder = AS_FOUND,
    ) -> Page[ObjectRecord]:
        """A page of the objects of a transfer: in the order they were found, with a prefix in that of their keys.

        Raises:
            NotFoundError: no transfer has this id.
            UsageError: the order or the offset would take too long for so many objects.
        """

        wanted = wanted or ObjectFilter()
        if wanted.state is not None and wanted.state not in get_args(ObjectState):
            known = ", ".join(get_args(ObjectState))
            raise UsageError(f"'{wanted.state}' is not a state of objects; choose one of {known}.").about("state")
        with self.database.read() as connection:
            full_id = self._resolve(connection, transfer_id)
            return lazy.object_pages.read(connection, full_id, wanted, cursor, _page_size(limit), order)

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

        with self.database.read() as connection:
            return lazy.file_rows.batches(connection, transfer_id)

    def batch_files(self, transfer_id: str, number: int) -> Sequence[sa.Row[Any]]:
        """The objects of a batch, each as ``file_rows.FileRow``."""

        with self.database.read() as connection:
            return lazy.file_rows.files(connection, transfer_id, number)

    def failures(self, transfer_id: str, *, keys: int = 20) -> list[FailureGroup]:
        """Failed objects grouped by cause, with up to ``keys`` keys for each."""
        with self.database.read() as connection:
            return lazy.failed_objects.group_failures(connection, self._resolve(connection, transfer_id), keys)

    def samples(
        self, transfer_id: str, *, since: float | None = None, until: float | None = None, points: int = 300
    ) -> list[samples.Point[samples.Counts]]:
        """The course of a transfer in equal intervals, oldest first (``charts.read``)."""

        with self.database.read() as connection:
            full_id = self._resolve(connection, transfer_id)
            return lazy.charts.read(connection, full_id, since=since, until=until, points=points)

    def engine_samples(
        self,
        executor_id: str | None = None,
        *,
        since: float | None = None,
        until: float | None = None,
        points: int = 300,
    ) -> list[samples.Point[samples.EngineCounts]]:
        """The course of the requests of one worker, or of all (None), in equal intervals (``samples.read_engine``)."""

        with self.database.read() as connection:
            return lazy.samples.read_engine(connection, executor_id, since=since, until=until, points=points)

    def verifications(self, transfer_id: str) -> list[Verification]:
        """Figures of the verification of the objects. The cost grows with the objects: for the end of a transfer."""

        with self.database.read() as connection:
            return lazy.verifications.read(connection, self._resolve(connection, transfer_id))

    def requests(self, transfer_id: str) -> int:
        """Requests that the batches of a transfer have made, without listings and without killed processes."""
        with self.database.read() as connection:
            return lazy.batches.requests(connection, self._resolve(connection, transfer_id))

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

        with self.database.read() as connection:
            return events.last(connection, self._resolve(connection, transfer_id), lazy.preflight_report.PREFLIGHT)

    def newest_events(self, transfer_ids: Iterable[str]) -> dict[str, int]:
        """The number of the newest event of each of these transfers (whole ids)."""
        with self.database.read() as connection:
            return events.newest(connection, transfer_ids)

    def feed_position(self) -> feed.Position:
        """The position behind all events of all transfers, now."""

        with self.database.read() as connection:
            return lazy.feed.newest_position(connection)

    def feed_events(
        self, before: feed.Position, until: feed.Position, wanted: Collection[str] | None = None, limit: int = 200
    ) -> tuple[list[feed.FeedEvent], feed.Position]:
        """Events of all transfers from one position on, and the position reached: ``until`` when that is all."""

        with self.database.read() as connection:
            return lazy.feed.read_between(connection, before, until, wanted, limit)

    def statuses(self, transfer_ids: Sequence[str]) -> list[Status]:
        """Statuses of the transfers with these whole ids; unknown ids are left out."""
        with self.database.read() as connection:
            return transfer_status.statuses(connection, self.database, ids=transfer_ids, limit=len(transfer_ids))

    def gauges(self) -> gauges.Gauges:
        """Amounts of work that waits and work that is done, for a monitoring system."""

        with self.database.read() as connection:
            return lazy.gauges.read(connection, self.database)

    def autoscale(self) -> Autoscale:
        """The number of workers that the open work needs, and the figures it is computed from."""

        with self.database.read() as connection:
            return lazy.autoscale.read(connection)

    def record_autoscale_limits(self) -> None:
        """Record the limits of an autoscaler that the settings of this process give. The last process to start wins."""
        settings = self.settings
        given = (settings.autoscale_min, settings.autoscale_max, settings.autoscale_drain_minutes)
        if given == (None, None, None):
            return

        limits = {
            name: float(value) for name, value in zip(lazy.autoscale.LIMITS, given, strict=True) if value is not None
        }
        with self.database.write() as connection:
            lazy.autoscale.set_limits(connection, limits)

    def workers(self) -> list[ProcessStatus]:
        """Processes that do work, and those that were killed within the last week; those that are alive come first."""

        with self.database.read() as connection:
            found = lazy.worker_rows.read(connection)
        # The lock of the one worker, and the machine of a process, show immediately what its silence shows later.
        is_free = self.is_local and not lazy.worker_lock.is_held(self.settings.state_dir)
        found = [
            replace(one, alive=False)
            if (is_free and one.process.kind in WORKING_KINDS) or processes.has_ended(one.process.id)
            else one
            for one in found
        ]
        found.sort(key=lambda one: (not one.alive, one.since, one.process.id))
        return [replace(one, gone=True) if any(map(one.is_replaced_by, found)) else one for one in found]

    def available_workers(self) -> list[ProcessStatus]:
        """Workers that are alive and serve every transfer: no commands for one transfer, no draining workers."""
        return [
            one
            for one in self.workers()
            if one.alive
            and not one.draining
            and one.process.kind in WORKING_KINDS
            and not one.activity.facts.get("own_work")
        ]

    def find_unserved(self, spec: TransferSpec) -> str | None:
        """A local folder of a transfer that no living worker serves, as text; None: each is served, or named here."""
        needed = [one for one in hosts.folders(spec) if hosts.find_unserved(one, self.settings, self.named_folders)]
        fleet = self.available_workers() if needed else []
        return next((hosts.describe_folder(one) for one in needed if not hosts.is_served(one, fleet)), None)

    def capable_workers(self, transfer_id: str, fleet: Iterable[ProcessStatus]) -> list[ProcessStatus]:
        """Workers of ``fleet`` that report the lane of this transfer."""

        with self.database.read() as connection:
            row = transfers.row_of(connection, transfer_id)
        return [] if row is None else [one for one in fleet if row.lane in one.activity.lanes]

    def worker(self, worker_id: str) -> ProcessStatus:
        """One process that does work, or was killed within the last days.

        Raises:
            NotFoundError: no row of it is kept.
        """
        found = [one for one in self.workers() if one.process.id == worker_id]
        if not found:
            raise NotFoundError(f"There is no worker '{worker_id}'. See all with: seqferry workers")
        return found[0]

    def watch_changes(self) -> changes.ChangeWatcher:
        """A watcher of changes to the record."""

        return lazy.changes.open_watcher(self.database)

    def undelivered_notices(self, limit: int = 100) -> Sequence[sa.Row[Any]]:
        """Notices that were not delivered, or not yet, the newest first: rows of the table ``notice``."""

        with self.database.read() as connection:
            return lazy.notice_rows.find_undelivered(connection, limit)

    def notices(self, state: str | None = None, limit: int = 100) -> Sequence[sa.Row[Any]]:
        """Notices in a state, or all (None), the newest first: rows of the table ``notice``."""

        with self.database.read() as connection:
            return lazy.notice_rows.newest(connection, state, limit)

    def signed_head(self) -> Head | None:
        """The head of the ledger now; None while no key signs it, since a head without one proves nothing."""
        with self.database.read() as connection:
            return ledger.head(connection) if ledger.is_keyed(connection) else None

    def record_findings(self, transfer_id: str) -> list[Finding]:
        """Changes to the record of a transfer since it was written: read before its receipt is relied on."""
        with self.database.read() as connection:
            full_id = self._resolve(connection, transfer_id)

        return lazy.auditing.verify_transfer(self.database, full_id)

    def count_moved(self, transfer_id: str) -> int:
        """Number of objects that have arrived and were removed at the source, of a move."""
        with self.database.read() as connection:
            full_id = self._resolve(connection, transfer_id)
            removed = events.count_keys(connection, full_id, "removing_sources")
            return removed - events.count_keys(connection, full_id, "sources_left")

    def count_removed(self, transfer_id: str) -> int:
        """Number of objects that were removed at the target because the source has none of their name."""
        removed = set[str]()
        for event in self.events(transfer_id):
            if event.kind == "removing":
                removed.update(event.data["keys"])
            elif event.kind == "not_removed":
                removed.difference_update(event.data["keys"])
        return len(removed)


def check_count(found: int, expected: int | None, noun: str = "transfer") -> None:
    """Check that as many transfers, or other records, are selected as the caller expects.

    Raises:
        ConflictError: there are more or fewer now.
    """
    if expected is not None and found != expected:
        raise ConflictError(
            f"{found:,} {noun}s are selected now, and {expected:,} were expected. Nothing was done; list them "
            "again, and give their number."
        ).about("expected")


def _page_size(limit: int) -> int:
    return max(1, min(limit, MAX_PAGE))
