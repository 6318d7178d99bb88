"""Check of the copies of a move against their record, right before their sources are removed."""

from __future__ import annotations

from collections.abc import Sequence

from seqferry.db.objects import ArrivedObject
from seqferry.engine import buckets
from seqferry.engine.buckets import RecordedDigest
from seqferry.engine.engine import ObjectInfo
from seqferry.model.errors import StorageError
from seqferry.model.locations import LocalFolder
from seqferry.model.models import ResolvedSpec
from seqferry.planning import removal_rules
from seqferry.workflows.runtime import Runtime


def filter_unchanged(
    runtime: Runtime, spec: ResolvedSpec, page: Sequence[ArrivedObject], kept: dict[int, str]
) -> list[ArrivedObject]:
    """Objects whose copies are there as they were recorded; ``kept`` gets the rows of the others, and why.

    Raises:
        StorageError: a transient failure of the storage. ``kept`` may have got some rows.
    """
    try:
        targets = runtime.engine.head(spec.target, [one.target_key for one in page])
        same = removal_rules.may_be_same_object(spec, page[0].source_key, page[0].target_key)
        on_disk = isinstance(spec.source, LocalFolder)
        sources = runtime.engine.head(spec.source, [one.source_key for one in page]) if same or on_disk else []
    except StorageError as why:
        if why.is_transient:
            raise
        kept |= {one.id: why.message.rstrip(".") for one in page}
        return []
    found: list[ArrivedObject] = []
    in_doubt: list[tuple[ArrivedObject, ObjectInfo]] = []
    for number, (one, target) in enumerate(zip(page, targets, strict=True)):
        source = sources[number] if sources else None
        if (why := removal_rules.refuse_source_removal(spec, one, target, source if same else None)) is not None:
            kept[one.id] = why
        elif on_disk and source is not None and one.ended_at is not None and source.changed > one.ended_at:
            # Also with the size and time that it had: a program that writes to it can set its time back.
            kept[one.id] = "it was changed after it was copied"
        elif target is not None and removal_rules.needs_content_check(spec, one, target):
            in_doubt.append((one, target))
        else:
            found.append(one)
    return found + _read_again(runtime, spec, in_doubt, kept)


def _read_again(
    runtime: Runtime, spec: ResolvedSpec, in_doubt: Sequence[tuple[ArrivedObject, ObjectInfo]], kept: dict[int, str]
) -> list[ArrivedObject]:
    """Objects whose copies have the recorded digest: all of their bytes are read."""
    wanted: list[tuple[ArrivedObject, ObjectInfo, RecordedDigest]] = []
    for one, there in in_doubt:
        digest = _recorded_digest(spec, one)
        if digest is None:
            kept[one.id] = "its copy was changed after it was recorded, and no digest is on record to compare it with"
        else:
            wanted.append((one, there, digest))
    found: list[ArrivedObject] = []
    for (one, _, digest), values in zip(wanted, _digests(runtime, spec, wanted), strict=True):
        if isinstance(values, StorageError):
            kept[one.id] = values.message.rstrip(".")
        elif digest.value not in values:
            kept[one.id] = "its copy was overwritten"
        else:
            found.append(one)
    return found


def _recorded_digest(spec: ResolvedSpec, one: ArrivedObject) -> RecordedDigest | None:
    is_file = isinstance(spec.target, LocalFolder)
    return RecordedDigest.of(
        one.size,
        checksum_algorithm=one.checksum_algorithm,
        checksum=one.checksum,
        etag=one.etag if is_file else one.target_etag or one.etag,
        part_size=None if is_file else one.part_size,
    )


def _digests(
    runtime: Runtime, spec: ResolvedSpec, wanted: Sequence[tuple[ArrivedObject, ObjectInfo, RecordedDigest]]
) -> list[list[str] | StorageError]:
    """Digests of the bytes at the target, as long as they are the objects of the HEAD before."""
    requests = [
        buckets.DigestRequest(one.target_key, etag=there.etag, size=there.size, digest=digest)
        for one, there, digest in wanted
    ]
    found: list[list[str] | StorageError] = []
    if not requests:
        return found
    try:
        for page in buckets.read_digests(runtime.engine, spec.target, requests):
            runtime.check()
            found += page
    except StorageError as why:
        if why.is_transient:
            raise
        found += [why] * (len(requests) - len(found))
    return found
