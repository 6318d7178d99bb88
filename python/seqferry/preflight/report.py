"""Report of a look at a transfer before a byte moves: what would fail, grouped by cause, and its words.

The looks of a dry run and of ``--preflight`` (``preflight.inspection``) and the smaller one that each transfer begins
with (``workflows.first_look``) report in this form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from seqferry.model import advice

LOOKED_AT: Final = 10_000
"""Objects that are looked at unless all are wanted."""

PREFLIGHT: Final = "preflight"
"""Kind of the event that holds a report."""

_KEYS: Final = 1000
"""Keys that a report names for each cause."""

ARCHIVES: Final = frozenset({"GLACIER", "DEEP_ARCHIVE"})
ARCHIVED: Final = "Archived"

_ADVICE: Final = {
    "AccessDenied": "Ask the owner of the source to allow s3:GetObject on these keys (with KMS also kms:Decrypt).",
    ARCHIVED: "Have them restored, or let the transfer do it with --restore.",
    "NoSuchKey": "Correct the list, or go on without them.",
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
        tried: how many of a dry run were read to see whether they can be.
        stopped: no object could arrive, so that the transfer was ended.
    """

    objects: int = 0
    bytes: int = 0
    whole: bool = True
    causes: list[Cause] = field(default_factory=list[Cause])
    looked_up: int | None = None
    stopped: bool = False
    tried: int = 0

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
    yield from cause_lines(told["causes"], keys=keys)


def headline(told: Mapping[str, Any]) -> str:
    """A report (``facts``) in one line, for a transfer that goes on."""
    failed, looked_up = told["objects_failed"], told["looked_up"]
    is_part = not told["whole"] or (looked_up is not None and looked_up < told["objects"])
    causes = ", ".join(f"{one['count']:,} by {one['error_code']} ({one['operation']})" for one in told["causes"])
    some = "at least " if is_part else ""
    return f"Preflight: {some}{failed:,} of {_objects(told['objects'])} would fail: {causes}. The others go on."


def cause_lines(causes: Sequence[Mapping[str, Any]], *, keys: int | None = None) -> Iterator[str]:
    """Causes of a report (``facts``) as text, each with up to ``keys`` keys (None: all that it names)."""
    for cause in causes:
        yield ""
        yield f"{_objects(cause['count'])}: {cause['error_code']} ({cause['operation']}), {cause['bytes']:,} bytes"
        why, step = advice.split(cause["message"])
        yield f"  {why}"
        if step := cause["advice"] or step:
            yield f"  Next: {step}"
        shown = cause["keys"] if keys is None else cause["keys"][:keys]
        yield from (f"    {key}" for key in shown)
        if keys != 0 and cause["count"] > len(shown):
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
