"""``seqferry presign``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

import typer

from seqferry.cli import exits
from seqferry.cli.groups import AnswerFormat, Object, Version
from seqferry.cli.output import display
from seqferry.cli.storage import new_engine, object_at
from seqferry.model.errors import UsageError
from seqferry.spec.option_groups import OneEndpoint

_LONGEST: Final = 7 * 86_400


"""Seconds that a signature of S3 lasts at most."""


_DURATION: Final = re.compile(r"(\d{1,9})\s*([smhdw]?)")


_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


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


def presign(
    object_: Object, signature: Signature, version: Version, endpoint: OneEndpoint, printed: AnswerFormat
) -> int:
    """Print an address that lets whoever has it read one object for a while. Nothing is asked of the storage.

    It holds as long as the credentials that sign it do: those of a role may end earlier.
    """
    place = object_at(object_, endpoint)
    seconds = _seconds(signature.expires_in)
    from seqferry.engine import buckets

    url = buckets.presign(new_engine(), place, seconds=seconds, put=signature.put, version_id=version.version_id)
    if printed.as_json:
        display.emit("presigned", url=url, method="PUT" if signature.put else "GET", expires_in=seconds)
    else:
        print(url)
    return exits.OK


def _seconds(written: str) -> int:
    found = _DURATION.fullmatch(written.strip().lower())
    seconds = 0 if found is None else int(found[1]) * _SECONDS[found[2]]
    if not 0 < seconds <= _LONGEST:
        raise UsageError(f"--expires-in {written}: write seconds, or 90m, 12h, 7d; S3 allows up to 7 days.")
    return seconds
