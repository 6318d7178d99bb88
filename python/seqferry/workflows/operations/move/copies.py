"""Check of the copies of a move against their record, right before their sources are removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from seqferry.db.objects import ArrivedObject
from seqferry.engine import buckets
from seqferry.engine.buckets import RecordedDigest
from seqferry.engine.engine import ObjectInfo
from seqferry.model.errors import StorageError
from seqferry.model.locations import LocalFolder, Location
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
        sources = runtime.engine.head(spec.source, [one.source_key for one in page]) if same else []
    except StorageError as why:
        if why.is_transient:
            raise
        kept |= {one.id: why.message.rstrip(".") for one in page}
        return []
    found: list[ArrivedObject] = []
    in_doubt: list[_Comparison] = []
    for number, (one, target) in enumerate(zip(page, targets, strict=True)):
        source = sources[number] if same else None
        if (why := removal_rules.refuse_source_removal(spec, one, target, source)) is not None:
            kept[one.id] = why
        elif target is not None and removal_rules.needs_content_check(spec, one, target):
            in_doubt.append(_of_changed_copy(spec, one, target))
        elif target is not None and one.verified == "time":
            in_doubt.append(_of_time(spec, one, target))
        else:
            found.append(one)
    for place in (spec.source, spec.target):
        found += _read(runtime, place, [comparison for comparison in in_doubt if comparison.place is place], kept)
    return found


class _Comparison(NamedTuple):
    """Bytes that decide whether the source of an arrived object may be removed, and the digest that they must have.

    Attributes:
        etag: of what is read, as it was checked.
        digest: None: no digest is on record.
        unknown, differs: why the source stays without a digest, and with another one.
    """

    one: ArrivedObject
    place: Location
    key: str
    etag: str
    digest: RecordedDigest | None
    unknown: str
    differs: str


def _of_changed_copy(spec: ResolvedSpec, one: ArrivedObject, there: ObjectInfo) -> _Comparison:
    """The bytes of a copy that is not the recorded one by its ETag or time."""
    unknown = "its copy was changed after it was recorded, and no digest is on record to compare it with"
    digest = _recorded_digest(one, isinstance(spec.target, LocalFolder))
    return _Comparison(one, spec.target, one.target_key, there.etag, digest, unknown, "its copy was overwritten")


def _of_time(spec: ResolvedSpec, one: ArrivedObject, there: ObjectInfo) -> _Comparison:
    """The bytes of a file that counts as its copy by size and time: both can be set, and prove nothing."""
    unknown = "only size and time are those of its copy, and no digest is on record (--verify checksum compares them)"
    differs = "its copy has the same size and time, and other bytes (--verify checksum copies it)"
    if isinstance(spec.target, LocalFolder):
        return _Comparison(one, spec.target, one.target_key, there.etag, _recorded_digest(one, True), unknown, differs)
    return _Comparison(one, spec.source, one.source_key, one.etag, _recorded_digest(one, False), unknown, differs)


def _recorded_digest(one: ArrivedObject, is_file: bool) -> RecordedDigest | None:
    """The digest of a copy. That of a file is the one of its source."""
    return RecordedDigest.of(
        one.size,
        checksum_algorithm=one.checksum_algorithm,
        checksum=one.checksum,
        etag=one.etag if is_file else one.target_etag or one.etag,
        part_size=None if is_file else one.part_size,
    )


def _read(
    runtime: Runtime, place: Location, in_doubt: Sequence[_Comparison], kept: dict[int, str]
) -> list[ArrivedObject]:
    """Objects with the recorded digest: all bytes at ``place`` are read."""
    requests: list[buckets.DigestRequest] = []
    wanted: list[tuple[_Comparison, str]] = []
    for comparison in in_doubt:
        one, digest = comparison.one, comparison.digest
        if digest is None:
            kept[one.id] = comparison.unknown
        else:
            wanted.append((comparison, digest.value))
            requests.append(buckets.DigestRequest(comparison.key, etag=comparison.etag, size=one.size, digest=digest))
    found: list[ArrivedObject] = []
    for (comparison, value), values in zip(wanted, _digests(runtime, place, requests), strict=True):
        if isinstance(values, StorageError):
            kept[comparison.one.id] = values.message.rstrip(".")
        elif value not in values:
            kept[comparison.one.id] = comparison.differs
        else:
            found.append(comparison.one)
    return found


def _digests(
    runtime: Runtime, place: Location, requests: Sequence[buckets.DigestRequest]
) -> list[list[str] | StorageError]:
    """Digests of the bytes at a place, as long as they are those that were checked before."""
    found: list[list[str] | StorageError] = []
    if not requests:
        return found
    try:
        for page in buckets.read_digests(runtime.engine, place, requests):
            runtime.check()
            found += page
    except StorageError as why:
        if why.is_transient:
            raise
        found += [why] * (len(requests) - len(found))
    return found
