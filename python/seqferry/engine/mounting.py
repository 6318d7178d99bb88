"""Mounts by the engine; their settings are in ``mounts``, which needs no engine."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Final

from seqferry import _native
from seqferry.engine import gateway_control, gateways, process_limits
from seqferry.engine.mounts import MountSpec
from seqferry.engine.native_calls import native_endpoint
from seqferry.model.errors import ConfigError
from seqferry.model.locations import S3Location
from seqferry.model.workers import Activity, Limits
from seqferry.places import endpoints
from seqferry.settings import memory_limits
from seqferry.settings.shares import Share

SHARE: Final = "mount"
"""Name of the share behind a mount, which paths of ``seqferry gateway ls`` begin with."""

_FOR_GOOD: Final = 1e9


def audit_names(place: S3Location, prefix: str, *, most: int) -> _native.NameAudit:
    """Walk over everything that a mount of this prefix would show, and name up to ``most`` keys that it would hide.

    Raises:
        ConfigError: the bucket cannot be listed.
    """
    try:
        return _native.audit_names(
            native_endpoint(place),
            endpoint_name=endpoints.resolve(place) or "aws",
            bucket=place.bucket,
            prefix=prefix,
            most=most,
        )
    except OSError as error:
        raise ConfigError(f"{error}".rstrip(".") + ".") from None


def mount(spec: MountSpec) -> _native.Mount:
    """Mount a bucket; it is served by threads of this process until it is unmounted.

    Raises:
        ConfigError: the folder cannot be mounted, for the reason in the text; nothing is left mounted.
    """
    process_limits.open_files()
    fitting = process_limits.plan_process_memory(spec.memory, spec.max_requests)
    try:
        return _native.Mount(
            native_endpoint(spec.place),
            endpoint_name=endpoints.resolve(spec.place) or "aws",
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


def mount_writable(spec: MountSpec, state: Path) -> _native.ShareMount:
    """Mount a bucket that can be written; it is served by threads of this process until it is unmounted.

    Args:
        state: a folder for tables of files, one for each cache.

    Raises:
        ConfigError: the folder cannot be mounted, for the reason in the text; nothing is left mounted.
    """
    assert spec.cache is not None  # see check_writable
    process_limits.open_files()
    fitting = process_limits.plan_process_memory(spec.memory, spec.max_requests)
    share = Share(
        name=SHARE,
        source=spec.place.at(spec.prefix),
        uid=spec.uid,
        gid=spec.gid,
        file_mode=spec.file_mode,
        directory_mode=spec.directory_mode,
        stale_after=_FOR_GOOD if spec.lifetime is None else spec.lifetime,
        free_space=spec.free_space,
        read_only=False,
        **asdict(spec.writes),
    )
    try:
        return _native.ShareMount(
            gateways.native_share(share, spec.place),
            state=str(state / hashlib.sha256(str(spec.cache).encode(errors="surrogateescape")).hexdigest()[:16]),
            cache=str(spec.cache),
            max_cache_size=spec.max_cache_size,
            unsafe_cache=False,
            take_over=spec.take_over,
            memory=fitting.memory,
            max_requests=fitting.requests,
            max_bandwidth=spec.max_bandwidth,
            directory=str(spec.directory),
            source=spec.place.at(spec.prefix),
            allow_other=spec.allow_other,
            allow_non_empty=spec.allow_non_empty,
        )
    except OSError as error:
        raise ConfigError(f"{error}".rstrip(".") + ".") from None


def activity_of(spec: MountSpec) -> Activity:
    """Activity of a mount that is written, now. ``facts`` has its folder, its bucket, and what waits.

    Raises:
        ConfigError: it is not served.
    """
    assert spec.cache is not None  # see check_writable
    status = gateway_control.ask(spec.cache, "status")
    return Activity(
        lanes=(),
        limits=Limits(
            max_requests=spec.max_requests, max_bandwidth=spec.max_bandwidth, tpslimit=None, memory=spec.memory
        ),
        resident=memory_limits.resident() or None,
        transfers=0,
        in_flight=0,
        facts={
            "shares": [SHARE],
            "directory": str(spec.directory),
            "source": spec.place.at(spec.prefix),
            **gateways.facts_of(status),
        },
    )
