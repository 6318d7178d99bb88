"""The engine's calls about buckets as a whole, single objects and their digests, and open uploads."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, NamedTuple

from seqferry import _native
from seqferry._native import DigestRequest, ObjectFacts, ObjectVersion, RecordedDigest
from seqferry.engine.engine import Engine, FailedLookup, native
from seqferry.engine.native_calls import native_endpoint, storage_error, translate_errors
from seqferry.model.errors import StorageError
from seqferry.model.frozen import frozen
from seqferry.model.locations import Location

__all__ = ["DigestRequest", "ObjectFacts", "ObjectVersion", "RecordedDigest"]

_OTHER_NAME: Final = "choose another name: this one may belong to another account"
_ADVICE: Final = {
    ("CreateBucket", "AccessDenied"): f"Give these credentials s3:CreateBucket, or {_OTHER_NAME}.",
    ("CreateBucket", "BucketAlreadyExists"): "The name is taken, perhaps by another account: choose another name.",
    ("CreateBucket", "BucketAlreadyOwnedByYou"): "The bucket is there and yours: use it, or choose another name.",
    ("CreateBucket", "InvalidBucketName"): (
        "A name has 3 to 63 lower-case letters, digits, dots and hyphens, a letter or a digit first and last."
    ),
    ("DeleteBucket", "AccessDenied"): "Give these credentials s3:DeleteBucket on the bucket.",
    ("DeleteBucket", "NoSuchBucket"): "Check the bucket's name and the endpoint.",
    ("DeleteBucket", "BucketNotEmpty"): (
        "It holds objects, earlier versions or open uploads. To remove it with all of them: seqferry rb --force {uri}"
    ),
    ("ListBuckets", "AccessDenied"): (
        "Give these credentials s3:ListAllMyBuckets, or name a bucket: seqferry ls s3://bucket"
    ),
}
"""Next steps after refusals of requests about a whole bucket, by operation and code."""

_CHANGED_ON_THE_WAY: Final = (
    "The object has Content-Encoding: {encoding}, and a service that decompresses such objects on the way has no "
    "ranges of them. Copy the object to a file, which takes it decompressed if need be, and read the range there; or "
    "have the endpoint, or the proxy before it, pass objects on as they are stored."
)
_WITHOUT_RANGES: Final = (
    "The endpoint, or a proxy before it, drops the Range header: have that changed, or read the object without a range."
)
_MAX_LOOKUPS: Final = 32
_MARKER_CODES: Final = ("MethodNotAllowed", "405")
_MARKER: Final = ("DeleteMarker", "this version is a delete marker, which holds no bytes")


class OpenUpload(NamedTuple):
    """A multipart upload that was not completed. ``initiated`` is seconds since the epoch."""

    key: str
    upload_id: str
    initiated: float


def list_buckets(engine: Engine, place: Location) -> list[tuple[str, float]]:
    """The buckets of the account with their creation times, in seconds since the epoch.

    Raises:
        StorageError: the buckets cannot be listed.
    """
    with _advise_on_errors(place):
        return _native.list_buckets(native(engine), native_endpoint(place))


def create_bucket(engine: Engine, place: Location) -> None:
    """Create the bucket of this location; raises StorageError if that fails."""
    with _advise_on_errors(place):
        _native.create_bucket(native(engine), native_endpoint(place), place.container)


def delete_bucket(engine: Engine, place: Location) -> None:
    """Remove the bucket of this location, which must be empty; raises StorageError if that fails."""
    with _advise_on_errors(place):
        _native.delete_bucket(native(engine), native_endpoint(place), place.container)


def list_versions(engine: Engine, place: Location) -> Iterator[list[ObjectVersion]]:
    """Pages of all versions and delete markers whose key starts with ``place.key``, in the service's order."""
    after: tuple[str, str | None] | None = None
    while True:
        with translate_errors():
            page, after = _native.list_versions(
                native(engine), native_endpoint(place), place.container, place.key, after
            )
        yield page
        if after is None:
            return


def presign(engine: Engine, place: Location, *, seconds: int, put: bool = False, version_id: str | None = None) -> str:
    """A presigned URL to read, or with ``put`` to write, this object for so many seconds. No request is sent."""
    with translate_errors():
        return _native.presign(
            native(engine),
            native_endpoint(place),
            place.container,
            place.key,
            version_id=version_id,
            put=put,
            seconds=seconds,
        )


def head_object(engine: Engine, place: Location, version_id: str | None = None) -> ObjectFacts:
    """Facts about an object from a HEAD request; raises StorageError if there is no such object."""
    with translate_errors():
        return _native.object_facts(native(engine), native_endpoint(place), place.container, place.key, version_id)


@frozen
class FoundVersion:
    """A version of an object; the fields are those of ``ObjectInfo``."""

    key: str
    size: int
    etag: str
    last_modified: float
    version_id: str | None
    storage_class: str | None = None
    refusal: tuple[str, str] | None = None


