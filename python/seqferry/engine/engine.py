"""Typed Python interface of the Rust engine; only this module and ``buckets`` import ``_native``.

Adds nothing but the translation of places (``Location``) and failures (``StorageError``). ``buckets`` has the calls
about buckets as a whole and single objects.
"""

from __future__ import annotations

import logging
import os
import resource
import threading
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from seqferry import _native
from seqferry._native import (
    CheckReport,
    CopyItem,
    DiskCache,
    EngineStats,
    Events,
    Failure,
    FoundMember,
    Job,
    ObjectInfo,
    Progress,
)
from seqferry.engine.mounts import MountSpec
from seqferry.model.errors import ConfigError, MismatchError, StorageError
from seqferry.model.models import (
    ERROR_CLASSES,
    Access,
    Identity,
    LocalFolder,
    Location,
    S3Location,
    TransferSpec,
)
from seqferry.places import customer_keys, endpoints
from seqferry.settings import memory_limits
from seqferry.settings.config import Settings
from seqferry.spec import identity, properties
from seqferry.spec.build import MAX_KEY_BYTES, data_path, settle_seconds

__all__ = [
    "CheckReport",
    "CopyItem",
    "DiskCache",
    "Engine",
    "EngineStats",
    "Events",
    "FailedLookup",
    "Failure",
    "FoundMember",
    "Job",
    "Listed",
    "ObjectInfo",
    "Progress",
    "audit_names",
    "cached_place",
    "disk_cache",
    "equal_as_listed",
    "has_warmed",
    "mount",
    "native",
    "native_endpoint",
    "pack_shards",
    "path_refusal",
    "trace",
    "traced_as",
    "translated",
    "version",
    "warm",
]


def path_refusal(key: str, size: int) -> tuple[str, str] | None:
    """Refusal of this key as a file below a folder, as code and cause with advice; None when a file can have it."""
    try:
        return _native.path_refusal(key, size)
    except UnicodeEncodeError:
        # Halves of characters stand for bytes that are no UTF-8. What is asked for does not depend on them.
        return _native.path_refusal(key.encode("utf-8", "replace").decode(), size)


equal_as_listed: Final = _native.equal_as_listed


def pack_shards(names: list[str], sizes: list[int], shard_size: int) -> list[int]:
    """Cut members into archives of at most ``shard_size`` bytes: the ordinals at which shards end.

    Raises:
        StorageError: the members have more bytes than any tar can hold.
    """
    try:
        return _native.pack_shards(names, sizes, shard_size)
    except ValueError as why:
        raise StorageError(f"{why}.", "object", "ArchiveTooLarge", "plan", True) from None


_trace: str | None = None


def trace(target: str | None) -> None:
    """Write spans of the engine as lines of JSON to ``stderr`` or to a file, from now on; None changes nothing.

    Raises:
        ConfigError: the file cannot be written, or another one was named before.
    """
    global _trace
    if target is None or target == _trace:
        return
    try:
        _native.start_trace(None if target == "stderr" else target)
    except OSError as why:
        raise ConfigError(
            f"Cannot write a trace to {target}: {why}. Name a file that can be written with SEQFERRY_TRACE, or stderr."
        ) from None
    _trace = target


_transfer: Final = ContextVar("_transfer", default="")


@contextmanager
def traced_as(transfer: str) -> Generator[None]:
    """Traces of what this thread lists meanwhile name this transfer."""
    token = _transfer.set(transfer)
    try:
        yield
    finally:
        _transfer.reset(token)


def version() -> str:
    """The version of Seqferry."""
    return _native.__version__


log: Final = logging.getLogger("seqferry.engine")

LEASE_LAPSED: Final = "LeaseLapsed"
"""Error code of writes that were not made because this process has lost the right to write."""

_OTHER_FILES: Final = 256
"""Open files besides connections to the storage: databases, logs, HTTP clients of ``serve``."""

_FEWEST_FILES: Final = 64
"""Open files with which one object at a time is still copied; below, some library fails at a random place."""

_ALL_FILES: Final = 65_536
"""More open files than any process here has use for; some programs loop over all that are allowed."""


