"""Preflight of a whole transfer: a look at each object before a byte moves, in one report grouped by cause.

Each object is looked up (HeadObject), which shows a missing permission where the transfer would meet it, and one upload
is created at the target and aborted. Nothing stays there, and memory holds no more than the report. The smaller look
that each transfer begins with (``workflows.first_look``) reports in the same form.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from seqferry.engine import buckets
from seqferry.engine.engine import CopyItem, Engine, Listed
from seqferry.model.errors import StorageError
from seqferry.model.locations import LocalFolder
from seqferry.model.models import ResolvedSpec
from seqferry.planning import listing
from seqferry.planning.decision import Decision, KeyRules
from seqferry.preflight import write_probe

log: Final = logging.getLogger("seqferry.preflight")

LOOKED_AT: Final = 10_000
"""Objects that are looked at unless all are wanted."""

PREFLIGHT: Final = "preflight"
"""Kind of the event that holds a report."""

_AT_ONCE: Final = 32
_KEYS: Final = 1000
"""Keys that a report names for each cause."""

ARCHIVES: Final = frozenset({"GLACIER", "DEEP_ARCHIVE"})
ARCHIVED: Final = "Archived"

_ADVICE: Final = {
    "AccessDenied": "Ask the owner of the source to allow s3:GetObject on these keys (with KMS also kms:Decrypt).",
    ARCHIVED: "Have them restored, or let the transfer do it with --restore.",
    "NoSuchKey": "They were removed since; correct the list, or go on without them.",
    "EntityTooLarge": "Split them, or pack them with others.",
}
_WRITE_ADVICE: Final = "Allow s3:PutObject below the target (with KMS also kms:GenerateDataKey), then start again."


class PredictedFailure(NamedTuple):
    """A failure that an object would have: a code of the service or of ours, the operation that shows it, and words."""

    code: str
    operation: str
    message: str


@dataclass(slots=True)
class Cause:
    """Objects that would fail alike."""

    code: str
    operation: str
    message: str
    """Message of the first failure of this cause."""
    count: int = 0
    bytes: int = 0
    keys: list[str] = field(default_factory=list[str])

    @property
    def advice(self) -> str | None:
        """The next step; None where the message has it."""
        return _WRITE_ADVICE if self.operation == "CreateMultipartUpload" else _ADVICE.get(self.code)


@dataclass(slots=True)
class Report:
    """Findings of a look at a transfer.

    Attributes:
        whole: all objects were looked at.
        looked_up: how many were looked up one by one; None: all.
        stopped: no object could arrive, so that the transfer was ended.
    """

    objects: int = 0
    bytes: int = 0
    whole: bool = True
    causes: list[Cause] = field(default_factory=list[Cause])
    looked_up: int | None = None
    stopped: bool = False

    @property
    def troubled(self) -> int:
        """Objects that would fail."""
        return min(sum(cause.count for cause in self.causes), self.objects)

    def add(self, trouble: PredictedFailure, key: str, size: int) -> None:
        found = self._cause(trouble)
        found.count += 1
        found.bytes += size
        if len(found.keys) < _KEYS:
            found.keys.append(key)

    def add_all(self, trouble: PredictedFailure, keys: list[str], count: int, size: int) -> None:
        """Add a cause that concerns ``count`` objects, of which ``keys`` are named."""
        found = self._cause(trouble)
        found.count, found.bytes, found.keys = count, size, keys

    def _cause(self, trouble: PredictedFailure) -> Cause:
        for one in self.causes:
            if (one.code, one.operation) == (trouble.code, trouble.operation):
                return one
        self.causes.append(Cause(*trouble))
        return self.causes[-1]


def inspect(engine: Engine, spec: ResolvedSpec, rules: KeyRules, *, at_most: int | None = LOOKED_AT) -> Report:
    """Inspect the target and objects of a transfer, up to ``at_most`` (None: all).

    Raises:
        StorageError: the source cannot be listed.
    """
    report = Report()
    probe: list[tuple[Listed, str]] = []
    copied = 0

    def look(one: tuple[Listed, str]) -> PredictedFailure | None:
        try:
            return look_up(engine, spec, one[0].key, one[0].version_id)
        except StorageError as why:
            return _trouble(why)

    with ThreadPoolExecutor(_AT_ONCE, "seqferry-preflight") as pool:
        for page in listing.decide_listed(engine, spec, rules):
            wanted = _take(report, page, at_most)
            copied += len(wanted)
            for (info, target_key), trouble in zip(wanted, pool.map(look, wanted), strict=True):
                if trouble is None:
                    if info.size and len(probe) < write_probe.PROBED:
                        probe.append((info, target_key))
                elif not (spec.selection.restore and trouble.code == ARCHIVED):
                    report.add(trouble, info.key, info.size)
            if not report.whole:
                break
    items = [_item(number, *one) for number, one in enumerate(probe)]
    refused = write_probe.refusal(engine, spec, items, [info.key for info, _ in probe], tell=_tell)
    if refused is not None:
        trouble = PredictedFailure(refused.code, refused.operation, refused.message)
        report.add_all(trouble, list(refused.keys), copied, report.bytes)
    report.causes.sort(key=lambda cause: -cause.count)
    return report


def _tell(notes: Sequence[str]) -> None:
    for note in notes:
        log.warning("%s", note)


def _take(report: Report, page: Sequence[tuple[Listed, Decision]], at_most: int | None) -> list[tuple[Listed, str]]:
    """Count the objects of a page, note those that are refused; the others that would be copied, with target keys."""
    wanted: list[tuple[Listed, str]] = []
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


def _item(number: int, info: Listed, target_key: str) -> CopyItem:
    return CopyItem(
        id=number,
        source_key=info.key,
        target_key=target_key,
        size=info.size,
        etag=info.etag,
        version_id=info.version_id,
    )


def look_up(engine: Engine, spec: ResolvedSpec, key: str, version_id: str | None = None) -> PredictedFailure | None:
    """Trouble with reading an object, as one request shows it; None when nothing speaks against it.

    Raises:
        StorageError: the storage gave no certain answer.
    """
    place = spec.source
    if isinstance(place, LocalFolder):
        path = place.at(key)
        if os.path.exists(path) and not os.access(path, os.R_OK):  # noqa: PTH110 - a path is a text here
            message = f"{path} may not be read. Allow it for the user of this process."
            return PredictedFailure("AccessDenied", "open", message)
        return None
    try:
        found = buckets.facts(engine, replace(place, key=key), version_id)
    except StorageError as why:
        if why.error_class == "not_found":
            return PredictedFailure("NoSuchKey", "HeadObject", f"{place.at(key)} was listed and is not there any more.")
        if why.error_class != "person":
            raise
        return _trouble(why)
    except UnicodeError:
        return None
    if found.archived:
        return PredictedFailure(
            ARCHIVED, "GetObject", f"{place.at(key)} is in the storage class {found.storage_class}."
        )
    return None


def _trouble(why: StorageError) -> PredictedFailure:
    # An answer to HEAD has no body, and so no better code.
    code = "AccessDenied" if why.error_code == "Forbidden" else why.error_code or why.code
    return PredictedFailure(code, why.operation or "HeadObject", why.message)


def lines(told: Mapping[str, Any], source: str, *, keys: int | None = None) -> Iterator[str]:
    """A report (``facts``) as text that can be sent to the owner of the source. ``source`` is its address."""
    looked_up = told["looked_up"]
    some = " (the first ones)" if looked_up is not None else " (the first ones; --preflight looks at all)"
    seen = f"{_objects(told['objects'])}{'' if told['whole'] else some} looked at"
    fail = f"{told['objects_failed']:,} would fail"
    if looked_up is not None:
        seen += f" as listed, {looked_up:,} of {told['objects']:,} looked up" if looked_up else " as listed"
        fail = f"at least {fail}" if looked_up < told["objects"] and not told["stopped"] else fail
    yield f"Preflight of {source}: {seen}, {fail}."
    for cause in told["causes"]:
        yield ""
        yield f"{_objects(cause['count'])}: {cause['error_code']} ({cause['operation']}), {cause['bytes']:,} bytes"
        yield f"  {cause['message']}"
        if cause["advice"] is not None:
            yield f"  Next: {cause['advice']}"
        shown = cause["keys"] if keys is None else cause["keys"][:keys]
        yield from (f"    {key}" for key in shown)
        if cause["count"] > len(shown):
            yield f"    and {cause['count'] - len(shown):,} more"


def _objects(count: int) -> str:
    return f"{count:,} object{'' if count == 1 else 's'}"


def facts(report: Report, *, keys: int | None = None) -> dict[str, Any]:
    """The ``preflight`` event, with up to ``keys`` keys of each cause (None: all that the report names)."""
    return {
        "objects": report.objects,
        "bytes": report.bytes,
        "whole": report.whole,
        "looked_up": report.looked_up,
        "objects_failed": report.troubled,
        "stopped": report.stopped,
        "causes": [
            {
                "error_code": one.code,
                "operation": one.operation,
                "message": one.message,
                "advice": one.advice,
                "count": one.count,
                "bytes": one.bytes,
                "keys": one.keys if keys is None else one.keys[:keys],
            }
            for one in report.causes
        ],
    }
