"""``seqferry cache``: lists, fills, verifies and empties the disk cache of mounts."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from seqferry.cli import exits, options
from seqferry.cli.output import display, text
from seqferry.model.errors import UsageError
from seqferry.model.models import S3Location
from seqferry.spec.build import check_place, parse_uri

if TYPE_CHECKING:
    from seqferry.engine.caches import CachedPlace, DiskCache

cache = typer.Typer(help="Look at the disk cache of mounts, check it, empty it and fill it.", rich_markup_mode=None)

_LOOK: Final = 0.2
"""Seconds between two looks at whether Ctrl-C has come."""
_RANGES: Final = 16
"""Ranges of 8 MiB in flight while warming: 128 MiB of memory."""

_Cache = Annotated[
    Path,
    typer.Option("--cache", envvar="SEQFERRY_CACHE", metavar="DIR", help="Folder of the cache, as for seqferry mount."),
]
_Place = Annotated[
    str | None, typer.Argument(metavar="[URI]", help="s3://bucket or s3://bucket/prefix. Default: the whole cache.")
]


@cache.callback()
def _group() -> None:
    """Look at the disk cache of mounts, check it, empty it and fill it."""


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


def _location(
    place: str, endpoint_url: str | None, profile: str | None, region: str | None = None, *, anonymous: bool = False
) -> S3Location:
    bucket, key = parse_uri(place)
    location = S3Location(
        bucket=bucket, key=key, endpoint_url=endpoint_url, region=region, profile=profile, anonymous=anonymous
    )
    check_place(location)
    return location


def _prefix(place: str | None, endpoint_url: str | None, profile: str | None) -> CachedPlace | None:
    from seqferry.engine.caches import cached_place

    return None if place is None else cached_place(_location(place, endpoint_url, profile))


@cache.command()
def warm(
    place: Annotated[str, typer.Argument(metavar="URI", help="s3://bucket or s3://bucket/prefix.")],
    folder: _Cache,
    pin: Annotated[
        bool, typer.Option("--pin", envvar="SEQFERRY_PIN", help="Keep it: other objects never push it out.")
    ] = False,
    max_cache_size: options.MaxCacheSize = None,
    max_bandwidth: options.PlainBandwidth = None,
    endpoint_url: options.EndpointUrl = None,
    profile: options.Profile = None,
    region: options.Region = None,
    no_sign_request: options.NoSignRequest = False,
    as_json: options.Json = False,
) -> int:
    """Read everything below a prefix into the cache. What is there already is not fetched again."""
    from seqferry.engine import caches

    location = _location(place, endpoint_url, profile, region, anonymous=no_sign_request)
    opened = _open(folder, max_cache_size)
    if pin:
        opened.pin(caches.cached_place(location))
    warming = caches.warm(opened, location, ranges=_RANGES, max_bandwidth=max_bandwidth)
    try:
        while not caches.has_warmed(warming, _LOOK):
            pass
    except KeyboardInterrupt:
        warming.cancel()
        raise
    end = caches.outcome(warming)
    if as_json:
        display.emit("warmed", **(end._asdict() | {"failures": dict(end.failures)}))
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
def ls(
    folder: _Cache,
    place: _Place = None,
    endpoint_url: options.EndpointUrl = None,
    profile: options.Profile = None,
    as_json: options.Json = False,
) -> int:
    """List cached objects: last use (UTC), cached bytes, bytes of the object, name; pinned ones with a star."""
    from seqferry.engine import caches

    found = caches.cached(_existing(folder), _prefix(place, endpoint_url, profile))
    found.sort(key=lambda one: (one.endpoint, one.bucket, one.key))
    for one in found:
        if as_json:
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
    if not as_json:
        display.say(f"{len(found)} objects, {sum(one.disk for one in found)} bytes on the disk.")
    return exits.OK if found else exits.NOTHING


@cache.command()
def verify(
    folder: _Cache,
    place: _Place = None,
    endpoint_url: options.EndpointUrl = None,
    profile: options.Profile = None,
    as_json: options.Json = False,
) -> int:
    """Read every cached block and drop those that are damaged. They are fetched again when they are read."""
    from seqferry.engine import caches

    found = caches.verify(_existing(folder), _prefix(place, endpoint_url, profile))
    damaged = sum(one.damaged for one in found)
    for one in found:
        if as_json:
            display.emit("verified", **one._asdict())
        elif one.damaged or one.busy:
            what = f"{one.damaged} damaged blocks dropped" if one.damaged else "in use, not looked at"
            print(text.printable(f"s3://{one.bucket}/{one.key}: {what}"))
    if not as_json:
        display.say(f"{len(found)} objects: {sum(one.sound for one in found)} blocks sound, {damaged} damaged.")
    return exits.MISMATCH if damaged else exits.OK


@cache.command()
def rm(
    folder: _Cache,
    place: _Place = None,
    everything: Annotated[
        bool, typer.Option("--all", envvar="SEQFERRY_CACHE_ALL", help="Empty the whole cache.")
    ] = False,
    endpoint_url: options.EndpointUrl = None,
    profile: options.Profile = None,
    as_json: options.Json = False,
) -> int:
    """Remove objects from the cache, and the pin of the prefix. Objects in use stay."""
    from seqferry.engine import caches

    if (place is None) != everything:
        raise UsageError("Name a prefix (s3://bucket/prefix), or --all for the whole cache.")
    opened = _existing(folder)
    prefix = _prefix(place, endpoint_url, profile)
    if prefix is not None:
        opened.unpin(prefix)
    removed = caches.remove(opened, prefix)
    if as_json:
        display.emit("removed", **removed._asdict())
    else:
        display.say(
            f"Removed {text.count(removed.objects, 'object')}, {text.count(removed.bytes, 'byte')}."
            + (f" {removed.busy} are in use and stayed." if removed.busy else "")
        )
    return exits.FAILED if removed.busy else exits.OK
