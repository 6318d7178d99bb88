"""Checks the objects of a transfer before it starts: requests that would be denied then are denied here.

One byte of each object is read as the transfer reads it. This finds errors that listings and HEAD do not: a denied
s3:GetObject, a KMS key that may not be used, an archived object. One upload is created at the target and aborted.
Nothing stays at the target, and memory holds no more than the report.

Invariant: an object is read as the transfer reads it, with the ETag or version that was listed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Self

from seqferry.engine.buckets import FoundVersion
from seqferry.engine.engine import CopyItem, Engine, Listed
from seqferry.model.errors import StorageError
from seqferry.model.models import OPERATION_TRANSFER, ResolvedSpec
from seqferry.planning import listing
from seqferry.planning.decision import Decision, KeyRules
from seqferry.preflight import probes
from seqferry.preflight.report import ARCHIVED, MAX_CHECKED, PredictedFailure, PreflightReport

log: Final = logging.getLogger("seqferry.preflight")

_MAX_PROBES: Final = 32
Inspected = Listed | FoundVersion
Copied = tuple[Inspected, str]
"""An object that would be copied, and its key at the target."""


class Inspection:
    """A check of the objects of a transfer while they are listed, and of its target.

    All objects are checked up to ``at_most``, and then a sample: each hundredth up to ten times that number, each
    thousandth up to a hundred times, and so on.
    """

    def __init__(
        self, engine: Engine, spec: ResolvedSpec, report: PreflightReport, *, at_most: int | None = MAX_CHECKED
    ) -> None:
        """``at_most``: number of objects up to which all are checked; None: no limit."""
        self._engine, self._spec, self._report, self._at_most = engine, spec, report, at_most
        self._met = self._checked = self._bytes = 0
        self._stride = 10
        self._probed: list[Copied] = []
        self._pool = ThreadPoolExecutor(_MAX_PROBES, "seqferry-preflight")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def check(self, found: Sequence[Copied]) -> list[PredictedFailure | None]:
        """The failure that each object would have; None if none is known."""
        chosen = [self._is_chosen() for _ in found]
        results = self._pool.map(
            self._check_readable, [info for (info, _), is_chosen in zip(found, chosen, strict=True) if is_chosen]
        )
        self._bytes += sum(info.size for info, _ in found)
        self._checked += sum(chosen)
        self._report.tried = self._checked
        self._report.looked_up = None if self._checked == self._met else self._checked
        failures: list[PredictedFailure | None] = []
        for one, is_chosen in zip(found, chosen, strict=True):
            failure = next(results) if is_chosen else None
            failures.append(failure)
            if is_chosen and failure is None and one[0].size and len(self._probed) < probes.PROBED:
                self._probed.append(one)
        return failures

    def _is_chosen(self) -> bool:
        self._met += 1
        if self._at_most is None or self._met <= self._at_most:
            return True
        while self._met > self._at_most * self._stride // 10:
            self._stride *= 10
        return self._met % self._stride == 0

    def _check_readable(self, info: Inspected) -> PredictedFailure | None:
        try:
            found = probes.check_readable(
                self._engine, self._spec, info.key, info.version_id, size=info.size, etag=info.etag
            )
        except StorageError as why:
            return probes.predict_failure(why)
        return None if found is not None and found.code == ARCHIVED and self._spec.selection.restore else found

    def note_members(self, target_keys: Sequence[str]) -> None:
        """Count members of the archive ``spec.source``, which was read already; they need no check of their own."""
        self._met += len(target_keys)
        self._checked += len(target_keys)
        if not self._probed:
            [archive] = self._engine.head_each(self._spec.source, [self._spec.source.key])
            self._probed.append((archive, target_keys[0]))

    def finish(self) -> None:
        """Probe the target with the first readable objects, and add a refusal of the target to the report."""
        items = [_item(number, *one) for number, one in enumerate(self._probed)]
        # An archive, or a member of one, is written as any object is.
        spec = self._spec.derive(operation=OPERATION_TRANSFER)
        refused = probes.find_write_refusal(
            self._engine, spec, items, [info.key for info, _ in self._probed], report_notes=_log_notes
        )
        if refused is not None:
            failure = PredictedFailure(refused.code, refused.operation, refused.message)
            self._report.add_all(failure, list(refused.keys), self._met, self._bytes)
        self._report.causes.sort(key=lambda cause: -cause.count)


def inspect(
    engine: Engine, spec: ResolvedSpec, rules: KeyRules, *, at_most: int | None = MAX_CHECKED
) -> PreflightReport:
    """Inspect the target and the first objects of a transfer, up to ``at_most`` (None: all).

    Raises:
        StorageError: the source cannot be listed.
    """
    report = PreflightReport()
    with Inspection(engine, spec, report, at_most=None) as inspection:
        for page in listing.decide_listed(engine, spec, rules):
            wanted = _take(report, page, at_most)
            for (info, _), failure in zip(wanted, inspection.check(wanted), strict=True):
                if failure is not None:
                    report.add(failure, info.key, info.size)
            if not report.whole:
                break
        inspection.finish()
    return report


def _log_notes(notes: Sequence[str]) -> None:
    for note in notes:
        log.warning("%s", note)


def _take(report: PreflightReport, page: Sequence[tuple[Listed, Decision]], at_most: int | None) -> list[Copied]:
    """Count the objects of a page and report the refused ones. Returns those that would be copied, with target keys."""
    wanted: list[Copied] = []
    for info, decision in page:
        if decision.action == "leave_out":
            continue
        if at_most is not None and report.objects >= at_most:
            report.whole = False
            break
        report.objects += 1
        report.bytes += info.size
        if decision.action == "refuse":
            failure = PredictedFailure(decision.code or "Refused", decision.operation, decision.reason or "")
            report.add(failure, info.key, info.size)
        elif decision.action == "copy":
            wanted.append((info, decision.target_key))
    return wanted


def _item(number: int, info: Inspected, target_key: str) -> CopyItem:
    return CopyItem(
        id=number,
        source_key=info.key,
        target_key=target_key,
        size=info.size,
        etag=info.etag,
        version_id=info.version_id,
    )
