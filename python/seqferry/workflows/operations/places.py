"""Shared parts of operations: places that are made ready, and rows that become items of a job."""

from __future__ import annotations

from seqferry.db.objects import OpenObject
from seqferry.engine.engine import CopyItem, FoundCopy
from seqferry.model.locations import LocalFolder
from seqferry.model.models import ResolvedSpec
from seqferry.places import paths
from seqferry.planning import listing
from seqferry.planning.listing import KnownObjects
from seqferry.preflight import start
from seqferry.workflows.runtime import Runtime


def prepare(runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None) -> None:
    """Check both places, unless that was just done (``known``), and make the target folder.

    Raises:
        StorageError: a place cannot be used.
    """
    if known is None:
        start.check_buckets(runtime.engine, spec)
    if isinstance(spec.target, LocalFolder):
        paths.make_target(spec.target.path)


def target_is_empty(runtime: Runtime, spec: ResolvedSpec, known: KnownObjects | None) -> bool:
    """True when nothing is below the target."""
    if known is not None and known.target_absent is not None:
        return known.target_absent
    return listing.target_is_empty(runtime.engine, spec)


def copy_item(one: OpenObject, *, target_absent: bool = False, written: FoundCopy | None = None) -> CopyItem:
    """The item of a job for a row. One that was ``written`` by an earlier run is not copied."""
    return CopyItem(
        id=one.id,
        source_key=one.source_key,
        target_key=one.target_key,
        size=one.size,
        etag=one.etag,
        version_id=one.version_id,
        target_absent=target_absent,
        upload_id=one.upload_id,
        part_size=one.part_size,
        upload_etag=one.upload_etag,
        written=written,
    )
