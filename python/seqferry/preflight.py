"""The checks before a transfer starts: both buckets can be used, and the named objects are there.

They change nothing. Their findings are kept, so that a transfer which begins at once repeats no request.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from seqferry import access, inventory, paths
from seqferry.engine import Engine, ObjectInfo
from seqferry.errors import StorageError, UsageError
from seqferry.listing import LOOKED_UP_AT_ONCE, KnownObjects, is_denied, objects
from seqferry.models import OPERATION_HISTORY, OPERATION_UNPACK, LocalFolder, Location, S3Location, TransferSpec
from seqferry.spec import build_one, checked

log: Final = logging.getLogger("seqferry.preflight")

_NAMED_AT_MOST: Final = 20


def check(engine: Engine, spec: TransferSpec) -> KnownObjects:
    """See that both buckets can be used and that objects which were named are there.

    Raises:
        UsageError: the spec is not valid, or a named object is not there.
        StorageError: a bucket cannot be used, or the storage not be reached.
    """
    checked(spec)
    if spec.operation == OPERATION_HISTORY:  # an object may be below a delete marker
        check_buckets(engine, spec)
        return KnownObjects()
    if _is_of_one(spec):
        return _check_single(engine, spec)
    check_buckets(engine, spec)
    if spec.ranges:
        _check_singles(engine, spec)
        return KnownObjects()
    if spec.inventory is not None:
        inventory.manifest(engine, spec)
        return KnownObjects()
    if spec.keys is None:
        return KnownObjects()
    missing: list[str] = []
    found: list[ObjectInfo] = []
    for page in objects(engine, spec, missing.extend):
        if len(found) <= LOOKED_UP_AT_ONCE:
            found += page
    if missing:
        raise missing_error(engine, spec, missing)
    return KnownObjects(found=tuple(found) if len(found) <= LOOKED_UP_AT_ONCE else None)


def _is_of_one(spec: TransferSpec) -> bool:
    """True when the source is one object."""
    return spec.single or spec.operation == OPERATION_UNPACK


def _check_single(engine: Engine, spec: TransferSpec) -> KnownObjects:
    """The object itself shows whether its bucket can be used, and a look at the target whether that one can.

    The buckets are asked for only when something is wrong, to say what.
    """
    try:
        found = _looked_up(engine, spec)
    except StorageError:
        check_buckets(engine, spec)
        raise
    if found is None:
        check_buckets(engine, spec)
        raise missing_error(engine, spec, [spec.source.key])
    if isinstance(spec.target, LocalFolder):
        paths.check_target(spec.target.path)
        return KnownObjects(found=(found,))
    try:
        listed, _ = engine.list_after(spec.target, "", at_most=1)
    except StorageError:
        check_buckets(engine, spec)
        return KnownObjects(found=(found,))
    there = next((info for info in listed if info.key == spec.target.key), None)
    return KnownObjects((found,), not listed, there)


def _looked_up(engine: Engine, spec: TransferSpec) -> ObjectInfo | None:
    if spec.versions:
        return next((info for page in objects(engine, spec, lambda _: None) for info in page), None)
    return engine.head(spec.source, [spec.source.key])[0]


def _check_singles(engine: Engine, spec: TransferSpec) -> None:
    """See that those of several sources are there that are one object each."""
    singles = [one.key for one in spec.ranges if one.single]
    for start in range(0, len(singles), LOOKED_UP_AT_ONCE):
        keys = singles[start : start + LOOKED_UP_AT_ONCE]
        found = engine.head(spec.source, keys)
        missing = [key for key, info in zip(keys, found, strict=True) if info is None]
        if missing:
            raise UsageError(_missing_keys(spec, missing, "the list of sources"))


def check_buckets(engine: Engine, spec: TransferSpec) -> None:
    """Raise StorageError when one of the two buckets, or folders, cannot be used. A target folder may be missing.

    Permission to list a bucket (s3:ListBucket) is needed only where the bucket is listed: a source of named objects and
    a target from which nothing is removed do without.
    """
    if isinstance(spec.source, LocalFolder):
        paths.check_source(spec.source.path)
    else:
        _check_bucket(engine, spec.source, is_listed=_lists_source(spec))
    if isinstance(spec.target, LocalFolder):
        paths.check_target(spec.target.path)
    elif spec.target != spec.source:
        _check_bucket(engine, spec.target, is_listed=spec.delete)


def _lists_source(spec: TransferSpec) -> bool:
    if spec.ranges:
        return any(not one.single for one in spec.ranges)
    return spec.keys is None and spec.inventory is None and not _is_of_one(spec)


def _check_bucket(engine: Engine, place: Location, *, is_listed: bool) -> None:
    try:
        engine.check_bucket(place)
    except StorageError as why:
        if is_listed or not is_denied(why):
            raise
        log.info("%s may not be listed by these credentials; going on without", place.uri)


def with_prefixes(engine: Engine, given: Mapping[str, Any]) -> str | list[str]:
    """The source (or sources) of a request with ``--recursive``: what no object is named after gets its last slash.

    An object counts before a prefix of the same name. A name that is neither stays, for the error about it.

    Args: ``given`` is what ``build_spec`` takes.

    Raises:
        UsageError: the request is not valid.
        StorageError: the storage cannot be asked.
    """
    written: str | list[str] = given["source"]
    sources = [written] if isinstance(written, str) else written
    named: dict[Location, list[tuple[int, str]]] = {}
    for at, source in enumerate(sources):
        one: dict[str, Any] = {**given, "source": source, "allow_local": True}
        spec = build_one(**one)
        if spec.single and not spec.versions and isinstance(spec.source, S3Location):
            bucket = access.resolved_place(replace(spec.source, key=""))
            named.setdefault(bucket, []).append((at, spec.source.key))
    prefixes: set[int] = set()
    for bucket, keys in named.items():
        for start in range(0, len(keys), LOOKED_UP_AT_ONCE):
            prefixes |= _prefixes(engine, bucket, keys[start : start + LOOKED_UP_AT_ONCE])
    found = [f"{source}/" if at in prefixes else source for at, source in enumerate(sources)]
    return found[0] if isinstance(written, str) else found


def _prefixes(engine: Engine, bucket: Location, keys: Sequence[tuple[int, str]]) -> set[int]:
    """Numbers of the keys that no object has and below which there are some."""
    try:
        found = engine.head(bucket, [key for _, key in keys])
        absent = [one for one, info in zip(keys, found, strict=True) if info is None]
        return {at for at, key in absent if any(engine.list(replace(bucket, key=f"{key}/"), limit=1))}
    except StorageError as why:
        _check_bucket(engine, bucket, is_listed=False)
        if not is_denied(why):
            raise
        # What may not be looked up is an object, as without --recursive: the check of it says what is refused.
        return set()


def missing_error(engine: Engine, spec: TransferSpec, missing: list[str]) -> UsageError:
    """The error for named objects that are not there."""
    if spec.versions and spec.single:
        return UsageError(missing_version(spec.source, spec.versions[0]))
    return UsageError(missing_object(engine, spec.source) if _is_of_one(spec) else _missing_keys(spec, missing))


def _missing_keys(spec: TransferSpec, missing: list[str], listed: str = "the list of keys") -> str:
    named = ", ".join(key.removeprefix(spec.source.key) for key in missing[:_NAMED_AT_MOST])
    more = f" and {len(missing) - _NAMED_AT_MOST} more" if len(missing) > _NAMED_AT_MOST else ""
    return f"Not found under {spec.source.uri}: {named}{more}. Correct {listed}; nothing was started."


def missing_version(source: Location, version_id: str) -> str:
    """The text for a version of an object that is not there."""
    return (
        f"There is no version {version_id} of {source.uri}. See its versions with: "
        f"seqferry rm --all-versions --dry-run {source.uri}"
    )


def missing_object(engine: Engine, source: Location) -> str:
    """The text for an object that is not there, with what may be meant."""
    if isinstance(source, LocalFolder):
        return f"There is no file {source.uri} any more."
    below = replace(source, key=source.key + "/")
    try:
        is_prefix = any(engine.list(below, limit=1))
    except StorageError as why:
        if not is_denied(why):
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
    return [info.key for info in engine.list_after(folder, "", at_most=LOOKED_UP_AT_ONCE)[0]]
