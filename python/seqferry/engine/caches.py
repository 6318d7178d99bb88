"""The disk cache of mounts and transfers: opened, named, warmed."""

from __future__ import annotations

from typing import NamedTuple

from seqferry._native import CachedObject, CacheWarming, DiskCache, VerifiedObject, Warmed
from seqferry.engine.native_calls import native_endpoint, translate_errors
from seqferry.model.errors import ConfigError
from seqferry.model.locations import S3Location
from seqferry.places import endpoints

__all__ = ["DiskCache"]


class CachedPlace(NamedTuple):
    """A prefix as a disk cache names it."""

    endpoint: str
    bucket: str
    prefix: str


class Removed(NamedTuple):
    """Cached objects that were removed, their bytes, and objects that are in use and stayed."""

    objects: int
    bytes: int
    busy: int


def list_cached(cache: DiskCache, place: CachedPlace | None) -> list[CachedObject]:
    """Objects in a cache below a place, or all."""
    return cache.list(place)


def verify(cache: DiskCache, place: CachedPlace | None) -> list[VerifiedObject]:
    """Look at each block below a place, or at all, and drop damaged ones."""
    return cache.verify(place)


def remove(cache: DiskCache, place: CachedPlace | None) -> Removed:
    """Remove what is below a place, or all."""
    return Removed._make(cache.remove(place))


def outcome(warming: CacheWarming) -> Warmed:
    """Outcome of warming up to now."""
    return warming.report()


def disk_cache(path: str, *, max_size: int | None = None, makes_room: bool = False) -> DiskCache:
    """Open or make a disk cache. With ``makes_room`` a thread keeps it within its size.

    Raises:
        ConfigError: the folder cannot be used.
    """
    try:
        return DiskCache(path, max_size=max_size, makes_room=makes_room)
    except OSError as error:
        raise ConfigError(f"{error}".rstrip(".") + ".") from None


def cached_place(place: S3Location) -> CachedPlace:
    """A prefix as a disk cache names it."""
    return CachedPlace(endpoints.resolve(place) or "aws", place.bucket, place.key)


def warm(cache: DiskCache, place: S3Location, *, ranges: int, max_bandwidth: int | None = None) -> CacheWarming:
    """Read a prefix into a disk cache with threads of this process."""
    return cache.warm(native_endpoint(place), cached_place(place), ranges=ranges, max_bandwidth=max_bandwidth)


def has_warmed(warming: CacheWarming, seconds: float) -> bool:
    """True when warming has ended, after waiting at most so long.

    Raises:
        StorageError: the prefix cannot be listed.
    """
    with translate_errors():
        return warming.wait(seconds)
