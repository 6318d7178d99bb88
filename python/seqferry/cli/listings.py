"""Objects as ``ls`` and ``du`` list them: without the service, so that no state folder is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from seqferry.cli.object_access import new_engine
from seqferry.cli.output import text
from seqferry.model.locations import S3Location
from seqferry.spec.addresses import parse_uri
from seqferry.spec.selection import Conditions, build_matcher, has_wildcard, literal_prefix
from seqferry.spec.validation import check_place

if TYPE_CHECKING:
    from seqferry.engine.engine import Engine, ObjectInfo


HumanReadable = Annotated[
    bool,
    typer.Option("--human-readable", "-H", help="Print sizes in KiB, MiB, GiB and TiB."),
]


def split_wildcard(place: str) -> tuple[str, str | None]:
    """The address up to its first wildcard, and the whole key as a wildcard, if it holds one."""
    if not has_wildcard(place):
        return place, None
    bucket, key = parse_uri(place)
    return f"s3://{bucket}/{literal_prefix(key)}", key


def matching_entries(entries: Iterable[ObjectInfo], pattern: str | None) -> Iterator[ObjectInfo]:
    """Objects whose whole key matches."""
    matches = build_matcher(Conditions(pattern=pattern))
    for entry in entries:
        if matches is None or matches(entry.key, entry.size, entry.last_modified):
            yield entry


def engine_for(location: S3Location) -> Engine:
    """An engine to list this place.

    Raises:
        UsageError: the place makes no sense.
    """
    check_place(location)
    return new_engine()


def format_size(count: int, *, human: bool) -> str:
    """Bytes as a number, or as text for a person."""
    return text.size(count) if human else str(count)


def list_all(engine: Engine, location: S3Location) -> Iterator[ObjectInfo]:
    """All objects below a location.

    Raises:
        StorageError: the place cannot be listed.
    """
    # This fails immediately where a listing would retry.
    engine.check_bucket(location)
    for page in engine.list(location):
        yield from page
