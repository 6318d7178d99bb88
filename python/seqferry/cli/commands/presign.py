"""``seqferry presign``."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import typer

from seqferry.cli import exits
from seqferry.cli.object_access import new_engine, parse_object
from seqferry.cli.option_groups import AnswerFormat, Object, Version
from seqferry.cli.output import display, text
from seqferry.model.errors import StorageError, UsageError
from seqferry.model.frozen import frozen
from seqferry.model.locations import S3Location
from seqferry.spec.option_groups import OneEndpoint
from seqferry.spec.selection import has_wildcard

if TYPE_CHECKING:
    from seqferry.engine.engine import Engine

_LONGEST: Final = 7 * 86_400
"""Seconds that a signature of S3 lasts at most."""

_DURATION: Final = re.compile(r"(\d{1,9})\s*([smhdw]?)")
_ATTEMPTS: Final = 2
"""Attempts of the look: a storage that does not answer holds an address up no longer."""

_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


@frozen
class Signature:
    """Options for the lifetime of a signed address and the method it allows."""

    PANEL: ClassVar = "Options"

    expires_in: Annotated[
        str,
        typer.Option(
            "--expires-in",
            "--expire",
            metavar="TIME",
            help="Lifetime of the URL: 3600 (seconds), 90m, 12h or 7d (maximum).",
        ),
    ] = "1h"
    put: Annotated[bool, typer.Option("--put", help="Allow uploading the object in place of reading it.")] = False


def presign(
    object_: Object, signature: Signature, version: Version, endpoint: OneEndpoint, printed: AnswerFormat
) -> int:
    """Print a presigned URL for an object.

    The URL expires with the credentials that sign it: those of a role may end earlier. The object is looked
    up first, except with --put.
    """
    place = parse_object(object_, endpoint)
    seconds = _seconds(signature.expires_in)
    engine = new_engine()
    if signature.put:
        _check_new(place)
    else:
        _look_up(engine, place, version.version_id)
    from seqferry.engine import buckets

    url = buckets.presign(engine, place, seconds=seconds, put=signature.put, version_id=version.version_id)
    if printed.as_json:
        display.emit("presigned", url=url, method="PUT" if signature.put else "GET", expires_in=seconds)
    else:
        print(url)
    return exits.OK


def _check_new(place: S3Location) -> None:
    """Refuse a key that a client would hardly mean to write.

    Raises:
        UsageError: it is a prefix.
    """
    if place.key.endswith("/"):
        raise UsageError(
            f"{place.uri} is a prefix, and a URL allows uploading one object. Name the object: {place.uri}NAME"
        )
    if has_wildcard(place.key):
        display.say(text.printable(f"* and ? are not wildcards here: the key is {place.uri}"))


def _look_up(engine: Engine, place: S3Location, version_id: str | None) -> None:
    """Check that the object exists; where that is denied, sign with a note.

    Raises:
        StorageError: there is no such object or version.
        UsageError: a prefix or a wildcard is named, and no object has that key.
    """
    from seqferry.preflight import reading

    asked = replace(place, attempts=_ATTEMPTS)
    try:
        found = reading.head_object(engine, asked, version_id)
        # The marker of a folder, or a folder of SeaweedFS, which has no object.
        if place.key.endswith("/") and not found.size:
            raise _prefix_error(place)
    except StorageError as why:
        if why.is_denied or why.is_transient:
            display.say(text.printable(f"The URL was signed without checking the object: {why.message}"))
            return
        if not reading.is_missing(why):
            raise
        if place.key.endswith("/"):
            raise _prefix_error(place) from None
        if has_wildcard(place.key):
            raise UsageError(
                f"There is no object {place.uri}, and a presigned URL is for one object, not for a wildcard. List "
                f"the objects with: seqferry ls '{text.printable(place.uri)}'"
            ) from None
        raise


def _prefix_error(place: S3Location) -> UsageError:
    return UsageError(
        f"{place.uri} is a prefix, and a presigned URL is for one object. "
        f"List the objects with: seqferry ls {place.uri}"
    )


def _seconds(written: str) -> int:
    found = _DURATION.fullmatch(written.strip().lower())
    seconds = 0 if found is None else int(found[1]) * _SECONDS[found[2]]
    if not 0 < seconds <= _LONGEST:
        raise UsageError(f"--expires-in {written}: write seconds, or 90m, 12h, 7d; S3 allows up to 7 days.")
    return seconds
