"""What a spec asks for, looked up in the storage: the stream of its objects, and whether it can be started at all."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from seqferry import local
from seqferry.engine import Engine, ObjectInfo
from seqferry.errors import StorageError, UsageError
from seqferry.models import LocalFolder, Location, TransferSpec
from seqferry.spec import checked, is_left_out, is_own, source_key

log: Final = logging.getLogger("seqferry.sources")

_LOOKED_UP_AT_ONCE: Final = 1000
_NAMED_AT_MOST: Final = 20


def check(engine: Engine, spec: TransferSpec) -> None:
    """See that both buckets can be used and that objects which were named are there.

    Raises:
        UsageError: the spec makes no sense, or a named object is not there.
        StorageError: a bucket cannot be used, or the storage not be reached.
    """
    check_buckets(engine, checked(spec))
    if spec.keys is not None or spec.single:
        missing: list[str] = []
        for _ in objects(engine, spec, missing.extend):
            pass
        if missing:
            raise missing_error(engine, spec, missing)


def check_buckets(engine: Engine, spec: TransferSpec) -> None:
    """Raise StorageError when one of the two buckets, or folders, cannot be used. A target folder may be missing.

    Permission to list a bucket (s3:ListBucket) is needed only where the bucket is listed: a source of named objects and
    a target from which nothing is removed do without.
    """
    if isinstance(spec.source, LocalFolder):
        local.check_source(spec.source.path)
    else:
        _check_bucket(engine, spec.source, is_listed=spec.keys is None and not spec.single)
    if isinstance(spec.target, LocalFolder):
        local.check_target(spec.target.path)
    elif spec.target != spec.source:
        _check_bucket(engine, spec.target, is_listed=spec.delete)


def _check_bucket(engine: Engine, place: Location, *, is_listed: bool) -> None:
    try:
        engine.check_bucket(place)
    except StorageError as why:
        if is_listed or not _is_denied(why):
            raise
        log.info("%s may not be listed by these credentials; going on without", place.uri)


def _is_denied(why: StorageError) -> bool:
    """The credentials are valid and lack a permission."""
    return why.error_class == "person" and why.error_code in ("AccessDenied", "Forbidden")


def objects(engine: Engine, spec: TransferSpec, missing: Callable[[list[str]], None]) -> Iterator[list[ObjectInfo]]:
    """Pages of the objects that the spec asks for, in no order, in bounded memory; empty pages while waiting.

    What ``spec.is_left_out`` is not among them, and the log says so. ``missing`` is called with named keys that are not
    there.

    Raises:
        StorageError: the listing failed.
    """
    if spec.keys is None and not spec.single:
        for page in engine.list(spec.source):
            yield _wanted(spec, page)
        return
    for keys in _chunks(_named(spec)):
        found = engine.head(spec.source, keys)
        yield _wanted(spec, [info for info in found if info is not None])
        absent = [key for key, info in zip(keys, found, strict=True) if info is None]
        if absent:
            missing(absent)


def missing_error(engine: Engine, spec: TransferSpec, missing: list[str]) -> UsageError:
    """What to tell a person who named objects that are not there."""
    return UsageError(_missing_single(engine, spec.source) if spec.single else _missing_keys(spec, missing))


def target_is_empty(engine: Engine, spec: TransferSpec) -> bool:
    """True when nothing is under the target prefix, so that no object needs to be looked for there.

    False as well where the credentials may not list the target.
    """
    pages = engine.list(spec.target, limit=1)
    try:
        return not any(pages)
    except StorageError as why:
        if not _is_denied(why):
            raise
        return False
    finally:
        # A generator that is not read to its end is closed, which closes the listing.
        close = getattr(pages, "close", None)
        if close is not None:
            close()


def extras(
    engine: Engine,
    spec: TransferSpec,
    own: str,
    unknown: Callable[[list[str]], list[str]] = lambda keys: keys,
    refused: list[str] | None = None,
) -> Iterator[dict[str, str]]:
    """Pages of the keys below the target prefix that the source has not, each looked up there, with their ETags.

    On a disk those of files (and links, where links are kept), none that a link leads to, and nothing in ``own``, the
    folder of our records. ``unknown`` tells which keys of the source are to be looked up: not what was copied just now.
    ``refused`` gets some of the names that could not be looked at.
    """
    target = spec.target
    if isinstance(target, LocalFolder) and target.symlinks == "follow":
        target = replace(target, symlinks="skip")
    for page in engine.list(target):
        there = {
            source_key(spec, info.key): (info.key, info.etag)
            for info in page
            if info.refusal is None and not is_own(spec.target, info.key, own)
        }
        if refused is not None and len(refused) < _NAMED_AT_MOST:
            refused += [
                spec.target.at(info.key) for info in page if info.refusal and info.refusal[0] not in local.LEFT_OUT
            ]
        # What has come to the source since it was listed is not gone from it.
        for keys in _chunks(unknown(list(there))):
            found = engine.head(spec.source, keys)
            yield dict(there[key] for key, info in zip(keys, found, strict=True) if info is None)


def _wanted(spec: TransferSpec, page: list[ObjectInfo]) -> list[ObjectInfo]:
    kept = [info for info in page if not is_left_out(spec, info.key, info.size)]
    if len(kept) < len(page):
        log.info("left out %s: it is empty, and no name is left for it in %s", spec.source.uri, spec.target.at(""))
    return kept


def _named(spec: TransferSpec) -> list[str]:
    if spec.keys is None:
        return [spec.source.key]
    return [spec.source.key + key for key in spec.keys]


def _chunks(keys: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(keys), _LOOKED_UP_AT_ONCE):
        yield keys[start : start + _LOOKED_UP_AT_ONCE]


def _missing_keys(spec: TransferSpec, missing: list[str]) -> str:
    named = ", ".join(key.removeprefix(spec.source.key) for key in missing[:_NAMED_AT_MOST])
    more = f" and {len(missing) - _NAMED_AT_MOST} more" if len(missing) > _NAMED_AT_MOST else ""
    return f"Not found under {spec.source.uri}: {named}{more}. Correct the list of keys; nothing was started."


def _missing_single(engine: Engine, source: Location) -> str:
    if isinstance(source, LocalFolder):
        return f"There is no file {source.uri} any more."
    below = replace(source, key=source.key + "/")
    try:
        is_prefix = any(engine.list(below, limit=1))
    except StorageError as why:
        if not _is_denied(why):
            raise
        return f"There is no object {source.uri}."
    if is_prefix:
        return f"There is no object {source.uri}; did you mean {below.uri} (everything below it)?"
    return f"There is no object {source.uri}. See what there is with: seqferry ls s3://{source.bucket}/"
