"""``seqferry head``."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from seqferry.cli import exits
from seqferry.cli.output import display, text
from seqferry.model.errors import UsageError
from seqferry.model.frozen import frozen
from seqferry.model.locations import S3Location
from seqferry.spec.option_groups import OneEndpoint

if TYPE_CHECKING:
    from seqferry.engine.buckets import ObjectFacts
    from seqferry.engine.engine import Engine
from seqferry.cli.object_access import new_engine, parse_object
from seqferry.cli.option_groups import AnswerFormat, Object, Version


@frozen
class Objects:
    """Objects."""

    PANEL: ClassVar = "Arguments"

    places: Annotated[
        list[str],
        typer.Argument(metavar="URI...", help="s3://bucket/key. Several objects are printed in the given order."),
    ]


def head(objects: Objects, version: Version, endpoint: OneEndpoint, printed: AnswerFormat) -> int:
    """Print the properties of objects: size, ETag, checksum, metadata.

    To print the first bytes: seqferry cat --range 0-1023 URI.
    """
    if version.version_id is not None and len(objects.places) > 1:
        raise UsageError("--version-id is that of one object; name one.")
    places = [parse_object(Object(uri), endpoint) for uri in objects.places]
    engine = new_engine()
    for number, place in enumerate(places):
        if len(places) > 1 and not printed.as_json:
            if number:
                print()
            print(text.printable(place.uri))
        _print_facts(engine, place, version.version_id, as_json=printed.as_json)
    return exits.OK


def _print_facts(engine: Engine, place: S3Location, version_id: str | None, *, as_json: bool) -> None:
    from seqferry.preflight import reading

    found = reading.head_object(engine, place, version_id)
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
