"""Exit codes of commands, and the one rule that maps the end of a transfer to one. Their table is ``model.exits``."""

from __future__ import annotations

from collections.abc import Iterable

from seqferry.model.exits import FAILED, INTERRUPTED, MISMATCH, NOTHING, OK, OUT_OF_REACH, TABLE, USAGE
from seqferry.model.models import FailureGroup, Status, TransferSpec

__all__ = [
    "FAILED",
    "INTERRUPTED",
    "MISMATCH",
    "NOTHING",
    "OK",
    "OUT_OF_REACH",
    "TABLE",
    "USAGE",
    "count_exit_code",
    "transfer_exit_code",
]


def transfer_exit_code(status: Status, failures: Iterable[FailureGroup]) -> int:
    """The exit code for a transfer that has ended. A cancelled or stopped transfer never gives 0.

    A place without open uploads is what a clean-up is for.
    """
    groups = list(failures)
    # The archive of an unpacking is not what its storage states: none of its members was taken.
    is_contradicted = status.error_code == "ContentMismatch"
    if is_contradicted or any(group.error_class == "mismatch" or status.spec.kind.verifies_record for group in groups):
        return MISMATCH
    if status.state != "done" or groups or status.totals.failed or status.totals.cancelled:
        return FAILED
    # Where nothing is to be aborted, all is done.
    return OK if status.spec.kind.aborts else count_exit_code(status.spec, status.totals.objects)


def count_exit_code(spec: TransferSpec, objects: int) -> int:
    """The exit code for so many objects, where none failed: an archive without members is unpacked like any other."""
    from seqferry.spec.validation import is_empty_archive  # --help need not wait for it

    return OK if objects or is_empty_archive(spec, objects) else NOTHING
