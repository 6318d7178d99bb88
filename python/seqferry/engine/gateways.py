"""Gateways: what is served where. Serving is the engine's."""

from __future__ import annotations

import json
import re
import shlex
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from seqferry.model.errors import ConfigError, UsageError
from seqferry.model.frozen import frozen
from seqferry.model.locations import S3Location
from seqferry.model.workers import IS_DRAINING, SHARES, WAITING, Activity, Limits
from seqferry.places import endpoints
from seqferry.settings import memory_limits
from seqferry.settings.share_writes import Writes
from seqferry.settings.shares import Share

if TYPE_CHECKING:
    from seqferry import _native

DETAILS: Final = (
    "uploading_files",
    "ignored_files",
    "removals",
    "unrecorded",
    "uploaded_files",
    "uploaded_bytes",
    "bytes_per_second",
    "free_bytes",
    "failure",
    "claimed_by",
)
"""Facts of a share that is written, besides those that wait."""

_NAMED: Final = 5
"""Files of each kind that the row of a gateway names, of each share."""

_TEXT: Final = 1024
"""Characters of a path, or of a cause, in the row of a gateway."""

_NAMES_BYTES: Final = 64 << 10
"""For all names in the row of a gateway, which is written every 10 s; further shares have numbers alone."""

_MEMORY: Final = 512 << 20
_REQUESTS: Final = 256


@frozen(kw_only=True)
class GatewaySpec:
    """Settings of a gateway.

    Args:
        shares: each with its place.
        port_mapper: let clients find the port by the port mapper, at port 111.
        state: the folder of the key and the table of file handles.
        cache: a folder that keeps blocks and names beyond the process, up to ``max_cache_size`` bytes (None: no limit),
            and what clients write until it is in the bucket.
        unsafe_cache: accept a cache that is not on a local disk for shares that can be written.
        take_over: write also where the gateway of another cache has claimed a prefix; its uploads end.
        memory: bytes for blocks; max_bandwidth: bytes per second, None for no limit.
    """

    shares: tuple[tuple[Share, S3Location], ...]
    host: str
    port: int
    state: Path
    port_mapper: bool = False
    cache: Path | None = None
    max_cache_size: int | None = None
    unsafe_cache: bool = False
    take_over: bool = False
    memory: int = _MEMORY
    max_requests: int = _REQUESTS
    max_bandwidth: int | None = None


def start(spec: GatewaySpec) -> _native.Gateway:
    """Serve the shares; they are served by threads of this process until it is stopped.

    Raises:
        ConfigError: one of them cannot be served, for the reason in the text; none is then.
    """
    from seqferry import _native  # its threads must be made in the process that serves
    from seqferry.engine import process_limits

    process_limits.open_files()
    fitting = process_limits.plan_process_memory(spec.memory, spec.max_requests)
    shares = [native_share(share, place) for share, place in spec.shares]
    try:
        return _native.Gateway(
            shares,
            host=spec.host,
            port=spec.port,
            port_mapper=spec.port_mapper,
            state=str(spec.state),
            cache=None if spec.cache is None else str(spec.cache),
            max_cache_size=spec.max_cache_size,
            unsafe_cache=spec.unsafe_cache,
            take_over=spec.take_over,
            memory=fitting.memory,
            max_requests=fitting.requests,
            max_bandwidth=spec.max_bandwidth,
        )
    except OSError as error:
        raise ConfigError(f"{error}".rstrip(".") + ".") from None


def port_options(port: int) -> tuple[str, ...]:
    """Options of a mount that asks no port mapper."""
    return "vers=3", "tcp", f"port={port}", f"mountport={port}", "mountproto=tcp"


def mount_command(host: str, share: str, options: Sequence[str] = ()) -> str:
    """The command by which a client of Linux mounts a share; the folder is an example.

    Args:
        host: where it is served. For all addresses of this machine its name is taken.
        share: as /runs.
        options: besides those of each mount.
    """
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
        host = socket.gethostname()
    place = f"[{host}]:{share}" if ":" in host else f"{host}:{share}"
    return f"mount -t nfs -o {','.join([*options, 'nolock', 'hard'])} {shlex.quote(place)} /mnt"


def activity_of(served: _native.Gateway, spec: GatewaySpec) -> Activity:
    """Activity of a gateway now. ``facts`` has its shares, the address that they are served at, and what waits."""
    host, port = served.address
    shares = [share.name for share, _ in spec.shares]
    status = json.loads(served.status())
    return Activity(
        lanes=(),
        limits=Limits(
            max_requests=spec.max_requests, max_bandwidth=spec.max_bandwidth, tpslimit=None, memory=spec.memory
        ),
        resident=memory_limits.resident() or None,
        transfers=0,
        in_flight=served.in_flight,
        facts={"shares": shares, "host": host, "port": port, **facts_of(status)},
    )


