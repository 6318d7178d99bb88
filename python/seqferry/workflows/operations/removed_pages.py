"""Removals at the end of a transfer: a page of objects at a time, on record before it is removed.

A removal that is repeated after a kill skips missing objects, and keeps new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from seqferry.engine.engine import CHANGED_SINCE, LEASE_LAPSED, CopyItem, JobContext
from seqferry.engine.executor import collect
from seqferry.engine.native_calls import storage_error
from seqferry.model.errors import ConfigError, StorageError
from seqferry.model.locations import Location
from seqferry.workflows.runtime import Runtime

_WAIT_SECONDS: Final = 0.5


class Removal(NamedTuple):
    """An object to be removed; with an ``etag`` only if it still has this one."""

    id: int
    key: str
    etag: str


def remove(
    runtime: Runtime,
    transfer_id: str,
    place: Location,
    wanted: Sequence[Removal],
    *,
    epoch: int | None,
    stop_at_failure: bool = False,
) -> dict[int, StorageError]:
    """Remove objects; returns the failures by id. A HEAD precedes each removal: some services ignore ETags.

    Args:
        epoch: of the lease to write, as it was before the page was put on record.
        stop_at_failure: begin no removal after the first failure but ``CHANGED_SINCE``; objects that were not removed
            are not named then.

    Raises:
        StepSuspension: this process is to stop.
        ConfigError: this worker was cut off from the database and may not write.
    """
    items = [CopyItem(id=one.id, source_key=one.key, target_key=one.key, size=0, etag=one.etag or "") for one in wanted]
    # Since it follows a transfer, an earlier run of this page may have been cut off.
    context = JobContext(transfer_id, 0.0, resumed=True, epoch=epoch)
    job = runtime.engine.start_remove(place, items, context, stop_at_failure=stop_at_failure, fail_at_lapse=True)
    ended = collect(job, _make_check(runtime))
    failures = {
        number: StorageError(row["error_message"], row["error_class"], row["error_code"], row["error_operation"])
        for number, row in ended.items()
        if row["state"] == "failed"
    }
    if (job_failure := job.failure()) is not None:
        if job_failure.error_code == LEASE_LAPSED:
            raise ConfigError(job_failure.message)
        failures |= dict.fromkeys(_find_unanswered(wanted, ended), storage_error(job_failure))
    elif not stop_at_failure or all(why.error_code == CHANGED_SINCE for why in failures.values()):
        # An object without an answer may be there still: it must not count as removed.
        why = StorageError("Its removal was stopped before it was answered.", "retry", "Stopped", "DeleteObject")
        failures |= dict.fromkeys(_find_unanswered(wanted, ended), why)
    return failures


def _find_unanswered(wanted: Sequence[Removal], ended: Mapping[int, Mapping[str, Any]]) -> list[int]:
    """Ids of objects that were neither removed nor refused by themselves: a stop came first."""
    return [one.id for one in wanted if one.id not in ended or ended[one.id]["state"] not in ("done", "failed")]


def _make_check(runtime: Runtime) -> Callable[[], float]:
    def seconds() -> float:
        runtime.check()
        return _WAIT_SECONDS

    return seconds