_UNRESOLVED: Final = Access(Identity("anonymous"))


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except _native.EngineError as failure:
        kind = MismatchError if failure.args[1] == "mismatch" else StorageError
        raise kind(*failure.args) from None
    except BaseException as panic:
        # A fault of the engine. It is no Exception, and handlers of failures must not miss it.
        if type(panic).__name__ == "PanicException":
            message = f"The engine failed by a fault of its own, which is worth a report: {panic}"
            raise StorageError(message, "person", "Panicked", job_wide=True) from panic
        raise


class _ProcessSettings:
    """Settings that hold for all requests of this process."""

    attempts: int | None = None


_process_settings: Final = _ProcessSettings()
_MAX_ATTEMPTS: Final = "AWS_MAX_ATTEMPTS"


def _endpoint(place: Location, copies_from: Location | None = None) -> _native.Endpoint:
    if isinstance(place, LocalFolder):
        return _native.Endpoint(
            disk=True,
            symlinks=place.symlinks,
            empty_directories=place.empty_directories,
            page_cache=place.page_cache,
            preserve_permissions=place.preserve_permissions,
        )
    own = identity.here(place)
    found = own.access or _UNRESOLVED
    return _native.Endpoint(
        endpoint_url=own.endpoint_url,
        region=own.region,
        profile=own.profile,
        anonymous=own.anonymous,
        resolved=own.access is not None,
        ca_bundle=found.ca_bundle,
        use_fips=found.fips,
        use_dual_stack=found.dual_stack,
        path_style=found.path_style,
        accelerate=found.accelerate,
        sign_bodies=found.sign_bodies,
        request_payer=own.request_payer is not None,
        attempts=_process_settings.attempts or own.attempts,
        customer_key=customer_keys.read(place),
        copy_source_key=None if copies_from is None else customer_keys.read(copies_from),
    )


