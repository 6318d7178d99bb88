"""Sender of notices, which also finds stalled transfers and shares. No transfer depends on it."""

from __future__ import annotations

import logging
import time
from typing import Any, Final

import sqlalchemy as sa

from seqferry.db import delivery_mail_rows, notice_rows, transfer_status, transfers
from seqferry.db.notice_rows import Subject
from seqferry.model.backoff import Backoff
from seqferry.model.errors import NotFoundError
from seqferry.model.models import Status
from seqferry.service import delivery_mails
from seqferry.service.notices import Notice, SendResult, build_notice, send
from seqferry.service.service import Service
from seqferry.settings.channels import Channel, NoticeKind, Notices
from seqferry.workflows import share_watch
from seqferry.workflows.share_watch import ShareWatch

log: Final = logging.getLogger("seqferry.notices")

_TAKEN_SECONDS: Final = 120.0
"""Time after which a silent sender counts as dead, and another one sends its notice."""

_BACKOFF: Final = Backoff(5.0, 3600.0, factor=5.0)

_ATTEMPTS: Final = 76
"""Attempts before a notice is abandoned: three days of them."""

_MAX_DUE: Final = 20
_MAX_WATCHED: Final = 200
_CHECK_SECONDS: Final = 5.0
_CHECK_SHARES_SECONDS: Final = 60.0


class Notifier:
    """One per worker, used by one thread at a time."""

    def __init__(self, service: Service, notices: Notices) -> None:
        self._service: Final = service
        self._notices: Final = notices
        self._channels: Final = {channel.name: channel for channel in notices.channels}
        self._stalled_after: Final = notices.stalled_after
        self._progress: dict[str, tuple[tuple[int, int, int], float]] = {}
        self._checked_at = float("-inf")
        self._shares: Final = ShareWatch(notices.files_wait_after)
        self._shares_after: Final = min(_CHECK_SHARES_SECONDS, notices.files_wait_after / 4)
        self._shares_checked_at = float("-inf")

    def run_once(self) -> None:
        """Check running transfers and shares for problems, and send due notices."""
        if time.monotonic() - self._checked_at >= min(_CHECK_SECONDS, self._stalled_after / 4):
            self._checked_at = time.monotonic()
            self.record_problems()
        if time.monotonic() - self._shares_checked_at >= self._shares_after:
            self._shares_checked_at = time.monotonic()
            self.record_waiting_shares(time.monotonic())
        self.deliver()

    # --- problems ---

    def record_problems(self) -> None:
        """Record notices of failures that need a person, and of stalled transfers."""
        database = self._service.database
        with database.read() as connection:
            ids = transfers.find_unfinished(connection, after="", limit=_MAX_WATCHED)
            found = transfer_status.statuses(connection, database, ids=ids, limit=_MAX_WATCHED) if ids else []
            failing = notice_rows.find_needing_person(connection, [one.id for one in found if one.totals.failed])
        for transfer_id in failing:
            self._record(Subject("transfer", transfer_id), "person", 0)
        for status in found:
            if self._has_stalled(status):
                self._record(Subject("transfer", status.id), "stalled", status.totals.ended + status.totals.bytes_done)
        self._progress = {one.id: self._progress[one.id] for one in found if one.id in self._progress}

    def _has_stalled(self, status: Status) -> bool:
        now, totals = time.monotonic(), status.totals
        mark = (totals.objects, totals.ended, totals.bytes_done)
        before = self._progress.get(status.id)
        if before is None or before[0] != mark:
            self._progress[status.id] = (mark, now)
            return False
        return now - before[1] >= self._stalled_after

    def record_waiting_shares(self, now: float) -> None:
        """Record notices of gateway shares whose files wait for long; ``now`` as in ``ShareWatch``."""
        for subject in self._shares.find_waiting(self._service.workers(), now):
            self._record(subject, "stalled", share_watch.episode())

    def _record(self, subject: Subject, kind: NoticeKind, episode: int) -> None:
        with self._service.database.write(durable=False) as connection:
            notice_rows.record(connection, subject, kind, self._notices.wanting(kind), time.time(), episode)

    # --- sending ---

    def deliver(self) -> None:
        """Send each due notice, with one attempt."""
        database = self._service.database
        with database.read() as connection:
            due = notice_rows.find_due(connection, list(self._channels), time.time(), _MAX_DUE)
        for row in due:
            with database.write(durable=False) as connection:
                if not notice_rows.claim(connection, row, time.time() + _TAKEN_SECONDS):
                    continue
            channel, subject = self._channels[row.channel], notice_rows.subject_of(row)
            try:
                delivery = send(channel, self._notice(row, subject))
            except NotFoundError:
                delivery = SendResult(f"the {subject.kind} is not on record any more", final=True)
            attempts = row.attempts + 1
            with database.write(durable=False) as connection:
                self._settle(connection, row, delivery, attempts)
            if delivery.error is not None:
                self._log_failure(channel, subject, delivery, attempts)

    def _notice(self, row: sa.Row[Any], subject: Subject) -> Notice:
        if subject.kind == "mail":
            return delivery_mails.build_notice(self._service, subject.id, _id_of(row))
        return build_notice(self._service, subject, row.kind, _id_of(row))

    def _settle(self, connection: sa.Connection, row: sa.Row[Any], delivery: SendResult, attempts: int) -> None:
        now = time.time()
        if delivery.error is None:
            notice_rows.record_attempt(connection, row, notice_rows.SENT, next_at=now, at=now, error=None)
            self._forget_mail(connection, row)
            return
        state = notice_rows.GIVEN_UP if delivery.final or attempts >= _ATTEMPTS else notice_rows.PENDING
        next_at = now + _BACKOFF.pause(attempts)
        notice_rows.record_attempt(connection, row, state, next_at=next_at, at=None, error=delivery.error)
        if state == notice_rows.GIVEN_UP:
            self._forget_mail(connection, row)

    def _forget_mail(self, connection: sa.Connection, row: sa.Row[Any]) -> None:
        """Delete the row of a mail, which has the address."""
        if row.subject_kind == "mail":
            delivery_mail_rows.delete(connection, row.subject_id)

    def _log_failure(self, channel: Channel, subject: Subject, delivery: SendResult, attempts: int) -> None:
        again = "it is given up" if delivery.final or attempts >= _ATTEMPTS else "the next attempt follows"
        log.warning(
            "a notice of %s %s could not be sent to %s (%s): %s; %s",
            subject.kind, subject.id, channel.name, channel.shown, delivery.error, again,
        )  # fmt: skip


def _id_of(row: sa.Row[Any]) -> str:
    """The id of a notice for its receivers. Those of transfers have no kind of subject, since receivers know them."""
    of = row.subject_id if row.subject_kind == "transfer" else f"{row.subject_kind}.{row.subject_id}"
    return f"{of}.{row.kind}.{row.episode}.{row.channel}"
