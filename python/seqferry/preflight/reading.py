"""Objects that a command reads without a transfer: selection by a wildcard, HEAD, and errors for missing objects.

Invariant: an error about a missing object names the most similar keys, or the command that lists the objects.
"""

from __future__ import annotations

from typing import Final

from seqferry.engine import buckets
from seqferry.engine.buckets import ObjectFacts
from seqferry.engine.engine import Engine
from seqferry.model.errors import NoMatchError, StorageError, UsageError
from seqferry.model.locations import S3Location
from seqferry.model.models import ResolvedSpec
from seqferry.planning import decision, listing
from seqferry.preflight import start
from seqferry.preflight.suggestions import nearest_keys

MOST: Final = 100_000
"""Objects that one wildcard may select here: their keys are held to be put in order."""

_MISSING: Final = ("NotFound", "NoSuchKey", "NoSuchVersion")


def select_keys(engine: Engine, spec: ResolvedSpec) -> list[str]:
    """Keys of the objects that the wildcard of ``spec`` selects, in the order of their bytes; no names of folders.

    Raises:
        NoMatchError: no object matches.
        UsageError: more than ``MOST`` objects match.
        StorageError: the source cannot be listed.
    """
    # The listing of a missing bucket would be retried.
    engine.check_bucket(spec.source)
    keys: list[str] = []
    written = spec.source.at(spec.pattern or spec.source.key)
    for page in listing.list_objects(engine, spec):
        keys += [one.key for one in page if _is_readable(one.key) and decision.is_selected(spec, one)]
        if len(keys) > MOST:
            raise UsageError(f"{written} matches more than {MOST:,} objects; choose a narrower wildcard.").about(
                "source"
            )
    if not keys:
        raise _no_match(engine, spec, written)
    return sorted(keys, key=lambda key: key.encode("utf-8", "surrogateescape"))


def head_object(engine: Engine, place: S3Location, version_id: str | None = None) -> ObjectFacts:
    """Facts about one object, without its bytes.

    Raises:
        StorageError: the object is missing, or HEAD failed.
    """
    try:
        found = buckets.head_object(engine, place, version_id)
    except StorageError as why:
        if not is_missing(why):
            raise
        raise missing_error(engine, place, version_id) from None
    # Without versioning, SeaweedFS ignores the requested version id.
    if version_id not in (None, "null", found.version_id):
        raise missing_error(engine, place, version_id)
    return found


def is_missing(why: StorageError) -> bool:
    """True when the error says that there is no such object or version."""
    return why.error_code in _MISSING


def missing_error(engine: Engine, place: S3Location, version_id: str | None = None) -> StorageError:
    """The error for an object that is not there, or for its bucket where that is missing."""
    try:
        engine.check_bucket(place)
    except StorageError as why:
        if not why.is_denied:
            return why
    text = start.missing_version(place, version_id) if version_id else start.missing_object(engine, place)
    return StorageError(text, "not_found", "NoSuchKey", "HeadObject")


def _is_readable(key: str) -> bool:
    return not key.endswith("/")


def _no_match(engine: Engine, spec: ResolvedSpec, written: str) -> NoMatchError:
    alike = nearest_keys(engine, spec)
    if alike:
        return NoMatchError(f"Nothing matches {written}; nearest: {', '.join(map(spec.source.at, alike))}.").about(
            "source"
        )
    bucket = spec.source.container
    return NoMatchError(f"Nothing matches {written}. See what there is with: seqferry ls s3://{bucket}/").about(
        "source"
    )
