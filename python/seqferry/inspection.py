"""Preflight of a whole transfer: a look at each object before a byte moves, in one report grouped by cause.

Each object is looked up (HeadObject), which shows a missing permission where the transfer would meet it. Nothing is
written, and memory holds no more than the report.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from seqferry import listing
from seqferry.engine import Engine, ObjectInfo
from seqferry.errors import StorageError
from seqferry.models import LocalFolder, TransferSpec

LOOKED_AT: Final = 10_000
"""Objects that are looked at unless all are wanted."""

_AT_ONCE: Final = 32
_KEYS: Final = 1000
"""Keys that a report names for each cause."""

_ARCHIVES: Final = frozenset({"GLACIER", "DEEP_ARCHIVE"})


@dataclass(slots=True)
class Cause:
    """Objects that would fail alike."""

    code: str
    operation: str
    message: str
    """Of the first of them."""
    count: int = 0
    bytes: int = 0
    keys: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class Report:
    """What a look at a transfer has found.

    Attributes:
        whole: all objects were looked at.
    """

    objects: int = 0
    bytes: int = 0
    whole: bool = True
    causes: list[Cause] = field(default_factory=list[Cause])

    @property
    def troubled(self) -> int:
        """Objects that would fail."""
        return sum(cause.count for cause in self.causes)

    def add(self, code: str, operation: str, message: str, info: ObjectInfo) -> None:
        found = next((one for one in self.causes if (one.code, one.operation) == (code, operation)), None)
        if found is None:
            found = Cause(code, operation, message)
            self.causes.append(found)
        found.count += 1
        found.bytes += info.size
        if len(found.keys) < _KEYS:
            found.keys.append(info.key)


def inspect(engine: Engine, spec: TransferSpec, own: str, *, at_most: int | None = LOOKED_AT) -> Report:
    """Look at the objects of a transfer, at most so many (None: all).

    Raises:
        StorageError: the source cannot be listed.
    """
    report = Report()
    missing: list[str] = []

    def look(info: ObjectInfo) -> tuple[str, str, str] | None:
        return _look(engine, spec, info)

    with ThreadPoolExecutor(_AT_ONCE, "seqferry-preflight") as pool:
        for page in listing.decided(engine, spec, missing.extend, own):
            wanted: list[ObjectInfo] = []
            for info, decision in page:
                if decision.action == "leave_out":
                    continue
                if at_most is not None and report.objects >= at_most:
                    report.whole = False
                    break
                report.objects += 1
                report.bytes += info.size
                if decision.action == "refuse":
                    report.add(decision.code or "Refused", "plan", decision.reason or "", info)
                elif decision.action == "copy":
                    wanted.append(info)
            for info, trouble in zip(wanted, pool.map(look, wanted), strict=True):
                if trouble is not None:
                    report.add(*trouble, info)
            if not report.whole:
                break
    for key in missing:
        report.objects += 1
        report.causes.append(Cause("NoSuchKey", "HeadObject", f"{spec.source.at(key)} is not there.", 1, 0, [key]))
    report.causes.sort(key=lambda cause: -cause.count)
    return report


def _look(engine: Engine, spec: TransferSpec, info: ObjectInfo) -> tuple[str, str, str] | None:
    """Why the object could not be read; None when nothing speaks against it."""
    if isinstance(spec.source, LocalFolder):
        path = spec.source.at(info.key)
        if os.path.exists(path) and not os.access(path, os.R_OK):  # noqa: PTH110 - a path is a text here
            return "AccessDenied", "open", f"{path} may not be read. Allow it for the user of this process."
        return None
    if info.storage_class in _ARCHIVES:
        what = f"{spec.source.at(info.key)} is in the storage class {info.storage_class}."
        return "Archived", "GetObject", f"{what} Have it restored before the transfer, unless that was done."
    if spec.versions:  # each has been looked at
        return None
    try:
        found = engine.head(spec.source, [info.key])[0]
    except StorageError as why:
        # An answer to HEAD has no body, and so no better code.
        code = "AccessDenied" if why.error_code == "Forbidden" else why.error_code or why.code
        return code, why.operation or "HeadObject", why.message
    except UnicodeError:
        return None
    if found is None:
        return "NoSuchKey", "HeadObject", f"{spec.source.at(info.key)} was listed and is not there any more."
    return None


def lines(report: Report, spec: TransferSpec, *, keys: int | None = None) -> Iterator[str]:
    """The report as text that can be sent to whoever owns the source."""
    seen = _objects(report.objects) + ("" if report.whole else " (the first ones; --preflight looks at all)")
    yield f"Preflight of {spec.source.uri}: {seen} looked at, {report.troubled:,} would fail."
    for cause in report.causes:
        yield ""
        yield f"{_objects(cause.count)}: {cause.code} ({cause.operation}), {cause.bytes:,} bytes"
        yield f"  {cause.message}"
        shown = cause.keys if keys is None else cause.keys[:keys]
        yield from (f"    {key}" for key in shown)
        if cause.count > len(shown):
            yield f"    and {cause.count - len(shown):,} more"


def _objects(count: int) -> str:
    return f"{count:,} object{'' if count == 1 else 's'}"


def facts(report: Report) -> dict[str, object]:
    """The ``preflight`` event."""
    return {
        "objects": report.objects,
        "bytes": report.bytes,
        "whole": report.whole,
        "objects_failed": report.troubled,
        "causes": [
            {
                "error_code": one.code,
                "operation": one.operation,
                "message": one.message,
                "count": one.count,
                "bytes": one.bytes,
                "keys": one.keys,
            }
            for one in report.causes
        ],
    }