def facts_of(status: dict[str, Any]) -> dict[str, Any]:
    """The state of a gateway, as its row among the workers has it."""
    return {WAITING: _waiting_of(status), SHARES: _details_of(status), IS_DRAINING: status["is_draining"]}


def _waiting_of(status: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Files that wait in each share that is written (``WAITING``), of the state of a gateway."""
    found: dict[str, dict[str, Any]] = {}
    for share in status["shares"]:
        if (writing := share["writing"]) is None:
            continue
        oldest = writing["oldest"]
        found[share["share"]] = {
            **{
                name: writing[name]
                for name in ("dirty_files", "dirty_bytes", "failing_files", "conflicts", "window_is_open")
            },
            "oldest_dirty_seconds": None if oldest is None else round(oldest["age_seconds"], 1),
        }
    return found


def _details_of(status: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """More of the state of each share (``SHARES``). Few files are named, so that the row stays small."""
    found: dict[str, dict[str, Any]] = {}
    room = _NAMES_BYTES
    for share in status["shares"]:
        details = {name: share[name] for name in ("source", "read_bytes", "fetched_bytes")}
        if (writing := share["writing"]) is not None:
            oldest = writing["oldest"]
            named = {name: _cut(writing[name][:_NAMED]) for name in ("failing", "held", "renames")}
            room -= len(json.dumps(named))
            details |= {name: writing[name] for name in DETAILS} | {
                "oldest_path": None if oldest is None else oldest["path"],
                "held_markers": len(writing["held"]),
                "renamed_folders": len(writing["renames"]),
                **(named if room > 0 else {name: [] for name in named}),
            }
        found[share["share"]] = details
    return found


def _cut(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: _cut_text(value) for name, value in row.items()} for row in rows]


def _cut_text(value: Any) -> Any:
    return f"{value[:_TEXT]}…" if isinstance(value, str) and len(value) > _TEXT else value


def native_share(share: Share, place: S3Location) -> _native.GatewayShare:
    """A share in the form of the engine."""
    from seqferry import _native
    from seqferry.engine.native_calls import native_endpoint

    prefix = place.key if not place.key or place.key.endswith("/") else f"{place.key}/"
    return _native.GatewayShare(
        native_endpoint(place),
        endpoint_name=endpoints.resolve(place) or "aws",
        bucket=place.bucket,
        prefix=prefix,
        name=share.name,
        lifetime=share.stale_after,
        clients=list(share.clients),
        squash=share.squash,
        anonymous_uid=share.anon_uid,
        anonymous_gid=share.anon_gid,
        uid=share.uid,
        gid=share.gid,
        file_mode=share.file_mode,
        directory_mode=share.directory_mode,
        free_space=share.free_space,
        writes=None if share.read_only else _writes(share, place),
    )


def _writes(writes: Writes, place: S3Location) -> _native.GatewayWrites:
    from seqferry import _native

    return _native.GatewayWrites(
        settle=writes.settle,
        storage_classes=list(writes.storage_class),
        properties=_native.Properties(**_properties(writes, place)),
        ignore=None if writes.ignore is None else list(writes.ignore),
        markers=None if writes.markers is None else list(writes.markers),
        windows=list(writes.upload_window),
        max_bandwidth=writes.max_bandwidth,
    )


def _properties(writes: Writes, place: S3Location) -> dict[str, Any]:
    """Properties of the objects that a share writes, read and checked as those of a transfer to its place.

    Raises:
        ConfigError: they cannot be combined, or S3 does not take them.
    """
    from seqferry.model.models import TransferSpec
    from seqferry.model.option_groups import Attributes, Protection
    from seqferry.spec import properties

    protection = Protection(
        sse=writes.sse,
        sse_kms_key_id=writes.sse_kms_key_id,
        bucket_key_enabled=writes.bucket_key_enabled,
        acl=writes.acl,
        grants=writes.grants,
    )
    spec = TransferSpec(place, place, protection=protection, attributes=Attributes(tags=writes.tags or None))
    try:
        properties.check(spec)
    except UsageError as why:
        # The keys of the table are the options without their dashes.
        text = re.sub(r"--([a-z-]+)", lambda found: found[1].replace("-", "_"), str(why))
        raise ConfigError(f"[[share]] {getattr(writes, 'name', place.bucket)}: {text}") from None
    return properties.engine_properties(spec)
