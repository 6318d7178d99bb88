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
    from seqferry.engine.engine import DiskCache

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
    from seqferry.engine.engine import disk_cache

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


def _prefix(place: str | None, endpoint_url: str | None, profile: str | None) -> tuple[str, str, str] | None:
    from seqferry.engine.engine import cached_place

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
    from seqferry.engine import engine

    location = _location(place, endpoint_url, profile, region, anonymous=no_sign_request)
    opened = _open(folder, max_cache_size)
    if pin:
        opened.pin(engine.cached_place(location))
    warming = engine.warm(opened, location, ranges=_RANGES, max_bandwidth=max_bandwidth)
    try:
        while not engine.has_warmed(warming, _LOOK):
            pass
    except KeyboardInterrupt:
        warming.cancel()
        raise
    objects, size, present, fetched, failed, no_room, failures = warming.report()
    if as_json:
        facts = {"objects": objects, "bytes": size, "present": present, "fetched": fetched, "failed": failed}
        display.emit("warmed", **facts, no_room=no_room, failures=dict(failures))
    else:
        for key, reason in failures:
            display.say(text.printable(f"{location.at(key)}: {reason}"))
        told = f"{fetched} bytes fetched, {present} bytes were in the cache, {failed} failed."
        display.say(f"{text.count(objects, 'object')}: {told}")
    if no_room:
        display.say("The cache has no room for all of it: raise --max-cache-size, or remove what is pinned.")
    if failed:
        return exits.FAILED
    return exits.OK if objects else exits.NOTHING


@cache.command()
def ls(
    folder: _Cache,
    place: _Place = None,
    endpoint_url: options.EndpointUrl = None,
    profile: options.Profile = None,
    as_json: options.Json = False,
) -> int:
    """List cached objects: last use (UTC), cached bytes, bytes of the object, name; pinned ones with a star."""
    found = _existing(folder).list(_prefix(place, endpoint_url, profile))
    found.sort(key=lambda each: each[:3])
    for endpoint, bucket, key, version, size, cached, disk, used, pinned in found:
        if as_json:
            display.emit(
                "cached",
                endpoint=endpoint,
                bucket=bucket,
                key=key,
                version=version,
                size=size,
                cached=cached,
                disk=disk,
                last_used=text.timestamp(used, milliseconds=True),
                pinned=pinned,
            )
            continue
        moment = datetime.fromtimestamp(used, UTC).strftime("%Y-%m-%d %H:%M:%S")
        print(text.printable(f"{moment} {cached:>13} {size:>13} {'*' if pinned else ' '} s3://{bucket}/{key}"))
    if not as_json:
        display.say(f"{len(found)} objects, {sum(each[6] for each in found)} bytes on the disk.")
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
    found = _existing(folder).verify(_prefix(place, endpoint_url, profile))
    damaged = sum(each[3] for each in found)
    for bucket, key, sound, bad, busy in found:
        if as_json:
            display.emit("verified", bucket=bucket, key=key, sound=sound, damaged=bad, busy=busy)
        elif bad or busy:
            what = f"{bad} damaged blocks dropped" if bad else "in use, not looked at"
            print(text.printable(f"s3://{bucket}/{key}: {what}"))
    if not as_json:
        display.say(f"{len(found)} objects: {sum(each[2] for each in found)} blocks sound, {damaged} damaged.")
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
    if (place is None) != everything:
        raise UsageError("Name a prefix (s3://bucket/prefix), or --all for the whole cache.")
    opened = _existing(folder)
    prefix = _prefix(place, endpoint_url, profile)
    if prefix is not None:
        opened.unpin(prefix)
    objects, freed, busy = opened.remove(prefix)
    if as_json:
        display.emit("removed", objects=objects, bytes=freed, busy=busy)
    else:
        display.say(
            f"Removed {text.count(objects, 'object')}, {text.count(freed, 'byte')}."
            + (f" {busy} are in use and stayed." if busy else "")
        )
    return exits.FAILED if busy else exits.OK