def _open_files() -> int:
    """Number of files that this process may open, after raising the limit as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ALL_FILES if hard == resource.RLIM_INFINITY else min(hard, _ALL_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return _ALL_FILES if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        # macOS names no limit and still has one.
        return soft
    return wanted


def _fitting(memory: int, requests: int) -> memory_limits.Fit:
    """Buffers and requests in flight that fit into the memory that this process may take; says so where it is less."""
    room = memory_limits.room()
    found = memory_limits.fit(room, resident=memory_limits.resident(), memory=memory, requests=requests)
    if room is not None and (found.memory, found.requests) != (memory, requests):
        log.info(
            "%d MiB of buffers and %d requests in flight instead of %d MiB and %d: %d MiB are left of %s (%d MiB)",
            found.memory >> 20, found.requests, memory >> 20, requests,
            room.free >> 20, room.cause, room.limit >> 20,
        )  # fmt: skip
    return found


@dataclass(frozen=True, slots=True)
class FailedLookup:
    """A named object that is absent or could not be looked up; its other fields are those of ``ObjectInfo``."""

    key: str
    failure: StorageError
    version_id: str | None = None
    is_absent: bool = False
    size: int = 0
    etag: str = ""
    last_modified: float = 0.0
    storage_class: str | None = None

    @property
    def refusal(self) -> tuple[str, str]:
        return self.failure.error_code or self.failure.code, self.failure.message

    @classmethod
    def absent(cls, place: Location, key: str, version_id: str | None = None) -> FailedLookup:
        """The entry of an object that is not at the place."""
        version = f" (version {version_id})" if version_id else ""
        what = "file" if isinstance(place, LocalFolder) else "object"
        why = f"There is no {what} {place.at(key)}{version}. Check its name."
        failure = StorageError(why, "object", "NoSuchKey", "HeadObject")
        return cls(key, failure, version_id, is_absent=True)

    @classmethod
    def of(cls, key: str, why: StorageError, version_id: str | None = None) -> FailedLookup:
        """The entry of an object that the storage refuses to show."""
        # An answer to HEAD has no body, and so no better code.
        code = "AccessDenied" if why.error_code == "Forbidden" else why.error_code
        known = why.error_class if why.error_class in ERROR_CLASSES else "object"
        return cls(key, StorageError(why.message, known, code, why.operation), version_id)


def _is_too_long(place: Location, key: str) -> bool:
    return isinstance(place, S3Location) and len(key.encode("utf-8", "surrogateescape")) > MAX_KEY_BYTES


def _too_long(key: str) -> str:
    return f"'{key[:80]}...' is longer than the {MAX_KEY_BYTES} bytes that S3 allows for a key. Correct the list."


Listed = ObjectInfo | FailedLookup
"""An object as a listing or a look-up shows it, or a named one that could not be looked up."""


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
        limit = _open_files()
        if limit < _FEWEST_FILES:
            raise ConfigError(
                f"This process may open {limit} files, and needs {_FEWEST_FILES}: connections, files and the database. "
                "Raise its limit, as with: ulimit -n 65536."
            )
        files = max(limit - _OTHER_FILES, 1)
        if files < max_requests:
            log.info(
                "%d requests in flight instead of %d: no more files may be open (raise it with ulimit -Hn)",
                files,
                max_requests,
            )
        fitting = _fitting(memory, min(max_requests, files))
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
            _process_settings.attempts = settings.attempts
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

    def _cache_of(self, spec: TransferSpec) -> tuple[DiskCache, str] | None:
        """The cache that a transfer reads through, and the name of its source there.

        Only for downloads: what stays inside the storage is not read here. With ``--verify content`` every byte comes
        from the storage.
        """
        if (
            self._cache_settings is None
            or not isinstance(spec.source, S3Location)
            or not isinstance(spec.target, LocalFolder)
            or spec.storage.verify == "content"
        ):
            return None
        try:
            found = self.open_cache()
        except ConfigError as error:
            # A cache makes transfers faster; without it they go on.
            log.warning("%s The transfer goes on without it.", error.message)
            self._cache_settings = None
            return None
        return None if found is None else (found, cached_place(spec.source)[0])

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

    def stats(self) -> EngineStats:
        """Statistics of all requests of this process, with the metrics by prefix class and operation."""
        return self._native.stats()

    def check_bucket(self, place: Location) -> None:
        """Raise StorageError when the bucket of this place cannot be used."""
        with _translated():
            self._native.check_bucket(_endpoint(place), place.container)

    def head(self, place: Location, keys: list[str]) -> list[ObjectInfo | None]:
        """Look each key up; None where there is no such object."""
        with _translated():
            return self._native.head(_endpoint(place), place.container, keys)

    def head_each(self, place: Location, keys: list[str]) -> list[Listed]:
        """Look each key up, with an outcome for each: one that fails keeps no other from it. Tried as for a transfer.

        Raises:
            StorageError: no key can fare better, or the storage is out of reach.
        """
        asked = [key for key in keys if not _is_too_long(place, key)]
        with _translated():
            answers = dict(zip(asked, self._native.head_each(_endpoint(place), place.container, asked), strict=True))
        found: list[Listed] = []
        passing = 0
        for key in keys:
            info, told = answers.get(key, (None, ("object", "KeyTooLongError", "HeadObject", _too_long(key), False)))
            if info is not None:
                found.append(info)
            elif told is None:
                found.append(FailedLookup.absent(place, key))
            else:
                error_class, code, operation, message, _ = told
                why = StorageError(message, error_class, code, operation)
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
        with _translated():
            return self._native.delete(_endpoint(place), place.container, list(objects), epoch=epoch)

    def lease(self, until: int, epoch: int) -> None:
        """Let jobs of this epoch write until then, by ``lease_clock``, and no other job that has an epoch."""
        self._native.lease(until, epoch)

    @staticmethod
    def lease_clock() -> int:
        """Nanoseconds by a clock that goes on while the machine is suspended."""
        return _native.Engine.lease_clock()

    def list(self, place: Location, *, limit: int | None = None) -> Iterator[list[ObjectInfo]]:
        """Pages of all objects whose key starts with ``place.key``, in no order, in bounded memory.

        Yields an empty page now and then while waiting, so that the caller can look around.
        """
        with _translated():
            listing = self._native.list(
                _endpoint(place), place.container, place.key, limit=limit, transfer=_transfer.get()
            )
            try:
                while (page := listing.next(0.5)) is not None:
                    yield page
            finally:
                listing.close()

    def list_after(self, place: Location, after: str, *, at_most: int | None = None) -> tuple[list[ObjectInfo], bool]:
        """One page of the objects below ``place`` whose keys follow ``after``, and whether it is the last one.

        One request, in the order of the service, which is that of keys nearly everywhere.
        """
        with _translated():
            found, _, more = self._native.list_page(
                _endpoint(place), place.container, place.key, start_after=after or None, max_keys=at_most
            )
        return found, more is None

    def level(self, place: Location) -> Iterator[tuple[list[ObjectInfo], list[str]]]:
        """Pages of one level: the objects directly at ``place.key``, and each "folder" below it once, as its prefix."""
        more: str | None = None
        seen: set[str | None] = set()
        while True:
            with _translated():
                found, prefixes, more = self._native.list_page(
                    _endpoint(place), place.container, place.key, delimiter="/", continuation=more
                )
            yield found, prefixes
            if more is None:
                return
            if more in seen:
                why = "the service answers with the same page token again and again"
                raise StorageError(f"ListObjectsV2 {place.uri}: {why}", "object", "MalformedReply", "ListObjectsV2")
            seen = {more}

    def start(
        self,
        spec: TransferSpec,
        items: Iterable[CopyItem],
        *,
        transfer: str,
        resumed: bool,
        since: float,
        only_clean: bool = False,
        epoch: int | None = None,
    ) -> Job:
        """Start copying ``items`` as ``spec`` asks. See ``_native`` for the other arguments."""
        with _translated():
            policy = _policy(spec, transfer=transfer, resumed=resumed, since=since, only_clean=only_clean)
            return self._native.start(policy, list(items), epoch=epoch, cache=self._cache_of(spec))

    def pack(
        self,
        spec: TransferSpec,
        items: Iterable[CopyItem],
        *,
        index: bool,
        transfer: str,
        resumed: bool,
        since: float,
        only_clean: bool = False,
        epoch: int | None = None,
    ) -> Job:
        """Start packing ``items`` into one archive. See ``_native`` for the other arguments."""
        with _translated():
            policy = _policy(spec, transfer=transfer, resumed=resumed, since=since, only_clean=only_clean)
            return self._native.pack(policy, list(items), strip=spec.strip, index=index, epoch=epoch)

    def start_members(
        self,
        spec: TransferSpec,
        items: Iterable[CopyItem],
        *,
        transfer: str,
        resumed: bool,
        since: float,
        only_clean: bool = False,
        epoch: int | None = None,
    ) -> Job:
        """Start unpacking members of the archive ``spec.source``: the versions of ``items`` are their places."""
        with _translated():
            policy = _policy(spec, transfer=transfer, resumed=resumed, since=since, only_clean=only_clean)
            return self._native.start_members(policy, spec.source.key, list(items), epoch=epoch)

    def write_output(
        self, place: S3Location, *, version_id: str | None = None, bytes_range: tuple[int, int | None] | None = None
    ) -> Pipe:
        """Start to write the object at ``place`` to standard output, in order.

        ``bytes_range``: the offsets of the first and the last byte (None: the end); a negative one counts from the end.
        """
        endpoint = _endpoint(place)
        return Pipe(
            _native.write_output(
                self._native, endpoint, place.bucket, place.key, version_id=version_id, range=bytes_range
            )
        )

    def store_input(self, spec: TransferSpec, journal: str) -> Pipe:
        """Start to store standard input at the target of ``spec``, in parts as they come.

        Args:
            journal: the file that the id of the upload is put into before its first part.
        """
        return Pipe(
            _native.store_input(
                self._native,
                _endpoint(spec.target),
                spec.target.container,
                spec.target.key,
                if_exists=spec.selection.if_exists,
                part_size=spec.parts.part_size,
                storage_class=spec.storage.storage_class,
                properties=_native.Properties(**properties.for_engine(spec)),
                journal=journal,
            )
        )

    def restore(self, place: S3Location, keys: list[str], *, days: int, tier: str) -> list[bool]:
        """Request readable copies of archived objects, for ``days``; returns for each key whether it can be read now.

        Raises:
            StorageError: an object cannot be looked at, or not be restored.
        """
        with _translated():
            return _native.restore(self._native, _endpoint(place), place.bucket, keys, days, tier)

    def abort_upload(self, place: S3Location, upload_id: str) -> None:
        """Abort a multipart upload to ``place``; one that is gone counts as aborted.

        Raises:
            StorageError: the upload cannot be aborted.
        """
        with _translated():
            _native.abort_upload(self._native, _endpoint(place), place.bucket, place.key, upload_id)

    def check_archive(self, place: Location, **options: Any) -> Iterator[CheckReport]:
        """Reports of comparing an archive with its index, empty ones while waiting. ``options``: ``ScanOptions``.

        Raises:
            StorageError: the archive cannot be read, is refused as a whole, or its index is damaged or another's.
        """
        with _translated():
            chosen = _native.ScanOptions(**options)
            check = self._native.check_archive(_endpoint(place), place.container, place.key, chosen)
            while (report := check.next(0.5)) is not None:
                yield report

    def index_archive(self, place: Location) -> int:
        """Write the index beside an archive, from its headers; returns the number of members.

        Raises:
            StorageError: the archive cannot be read or is refused as a whole, or the index cannot be written.
        """
        with _translated():
            return self._native.index_archive(_endpoint(place), place.container, place.key)

    def scan_archive(self, place: Location, *, retain: bool = False, **options: Any) -> Iterator[list[FoundMember]]:
        """Pages of the members of an archive in its order; empty pages while waiting. ``options``: ``ScanOptions``.

        With ``retain``, what is read is kept for jobs over these members that begin soon, as far as memory allows.

        Raises:
            StorageError: the archive cannot be read, or is refused as a whole; no page came before that.
        """
        with _translated():
            chosen = _native.ScanOptions(**options)
            scan = self._native.scan_archive(_endpoint(place), place.container, place.key, chosen, retain=retain)
            try:
                while (page := scan.next(0.5)) is not None:
                    yield page
            finally:
                scan.close()


def _policy(spec: TransferSpec, *, transfer: str, resumed: bool, since: float, only_clean: bool) -> _native.CopyPolicy:
    return _native.CopyPolicy(
        source=_endpoint(spec.source),
        source_bucket=spec.source.container,
        target=_endpoint(spec.target, spec.source),
        target_bucket=spec.target.container,
        source_prefix=spec.source.key,
        target_prefix=spec.target.key,
        if_exists=spec.selection.if_exists,
        verify=spec.storage.verify,
        part_size=spec.parts.part_size,
        copy_threshold=spec.parts.copy_threshold,
        storage_class=spec.storage.storage_class,
        properties=_native.Properties(**properties.for_engine(spec)),
        md5=spec.storage.md5,
        data_path=data_path(spec),
        resumed=resumed,
        since=since,
        only_clean=only_clean,
        compare_only=spec.kind.compares,
        no_sync=bool(spec.options.get("no_sync")),
        transfer=transfer,
        settle_seconds=settle_seconds(spec),
    )


class Pipe:
    """An object that goes to standard output, or comes from standard input."""

    def __init__(self, native: _native.Pipe) -> None:
        self._native = native

    def wait(self, seconds: float) -> bool:
        """True when it has ended, after waiting at most so long."""
        return self._native.wait(seconds)

    def cancel(self) -> None:
        """Stop it. An open upload is aborted before it ends."""
        self._native.cancel()

    @property
    def bytes(self) -> int:
        """Bytes that have gone through."""
        return self._native.bytes

    def end(self) -> _native.PipeReport | None:
        """Report of its end; None when it was cancelled. To be asked once, after it has ended.

        Raises:
            MismatchError: the bytes are not what the storage promises, or what was sent.
            StorageError: another failure of the storage.
            OSError: standard input or output failed; BrokenPipeError: the reader has gone.
        """
        with _translated():
            return self._native.end()


def disk_cache(path: str, *, max_size: int | None = None, makes_room: bool = False) -> DiskCache:
    """Open or make a disk cache. With ``makes_room`` a thread keeps it within its size.

    Raises:
        ConfigError: the folder cannot be used.
    """
    try:
        return DiskCache(path, max_size=max_size, makes_room=makes_room)
    except OSError as error:
        raise ConfigError(f"{error}".rstrip(".") + ".") from None


def cached_place(place: S3Location) -> tuple[str, str, str]:
    """A prefix as a disk cache names it: endpoint, bucket, start of the keys."""
    return endpoints.of(place) or "aws", place.bucket, place.key


def inventory_rows(
    path: Path, at_once: int, needed: Collection[str]
) -> Iterator[tuple[str, int | None, str | None, int | None, str | None, bool | None, bool | None]]:
    """The rows of a file of S3 Inventory in Parquet, ``at_once`` of them in memory; see ``InventoryRows.next_rows``.

    Raises:
        ValueError: the file, or a row of it, cannot be read, or it lacks a needed column; says which and why.
    """
    rows = _native.InventoryRows(str(path))
    if missing := sorted(set(needed) - set(rows.columns)):
        raise ValueError(f"it has no column '{missing[0]}', and the manifest names one")
    while page := rows.next_rows(at_once):
        yield from page


def warm(cache: DiskCache, place: S3Location, *, ranges: int, max_bandwidth: int | None = None) -> _native.CacheWarming:
    """Read a prefix into a disk cache with threads of this process."""
    return cache.warm(_endpoint(place), cached_place(place), ranges=ranges, max_bandwidth=max_bandwidth)


def has_warmed(warming: _native.CacheWarming, seconds: float) -> bool:
    """True when warming has ended, after waiting at most so long.

    Raises:
        StorageError: the prefix cannot be listed.
    """
    with _translated():
        return warming.wait(seconds)


def audit_names(place: S3Location, prefix: str, *, most: int) -> _native.NameAudit:
    """Walk over everything that a mount of this prefix would show, and name up to ``most`` keys that it would hide.

    Raises:
        ConfigError: the bucket cannot be listed.
    """
    try:
        return _native.audit_names(
            _endpoint(place), endpoint_name=endpoints.of(place) or "aws", bucket=place.bucket, prefix=prefix, most=most
        )
    except OSError as error:
        raise ConfigError(f"{error}".rstrip(".") + ".") from None


def mount(spec: MountSpec) -> _native.Mount:
    """Mount a bucket; it is served by threads of this process until it is unmounted.

    Raises:
        ConfigError: the folder cannot be mounted, for the reason in the text; nothing is left mounted.
    """
    _open_files()
    fitting = _fitting(spec.memory, spec.max_requests)
    try:
        return _native.Mount(
            _endpoint(spec.place),
            endpoint_name=endpoints.of(spec.place) or "aws",
            bucket=spec.place.bucket,
            prefix=spec.prefix,
            directory=str(spec.directory),
            source=spec.place.at(spec.prefix),
            archive=spec.archive,
            lifetime=spec.lifetime,
            freshness=spec.freshness,
            memory=fitting.memory,
            max_requests=fitting.requests,
            max_bandwidth=spec.max_bandwidth,
            cache=None if spec.cache is None else str(spec.cache),
            max_cache_size=spec.max_cache_size,
            pin=spec.pin,
            manifest=None if spec.manifest is None else str(spec.manifest),
            allow_other=spec.allow_other,
            allow_non_empty=spec.allow_non_empty,
            uid=spec.uid,
            gid=spec.gid,
            file_mode=spec.file_mode,
            directory_mode=spec.directory_mode,
        )
    except OSError as error:
        raise ConfigError(f"{error}".rstrip(".") + ".") from None


native_endpoint: Final = _endpoint
translated: Final = _translated


def native(engine: Engine) -> _native.Engine:
    """The native engine that calls are made on."""
    return engine._native  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
