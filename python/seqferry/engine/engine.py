"""Typed Python interface of the Rust engine; only the modules of this package import ``_native``.

Adds nothing but the translation of places (``Location``) and failures (``StorageError``). ``Engine`` has jobs,
listings, limits and statistics; ``buckets`` has the calls about buckets as a whole and single objects.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from seqferry import _native
from seqferry._native import (
    CheckReport,
    CopyItem,
    DiskCache,
    EngineStats,
    Events,
    Failure,
    FoundCopy,
    FoundMember,
    Job,
    ObjectInfo,
    Progress,
    RecordedObjects,
)
from seqferry.engine import lookups, process_limits
from seqferry.engine.caches import cached_place, disk_cache
from seqferry.engine.jobs import JobContext, job_place, policy
from seqferry.engine.lookups import FailedLookup, Listed
from seqferry.engine.native_calls import native_endpoint, process_settings, storage_error, translate_errors
from seqferry.engine.pipes import Pipe
from seqferry.engine.traces import trace, traced_transfer
from seqferry.model.errors import ConfigError, StorageError
from seqferry.model.locations import LocalFolder, Location, S3Location
from seqferry.model.models import ResolvedSpec
from seqferry.settings.config import Settings
from seqferry.spec import properties

__all__ = [
    "CheckReport",
    "CopyItem",
    "Engine",
    "EngineStats",
    "Events",
    "FailedLookup",
    "Failure",
    "FoundCopy",
    "FoundMember",
    "Job",
    "JobContext",
    "Listed",
    "ObjectInfo",
    "Progress",
    "RecordedObjects",
    "native",
    "version",
]


def version() -> str:
    """The version of Seqferry."""
    return _native.__version__


log: Final = logging.getLogger("seqferry.engine")

_MAX_ATTEMPTS: Final = "AWS_MAX_ATTEMPTS"

LEASE_LAPSED: Final = "LeaseLapsed"
"""Error code of writes that were not made because this process has lost the right to write."""


CHANGED_SINCE: Final = "SourceChanged"
"""Error code of an object that holds something else by now, and was not removed."""


class LevelPage(NamedTuple):
    """A page of one level: objects, "folders" as their prefixes, and where the next page begins."""

    objects: list[ObjectInfo]
    prefixes: list[str]
    more: str | None


def _pages(listing: _native.Listing) -> Iterator[list[ObjectInfo]]:
    """The pages of a listing, which ends with this generator, or when nothing refers to it."""
    with translate_errors():
        try:
            while (page := listing.next(0.5)) is not None:
                yield page
        finally:
            listing.close()


class Engine:
    """One per process: one runtime and one request budget, shared by all jobs."""

    def __init__(
        self,
        *,
        max_requests: int = 10_000,
        memory: int = 256 * 1024 * 1024,
        max_bandwidth: int | None = None,
        tpslimit: int | None = None,
        cache: tuple[Path, int | None] | None = None,
    ) -> None:
        """Args: requests in flight, bytes of buffers, bytes per second, requests started per second (None: no
        limit), disk cache and its size.

        Raises this process's limit of open files as far as it may, and makes do with fewer requests where that is not
        enough: each request in flight holds a connection. Where memory is short, as in a small container, it makes do
        with smaller buffers and fewer requests as well.

        Raises:
            ConfigError: so few files may be open that nothing works.
        """
        files = process_limits.files_for_requests(max_requests)
        fitting = process_limits.plan_process_memory(memory, min(max_requests, files))
        self._most_requests = min(files, fitting.most_requests)
        self._max_requests = fitting.requests
        self._native = _native.Engine(max_requests=fitting.requests, memory=fitting.memory, max_bandwidth=max_bandwidth)
        self._tpslimit = tpslimit
        if tpslimit is not None:
            self._native.limit_starts(tpslimit)
        self._cache_settings = cache
        self._cache: DiskCache | None = None
        self._cache_lock = threading.Lock()

    @classmethod
    def of(cls, settings: Settings) -> Engine:
        """Engine with the limits that the settings have now, and with their trace."""
        trace(settings.trace)
        if settings.attempts is not None:
            # The engine reads it as all AWS tools do, for each endpoint that it connects to.
            os.environ[_MAX_ATTEMPTS] = str(settings.attempts)
            process_settings.attempts = settings.attempts
        return cls(
            max_requests=settings.max_requests,
            memory=settings.memory,
            max_bandwidth=settings.max_bandwidth.now(),
            tpslimit=settings.tpslimit,
            cache=None if settings.cache is None else (settings.cache, settings.max_cache_size),
        )

    def open_cache(self) -> DiskCache | None:
        """Open the disk cache of the settings, if they name one, before it is used.

        Raises:
            ConfigError: the folder cannot be used.
        """
        if self._cache_settings is None:
            return None
        folder, max_size = self._cache_settings
        with self._cache_lock:
            if self._cache is None:
                self._cache = disk_cache(str(folder), max_size=max_size, makes_room=True)
            return self._cache

    def cached_source(self, spec: ResolvedSpec) -> S3Location | None:
        """The source of a transfer that reads through the disk cache; None for others.

        Only downloads do: what stays inside the storage is not read here. With ``--verify content`` every byte comes
        from the storage.
        """
        if (
            self._cache_settings is None
            or not isinstance(spec.source, S3Location)
            or not isinstance(spec.target, LocalFolder)
            or spec.storage.verify == "content"
        ):
            return None
        return spec.source

    def _cache_of(self, spec: ResolvedSpec) -> tuple[DiskCache, str] | None:
        """The cache that a transfer reads through, and the name of its source there."""
        source = self.cached_source(spec)
        if source is None:
            return None
        try:
            found = self.open_cache()
        except ConfigError as error:
            # A cache makes transfers faster; without it they go on.
            log.warning("%s The transfer goes on without it.", error.message)
            self._cache_settings = None
            return None
        return None if found is None else (found, cached_place(source)[0])

    def limit_bandwidth(self, bytes_per_second: int | None) -> None:
        """Limit bytes per second from now on; None lifts the limit."""
        self._native.retune(max_bandwidth=bytes_per_second or 0)

    def limit_requests(self, most: int) -> bool:
        """Limit requests in flight from now on, as far as files and memory allow; True when that changes the limit."""
        allowed = max(min(most, self._most_requests), 1)
        if allowed == self._max_requests:
            return False
        self._native.retune(max_requests=allowed)
        self._max_requests = allowed
        return True

    @property
    def max_requests(self) -> int:
        """The limit of requests in flight that holds now."""
        return self._max_requests

    @property
    def tpslimit(self) -> int | None:
        """The limit of requests started per second that holds now."""
        return self._tpslimit

    def limit_starts(self, per_second: int | None) -> None:
        """Change the requests started per second from now on; None lifts the limit."""
        self._native.limit_starts(per_second)
        self._tpslimit = per_second

    @property
    def bandwidth(self) -> int | None:
        """The limit in bytes per second that holds now."""
        return self._native.stats().max_bandwidth

    def answers(self, within: float) -> bool:
        """True when the engine runs a new task within so many seconds; False when all of its threads are blocked."""
        return self._native.answers(within)

    def stats(self) -> EngineStats:
        """Statistics of all requests of this process, with the metrics by prefix class and operation."""
        return self._native.stats()

    def check_bucket(self, place: Location) -> None:
        """Raise StorageError when the bucket of this place cannot be used."""
        with translate_errors():
            self._native.check_bucket(native_endpoint(place), place.container)

    def head(self, place: Location, keys: list[str]) -> list[ObjectInfo | None]:
        """Look each key up; None where there is no such object."""
        with translate_errors():
            return self._native.head(native_endpoint(place), place.container, keys)

    def head_each(self, place: Location, keys: list[str]) -> list[Listed]:
        """Look each key up, with an outcome for each: one that fails keeps no other from it. Tried as for a transfer.

        Raises:
            StorageError: no key can fare better, or the storage is out of reach.
        """
        asked = [key for key in keys if not lookups.is_too_long(place, key)]
        with translate_errors():
            answers = dict(
                zip(asked, self._native.head_each(native_endpoint(place), place.container, asked), strict=True)
            )
        found: list[Listed] = []
        passing = 0
        for key in keys:
            if key not in answers:
                why = StorageError(lookups.too_long(key), "object", "KeyTooLongError", "HeadObject")
                found.append(FailedLookup.of(key, why))
                continue
            info, failure = answers[key]
            if info is not None:
                found.append(info)
            elif failure is None:
                found.append(FailedLookup.absent(place, key))
            else:
                why = storage_error(failure)
                passing += why.is_transient
                found.append(FailedLookup.of(key, why))
        if passing and passing == len(found):
            # Not one answer that is certain: either these keys are the trouble, or nothing answers at all.
            self._check_reached(place)
        return found

    def _check_reached(self, place: Location) -> None:
        try:
            self.check_bucket(place)
        except StorageError as why:
            if not why.is_denied:
                raise

    def delete(
        self, place: Location, objects: Iterable[tuple[str, str | None]], *, epoch: int | None = None
    ) -> list[str]:
        """Remove objects (key, ETag), those with an ETag only while it is theirs; returns the keys that were left.

        One that is not there counts as removed; of those before a StorageError some are. With an ``epoch`` only within
        the lease (see ``lease``): ``LEASE_LAPSED`` else.
        """
        with translate_errors():
            return self._native.delete(native_endpoint(place), place.container, list(objects), epoch=epoch)

    def lease(self, until: int, epoch: int) -> None:
        """Let jobs of this epoch write until then, by ``lease_clock``, and no other job that has an epoch."""
        self._native.lease(until, epoch)

    @staticmethod
    def arm_crash(name: str, visit: int) -> bool:
        """End this process at a visit to a crash point of the engine (``engine.crash_points``)."""
        return _native.Engine.arm_crash(name, visit)

    @staticmethod
    def lease_clock() -> int:
        """Nanoseconds by a clock that goes on while the machine is suspended."""
        return _native.Engine.lease_clock()

    def list(self, place: Location, *, limit: int | None = None) -> Iterator[list[ObjectInfo]]:
        """Pages of all objects whose key starts with ``place.key``, in no order, in bounded memory.

        The first pages are requested immediately. Yields an empty page now and then while waiting, so that the caller
        can look around.
        """
        with translate_errors():
            listing = self._native.list(
                native_endpoint(place), place.container, place.key, limit=limit, transfer=traced_transfer()
            )
        return _pages(listing)

    def list_after(self, place: Location, after: str, *, at_most: int | None = None) -> tuple[list[ObjectInfo], bool]:
        """One page of the objects below ``place`` whose keys follow ``after``, and whether it is the last one.

        One request, in the order of the service, which is that of keys nearly everywhere.
        """
        with translate_errors():
            found, _, more = self._native.list_page(
                native_endpoint(place), place.container, place.key, start_after=after or None, max_keys=at_most
            )
        return found, more is None

    def level(self, place: Location) -> Iterator[tuple[list[ObjectInfo], list[str]]]:
        """Pages of one level: the objects directly at ``place.key``, and each "folder" below it once, as its prefix."""
        more: str | None = None
        seen: set[str | None] = set()
        while True:
            with translate_errors():
                found, prefixes, more = self._native.list_page(
                    native_endpoint(place), place.container, place.key, delimiter="/", continuation=more
                )
            yield found, prefixes
            if more is None:
                return
            if more in seen:
                why = "the service answers with the same page token again and again"
                raise StorageError(f"ListObjectsV2 {place.uri}: {why}", "object", "MalformedReply", "ListObjectsV2")
            seen = {more}

    def level_page(self, place: Location, *, limit: int, continuation: str | None = None) -> LevelPage:
        """One page of a level, as ``level`` has them; ``more`` of a page is the ``continuation`` of the next one.

        Raises:
            StorageError: the place cannot be listed.
        """
        with translate_errors():
            objects, prefixes, more = self._native.list_page(
                native_endpoint(place),
                place.container,
                place.key,
                delimiter="/",
                continuation=continuation,
                max_keys=limit,
            )
        return LevelPage(objects, prefixes, more)

    def start(self, spec: ResolvedSpec, items: Iterable[CopyItem], context: JobContext) -> Job:
        """Start copying ``items`` as ``spec`` asks."""
        with translate_errors():
            cache = self._cache_of(spec)
            return self._native.start(policy(spec, context), list(items), epoch=context.epoch, cache=cache)

    def pack(self, spec: ResolvedSpec, items: Iterable[CopyItem], context: JobContext, *, index: bool) -> Job:
        """Start packing ``items`` into one archive."""
        with translate_errors():
            chosen = policy(spec, context)
            return self._native.pack(chosen, list(items), strip=spec.strip, index=index, epoch=context.epoch)

    def start_members(self, spec: ResolvedSpec, items: Iterable[CopyItem], context: JobContext) -> Job:
        """Start unpacking members of the archive ``spec.source``: the versions of ``items`` are their places."""
        with translate_errors():
            chosen = policy(spec, context)
            return self._native.start_members(chosen, spec.source.key, list(items), epoch=context.epoch)

    def start_remove(
        self,
        place: Location,
        items: Iterable[CopyItem],
        context: JobContext,
        *,
        stop_at_failure: bool = False,
        fail_at_lapse: bool = False,
    ) -> Job:
        """Start removing ``items``: versions permanently, and objects with an ETag only while they have it.

        One that is not there counts as removed; one that holds something else by now fails as ``CHANGED_SINCE``. A
        resumed job looks at each first: some services pass over ETags.

        Args:
            stop_at_failure: begin no removal after the first failure that is not ``CHANGED_SINCE``.
            fail_at_lapse: fail as a whole when the lease lapses (``LEASE_LAPSED``), for a caller that cannot admit the
                job again.
        """
        with translate_errors():
            return self._native.start_remove(
                job_place(place, context),
                list(items),
                careful=context.resumed,
                stop_at_failure=stop_at_failure,
                fail_at_lapse=fail_at_lapse,
                epoch=context.epoch,
            )

    def start_abort(self, place: Location, items: Iterable[CopyItem], context: JobContext) -> Job:
        """Start aborting open uploads, whose ids are the versions of ``items``. One that is gone counts as aborted."""
        with translate_errors():
            return self._native.start_abort(job_place(place, context), list(items), epoch=context.epoch)

    def start_verify(
        self, place: Location, recorded: RecordedObjects, context: JobContext, *, content: bool, archives: bool
    ) -> Job:
        """Start comparing objects at ``place`` with their record. Nothing is written.

        Args:
            content: read those of which a digest is on record.
            archives: sizes and ETags on record are those of members, and are not compared.
        """
        with translate_errors():
            return self._native.start_verify(
                job_place(place, context), recorded, content=content, archives=archives, epoch=context.epoch
            )

    def write_output(self, place: S3Location, *, version_id: str | None = None) -> Pipe:
        """Start to write the object at ``place`` to standard output, in order."""
        endpoint = native_endpoint(place)
        return Pipe(_native.write_output(self._native, endpoint, place.bucket, place.key, version_id=version_id))

    def store_input(self, spec: ResolvedSpec, journal: str) -> Pipe:
        """Start to store standard input at the target of ``spec``, in parts as they come.

        Args:
            journal: the file that the id of the upload is put into before its first part.
        """
        return Pipe(
            _native.store_input(
                self._native,
                native_endpoint(spec.target),
                spec.target.container,
                spec.target.key,
                if_exists=spec.selection.if_exists,
                part_size=spec.parts.part_size,
                storage_class=spec.storage.storage_class,
                properties=_native.Properties(**properties.engine_properties(spec)),
                journal=journal,
            )
        )

    def restore(self, place: S3Location, keys: list[str], *, days: int, tier: str) -> list[bool]:
        """Request readable copies of archived objects, for ``days``; returns for each key whether it can be read now.

        Raises:
            StorageError: HEAD or the restore of an object failed.
        """
        with translate_errors():
            return _native.restore(self._native, native_endpoint(place), place.bucket, keys, days, tier)

    def abort_upload(self, place: S3Location, upload_id: str) -> None:
        """Abort a multipart upload to ``place``; one that is gone counts as aborted.

        Raises:
            StorageError: the upload cannot be aborted.
        """
        with translate_errors():
            _native.abort_upload(self._native, native_endpoint(place), place.bucket, place.key, upload_id)

    def check_archive(self, place: Location, **options: Any) -> Iterator[CheckReport]:
        """Reports of comparing an archive with its index, empty ones while waiting. ``options``: ``ScanOptions``.

        Raises:
            StorageError: the archive cannot be read, is refused as a whole, or its index is damaged or another's.
        """
        with translate_errors():
            chosen = _native.ScanOptions(**options)
            check = self._native.check_archive(native_endpoint(place), place.container, place.key, chosen)
            while (report := check.next(0.5)) is not None:
                yield report

    def index_archive(self, place: Location) -> int:
        """Write the index beside an archive, from its headers; returns the number of members.

        Raises:
            StorageError: the archive cannot be read or is refused as a whole, or the index cannot be written.
        """
        with translate_errors():
            return self._native.index_archive(native_endpoint(place), place.container, place.key)

    def scan_archive(self, place: Location, *, retain: bool = False, **options: Any) -> Iterator[list[FoundMember]]:
        """Pages of the members of an archive in its order; empty pages while waiting. ``options``: ``ScanOptions``.

        With ``retain``, what is read is kept for jobs over these members that begin soon, as far as memory allows.

        Raises:
            StorageError: the archive cannot be read, or is refused as a whole; no page came before that.
        """
        with translate_errors():
            chosen = _native.ScanOptions(**options)
            scan = self._native.scan_archive(native_endpoint(place), place.container, place.key, chosen, retain=retain)
            try:
                while (page := scan.next(0.5)) is not None:
                    yield page
            finally:
                scan.close()


def native(engine: Engine) -> _native.Engine:
    """The native engine that calls are made on."""
    return engine._native  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
