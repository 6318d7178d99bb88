"""Check of the first objects of a transfer before any is copied: predicted failures, grouped by cause.

It sends no request for each object: the listing has names, sizes and storage classes. A sample is checked with HEAD,
and one multipart upload is created at the target and aborted. Predicted failures are recorded as an event, and the
transfer continues with all other objects. Only if no object could arrive, the transfer ends immediately.

Invariant: no more than ``MAX_CHECKED`` objects wait, no longer than ``_MAX_HELD_SECONDS`` and the few requests of the
check. A sample that could not be checked (time-outs, throttling) proves nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, Final

from seqferry.db import batches
from seqferry.db.objects import PlannedObject
from seqferry.db.record import events
from seqferry.engine.engine import CopyItem
from seqferry.model.errors import StorageError
from seqferry.model.frozen import frozen
from seqferry.model.locations import S3Location
from seqferry.model.messages.steps import COMMAND_LINE, split_next_step
from seqferry.model.models import ResolvedSpec
from seqferry.preflight import probes, report
from seqferry.preflight.report import MAX_CHECKED, PREFLIGHT, PredictedFailure, PreflightReport
from seqferry.workflows import engine_notes
from seqferry.workflows.runtime import Runtime

log: Final = logging.getLogger("seqferry.transfer")

SAMPLE_SIZE: Final = 10
"""Objects that are checked with HEAD. A smaller transfer shows each failure with its own first requests."""

_ARCHIVED_SAMPLED: Final = 3
"""Archived objects that are checked in addition: a listing does not show whether they were restored."""

_LARGEST: Final = 50_000 * 1024**3
"""Bytes of the largest object of S3: 10,000 parts of 5 GiB."""

_MAX_HELD_SECONDS: Final = 1.0
"""Time for which pages are held from the first object of a listing on, so that a slow listing does not delay them."""

_LOOKUP_SECONDS: Final = 10.0
_KEYS: Final = 5
"""Examples for each cause in the event, which is stored permanently."""


def is_enabled(spec: ResolvedSpec) -> bool:
    """True when a transfer is checked: it copies or moves several objects, without ``--no-preflight``."""
    several = not spec.single
    return spec.preflight and several and spec.kind.from_listing


def check_first_pages(
    runtime: Runtime,
    transfer_id: str,
    spec: ResolvedSpec,
    pages: Iterator[list[PlannedObject]],
    *,
    target_absent: bool,
    since: float | None = None,
) -> Iterator[list[PlannedObject]]:
    """Yields ``pages`` after a check of their first objects, and empty pages while it waits.

    Args:
        since: when the transfer was submitted, if an earlier planning was cut off: its probe may have left an upload.

    Raises:
        StorageError: no object could arrive, as the event says; or the listing failed.
    """
    if since is not None and _was_checked(runtime, transfer_id):
        yield from pages
        return
    # Listed keys are checked page by page, without a time limit.
    most = MAX_CHECKED if spec.keys is None else 1
    held: list[list[PlannedObject]] = []
    count, whole, until = 0, False, 0.0
    while count < most and (not count or time.monotonic() < until):
        page = next(pages, None)
        if page is None:
            whole = True
            break
        if page and not count:
            until = time.monotonic() + _MAX_HELD_SECONDS
        if page:
            held.append(page)
            count += len(page)
        yield []
    first = [one for page in held for one in page][:MAX_CHECKED]
    if len(first) > 1:
        _SampleCheck(runtime, transfer_id, spec, target_absent, since).run(first, whole=whole and count == len(first))
    yield from held
    yield from pages


def _was_checked(runtime: Runtime, transfer_id: str) -> bool:
    """True when an earlier planning, which was cut off, has checked."""
    with runtime.database.read() as connection:
        checked = events.last(connection, transfer_id, PREFLIGHT) is not None
        return checked or batches.has_batches(connection, transfer_id)


@frozen
class _SampleCheck:
    runtime: Runtime
    transfer_id: str
    spec: ResolvedSpec
    target_absent: bool
    since: float | None

    def run(self, found: Sequence[PlannedObject], *, whole: bool) -> None:
        """Check the objects, and record predicted failures.

        Raises:
            StorageError: no object could arrive.
        """
        findings = PreflightReport(objects=len(found), bytes=sum(one.size for one in found), whole=whole, looked_up=0)
        if self.spec.keys is not None:  # each was looked up as it was planned
            findings.looked_up = findings.objects
        for one in found:
            if one.refusal is not None and not one.left_out:
                findings.add(PredictedFailure(one.refusal[0], one.operation, one.refusal[1]), one.source_key, one.size)
        wanted = [one for one in found if one.refusal is None and one.verified is None]
        for one in wanted:
            if one.size > _LARGEST and isinstance(self.spec.target, S3Location):
                message = f"{self.spec.source.at(one.source_key)} is larger than the largest object of S3."
                findings.add(PredictedFailure("EntityTooLarge", "plan", message), one.source_key, one.size)
        archived = (
            [] if self.spec.selection.restore else [one for one in wanted if one.storage_class in report.ARCHIVES]
        )
        why = self._check_sample(findings, wanted, archived) if len(wanted) > SAMPLE_SIZE else None
        if len(wanted) <= SAMPLE_SIZE:
            self._add_archived(findings, archived)
        findings.causes.sort(key=lambda cause: -cause.count)
        findings.stopped = why is not None
        if findings.causes:
            self._record(findings)
        if why is not None:
            cause, _ = split_next_step(why.message)
            message = f"Preflight: {cause} ({why.code} by {why.operation}). {COMMAND_LINE.text('skip_preflight')}"
            raise StorageError(message, "person", why.code, why.operation, True)

    def _record(self, findings: PreflightReport) -> None:
        data = report.event_data(findings, keys=_KEYS)
        with self.runtime.database.write(durable=False) as connection:
            events.append(connection, self.transfer_id, time.time(), PREFLIGHT, self.runtime.actor, data)

    def _check_sample(
        self, findings: PreflightReport, wanted: list[PlannedObject], archived: list[PlannedObject]
    ) -> PredictedFailure | None:
        """Check a sample, and probe the target. Returns the cause if no object could arrive."""
        of_archive = {id(one) for one in archived}
        rest = [one for one in wanted if id(one) not in of_archive]
        known = rest if self.spec.keys is not None else []
        asked = [] if known else select_sample(rest, SAMPLE_SIZE)
        cold = select_sample(archived, _ARCHIVED_SAMPLED)
        tried = _select_tried(known or asked)
        # The two need different rights, and neither the answers of the other.
        with ThreadPoolExecutor(1, "seqferry-probe") as beside:
            probe = beside.submit(self._find_write_refusal, tried)
            looked = self._look_up([*asked, *cold])
            refused = probe.result()
        if not known:
            findings.looked_up = len(looked)
        readable: list[PlannedObject] = list(known)
        troubles: list[PredictedFailure] = []
        still: list[PredictedFailure] = []
        for one, trouble in looked:
            if trouble is None:
                readable.append(one)
                continue
            troubles.append(trouble)
            if trouble.code == report.ARCHIVED and id(one) in of_archive:
                still.append(trouble)
            else:
                findings.add(trouble, one.source_key, one.size)
        if still:
            self._add_archived(findings, archived)
        # Objects at the target may be skipped without a request for the source.
        passes_over = self.spec.selection.if_exists in ("skip", "fail") and not self.target_absent
        all_looked = len(looked) == len(asked) + len(cold)
        if looked and not readable and all_looked and not passes_over and not _is_named(self.spec):
            first = troubles[0]
            count = f"none of the {len(looked)} objects that were looked up can be read, of {findings.objects:,} found"
            return PredictedFailure(first.code, first.operation, count)
        of_readable = {id(one) for one in readable}
        if refused is None and any(id(one) not in of_readable for one in tried):
            # The upload of an object that cannot be read says nothing of the target.
            refused = self._find_write_refusal(_select_tried(readable))
        if refused is None:
            return None
        trouble = PredictedFailure(refused.code, refused.operation, refused.message)
        findings.add_all(trouble, list(refused.keys), len(wanted), findings.bytes)
        return PredictedFailure(refused.code, refused.operation, "the target refuses writing")

    def _look_up(self, sample: list[PlannedObject]) -> list[tuple[PlannedObject, PredictedFailure | None]]:
        """Objects that could be looked up in time, each with its predicted failure or None."""
        if not sample:
            return []
        engine, spec = self.runtime.engine, self.spec
        pool = ThreadPoolExecutor(len(sample), "seqferry-preflight")
        asked: dict[Future[PredictedFailure | None], PlannedObject] = {
            pool.submit(
                probes.check_readable, engine, spec, one.source_key, one.version_id, size=one.size, etag=one.etag
            ): one
            for one in sample
        }
        wait(asked, timeout=_LOOKUP_SECONDS)
        pool.shutdown(wait=False, cancel_futures=True)
        self.runtime.check()
        ended = [(one, future) for future, one in asked.items() if future.done() and not future.cancelled()]
        return [(one, future.result()) for one, future in ended if future.exception() is None]

    def _find_write_refusal(self, tried: list[PlannedObject]) -> probes.WriteRefusal | None:
        return probes.find_write_refusal(
            self.runtime.engine,
            self.spec,
            [_item(number, one, target_absent=self.target_absent) for number, one in enumerate(tried)],
            [one.source_key for one in tried],
            transfer=self.transfer_id,
            since=self.since,
            epoch=self.runtime.epoch,
            check=self.runtime.check,
            report_notes=partial(engine_notes.log_notes, self.runtime, self.transfer_id, self.spec),
        )

    def _add_archived(self, findings: PreflightReport, archived: list[PlannedObject]) -> None:
        for one in archived:
            what = f"{self.spec.source.at(one.source_key)} is in the storage class {one.storage_class}."
            findings.add(PredictedFailure(report.ARCHIVED, "GetObject", what), one.source_key, one.size)


def _is_named(spec: ResolvedSpec) -> bool:
    """True when the objects were named one by one: failures of a sample say nothing about the others."""
    return spec.keys is not None or bool(spec.ranges) or spec.inventory is not None


def _select_tried(found: Sequence[PlannedObject]) -> list[PlannedObject]:
    """Objects whose upload shows whether the target can be written."""
    return select_sample([one for one in found if one.size], probes.PROBED)


def select_sample(found: Sequence[PlannedObject], most: int) -> list[PlannedObject]:
    """Sample of at most ``most`` objects: the first, the last, the largest, and others at even distances."""
    if len(found) <= most:
        return list(found)
    last = len(found) - 1
    largest = max(range(len(found)), key=lambda number: found[number].size)
    chosen = dict.fromkeys((0, last, largest))
    for number in range(1, most):
        if len(chosen) < most:
            chosen.setdefault(number * last // most)
    return [found[number] for number in sorted(chosen)]


def _item(number: int, one: PlannedObject, *, target_absent: bool) -> CopyItem:
    given: dict[str, Any] = {"version_id": one.version_id, "target_absent": target_absent}
    return CopyItem(
        id=number, source_key=one.source_key, target_key=one.target_key, size=one.size, etag=one.etag, **given
    )
