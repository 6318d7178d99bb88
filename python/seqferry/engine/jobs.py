"""Jobs of the engine: the policy of a transfer, and the context of one of its batches."""

from __future__ import annotations

from seqferry import _native
from seqferry.engine.native_calls import native_endpoint
from seqferry.model.frozen import frozen
from seqferry.model.locations import Location
from seqferry.model.models import ResolvedSpec
from seqferry.spec import properties
from seqferry.spec.validation import data_path, settle_seconds


@frozen
class JobContext:
    """The work that a job belongs to.

    Attributes:
        transfer: its id, by which jobs share a flow and traces are named; empty for none.
        resumed: an earlier run may have begun it.
        target_was_empty: nothing was at the target as the transfer began; what a resumed run finds, it has left.
        since: start of the transfer, seconds since the epoch.
        only_clean: abort what an earlier run has left, and copy nothing.
        epoch: of the lease to write (``Engine.lease``); None: the job needs none.
    """

    transfer: str
    since: float
    resumed: bool = False
    target_was_empty: bool = False
    only_clean: bool = False
    epoch: int | None = None


def policy(spec: ResolvedSpec, context: JobContext) -> _native.CopyPolicy:
    return _native.CopyPolicy(
        source=native_endpoint(spec.source),
        source_bucket=spec.source.container,
        target=native_endpoint(spec.target, spec.source),
        target_bucket=spec.target.container,
        source_prefix=spec.source.key,
        target_prefix=spec.target.key,
        if_exists=spec.selection.if_exists,
        verify=spec.storage.verify,
        part_size=spec.parts.part_size,
        copy_threshold=spec.parts.copy_threshold,
        storage_class=spec.storage.storage_class,
        properties=_native.Properties(**properties.engine_properties(spec)),
        md5=spec.storage.md5,
        data_path=data_path(spec),
        resumed=context.resumed,
        target_was_empty=context.target_was_empty,
        since=context.since,
        only_clean=context.only_clean,
        compare_only=spec.kind.compares,
        ignore_times=spec.kind.removes_sources,
        in_order=spec.kind.copies_versions,
        no_sync=bool(spec.options.get("no_sync")),
        transfer=context.transfer,
        settle_seconds=settle_seconds(spec),
    )


def job_place(place: Location, context: JobContext) -> _native.JobPlace:
    """The place of a job that copies nothing."""
    return _native.JobPlace(
        native_endpoint(place),
        place.container,
        prefix=place.key,
        transfer=context.transfer,
        only_clean=context.only_clean,
    )
