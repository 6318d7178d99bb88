"""Keys of SSE-C: named by where they are, read when they are needed, never recorded and never shown.

A spec holds where a key is (``file:/path`` or ``env:NAME``) and a digest of it, so that a worker without it, or with
another one, leaves the transfer alone.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Final

from seqferry.model import encoding
from seqferry.model.errors import AccessError, PolicyError, UsageError
from seqferry.model.locations import Location, S3Location
from seqferry.model.models import TransferSpec

_KEY_BYTES: Final = 32
_PROOF_DIGITS: Final = 12
"""Hexadecimal digits of a SHA-256 that are kept: too few to find the key."""

_FOR_CLIENTS: Final = "SEQFERRY_SSE_C_"
"""Variables of a server that its clients may name start so."""


def key_location(text: str | None) -> str | None:
    """Location of a key, as recorded; ``text`` as written: a path, ``fileb://path`` or ``env:NAME``.

    Raises:
        UsageError: the text is the key itself, which others could see on the command line.
    """
    if text is None or text.startswith("env:"):
        return text
    path = text
    for prefix in ("fileb://", "file://", "file:"):
        path = path.removeprefix(prefix)
    if path == text and _decode(text.encode()) is not None and not Path(text).exists():
        raise UsageError(
            "A key of SSE-C must not be on the command line, where others can see it. Put it into a file and name that "
            "(--sse-c-key fileb://FILE), or into a variable (--sse-c-key env:NAME)."
        )
    return f"file:{Path(path).absolute()}"


def resolve_s3(place: S3Location) -> S3Location:
    """The place with the digest of its key, if it has one.

    Raises:
        UsageError: the key cannot be read.
    """
    if place.sse_c is None or place.sse_c_proof is not None:
        return place
    try:
        return replace(place, sse_c_proof=_proof(_read(place.sse_c)))
    except AccessError as why:
        raise UsageError(why.message) from None


def read(place: Location) -> bytes | None:
    """The key of a place, None where it has none.

    Raises:
        AccessError: this process has it not.
    """
    if not isinstance(place, S3Location) or place.sse_c is None:
        return None
    key = _read(place.sse_c)
    if place.sse_c_proof is not None and _proof(key) != place.sse_c_proof:
        raise AccessError(f"{describe(place.sse_c)} is another one than the transfer was submitted with.")
    return key


def find_missing(name: str, proof: str | None) -> str | None:
    """Description of a key that this process does not have; None when it has it."""
    try:
        has = _proof(_read(name)) == proof
    except AccessError:
        has = False
    return None if has else describe(name)


def needs(spec: TransferSpec) -> list[tuple[str, str]]:
    """Locations of the keys of a spec, each with the digest of its key."""
    places = (place for place in (spec.source, spec.target) if isinstance(place, S3Location))
    return [(place.sse_c, place.sse_c_proof or "") for place in places if place.sse_c is not None]


def check_for_client(spec: TransferSpec) -> None:
    """Refuse keys that a client of a server may not name: it could try out any file and variable of the server.

    Raises:
        PolicyError: the spec names such a key.
    """
    for place, options in (
        (spec.source, ("sse_c_copy_source_key", "sse_c_key")),
        (spec.target, ("sse_c_key",)),
    ):
        name = place.sse_c if isinstance(place, S3Location) else None
        if name is not None and not name.startswith(f"env:{_FOR_CLIENTS}"):
            raise PolicyError(
                f"A client may name keys of SSE-C only by variables of the server that start with {_FOR_CLIENTS}, as "
                f"env:{_FOR_CLIENTS}LAB."
            ).about(*options)


def describe(name: str) -> str:
    """A key for a person: ``the SSE-C key in /etc/keys/lab``."""
    kind, _, rest = name.partition(":")
    return f"the SSE-C key in {'the variable ' if kind == 'env' else ''}{rest}"


def _read(name: str) -> bytes:
    kind, _, rest = name.partition(":")
    if kind == "env":
        text = os.environ.get(rest)
        if text is None:
            raise AccessError(f"The variable {rest}, which is to hold a key of SSE-C, is not set.")
        found = text.encode("utf-8", "surrogateescape")
    else:
        try:
            with Path(rest).open("rb") as file:
                found = file.read(256)
        except OSError as why:
            raise AccessError(f"The key of SSE-C in {rest} cannot be read: {why.strerror or why}.") from None
    key = found if len(found) == _KEY_BYTES else _decode(found)
    if key is None:
        raise AccessError(f"What {rest} holds is no key of SSE-C: it must be 32 bytes, or these in Base64.")
    return key


def _decode(text: bytes) -> bytes | None:
    try:
        key = base64.b64decode(encoding.decode(text).strip(), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) == _KEY_BYTES else None


def _proof(key: bytes) -> str:
    return hashlib.sha256(b"seqferry sse-c 1\n" + key).hexdigest()[:_PROOF_DIGITS]
