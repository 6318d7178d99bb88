"""``seqferry cat --range``: some bytes of objects, one after another, on standard output."""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import typer

from seqferry.cli import exits
from seqferry.cli.object_access import new_engine
from seqferry.cli.output import display
from seqferry.model.errors import UsageError
from seqferry.model.frozen import frozen
from seqferry.model.locations import S3Location
from seqferry.spec.addresses import parse_uri
from seqferry.spec.build import build_spec
from seqferry.spec.option_groups import OneEndpoint
from seqferry.spec.selection import has_wildcard
from seqferry.spec.validation import check_place

if TYPE_CHECKING:
    from seqferry.engine.buckets import ObjectFacts
    from seqferry.engine.engine import Engine

_CHUNK: Final = 8 * 1024 * 1024
"""Bytes of one request: the advice of AWS for ranged reads."""

_AHEAD: Final = 8
"""Requests under way: what is read and not yet printed is held in memory."""

_RANGE: Final = re.compile(r"(?:bytes=)?(\d*)-(\d*)")


@frozen
class CatSelection:
    """Options that select the bytes to print."""

    PANEL: ClassVar = "Arguments"

    places: Annotated[
        list[str],
        typer.Argument(
            metavar="URI...",
            help="s3://bucket/key. Several objects are printed in the given order, wildcard matches by key.",
        ),
    ]
    bytes: Annotated[
        str,
        typer.Option(
            "--range",
            metavar="FIRST-LAST",
            help="Byte range. 0-99: first 100 bytes. 100-: from byte 100. -100: last 100 bytes.",
        ),
    ] = "0-"
    version_id: Annotated[
        str | None,
        typer.Option("--version-id", metavar="ID", help="Print this version of the object."),
    ] = None
    raw: Annotated[bool, typer.Option("--raw", help="Treat * and ? in URI literally.")] = False


def cat(part: CatSelection, endpoint: OneEndpoint) -> int:
    """Print objects to standard output.

    Without --range, objects are verified before they are printed, as with `seqferry cp URI... -`.
    """
    if part.version_id is not None and (len(part.places) > 1 or (has_wildcard(part.places[0]) and not part.raw)):
        raise UsageError("--version-id is that of one object; name one.")
    places = [_place(uri, endpoint) for uri in part.places]
    wanted = _parse(part.bytes)
    from seqferry.engine import buckets
    from seqferry.preflight import reading

    engine = new_engine()
    # All objects are checked before the first byte is printed.
    places = [each for place in places for each in (_select(engine, place) if not part.raw else [place])]
    found = [reading.head_object(engine, place, part.version_id) for place in places]
    spans = [_within(wanted, one.size, part.bytes) for one in found]
    with ThreadPoolExecutor(_AHEAD, "seqferry-cat") as pool:
        for place, facts, (first, last) in zip(places, found, spans, strict=True):

            def read(start: int, place: S3Location = place, facts: ObjectFacts = facts, last: int = last) -> bytes:
                end = min(start + _CHUNK - 1, last)
                return buckets.read_range(engine, place, facts, start, end, part.version_id)

            for piece in _ahead(pool, read, range(first, last + 1, _CHUNK)):
                _print(piece)
    return exits.OK


def _place(uri: str, endpoint: OneEndpoint) -> S3Location:
    bucket, key = parse_uri(uri)
    if key == "" or key.endswith("/"):
        raise UsageError(f"cat prints objects: name a key, as s3://{bucket}/{key}name.")
    place = S3Location(
        bucket, key, endpoint_url=endpoint.endpoint_url, region=endpoint.region, profile=endpoint.profile
    )
    check_place(place)
    return place


def _select(engine: Engine, place: S3Location) -> list[S3Location]:
    """The object itself, or those that the wildcard selects."""
    if not has_wildcard(place.key):
        return [place]
    from seqferry.preflight import reading
    from seqferry.spec import identity

    # Another target stands in, in a bucket whose name no bucket has.
    asked = build_spec(
        place.uri, "s3://-/", endpoint_url=place.endpoint_url, region=place.region, profile=place.profile
    )
    spec = identity.resolve(asked)
    return [replace(place, key=key) for key in reading.select_keys(engine, spec)]


def _ahead(pool: ThreadPoolExecutor, read: Callable[[int], bytes], starts: range) -> Iterator[bytes]:
    under_way: deque[Future[bytes]] = deque()
    try:
        for start in starts:
            under_way.append(pool.submit(read, start))
            if len(under_way) >= _AHEAD:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        for one in under_way:
            one.cancel()


def _print(piece: bytes) -> None:
    try:
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as why:
        raise display.short_write_error(why) from None


def _parse(written: str) -> tuple[int | None, int | None]:
    found = _RANGE.fullmatch(written.strip())
    first, last = (None, None) if found is None else (int(each) if each else None for each in found.groups())
    if (first is None and last is None) or (first is not None and last is not None and last < first):
        raise UsageError(f"--range {written} is not a range; write 0-99, 100- or -100.")
    return first, last


def _within(wanted: tuple[int | None, int | None], size: int, written: str) -> tuple[int, int]:
    """First and last byte of an object of this size; the last is before the first where there is none."""
    first, last = wanted
    if first is None:
        return max(size - (last or 0), 0), size - 1
    if first >= size and (first, size) != (0, 0):
        raise UsageError(f"--range {written} begins after the end: the object has {size} bytes.")
    return first, size - 1 if last is None else min(last, size - 1)
