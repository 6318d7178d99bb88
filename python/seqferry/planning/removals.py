"""The spec of ``rm``, and the selection of the objects and versions to remove.

The operation, its dry run, its confirmation and the HTTP API use it.

Invariant: without ``--recursive`` only named objects are removed, and with it only keys below a slash: ``run4`` never
means ``run42``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from seqferry.engine import buckets
from seqferry.engine.buckets import ObjectVersion
from seqferry.engine.engine import Engine, FailedLookup, ObjectInfo
from seqferry.model.errors import StorageError, UsageError, errors_about
from seqferry.model.locations import S3Location
from seqferry.model.models import OPERATION_REMOVE, CheckedSpec, ResolvedSpec
from seqferry.places import paths
from seqferry.planning import listing, removal_rules
from seqferry.spec.addresses import parse_uri
from seqferry.spec.build import draft_spec
from seqferry.spec.selection import has_wildcard
from seqferry.spec.validation import validate_spec

VERSIONS: Final = "versions"
"""Option: remove all versions and delete markers of each object, permanently."""

VERSION_ID: Final = "version_id"
"""Option: remove this version of the one object, permanently."""

EXACT: Final = "exact"
"""Option: select this key only, not keys that begin with it."""

MOST: Final = "most"
"""Option: remove nothing if there are more objects."""

EXPECTED: Final = "expected"
"""Option: remove nothing if the number of objects differs."""

OPTIONS: Final = frozenset({VERSIONS, VERSION_ID, EXACT, MOST, EXPECTED})

_HELD: Final = 100_000
"""Objects that are held in memory while they are counted (some 30 MB). With more, the listing is read twice."""

MAX_UNCONFIRMED: Final = 1000
"""A page of a listing: more objects are removed only after a confirmation."""


class RemovalCandidate(NamedTuple):
    """An object, or a version, that is to be removed. ``etag`` is empty for a delete marker."""

    key: str
    size: int
    etag: str
    last_modified: float
    version_id: str | None
    storage_class: str | None


def build_remove_spec(
    sources: Sequence[str],
    *,
    recursive: bool = False,
    versions: bool = False,
    version_id: str | None = None,
    most: int | None = None,
    expected: int | None = None,
    raw: bool = False,
    keys: Sequence[str] | None = None,
    **given: Any,
) -> CheckedSpec:
    """The spec of ``rm SOURCE...``; ``given`` is for ``build_spec``.

    Raises:
        UsageError: a source is no S3 address, or the options contradict each other.
    """
    for source in sources:
        if paths.is_local(source):
            raise UsageError(
                f"'{source}' is a local path, and rm removes objects; write s3://bucket/key, or use rm(1)."
            ).about("source")
    if not sources:
        raise UsageError(
            "rm needs an object or a prefix: write s3://bucket/key, or s3://bucket/prefix/ --recursive."
        ).about("source")
    source, named = _together(sources, recursive=recursive, raw=raw)
    keys = named if keys is None else list(keys)
    with errors_about("source"):
        _, key = parse_uri(source)
    selects = has_wildcard(source) and not raw and keys is None
    if keys is None and not selects and (key == "" or key.endswith("/")) and not recursive:
        raise UsageError(f"{source} is a prefix; to remove all objects below it, add --recursive (-r).").about(
            "recursive", "source"
        )
    if version_id is not None and (recursive or selects or keys is not None or versions):
        raise UsageError("--version-id removes that version of one object: name its key, and nothing else.").about(
            "version_id"
        )
    # A placeholder for the target: no bucket can have the name "-".
    spec = draft_spec(source, "s3://-/", below=recursive and not selects, raw=raw, keys=keys, **given)
    assert isinstance(spec.source, S3Location)
    options: dict[str, Any] = {}
    if versions:
        options[VERSIONS] = True
    if version_id is not None:
        options[VERSION_ID] = version_id
    if spec.single and (versions or version_id is not None):
        options[EXACT] = True
        spec = replace(spec, single=False)
    if versions and keys is not None:
        raise UsageError(
            "--all-versions takes one object, a wildcard or a prefix; use one command for each object."
        ).about("versions")
    if most is not None:
        options[MOST] = most
    if expected is not None:
        options[EXPECTED] = expected
    # Signed, as all writes: no service allows anonymous removal.
    place = replace(spec.source, anonymous=False)
    return validate_spec(replace(spec, source=place, target=place, operation=OPERATION_REMOVE, options=options))


def _together(sources: Sequence[str], *, recursive: bool, raw: bool) -> tuple[str, list[str] | None]:
    """One source, or the bucket of several objects and their keys."""
    if len(sources) == 1:
        return sources[0], None
    with errors_about("source"):
        places = [parse_uri(source) for source in sources]
    if len({bucket for bucket, _ in places}) > 1:
        raise UsageError("The objects lie in different buckets; use one command for each bucket.").about("source")
    for source, (_, key) in zip(sources, places, strict=True):
        if recursive or key == "" or key.endswith("/") or (has_wildcard(source) and not raw):
            raise UsageError(
                f"'{source}' means several objects, and stands beside others; use one command for each."
            ).about("source")
    return f"s3://{places[0][0]}/", [key for _, key in places]


def find_removable(
    engine: Engine, spec: ResolvedSpec, failed: list[FailedLookup] | None = None
) -> Iterator[list[RemovalCandidate]]:
    """Pages of what a removal means, in bounded memory; empty pages while waiting. ``failed`` gets named objects that
    are not there, or cannot be looked up.

    Raises:
        StorageError: the listing failed.
    """
    if VERSIONS in spec.options or VERSION_ID in spec.options:
        exact, version_id = EXACT in spec.options, spec.options.get(VERSION_ID)
        for page in buckets.list_versions(engine, spec.source):
            yield [
                _version(one)
                for one in page
                if removal_rules.is_version_removed(spec, one, exact=exact, version_id=version_id)
            ]
        return
    for found in listing.list_objects(engine, spec):
        if failed is not None:
            failed += [one for one in found if isinstance(one, FailedLookup)]
        yield [
            _object(one) for one in found if not isinstance(one, FailedLookup) and removal_rules.is_removed(spec, one)
        ]


def check_most(engine: Engine, spec: ResolvedSpec) -> None:
    """See that there are no more objects than may be removed.

    Raises:
        StorageError: more objects are there; nothing was removed.
    """
    most: int | None = spec.options.get(MOST)
    if most is None or spec.single:
        return
    found = 0
    for page in find_removable(engine, spec):
        found += len(page)
        if (too_many := removal_rules.refuse_too_many(spec, most, found)) is not None:
            raise StorageError(too_many.reason, "person", too_many.code, "plan", True)


def find_counted(engine: Engine, spec: ResolvedSpec, failed: list[FailedLookup]) -> Iterator[list[RemovalCandidate]]:
    """As ``find_doomed``, once as many objects are there as the asker has seen, if that was said.

    Raises:
        StorageError: there are more or fewer; nothing was removed.
    """
    expected: int | None = spec.options.get(EXPECTED)
    if expected is None:
        return find_removable(engine, spec, failed)
    held: list[list[RemovalCandidate]] = []
    found = 0
    for page in find_removable(engine, spec, failed):
        found += len(page)
        if found <= expected <= _HELD:
            held.append(page)
    if (other := removal_rules.refuse_other_count(spec, "object", expected=expected, found=found)) is not None:
        raise StorageError(other.reason, "person", other.code, "plan", True)
    if expected <= _HELD:
        return iter([*held, []])  # a page at least, for what could not be looked up
    failed.clear()
    return find_removable(engine, spec, failed)


def _version(one: ObjectVersion) -> RemovalCandidate:
    return RemovalCandidate(one.key, one.size, one.etag, one.last_modified, one.version_id, one.storage_class)


def _object(one: ObjectInfo) -> RemovalCandidate:
    return RemovalCandidate(one.key, one.size, one.etag, one.last_modified, None, one.storage_class)
