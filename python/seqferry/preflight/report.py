"""Report of a preflight check: which objects of a transfer would fail, grouped by cause, and its text.

Dry runs and ``--preflight`` (``preflight.inspection``) report in this form, and so does the smaller check that each
transfer begins with (``workflows.sample_check``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from seqferry.model.messages.steps import COMMAND_LINE, split_next_step

MAX_CHECKED: Final = 10_000
"""Objects that are checked by default."""

PREFLIGHT: Final = "preflight"
"""Kind of the event that holds a report."""

_KEYS: Final = 1000
"""Keys that a report names for each cause."""

ARCHIVES: Final = frozenset({"GLACIER", "DEEP_ARCHIVE"})
ARCHIVED: Final = "Archived"

_STEPS: Final = {
    "AccessDenied": "allow_reading",
    ARCHIVED: "restore_first",
    "NoSuchKey": "correct_list",
    "EntityTooLarge": "divide",
}


class PredictedFailure(NamedTuple):
    """A failure that an object would have: the code of the service or of Seqferry, the S3 operation, and a message."""

    code: str
    operation: str
    message: str


@dataclass(slots=True)
class Cause:
    """Objects that would fail for the same reason."""

    code: str
    operation: str
    message: str
    """Message of the first failure of this cause."""
    count: int = 0
    bytes: int = 0
    keys: list[str] = field(default_factory=list[str])

    @property
    def advice(self) -> str | None:
        """The next step; None if the message contains it."""
        step = "allow_writing" if self.operation == "CreateMultipartUpload" else _STEPS.get(self.code)
        return None if step is None else COMMAND_LINE.text(step)


@dataclass(slots=True)
class PreflightReport:
    """Findings of a preflight check.

    Attributes:
        whole: all objects were checked.
        looked_up: number of objects that were checked with their own request; None: all.
        tried: number of objects of which a dry run has read a byte.
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
    def failing(self) -> int:
        """Objects that would fail."""
        return min(sum(cause.count for cause in self.causes), self.objects)

    def add(self, failure: PredictedFailure, key: str, size: int) -> None:
        found = self._cause(failure)
        found.count += 1
        found.bytes += size
        if len(found.keys) < _KEYS:
            found.keys.append(key)

    def add_all(self, failure: PredictedFailure, keys: list[str], count: int, size: int) -> None:
        """Add a cause that concerns ``count`` objects, of which ``keys`` are named."""
        found = self._cause(failure)
        found.count, found.bytes, found.keys = count, size, keys

    def _cause(self, failure: PredictedFailure) -> Cause:
        for one in self.causes:
            if (one.code, one.operation) == (failure.code, failure.operation):
                return one
        self.causes.append(Cause(*failure))
        return self.causes[-1]


def format_report(data: Mapping[str, Any], source: str, *, keys: int | None = None) -> Iterator[str]:
    """The lines of a report (``event_data``), for the owner of the source. ``source`` is the address of the source."""
    looked_up = data["looked_up"]
    some = " (the first ones)" if looked_up is not None else " (the first ones; --preflight checks all)"
    seen = f"{_objects(data['objects'])}{'' if data['whole'] else some} checked"
    fail = f"{data['objects_failed']:,} would fail"
    if looked_up is not None:
        seen += f" as listed, {looked_up:,} of {data['objects']:,} looked up" if looked_up else " as listed"
        fail = f"at least {fail}" if looked_up < data["objects"] and not data["stopped"] else fail
    yield f"Preflight of {source}: {seen}, {fail}."
    yield from format_causes(data["causes"], keys=keys)


def format_headline(data: Mapping[str, Any]) -> str:
    """A report (``event_data``) in one line, for a transfer that goes on."""
    failed, looked_up = data["objects_failed"], data["looked_up"]
    is_part = not data["whole"] or (looked_up is not None and looked_up < data["objects"])
    causes = ", ".join(f"{one['count']:,} by {one['error_code']} ({one['operation']})" for one in data["causes"])
    some = "at least " if is_part else ""
    return f"Preflight: {some}{failed:,} of {_objects(data['objects'])} would fail: {causes}. The others go on."


def format_causes(causes: Sequence[Mapping[str, Any]], *, keys: int | None = None) -> Iterator[str]:
    """The lines of the causes of a report (``event_data``), each with up to ``keys`` keys (None: all that it names)."""
    for cause in causes:
        yield ""
        yield f"{_objects(cause['count'])}: {cause['error_code']} ({cause['operation']}), {cause['bytes']:,} bytes"
        why, code = split_next_step(cause["message"])
        yield f"  {why}"
        if step := cause["advice"] or (code and COMMAND_LINE.step(code)):
            yield f"  Next: {step}"
        shown = cause["keys"] if keys is None else cause["keys"][:keys]
        yield from (f"    {key}" for key in shown)
        if keys != 0 and cause["count"] > len(shown):
            yield f"    and {cause['count'] - len(shown):,} more"


def _objects(count: int) -> str:
    return f"{count:,} object{'' if count == 1 else 's'}"


def event_data(report: PreflightReport, *, keys: int | None = None) -> dict[str, Any]:
    """Data of the ``preflight`` event, with up to ``keys`` keys of each cause (None: all that the report names)."""
    return {
        "objects": report.objects,
        "bytes": report.bytes,
        "whole": report.whole,
        "looked_up": report.looked_up,
        "objects_failed": report.failing,
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
