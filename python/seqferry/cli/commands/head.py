"""``seqferry mb``, ``seqferry presign`` and ``seqferry head``."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import typer

from seqferry.cli import display, exits, text
from seqferry.cli.groups import bucket_of
from seqferry.model.errors import UsageError
from seqferry.model.models import S3Location
from seqferry.settings.config import Settings
from seqferry.spec.build import check_place, parse_uri
from seqferry.spec.option_groups import OneEndpoint

if TYPE_CHECKING:
    from seqferry.engine.buckets import ObjectFacts
    from seqferry.engine.engine import Engine

_LONGEST: Final = 7 * 86_400
"""Seconds that a signature of S3 lasts at most."""

_DURATION: Final = re.compile(r"(\d+)\s*([smhdw]?)")
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket."""

    PANEL: ClassVar = "Arguments"

    bucket: Annotated[str, typer.Argument(metavar="BUCKET", help="s3://bucket.")]


@dataclass(frozen=True, slots=True)
class Object:
    """One object."""

    PANEL: ClassVar = "Arguments"

    place: Annotated[str, typer.Argument(metavar="URI", help="s3://bucket/key.")]


@dataclass(frozen=True, slots=True)
class Objects:
    """Objects."""

    PANEL: ClassVar = "Arguments"

    places: Annotated[list[str], typer.Argument(metavar="URI...", help="s3://bucket/key; several in their order.")]


@dataclass(frozen=True, slots=True)
class Version:
    """Option that selects one version of the object."""

    PANEL: ClassVar = "Selection"

    version_id: Annotated[
        str | None,
        typer.Option("--version-id", envvar="SEQFERRY_VERSION_ID", metavar="ID", help="This version of the object."),
    ] = None


@dataclass(frozen=True, slots=True)
class Signature:
    """Options for the lifetime of a signed address and the method it allows."""

    PANEL: ClassVar = "Options"

    expires_in: Annotated[
        str,
        typer.Option(
            "--expires-in",
            "--expire",
            envvar="SEQFERRY_EXPIRES_IN",
            metavar="TIME",
            help="How long it holds: 3600, 90m, 12h or 7d, which is the longest. Default: 1h.",
        ),
    ] = "1h"
    put: Annotated[
        bool, typer.Option("--put", envvar="SEQFERRY_PUT", help="Let its bearer write the object, not read it.")
    ] = False


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """Option for the format of the answer."""

    PANEL: ClassVar = "Output"

    as_json: Annotated[bool, typer.Option("--json", envvar="SEQFERRY_JSON", help="Print NDJSON events on stdout.")] = (
        False
    )


def mb(bucket: Bucket, endpoint: OneEndpoint, printed: AnswerFormat) -> int:
    """Make a bucket, in the region of --region or of the AWS settings."""
    place = bucket_of(bucket.bucket, endpoint)
    from seqferry.engine import buckets

    buckets.create(_engine(), place)
    if printed.as_json:
        display.emit("bucket_made", bucket=place.bucket)
    else:
        print(f"made s3://{text.printable(place.bucket)}")
    return exits.OK


def presign(
    object_: Object, signature: Signature, version: Version, endpoint: OneEndpoint, printed: AnswerFormat
) -> int:
    """Print an address that lets whoever has it read one object for a while. Nothing is asked of the storage.

    It holds as long as the credentials that sign it do: those of a role may end earlier.
    """
    place = _object(object_, endpoint)
    seconds = _seconds(signature.expires_in)
    from seqferry.engine import buckets

    url = buckets.presigned(_engine(), place, seconds=seconds, put=signature.put, version_id=version.version_id)
    if printed.as_json:
        display.emit("presigned", url=url, method="PUT" if signature.put else "GET", expires_in=seconds)
    else:
        print(url)
    return exits.OK


def head(objects: Objects, version: Version, endpoint: OneEndpoint, printed: AnswerFormat) -> int:
    """Print what is known of objects without reading them: size, time, ETag, checksum, type and metadata.

    For its first bytes: seqferry cat --range 0-1023 URI.
    """
    if version.version_id is not None and len(objects.places) > 1:
        raise UsageError("--version-id is that of one object; name one.")
    places = [_object(Object(uri), endpoint) for uri in objects.places]
    engine = _engine()
    for number, place in enumerate(places):
        if len(places) > 1 and not printed.as_json:
            if number:
                print()
            print(text.printable(place.uri))
        _print_facts(engine, place, version.version_id, as_json=printed.as_json)
    return exits.OK


def _print_facts(engine: Engine, place: S3Location, version_id: str | None, *, as_json: bool) -> None:
    from seqferry.preflight import reading

    found = reading.facts(engine, place, version_id)
    facts = _facts(found)
    if as_json:
        display.emit("head", uri=place.uri, **facts, metadata=dict(found.metadata))
        return
    facts |= {f"metadata {name}": value for name, value in found.metadata}
    width = max(map(len, facts))
    for name, value in facts.items():
        if value is not None:
            print(f"{name:<{width}}  {text.printable(str(value))}")


def _facts(found: ObjectFacts) -> dict[str, Any]:
    return {
        "size": found.size,
        "last_modified": text.timestamp(found.last_modified),
        "etag": found.etag,
        "version_id": found.version_id,
        "storage_class": found.storage_class or "STANDARD",
        "archived": found.archived or None,
        "md5": _stored_md5(found),
        "checksum": None if found.checksum is None else f"{found.checksum_algorithm} {found.checksum}",
        "content_type": found.content_type,
        "content_encoding": found.content_encoding,
        "content_language": found.content_language,
        "content_disposition": found.content_disposition,
        "cache_control": found.cache_control,
        "expires": found.expires,
        "tags": found.tag_count,
    }


def _stored_md5(found: ObjectFacts) -> str | None:
    """The MD5 that ``--md5`` or rclone has stored with the object, in hexadecimal digits as of ``md5sum``."""
    try:
        digest = base64.b64decode(dict(found.metadata).get("md5chksum", ""), validate=True)
    except binascii.Error:
        return None
    return digest.hex() if len(digest) == 16 else None


def _object(written: Object, endpoint: OneEndpoint) -> S3Location:
    bucket, key = parse_uri(written.place)
    if key == "":
        raise UsageError(f"'{written.place}' is a bucket; name an object in it: s3://{bucket}/key")
    place = S3Location(
        bucket, key, endpoint_url=endpoint.endpoint_url, region=endpoint.region, profile=endpoint.profile
    )
    check_place(place)
    return place


def _seconds(written: str) -> int:
    found = _DURATION.fullmatch(written.strip().lower())
    seconds = 0 if found is None else int(found[1]) * _SECONDS[found[2]]
    if not 0 < seconds <= _LONGEST:
        raise UsageError(f"--expires-in {written}: write seconds, or 90m, 12h, 7d; S3 allows up to 7 days.")
    return seconds


def _engine() -> Engine:
    settings = Settings.load()
    from seqferry.engine.engine import Engine, trace

    trace(settings.trace)
    return Engine(max_requests=settings.max_requests, memory=settings.memory, tpslimit=settings.tpslimit)
