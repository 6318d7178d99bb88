"""A delivery as its share link shows it: how a transfer with its retries is doing, for people who wait for the data.

What must stay true: nothing of a transfer outside of the link's scope is shown, no id, no bucket, no endpoint, no
machine and no message of a storage.
"""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections.abc import Sequence
from typing import Final, Literal

from seqferry.db import actors, failed_objects, retry_chains, verifications
from seqferry.db.paging import ObjectFilter, TransferFilter
from seqferry.model import labels, progress
from seqferry.model.frozen import frozen
from seqferry.model.locations import S3Location
from seqferry.model.messages import recipients
from seqferry.model.messages.recipients import Needs, PlainCause
from seqferry.model.models import FailureGroup, Status, Totals
from seqferry.service import authority
from seqferry.service.service import Service
from seqferry.service.share_links import ShareLink

MOST_DELIVERIES: Final = 50
"""Of a label: the newest ones. A page with more lines is a list, which people with a token have."""

MOST_FILES: Final = 100
"""Missing files that are named; the others are counted."""

_MAX_READ: Final = 200
"""Transfers with a label that are read: some of them retry others."""

_FAILURES_SECONDS: Final = 5.0
"""A list of failures is made anew no sooner: of a million it takes a second."""

_MOST_KEPT: Final = 200

State = Literal["waiting", "listing", "arriving", "paused", "stopping", "complete", "incomplete", "failed", "cancelled"]

_STATES: Final[dict[str, State]] = {
    "queued": "waiting",
    "planning": "listing",
    "running": "arriving",
    "paused": "paused",
    "cancelling": "stopping",
    "done": "complete",
    "done_with_failures": "incomplete",
    "failed": "failed",
    "cancelled": "cancelled",
}


@frozen
class DeliveryWait:
    """Reason why a delivery waits.

    Attributes:
        kind: another ``delivery`` to the same place, a ``worker`` that may do it, or its ``turn``.
        name: of that delivery, where the link shows it as well.
        ahead: deliveries that are served before, of one that waits for its turn.
    """

    kind: Literal["delivery", "worker", "turn"]
    name: str | None = None
    ahead: int | None = None


@frozen
class MissingCause:
    needs: Needs
    words: str
    text: str
    """``words`` for so many files."""
    count: int
    bytes: int


@frozen
class MissingFile:
    name: str
    """Below the place that it comes from."""
    size: int
    words: str
    text: str
    """``words`` for one file."""


@frozen
class Receipt:
    """A receipt of the delivery: of its first transfer, or of one that has retried it."""

    key: str
    ended_at: float
    objects: int


@frozen
class Delivery:
    """One delivery, now. Times are seconds since the epoch; see ``DeliveryOut`` of the API."""

    key: str
    name: str | None
    state: State
    text: str
    planned: bool
    objects: int
    bytes: int
    arrived: int
    bytes_arrived: int
    verified: int
    left_out: int
    missing: int
    share: float | None
    at_work: bool
    bytes_per_second: float
    eta_seconds: float | None
    whole_by: float | None
    created_at: float
    started_by: str
    started_at: float | None
    ended_at: float | None
    waits_for: DeliveryWait | None
    causes: list[MissingCause]
    files: list[MissingFile]
    files_more: int
    retries: int
    retrying: bool
    error: str | None
    receipts: list[Receipt]


@frozen
class DeliveryPage:
    """All that a link shows."""

    now: float
    expires_at: float
    title: str | None
    label: str | None
    deliveries: list[Delivery]
    more: bool
    mail: bool
    """A mail can be requested (``delivery_mails``)."""


@frozen
class _Failures:
    at: float
    causes: list[MissingCause]
    files: list[MissingFile]


