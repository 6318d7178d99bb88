"""Looks at the objects of a transfer before a byte moves: what the transfer would be refused, it is refused here.

One byte of each object is read as the transfer reads it, which shows what a listing and a HEAD do not: a denied
s3:GetObject, a KMS key that may not be used, an archived object. One upload is created at the target and aborted.
Nothing stays there, and memory holds no more than the report.

What must stay true: an object is tried as the transfer reads it, under the ETag or version that was listed.
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
from seqferry.preflight.report import ARCHIVED, LOOKED_AT, PredictedFailure, Report

log: Final = logging.getLogger("seqferry.preflight")

_AT_ONCE: Final = 32
Inspected = Listed | FoundVersion
Copied = tuple[Inspected, str]
"""An object that would be copied, and its key at the target."""


class Inspection:
    """A look at the objects of a transfer as they are found, and at its target.

    All objects are looked at up to a number, and then a sample: each hundredth up to ten times that number, each
    thousandth up to a hundred times, and so on.
    """

    def __init__(self, engine: Engine, spec: ResolvedSpec, report: Report, *, at_most: int | None = LOOKED_AT) -> None:
        """``at_most``: objects that are all looked at; None: however many there are."""
        self._engine, self._spec, self._report, self._at_most = engine, spec, report, at_most
        self._met = self._asked = self._bytes = 0
        self._stride = 10
        self._probed: list[Copied] = []
        self._pool = ThreadPoolExecutor(_AT_ONCE, "seqferry-preflight")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def look(self, found: Sequence[Copied]) -> list[PredictedFailure | None]:
        """The failure that each object would have; None where nothing speaks against it."""
        chosen = [self._is_chosen() for _ in found]
        asked = self._pool.map(
            self._try, [info for (info, _), is_chosen in zip(found, chosen, strict=True) if is_chosen]
        )
        self._bytes += sum(info.size for info, _ in found)
        self._asked += sum(chosen)
        self._report.tried = self._asked
        self._report.looked_up = None if self._asked == self._met else self._asked
        troubles: list[PredictedFailure | None] = []
        for one, is_chosen in zip(found, chosen, strict=True):
            trouble = next(asked) if is_chosen else None
            troubles.append(trouble)
            if is_chosen and trouble is None and one[0].size and len(self._probed) < probes.PROBED:
                self._probed.append(one)
        return troubles

    def _is_chosen(self) -> bool:
        self._met += 1
        if self._at_most is None or self._met <= self._at_most:
            return True
        while self._met > self._at_most * self._stride // 10:
            self._stride *= 10
        return self._met % self._stride == 0

    def _try(self, info: Inspected) -> PredictedFailure | None:
        try:
            found = probes.look_up(self._engine, self._spec, info.key, info.version_id, size=info.size, etag=info.etag)
        except StorageError as why:
            return probes.failure(why)
        return None if found is not None and found.code == ARCHIVED and self._spec.selection.restore else found

    def note_members(self, target_keys: Sequence[str]) -> None:
        """Note members of the archive ``spec.source``, which was read for them; none is looked at by itself."""
        self._met += len(target_keys)
        self._asked += len(target_keys)
        if not self._probed:
            [archive] = self._engine.head_each(self._spec.source, [self._spec.source.key])
            self._probed.append((archive, target_keys[0]))

    def end(self) -> None:
        """Probe the target with the first objects that can be read; the report gets why it refuses, if it does."""
        items = [_item(number, *one) for number, one in enumerate(self._probed)]
        # An archive, or a member of one, is written as any object is.
        spec = self._spec.derive(operation=OPERATION_TRANSFER)
        refused = probes.refusal(self._engine, spec, items, [info.key for info, _ in self._probed], tell=_tell)
        if refused is not None:
            trouble = PredictedFailure(refused.code, refused.operation, refused.message)
            self._report.add_all(trouble, list(refused.keys), self._met, self._bytes)
        self._report.causes.sort(key=lambda cause: -cause.count)


def inspect(engine: Engine, spec: ResolvedSpec, rules: KeyRules, *, at_most: int | None = LOOKED_AT) -> Report:
    """Inspect the target and the first objects of a transfer, up to ``at_most`` (None: all).

    Raises:
        StorageError: the source cannot be listed.
    """
    report = Report()
    with Inspection(engine, spec, report, at_most=None) as inspection:
        for page in listing.decide_listed(engine, spec, rules):
            wanted = _take(report, page, at_most)
            for (info, _), trouble in zip(wanted, inspection.look(wanted), strict=True):
                if trouble is not None:
                    report.add(trouble, info.key, info.size)
            if not report.whole:
                break
        inspection.end()
    return report


def _tell(notes: Sequence[str]) -> None:
    for note in notes:
        log.warning("%s", note)


def _take(report: Report, page: Sequence[tuple[Listed, Decision]], at_most: int | None) -> list[Copied]:
    """Count the objects of a page, note those that are refused; the others that would be copied, with target keys."""
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
            trouble = PredictedFailure(decision.code or "Refused", decision.operation, decision.reason or "")
            report.add(trouble, info.key, info.size)
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
