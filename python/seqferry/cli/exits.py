"""The exit codes of ``seqferry``: one table, and the one rule that maps the end of a transfer to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from seqferry.model.models import FailureGroup, Status, TransferSpec

OK: Final = 0
"""Everything asked for was done; all objects are verified."""
FAILED: Final = 1
"""Some objects failed, the transfer was stopped or cancelled, or the command could not do its work."""
USAGE: Final = 2
"""The command line or a setting makes no sense; nothing was started."""
MISMATCH: Final = 3
"""At least one object arrived different from its source (and counts as failed)."""
NOTHING: Final = 4
"""No object matched."""
INTERRUPTED: Final = 130
"""Stopped by Ctrl-C; the work can be resumed."""


TABLE: Final = (
    (OK, "all objects verified", "All objects are verified."),
    (FAILED, "some failed", "Some objects failed, or the transfer was stopped."),
    (USAGE, "usage", "What was asked makes no sense; nothing was started."),
    (MISMATCH, "verification mismatch", "An object arrived different from its source."),
    (NOTHING, "nothing matched", "No object matched."),
    (INTERRUPTED, "interrupted, resumable", "Interrupted, and can be resumed."),
)
"""Each code with its meaning, in short and as a sentence."""


def of_transfer(status: Status, failures: Iterable[FailureGroup]) -> int:
    """The exit code for a transfer that has ended. A cancelled or stopped transfer never gives 0.

    A place without open uploads is what a clean-up is for.
    """
    groups = list(failures)
    # The archive of an unpacking is not what its storage states: none of its members was taken.
    is_contradicted = status.error_code == "ContentMismatch"
    if is_contradicted or any(group.error_class == "mismatch" or status.spec.kind.of_record for group in groups):
        return MISMATCH
    if status.state != "done" or groups or status.totals.failed or status.totals.cancelled:
        return FAILED
    # Where nothing is to be aborted, all is done.
    return OK if status.spec.kind.aborts else of_count(status.spec, status.totals.objects)


def of_count(spec: TransferSpec, objects: int) -> int:
    """The exit code for so many objects, where none failed: an archive without members is unpacked like any other."""
    from seqferry.spec.validation import is_empty_archive  # --help need not wait for it

    return OK if objects or is_empty_archive(spec, objects) else NOTHING