def look_up_versions(
    engine: Engine, place: Location, wanted: Sequence[tuple[str, str]]
) -> list[FoundVersion | FailedLookup]:
    """Versions of objects (key, version id) in the bucket of ``place``, in their order, each with its own outcome.

    Raises:
        StorageError: no other version can fare better.
    """

    def look_up(one: tuple[str, str]) -> FoundVersion | FailedLookup:
        key, version_id = one
        try:
            found = head_object(engine, replace(place, key=key), version_id)
        except StorageError as why:
            if why.job_wide:
                raise
            if why.error_class == "not_found":
                return FailedLookup.absent(place, key, version_id)
            if why.error_code in _MARKER_CODES:
                return FoundVersion(key, 0, "", 0.0, version_id, refusal=_MARKER)
            return FailedLookup.of(key, why, version_id)
        return FoundVersion(key, found.size, found.etag, found.last_modified, version_id, found.storage_class)

    with ThreadPoolExecutor(_MAX_LOOKUPS, "seqferry-versions") as pool:
        return list(pool.map(look_up, wanted))


def read_range(
    engine: Engine, place: Location, found: ObjectFacts, first: int, last: int, version_id: str | None = None
) -> bytes:
    """Bytes ``first`` to ``last`` of an object, or of a version, if it still has the ETag of ``found``.

    Raises:
        StorageError: the bytes cannot be read, or the object has changed.
    """
    try:
        with translate_errors():
            return _native.read_range(
                native(engine),
                native_endpoint(place),
                place.container,
                place.key,
                etag=found.etag,
                version_id=version_id,
                first=first,
                last=last,
            )
    except StorageError as why:
        if why.error_code not in ("RangeIgnored", "TransformedBody"):
            raise
        if found.content_encoding:
            advice = _CHANGED_ON_THE_WAY.format(encoding=found.content_encoding)
        elif why.error_code == "RangeIgnored":
            advice = _WITHOUT_RANGES
        else:
            raise
        message = f"{why.operation} {place.uri}: {why.error_code} for bytes {first} to {last}. {advice}"
        raise StorageError(message, why.error_class, why.error_code, why.operation, why.job_wide) from None


def read_first_byte(engine: Engine, place: Location, etag: str, version_id: str | None = None) -> None:
    """Read one byte of an object that has some, as a copy would read it.

    Raises:
        StorageError: it cannot be read, or has another ETag by now.
    """
    with translate_errors():
        _native.read_range(
            native(engine),
            native_endpoint(place),
            place.container,
            place.key,
            etag=etag,
            version_id=version_id,
            first=0,
            last=0,
        )


def read_digests(
    engine: Engine, place: Location, requests: Sequence[DigestRequest]
) -> Generator[list[list[str] | StorageError]]:
    """Pages of the digests of objects of a bucket, or files of a folder, in the order of the requests.

    Each object has its digests, one for each requested part size, or the error. An empty page comes now and then while
    waiting, so that the caller can check whether to stop. The engine reads many objects concurrently; closing the
    iterator stops it.
    """
    with translate_errors():
        run = _native.digest_objects(native(engine), native_endpoint(place), place.container, list(requests))
        try:
            while (page := run.next(0.5)) is not None:
                yield [values if error is None else storage_error(error) for values, error in page]
        finally:
            run.close()


def read_abort_rules(engine: Engine, place: Location) -> list[tuple[str, int]]:
    """Rules by which the bucket aborts uploads that are not completed: prefix of the keys, and days.

    Raises:
        StorageError: they cannot be read.
    """
    with translate_errors():
        return _native.abort_rules(native(engine), native_endpoint(place), place.container)


def list_uploads(engine: Engine, place: Location) -> list[OpenUpload]:
    """Uploads that are open and whose key starts with ``place.key``.

    Raises:
        StorageError: the uploads cannot be listed.
    """
    with translate_errors():
        found = _native.list_uploads(native(engine), native_endpoint(place), place.container, place.key)
    return [OpenUpload(*one) for one in found]


def upload_sizes(engine: Engine, place: Location, found: Sequence[OpenUpload]) -> list[tuple[int, int] | None]:
    """Bytes and number of the parts of each upload, in their order; None for one that is gone."""
    with translate_errors():
        return _native.upload_sizes(
            native(engine), native_endpoint(place), place.container, [(one.key, one.upload_id) for one in found]
        )


def abort_uploads(
    engine: Engine, place: Location, found: Sequence[tuple[str, str]], *, epoch: int | None = None
) -> list[StorageError | None]:
    """Abort uploads (key, id). Returns the error or None of each, in their order."""
    with translate_errors():
        ended = _native.abort_uploads(native(engine), native_endpoint(place), place.container, list(found), epoch=epoch)
    return [None if error is None else storage_error(error) for error in ended]


@contextmanager
def _advise_on_errors(place: Location) -> Generator[None]:
    """Errors of requests about a whole bucket, with the next step that fits them."""
    try:
        with translate_errors():
            yield
    except StorageError as why:
        code = "AccessDenied" if why.error_code == "Forbidden" else why.error_code
        advice = _ADVICE.get((why.operation, code))
        if advice is None:
            raise
        uri = f"s3://{place.container}"
        message = f"{why.operation} {uri}: {code}. {advice.format(uri=uri)}"
        raise StorageError(message, why.error_class, why.error_code, why.operation, why.job_wide) from None
