"""The checks before a transfer starts: both buckets can be used, and a source of one object exists.

They change nothing. Their findings are kept, so that a transfer which begins immediately repeats no request. The
objects of a list are looked up when the transfer is planned: one that cannot be read is a failed object.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

from seqferry.engine.engine import Engine, FailedLookup, ObjectInfo
from seqferry.model.errors import StorageError, UsageError, errors_about
from seqferry.model.locations import LocalFolder, Location, S3Location
from seqferry.model.models import ResolvedSpec, TransferSpec
from seqferry.places import paths
from seqferry.planning import listing
from seqferry.planning.listing import HEAD_PAGE, KnownObjects, list_objects
from seqferry.spec import identity, source_ranges
from seqferry.spec.build import draft_spec

log: Final = logging.getLogger("seqferry.preflight")


def check(engine: Engine, spec: ResolvedSpec, *, begins: bool = False) -> KnownObjects:
    """Check that both buckets can be used and that a source of one object exists.

    With ``begins`` the transfer follows in this process: what it lists first is requested with the checks.

    Raises:
        UsageError: the object is not there.
        StorageError: a bucket cannot be used, or the storage not be reached.
    """
    if spec.kind.copies_versions:  # an object may be below a delete marker
        check_buckets(engine, spec)
        return KnownObjects()
    if _is_of_one(spec):
        return _check_single(engine, spec)
    if begins and _lists_first(spec):
        return _check_and_list(engine, spec)
    check_buckets(engine, spec)
    if spec.inventory is not None:
        from seqferry.planning import inventory

        with errors_about("inventory"):
            inventory.read_manifest(engine, spec)
    return KnownObjects()


def _lists_first(spec: ResolvedSpec) -> bool:
    """True when the transfer begins with a listing of its one source, and writes to a bucket."""
    return (
        spec.kind.copies
        and spec.kind.from_listing
        and _lists_source(spec)
        and not spec.ranges
        and isinstance(spec.source, S3Location)
        and isinstance(spec.target, S3Location)
        and spec.retry_of is None
    )


def _check_and_list(engine: Engine, spec: ResolvedSpec) -> KnownObjects:
    """``check_buckets``, while the source is listed and the target checked for objects."""
    pages = engine.list(spec.source)
    with ThreadPoolExecutor(1, "seqferry-check") as beside:
        absent = beside.submit(listing.target_is_empty, engine, spec)
        check_buckets(engine, spec)
        try:
            return KnownObjects(target_absent=absent.result(), pages=pages)
        except StorageError:  # planning asks again, and says what is wrong
            return KnownObjects(pages=pages)


def named_buckets(spec: TransferSpec) -> frozenset[tuple[Location, bool]] | None:
    """Buckets, each with whether it is to be listed, if ``check`` requests nothing else of the storage; else None."""
    places = (spec.source, spec.target)
    if _is_of_one(spec) or spec.inventory is not None or not all(isinstance(one, S3Location) for one in places):
        return None
    listed = (_lists_source(spec), spec.removal.delete)
    return frozenset((replace(one, key=""), is_listed) for one, is_listed in zip(places, listed, strict=True))


def _is_of_one(spec: TransferSpec) -> bool:
    """True when the source is one object."""
    return spec.single or spec.kind.unpacks


def _check_single(engine: Engine, spec: ResolvedSpec) -> KnownObjects:
    """Check with HEAD of the object and a listing of the target. The buckets are checked only to explain an error."""
    with ThreadPoolExecutor(1, "seqferry-check") as beside:
        listing_target = None
        if not isinstance(spec.target, LocalFolder):
            listing_target = beside.submit(engine.list_after, spec.target, "", at_most=1)
        try:
            with errors_about("source"):
                found = _look_up(engine, spec)
        except StorageError:
            check_buckets(engine, spec)
            raise
    if found is None:
        check_buckets(engine, spec)
        raise missing_error(engine, spec)
    if isinstance(spec.target, LocalFolder):
        with errors_about("target"):
            paths.check_target(spec.target.path)
        return KnownObjects(found=(found,))
    assert listing_target is not None
    try:
        listed, _ = listing_target.result()
    except StorageError:
        check_buckets(engine, spec)
        return KnownObjects(found=(found,))
    there = next((info for info in listed if info.key == spec.target.key), None)
    return KnownObjects((found,), not listed, there)


def _look_up(engine: Engine, spec: ResolvedSpec) -> ObjectInfo | None:
    if not spec.versions:
        return engine.head(spec.source, [spec.source.key])[0]
    found = next((info for page in list_objects(engine, spec) for info in page), None)
    if isinstance(found, FailedLookup):
        if found.is_absent:
            return None
        raise found.failure
    return found


def check_buckets(engine: Engine, spec: ResolvedSpec) -> None:
    """Raise StorageError when one of the two buckets, or folders, cannot be used. A target folder may be missing.

    Permission to list a bucket (s3:ListBucket) is needed only where the bucket is listed: a source of named objects and
    a target from which nothing is removed do without.
    """
    with ThreadPoolExecutor(1, "seqferry-check") as beside:
        target = beside.submit(_check_target, engine, spec)
        with errors_about("source"):
            if isinstance(spec.source, LocalFolder):
                paths.check_source(spec.source.path)
            else:
                _check_bucket(engine, spec.source, is_listed=_lists_source(spec))
        target.result()


def _check_target(engine: Engine, spec: ResolvedSpec) -> None:
    with errors_about("target"):
        if isinstance(spec.target, LocalFolder):
            paths.check_target(spec.target.path)
        elif spec.target != spec.source:
            _check_bucket(engine, spec.target, is_listed=spec.removal.delete)


def _lists_source(spec: TransferSpec) -> bool:
    if spec.ranges:
        return any(not one.single for one in spec.ranges)
    return spec.keys is None and spec.inventory is None and not _is_of_one(spec)


def _check_bucket(engine: Engine, place: Location, *, is_listed: bool) -> None:
    try:
        engine.check_bucket(place)
    except StorageError as why:
        if is_listed or not why.is_denied:
            raise
        log.info("%s may not be listed by these credentials; going on without", place.uri)


def resolve_prefixes(engine: Engine, given: Mapping[str, Any]) -> str | list[str]:
    """The source (or sources) of a request with ``--recursive``: what no object is named after gets its last slash.

    An object counts before a prefix of the same name. A name that is neither stays, for the error about it.

    Args: ``given`` is what ``build_spec`` takes.

    Raises:
        UsageError: the request is not valid.
        StorageError: the storage cannot be asked.
    """
    named: dict[Location, list[tuple[int, str]]] = {}
    for at, place in _single(given):
        bucket = identity.resolve_place(replace(place, key=""))
        named.setdefault(bucket, []).append((at, place.key))
    prefixes: set[int] = set()
    with errors_about("source"):
        for bucket, keys in named.items():
            for start in range(0, len(keys), HEAD_PAGE):
                prefixes |= _prefixes(engine, bucket, keys[start : start + HEAD_PAGE])
    return _with_slashes(given, prefixes)


def reuse_prefixes(earlier: TransferSpec, given: Mapping[str, Any]) -> str | list[str]:
    """``resolve_prefixes`` of a request that is made once more, as an earlier one has found them."""
    found = {one.source.key for one in source_ranges.split_sources(earlier) if not one.single}
    return _with_slashes(given, {at for at, place in _single(given) if f"{place.key}/" in found})


def _single(given: Mapping[str, Any]) -> Iterator[tuple[int, S3Location]]:
    """Numbers and locations of the sources that name one object of S3."""
    for at, source in enumerate(_sources(given)):
        one: dict[str, Any] = {**given, "source": source, "allow_local": True}
        spec = draft_spec(**one)
        if spec.single and not spec.versions and isinstance(spec.source, S3Location):
            yield at, spec.source


def _sources(given: Mapping[str, Any]) -> list[str]:
    written: str | list[str] = given["source"]
    return [written] if isinstance(written, str) else written


def _with_slashes(given: Mapping[str, Any], prefixes: Container[int]) -> str | list[str]:
    found = [f"{source}/" if at in prefixes else source for at, source in enumerate(_sources(given))]
    return found[0] if isinstance(given["source"], str) else found


def _prefixes(engine: Engine, bucket: Location, keys: Sequence[tuple[int, str]]) -> set[int]:
    """Numbers of the keys that no object has and below which there are some."""
    try:
        found = engine.head(bucket, [key for _, key in keys])
        absent = [one for one, info in zip(keys, found, strict=True) if info is None]
        return {at for at, key in absent if any(engine.list(replace(bucket, key=f"{key}/"), limit=1))}
    except StorageError as why:
        _check_bucket(engine, bucket, is_listed=False)
        if not why.is_denied:
            raise
        # What may not be looked up is an object, as without --recursive: the check of it says what is refused.
        return set()


def missing_error(engine: Engine, spec: ResolvedSpec) -> UsageError:
    """The error for the one object of a spec that is not there."""
    if spec.versions and spec.single:
        return UsageError(missing_version(spec.source, spec.versions[0])).about("version_id", "source")
    return UsageError(missing_object(engine, spec.source)).about("source")


def missing_version(source: Location, version_id: str) -> str:
    """The text for a version of an object that is not there."""
    return (
        f"There is no version {version_id} of {source.uri}. See its versions with: "
        f"seqferry rm --all-versions --dry-run {source.uri}"
    )


def missing_object(engine: Engine, source: Location) -> str:
    """The text for an object that is not there, with what may be meant."""
    import difflib

    if isinstance(source, LocalFolder):
        return f"There is no file {source.uri}. Check its path."
    below = replace(source, key=source.key + "/")
    try:
        is_prefix = any(engine.list(below, limit=1))
    except StorageError as why:
        if not why.is_denied:
            raise
        return f"There is no object {source.uri}."
    if is_prefix:
        return f"There is no object {source.uri}; did you mean {below.uri} (everything below it)?"
    alike = difflib.get_close_matches(source.key, _beside(engine, source), n=3, cutoff=0.7)
    if alike:
        return f"There is no object {source.uri}; nearest: {', '.join(map(source.at, alike))}."
    return f"There is no object {source.uri}. See what there is with: seqferry ls s3://{source.bucket}/"


def _beside(engine: Engine, place: Location) -> list[str]:
    """Keys in the folder of a key, as one page shows them."""
    folder = replace(place, key=place.key[: place.key.rfind("/") + 1])
    return [info.key for info in engine.list_after(folder, "", at_most=HEAD_PAGE)[0]]
