"""``seqferry ls``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from seqferry.cli import exits, options
from seqferry.cli.output import display, text
from seqferry.model.locations import S3Location
from seqferry.spec.addresses import parse_uri

if TYPE_CHECKING:
    from seqferry.engine.engine import Engine, ObjectInfo
from seqferry.cli.listings import HumanReadable, engine_for, format_size, list_all, matching_entries, split_wildcard

_SORTED_AT_MOST: Final = 100_000


"""Entries held to print them in order. Beyond, they are printed as they come, so that memory stays flat."""


def ls(
    place: Annotated[
        str | None,
        typer.Argument(metavar="[URI]", help="s3://bucket or s3://bucket/prefix. Default: list buckets."),
    ] = None,
    recursive: Annotated[
        bool,
        typer.Option("--recursive", "-r", help="List all objects below URI with their full keys."),
    ] = False,
    human_readable: HumanReadable = False,
    summarize: Annotated[
        bool,
        typer.Option(
            "--summarize",
            help="Print the number and total size of the objects at the end.",
        ),
    ] = False,
    endpoint_url: options.EndpointUrl = None,
    profile: options.Profile = None,
    region: options.Region = None,
    no_sign_request: options.NoSignRequest = False,
    request_payer: options.RequestPayer = None,
    as_json: options.Json = False,
) -> int:
    """List objects or buckets.

    Columns: time (UTC), size in bytes, name.
    """
    if place is None or place.rstrip("/") == "s3:":
        return _buckets(S3Location("", endpoint_url=endpoint_url, region=region, profile=profile), as_json=as_json)
    place, pattern = split_wildcard(place)
    bucket, key = parse_uri(place)
    location = S3Location(
        bucket=bucket,
        key=key,
        endpoint_url=endpoint_url,
        region=region,
        profile=profile,
        anonymous=no_sign_request,
        request_payer=request_payer,
    )
    engine = engine_for(location)
    recursive = recursive or pattern is not None
    entries: Iterable[ObjectInfo | str]
    if pattern is not None:
        entries = matching_entries(list_all(engine, location), pattern)
    else:
        entries = list_all(engine, location) if recursive else _one_level(engine, location)
    shown = objects = total = 0
    for entry in _in_order(entries):
        shown += 1
        if not isinstance(entry, str):
            objects += 1
            total += entry.size
        _show(entry, key, recursive=recursive, as_json=as_json, human=human_readable)
    if summarize and as_json:
        display.emit("listing", objects=objects, bytes=total)
    elif summarize:
        print(f"\nTotal Objects: {objects}\n   Total Size: {format_size(total, human=human_readable)}")
    if not shown:
        matching = "" if pattern is None else f" that matches {pattern}"
        display.say(text.printable(f"Nothing{matching} is at {location.uri}."))
    return exits.OK if shown else exits.NOTHING


def _buckets(account: S3Location, *, as_json: bool) -> int:
    from seqferry.engine import buckets

    shown = 0
    for bucket, created in buckets.list_buckets(engine_for(account), account):
        shown += 1
        if as_json:
            display.emit("bucket", name=bucket, created=text.timestamp(created) if created else None)
        else:
            moment = datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%d %H:%M:%S") if created else " " * 19
            print(f"{moment} {text.printable(bucket)}")
    if not shown:
        display.say("There is no bucket, or none that these credentials may list.")
    return exits.OK if shown else exits.NOTHING


def _one_level(engine: Engine, location: S3Location) -> Iterator[ObjectInfo | str]:
    """Objects directly at the location, and each "folder" below it once, as its full prefix."""
    for objects, prefixes in engine.level(location):
        yield from objects
        yield from prefixes


def _in_order(entries: Iterable[ObjectInfo | str]) -> Iterator[ObjectInfo | str]:
    held: list[ObjectInfo | str] = []
    rest = iter(entries)
    for entry in rest:
        held.append(entry)
        if len(held) >= _SORTED_AT_MOST:
            break
    held.sort(key=lambda entry: (entry if isinstance(entry, str) else entry.key).encode("utf-8", "surrogateescape"))
    yield from held
    yield from rest


def _show(entry: ObjectInfo | str, prefix: str, *, recursive: bool, as_json: bool, human: bool) -> None:
    if isinstance(entry, str):
        if as_json:
            display.emit("prefix", prefix=entry)
        else:
            print(f"{'PRE':>31} {text.printable(entry[prefix.rfind('/') + 1 :])}")
        return
    if as_json:
        display.emit(
            "listed",
            key=entry.key,
            size=entry.size,
            etag=entry.etag,
            last_modified=text.timestamp(entry.last_modified, milliseconds=True),
            version_id=entry.version_id,
            storage_class=entry.storage_class,
        )
        return
    name = entry.key if recursive else entry.key[prefix.rfind("/") + 1 :]
    moment = datetime.fromtimestamp(entry.last_modified, UTC).strftime("%Y-%m-%d %H:%M:%S")
    print(f"{moment} {format_size(entry.size, human=human):>11} {text.printable(name)}")
