"""``seqferry cache``: lists, fills, verifies and empties the disk cache of mounts."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import typer

from seqferry.cli import exits, options
from seqferry.cli.option_groups import AnswerFormat, Unsigned, merge
from seqferry.cli.output import display, text
from seqferry.model.errors import UsageError
from seqferry.model.frozen import frozen
from seqferry.model.locations import S3Location
from seqferry.spec.addresses import parse_uri
from seqferry.spec.option_groups import OneEndpoint
from seqferry.spec.validation import check_place

if TYPE_CHECKING:
    from seqferry.engine.caches import CachedPlace, DiskCache

cache = typer.Typer(help="List, fill, verify and clear the disk cache of mounts.", rich_markup_mode=None)

_LOOK: Final = 0.2
"""Seconds between two checks for Ctrl-C."""
_RANGES: Final = 16
"""Ranges of 8 MiB in flight while warming: 128 MiB of memory."""


@frozen(kw_only=True)
class CacheFolder:
    """Option that names the cache."""

    PANEL: ClassVar = "Options"

    folder: Annotated[
        Path,
        typer.Option(
            "--cache", envvar="SEQFERRY_CACHE", metavar="DIR", help="Folder of the cache, as for seqferry mount."
        ),
    ]


@frozen
class CachedPrefix:
    """Prefix that selects cached objects."""

    PANEL: ClassVar = "Arguments"

    place: Annotated[
        str | None, typer.Argument(metavar="[URI]", help="s3://bucket or s3://bucket/prefix. Default: the whole cache.")
    ] = None


@frozen
class CachedEndpoint:
    """Options for the endpoint that cached objects are of."""

    PANEL: ClassVar = "Storage"

    endpoint_url: options.EndpointUrl = None
    profile: options.Profile = None


@frozen
class WarmedPrefix:
    """Prefix of a bucket that is read into the cache."""

    PANEL: ClassVar = "Arguments"

    place: Annotated[str, typer.Argument(metavar="URI", help="s3://bucket or s3://bucket/prefix.")]


@frozen
class Warming:
    """Options for what the cache keeps, and how fast it is filled."""

    PANEL: ClassVar = "Options"

    pin: Annotated[bool, typer.Option("--pin", help="Pin the prefix: its blocks are never evicted.")] = False
    max_cache_size: options.MaxCacheSize = None
    max_bandwidth: options.PlainBandwidth = None


@frozen
class Emptying:
    """Option to empty the cache."""

    PANEL: ClassVar = "Options"

    everything: Annotated[bool, typer.Option("--all", help="Clear the whole cache.")] = False


@cache.callback()
def _group() -> None: ...


def _open(folder: Path, max_size: int | None = None) -> DiskCache:
    # Imported here: `seqferry --help` need not wait for the engine.
    from seqferry.engine.caches import disk_cache

    return disk_cache(os.path.abspath(folder), max_size=max_size)  # noqa: PTH100 - made when it is opened


def _existing(folder: Path) -> DiskCache:
    """The cache in this folder; opening alone would make an empty one where a name is mistyped.

    Raises:
        UsageError: the folder holds no cache.
    """
    try:
        found = (folder / "objects").is_dir()
    except OSError:
        found = True  # Opening it says what is wrong.
    if not found:
        raise UsageError(
            f"There is no cache at {folder}: name the folder that was given to seqferry mount, cp or cache warm as "
            "--cache."
        )
    return _open(folder)


def _location(place: str, endpoint: OneEndpoint | CachedEndpoint, *, anonymous: bool = False) -> S3Location:
    bucket, key = parse_uri(place)
    location = S3Location(bucket=bucket, key=key, anonymous=anonymous, **merge(endpoint))
    check_place(location)
    return location


def _prefix(prefix: CachedPrefix, endpoint: CachedEndpoint) -> CachedPlace | None:
    from seqferry.engine.caches import cached_place

    return None if prefix.place is None else cached_place(_location(prefix.place, endpoint))


@cache.command()
def warm(
    prefix: WarmedPrefix,
    cached: CacheFolder,
    warming: Warming,
    endpoint: OneEndpoint,
    unsigned: Unsigned,
    form: AnswerFormat,
) -> int:
    """Read a prefix into the cache. Cached blocks are not fetched again."""
    from seqferry.engine import caches

    location = _location(prefix.place, endpoint, anonymous=unsigned.no_sign_request)
    opened = _open(cached.folder, warming.max_cache_size)
    if warming.pin:
        opened.pin(caches.cached_place(location))
    work = caches.warm(opened, location, ranges=_RANGES, max_bandwidth=warming.max_bandwidth)
    try:
        while not caches.has_warmed(work, _LOOK):
            pass
    except KeyboardInterrupt:
        work.cancel()
        raise
    end = caches.outcome(work)
    if form.as_json:
        display.emit(
            "warmed",
            objects=end.objects,
            bytes=end.bytes,
            present=end.present,
            fetched=end.fetched,
            failed=end.failed,
            no_room=end.no_room,
            failures=dict(end.failures),
        )
    else:
        for key, reason in end.failures:
            display.say(text.printable(f"{location.at(key)}: {reason}"))
        facts = f"{end.fetched} bytes fetched, {end.present} bytes were in the cache, {end.failed} failed."
        display.say(f"{text.count(end.objects, 'object')}: {facts}")
    if end.no_room:
        display.say("The cache has no room for all of it: raise --max-cache-size, or remove what is pinned.")
    if end.failed:
        return exits.FAILED
    return exits.OK if end.objects else exits.NOTHING


@cache.command()
def ls(prefix: CachedPrefix, cached: CacheFolder, endpoint: CachedEndpoint, form: AnswerFormat) -> int:
    """List cached objects. Columns: last use (UTC), cached bytes, object size, * if pinned, name."""
    from seqferry.engine import caches

    found = caches.list_cached(_existing(cached.folder), _prefix(prefix, endpoint))
    found.sort(key=lambda one: (one.endpoint, one.bucket, one.key))
    for one in found:
        if form.as_json:
            display.emit(
                "cached",
                endpoint=one.endpoint,
                bucket=one.bucket,
                key=one.key,
                version=one.version,
                size=one.size,
                cached=one.cached,
                disk=one.disk,
                last_used=text.timestamp(one.used, milliseconds=True),
                pinned=one.pinned,
            )
            continue
        moment = datetime.fromtimestamp(one.used, UTC).strftime("%Y-%m-%d %H:%M:%S")
        star = "*" if one.pinned else " "
        print(text.printable(f"{moment} {one.cached:>13} {one.size:>13} {star} s3://{one.bucket}/{one.key}"))
    if not form.as_json:
        display.say(f"{len(found)} objects, {sum(one.disk for one in found)} bytes on the disk.")
    return exits.OK if found else exits.NOTHING


@cache.command()
def verify(prefix: CachedPrefix, cached: CacheFolder, endpoint: CachedEndpoint, form: AnswerFormat) -> int:
    """Read all cached blocks and drop damaged ones. They are fetched again when they are read."""
    from seqferry.engine import caches

    found = caches.verify(_existing(cached.folder), _prefix(prefix, endpoint))
    damaged = sum(one.damaged for one in found)
    for one in found:
        if form.as_json:
            display.emit(
                "verified", bucket=one.bucket, key=one.key, sound=one.sound, damaged=one.damaged, busy=one.busy
            )
        elif one.damaged or one.busy:
            what = f"{one.damaged} damaged blocks dropped" if one.damaged else "in use, not checked"
            print(text.printable(f"s3://{one.bucket}/{one.key}: {what}"))
    if not form.as_json:
        display.say(f"{len(found)} objects: {sum(one.sound for one in found)} blocks sound, {damaged} damaged.")
    return exits.MISMATCH if damaged else exits.OK


@cache.command()
def rm(
    cached: CacheFolder, prefix: CachedPrefix, emptying: Emptying, endpoint: CachedEndpoint, form: AnswerFormat
) -> int:
    """Remove objects from the cache and unpin the prefix. Objects in use are kept."""
    from seqferry.engine import caches

    if (prefix.place is None) != emptying.everything:
        raise UsageError("Name a prefix (s3://bucket/prefix), or --all for the whole cache.")
    opened = _existing(cached.folder)
    place = _prefix(prefix, endpoint)
    if place is not None:
        opened.unpin(place)
    removed = caches.remove(opened, place)
    if form.as_json:
        display.emit("removed", **removed._asdict())
    else:
        display.say(
            f"Removed {text.count(removed.objects, 'object')}, {text.count(removed.bytes, 'byte')}."
            + (f" {removed.busy} are in use and stayed." if removed.busy else "")
        )
    return exits.FAILED if removed.busy else exits.OK