class Deliveries:
    """Makes pages of deliveries; keeps lists of failures for some seconds. Safe to use from many threads."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._failures: dict[tuple[str, int], _Failures] = {}
        self._exceptional: dict[str, tuple[int, int]] = {}

    def page(self, link: ShareLink) -> DeliveryPage:
        """Deliveries that the link shows, now."""
        now = time.time()
        chains, more = self._chains(link)
        in_scope = {one.id: one for chain in chains for one in chain}
        found = [self._delivery(link, chain, in_scope, now) for chain in chains]
        found.sort(key=lambda one: (one.ended_at is not None, -one.created_at))
        title = found[0].name if link.label is None and found else None
        if link.label is not None:
            key, _, value = link.label.partition("=")
            # ``project=X`` is ``Project X``: the value alone says too little, and the label is no language.
            title = f"{key.rpartition('/')[2].capitalize()} {value}".strip()
        mail = self._service.settings.notices.mail is not None
        return DeliveryPage(now, link.expires_at, title, link.label, found, more, mail)

    def find_transfer(self, link: ShareLink, key: str) -> Status | None:
        """The transfer whose receipt the link shows under this key; None for any other key."""
        chains, _ = self._chains(link)
        return next((one for chain in chains for one in chain if one.ended and delivery_key(link, one.id) == key), None)

    def find_latest(self, link: ShareLink, key: str) -> Status | None:
        """The latest retry of a delivery that the link shows; None for any other key."""
        chains, _ = self._chains(link)
        return next((chain[-1] for chain in chains if delivery_key(link, chain[0].id) == key), None)

    def find_ended(self, link: ShareLink, transfer_id: str) -> Delivery | None:
        """The delivery that a transfer within the scope of the link is part of; None when it is not on record."""
        with self._service.database.read() as connection:
            root = retry_chains.find_root(connection, transfer_id)
        chains = self._chains_from([root])
        return self._delivery(link, chains[0], {}, time.time()) if chains else None

    def _chains(self, link: ShareLink) -> tuple[list[list[Status]], bool]:
        """The transfers of each delivery in the scope of a link, the first of a chain first; and are there more?"""
        more = False
        if link.transfer_id is not None:
            roots = [link.transfer_id]
        else:
            assert link.label is not None
            wanted = TransferFilter(labels=labels.parse_filter([link.label]))
            page = self._service.transfer_page(wanted, limit=_MAX_READ)
            there = {one.id for one in page.entries}
            firsts = [
                one for one in page.entries if one.spec.retry_of not in there and one.spec.kind.outcome_text is None
            ]
            roots = [one.id for one in firsts[:MOST_DELIVERIES]]
            more = len(firsts) > MOST_DELIVERIES or page.next is not None
        return self._chains_from(roots), more

    def _chains_from(self, roots: Sequence[str]) -> list[list[Status]]:
        with self._service.database.read() as connection:
            chains = [retry_chains.read_chain(connection, root) for root in roots]
        ids = [one for chain in chains for one in chain]
        found = {one.id: one for one in self._service.statuses(ids)}
        return [[found[one] for one in chain if one in found] for chain in chains if chain[0] in found]

    def _delivery(self, link: ShareLink, chain: list[Status], in_scope: dict[str, Status], now: float) -> Delivery:
        first, latest = chain[0], chain[-1]
        sums = progress.chain_totals(chain)
        state = _STATES[latest.state]
        arrived = sums.done + sums.skipped
        unverified, left_out = self._exceptions(chain)
        arrived -= left_out
        missing = latest.totals.failed + (latest.totals.cancelled if latest.ended else 0)
        if state == "complete" and missing:
            state = "incomplete"
        failures = self._missing(latest)
        eta, wait = progress.eta(latest, now), self._wait(latest, in_scope)
        counts = {"objects": first.totals.objects, "arrived": arrived, "verified": max(arrived - unverified, 0)}
        error = recipients.explain_end(latest.error_code) if state == "failed" else None
        waits = None if wait is None else recipients.wait_text(wait.kind, wait.name, wait.ahead)
        shown = "listing" if state == "arriving" and not first.planned else state
        return Delivery(
            key=delivery_key(link, first.id),
            name=first.description.name,
            state=state,
            text=recipients.delivery_text(shown, **counts, missing=missing, error=error, waits=waits),
            planned=first.planned,
            **counts,
            bytes=first.totals.bytes,
            bytes_arrived=sums.bytes_done,
            left_out=left_out,
            missing=missing,
            share=_share(first, sums, is_complete=state == "complete"),
            at_work=latest.live.workers > 0,
            bytes_per_second=round(latest.live.bytes_per_second),
            eta_seconds=None if eta is None else round(eta, 1),
            whole_by=None if eta is None else now + eta,
            created_at=first.created_at,
            started_by=display_name(first.created_by),
            started_at=first.started_at,
            ended_at=latest.ended_at,
            waits_for=wait,
            causes=failures.causes,
            files=failures.files,
            files_more=max(missing - len(failures.files), 0),
            retries=len(chain) - 1,
            retrying=len(chain) > 1 and not latest.ended,
            error=error,
            receipts=[
                Receipt(delivery_key(link, one.id), one.ended_at, one.totals.objects)
                for one in chain
                if one.ended_at is not None and one.receipt_digest is not None
            ],
        )

    def _exceptions(self, chain: Sequence[Status]) -> tuple[int, int]:
        """Objects of a delivery that were copied without a verification, and that were left out as was asked.

        Known at the end of each transfer: until then its objects count as verified, which nearly all are.
        """
        unverified = left_out = 0
        for one in chain:
            if not one.ended or one.pruned_at is not None:
                continue
            with self._lock:
                kept = self._exceptional.get(one.id)
            if kept is None:
                with self._service.database.read() as connection:
                    kept = verifications.count_exceptions(connection, one.id)
                with self._lock:
                    self._exceptional[one.id] = kept
                    while len(self._exceptional) > _MOST_KEPT:
                        del self._exceptional[next(iter(self._exceptional))]
            unverified, left_out = unverified + kept[0], left_out + kept[1]
        return unverified, left_out

    def _wait(self, status: Status, in_scope: dict[str, Status]) -> DeliveryWait | None:
        if status.ended or status.state == "paused" or status.live.workers:
            return None
        if status.blocked_by is not None:
            other = in_scope.get(status.blocked_by)
            return DeliveryWait("delivery", name=None if other is None else other.description.name)
        if status.waits_for is not None:
            return DeliveryWait("worker")
        return DeliveryWait("turn", ahead=status.ahead) if status.state == "queued" else None

    def _missing(self, latest: Status) -> _Failures:
        """Causes and names of what has failed."""
        failed, now = latest.totals.failed, time.monotonic()
        if not failed:
            return _Failures(now, [], [])
        key = (latest.id, failed if latest.ended else -1)
        with self._lock:
            kept = self._failures.get(key)
        if kept is not None and (latest.ended or now - kept.at < _FAILURES_SECONDS):
            return kept
        made = self._look(latest, now)
        with self._lock:
            self._failures.pop(key, None)
            self._failures[key] = made
            while len(self._failures) > _MOST_KEPT:
                del self._failures[next(iter(self._failures))]
        return made

    def _look(self, latest: Status, now: float) -> _Failures:
        with self._service.database.read() as connection:
            groups = failed_objects.group_failures(connection, latest.id, 0)
        page = self._service.object_page(latest.id, ObjectFilter(state="failed"), limit=MOST_FILES)
        start = latest.spec.source.key if isinstance(latest.spec.source, S3Location) else ""
        files = list[MissingFile]()
        for one in page.entries:
            cause = recipients.explain_failure(one.error_class, one.error_code, one.error_operation)
            name = one.source_key.removeprefix(start) or one.source_key
            files.append(MissingFile(name, one.size, cause.words, cause.text(1)))
        return _Failures(now, _causes(groups), files)


def delivery_key(link: ShareLink, transfer_id: str) -> str:
    """Key of a transfer in the responses of a link: it reveals no id, and is not valid for another link."""
    return hashlib.sha256(f"{link.id}:{transfer_id}".encode()).hexdigest()[:16]


def display_name(actor: str) -> str:
    """Name of an actor without machine or address; for a client over HTTP that of its token, or empty."""
    if actors.is_http(actor):
        return authority.token_name(actor) or ""
    return actor.partition("@")[0]


def _share(first: Status, sums: Totals, *, is_complete: bool) -> float | None:
    """Part of the bytes that has arrived, rounded down; 1 only when all has arrived and is verified.

    None while the source is listed, since the whole is not known, and where there is nothing.
    """
    if is_complete:
        return 1.0
    if not first.planned:
        return None
    found = first.totals
    done, whole = (sums.bytes_done, found.bytes) if found.bytes else (sums.done + sums.skipped, found.objects)
    return None if not whole else min(math.floor(1000 * done / whole) / 1000, 0.999)


def _causes(groups: Sequence[FailureGroup]) -> list[MissingCause]:
    """Causes as text, equal ones merged, the most frequent first."""
    found: dict[PlainCause, tuple[int, int]] = {}
    for group in groups:
        cause = recipients.explain_failure(group.error_class, group.error_code, group.operation)
        count, size = found.get(cause, (0, 0))
        found[cause] = count + group.count, size + group.bytes
    return [
        MissingCause(cause.needs, cause.words, cause.text(count), count, size)
        for cause, (count, size) in sorted(found.items(), key=lambda one: -one[1][0])
    ]
