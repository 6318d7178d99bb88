"""``seqferry mount``, and ``mount.seqferry`` for fstab."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Final, NoReturn, cast

import typer

from seqferry.cli import exits, foreign_mount_options, mount_process, mount_write_options, options
from seqferry.cli.mount_process import resolve_path
from seqferry.cli.output import display, text
from seqferry.engine.mounts import (
    DEFAULT_MEMORY,
    FRESHNESS,
    Freshness,
    MountSpec,
    check_platform,
    check_sizes,
    check_writable,
    parse_lifetime,
    parse_mode,
    uri_of,
)
from seqferry.model.errors import SeqferryError, UsageError
from seqferry.model.locations import S3Location
from seqferry.places import home, key_files
from seqferry.settings.shares import MOST_FREE
from seqferry.spec.addresses import parse_uri
from seqferry.spec.validation import check_place

_NAMED: Final = 10_000
"""Keys that ``--check`` names at most."""

_PREVIEW: Final = (
    "seqferry: Mounts that can be written are a preview: keep what you write until it is in the bucket "
    "(seqferry gateway status --cache DIR)."
)


def mount(
    place: Annotated[
        str, typer.Argument(metavar="URI", help="s3://bucket or s3://bucket/prefix. s3:// can be omitted.")
    ],
    directory: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="Empty folder. Not needed with --check.")
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            envvar="SEQFERRY_CHECK",
            help="Do not mount. List all keys that cannot be shown as files.",
            rich_help_panel="Mount",
        ),
    ] = False,
    foreground: Annotated[
        bool,
        options.common(
            typer.Option(
                "--foreground",
                "-f",
                envvar="SEQFERRY_FOREGROUND",
                help="Run in the foreground until Ctrl-C or umount.",
                rich_help_panel="Mount",
            )
        ),
    ] = False,
    metadata_ttl: Annotated[
        str,
        options.common(
            typer.Option(
                "--metadata-ttl",
                envvar="SEQFERRY_METADATA_TTL",
                metavar="SECONDS",
                help="Time in seconds to cache names and sizes; indefinite; or minimal (no caching).",
                rich_help_panel="Mount",
            )
        ),
    ] = "60",
    consistency: Annotated[
        str,
        options.common(
            typer.Option(
                "--consistency",
                envvar="SEQFERRY_CONSISTENCY",
                metavar="MODE",
                help="ttl: files are as fresh as the cached listing. open: check the object on each open. frozen: "
                "never check again.",
                rich_help_panel="Mount",
            )
        ),
    ] = "ttl",
    prefix: Annotated[
        str | None,
        typer.Option(
            "--prefix",
            envvar="SEQFERRY_PREFIX",
            metavar="PREFIX",
            help="Mount only this prefix of URI.",
            rich_help_panel="Mount",
        ),
    ] = None,
    read_only: Annotated[
        bool,
        options.common(
            typer.Option(
                "--read-only/--read-write",
                envvar="SEQFERRY_READ_ONLY",
                help="--read-write: allow writes (preview). Written files are stored in the cache (--cache) on "
                "sync and close, and then uploaded.",
                rich_help_panel="Mount",
            )
        ),
    ] = True,
    take_over: options.TakeOver = False,
    settle: mount_write_options.Settle = None,
    storage_class: mount_write_options.StorageClass = None,
    sse: mount_write_options.Sse = None,
    sse_kms_key_id: mount_write_options.SseKmsKeyId = None,
    bucket_key_enabled: mount_write_options.BucketKeyEnabled = False,
    acl: mount_write_options.Acl = None,
    grants: mount_write_options.Grants = None,
    tags: mount_write_options.Tags = None,
    ignore: mount_write_options.Ignore = None,
    markers: mount_write_options.Markers = None,
    upload_window: mount_write_options.UploadWindow = None,
    max_upload_bandwidth: mount_write_options.MaxUploadBandwidth = None,
    free_space: mount_write_options.FreeSpace = None,
    allow_other: Annotated[
        bool,
        options.common(
            typer.Option(
                "--allow-other",
                envvar="SEQFERRY_ALLOW_OTHER",
                help="Allow access by other users. Needs user_allow_other in /etc/fuse.conf.",
                rich_help_panel="Mount",
            )
        ),
    ] = False,
    allow_non_empty: Annotated[
        bool,
        typer.Option(
            "--allow-non-empty",
            envvar="SEQFERRY_ALLOW_NON_EMPTY",
            help="Allow mounting over a folder that is not empty. Its files are hidden.",
            rich_help_panel="Mount",
        ),
    ] = False,
    uid: Annotated[
        int | None,
        typer.Option(
            "--uid",
            envvar="SEQFERRY_UID",
            metavar="N",
            min=0,
            help="Owner of all files. Default: you.",
            rich_help_panel="Mount",
        ),
    ] = None,
    gid: Annotated[
        int | None,
        typer.Option(
            "--gid",
            envvar="SEQFERRY_GID",
            metavar="N",
            min=0,
            help="Group of all files. Default: yours.",
            rich_help_panel="Mount",
        ),
    ] = None,
    file_mode: Annotated[
        str,
        typer.Option(
            "--file-mode",
            envvar="SEQFERRY_FILE_MODE",
            metavar="OCTAL",
            help="Permissions of files without stored permissions.",
            rich_help_panel="Mount",
        ),
    ] = "0644",
    dir_mode: Annotated[
        str,
        typer.Option(
            "--dir-mode",
            envvar="SEQFERRY_DIR_MODE",
            metavar="OCTAL",
            help="Permissions of folders.",
            rich_help_panel="Mount",
        ),
    ] = "0755",
    memory: options.BlockMemory = None,
    cache: options.BlockCache = None,
    max_cache_size: options.MaxCacheSize = None,
    pin: Annotated[
        bool,
        options.common(
            typer.Option(
                "--pin",
                envvar="SEQFERRY_PIN",
                help="Pin blocks read by this mount: they are never evicted from the cache.",
                rich_help_panel="Cache",
            )
        ),
    ] = False,
    manifest: Annotated[
        Path | None,
        typer.Option(
            "--manifest",
            envvar="SEQFERRY_MANIFEST",
            metavar="FILE",
            help="Show only the objects in FILE, in the format of `seqferry ls --recursive --json`. Nothing is listed.",
            rich_help_panel="Mount",
        ),
    ] = None,
    max_bandwidth: options.PlainBandwidth = None,
    max_requests: Annotated[
        int,
        typer.Option(
            "--max-requests",
            envvar="SEQFERRY_MOUNT_MAX_REQUESTS",
            metavar="N",
            min=1,
            max=10_000,
            help="Maximum concurrent requests.",
            rich_help_panel="Speed",
        ),
    ] = 256,
    request_payer: Annotated[
        str | None,
        typer.Option(
            "--request-payer",
            envvar="SEQFERRY_REQUEST_PAYER",
            metavar="requester",
            help="Pay for requests to a Requester Pays bucket.",
            rich_help_panel="Storage",
        ),
    ] = None,
    endpoint_url: options.EndpointUrl = None,
    profile: options.Profile = None,
    passwd_file: Annotated[
        str | None,
        typer.Option(
            "--passwd-file",
            envvar="SEQFERRY_PASSWD_FILE",
            metavar="FILE",
            help="s3fs password file: KEY:SECRET or BUCKET:KEY:SECRET.",
            rich_help_panel="Storage",
        ),
    ] = None,
    region: options.Region = None,
    no_sign_request: options.NoSignRequest = False,
    state_dir: options.StateDir = None,
    as_json: options.Json = False,
) -> int:
    """Mount a bucket or a prefix as a folder (FUSE)."""
    bucket, key = parse_uri(uri_of(place, prefix))
    location = S3Location(
        bucket=bucket,
        key=key,
        endpoint_url=endpoint_url,
        region=region,
        profile=profile,
        anonymous=no_sign_request,
        request_payer=request_payer,
    )
    of_writes = {
        "settle": settle,
        "storage_class": storage_class,
        "sse": sse,
        "sse_kms_key_id": sse_kms_key_id,
        "bucket_key_enabled": bucket_key_enabled,
        "acl": acl,
        "grants": grants,
        "tags": tags,
        "ignore": ignore,
        "markers": markers,
        "upload_window": upload_window,
        "max_bandwidth": max_upload_bandwidth,
    }
    if read_only:
        mount_write_options.refuse_write_options({**of_writes, "free_space": free_space})
    check_place(location)
    if passwd_file is not None:
        _take_key(passwd_file, location)
    if check:
        return _check(MountSpec(place=location, directory=Path()), as_json=as_json)
    check_platform()
    if directory is None:
        raise UsageError("Name a folder: seqferry mount s3://bucket DIR.")
    if pin and cache is None:
        raise UsageError("--pin keeps objects in a cache: name one with --cache.")
    check_sizes(memory, max_cache_size)
    if consistency not in FRESHNESS:
        raise UsageError(f"--consistency '{consistency}': choose one of {', '.join(FRESHNESS)}.")
    freshness = cast("Freshness", consistency)
    spec = MountSpec(
        place=location,
        directory=resolve_path(directory),
        lifetime=None if freshness == "frozen" else parse_lifetime(metadata_ttl),
        freshness=freshness,
        memory=DEFAULT_MEMORY if memory is None else memory,
        max_requests=max_requests,
        max_bandwidth=max_bandwidth,
        cache=None if cache is None else resolve_path(cache),
        max_cache_size=max_cache_size,
        pin=pin,
        manifest=None if manifest is None else resolve_path(manifest),
        writable=not read_only,
        take_over=take_over,
        writes=mount_write_options.parse(of_writes),
        free_space=MOST_FREE if free_space is None else free_space,
        allow_other=allow_other,
        allow_non_empty=allow_non_empty,
        uid=os.geteuid() if uid is None else uid,
        gid=os.getegid() if gid is None else gid,
        file_mode=parse_mode(file_mode),
        directory_mode=parse_mode(dir_mode),
    )
    if spec.writable:
        check_writable(spec)
        display.say(_PREVIEW)
    if foreground:
        return mount_process.serve(spec, state_dir, lambda: _tell(spec, as_json=as_json, until="Ctrl-C"))
    mount_process.serve_in_background(spec, state_dir)
    _tell(spec, as_json=as_json, until=f"seqferry umount {spec.directory}")
    return exits.OK


def _take_key(file: str, place: S3Location) -> None:
    """Make a key of a file that of this process, and of the one that serves the mount."""
    if place.profile is not None or place.anonymous:
        raise UsageError("--passwd-file names keys, and so does --profile; --no-sign-request uses none. Give one.")
    try:
        path = home.expand(file, os.environ)
    except ValueError as why:
        raise UsageError(f"--passwd-file: {why}.") from None
    os.environ.update(key_files.key_of(path, place.bucket).environment())


def _check(spec: MountSpec, *, as_json: bool) -> int:
    from seqferry.engine.mounting import audit_names

    found = audit_names(spec.place, spec.prefix, most=_NAMED)
    if as_json:
        facts = {"directories": found.directories, "files": found.files, "links": found.links, "bytes": found.bytes}
        named = [{"key": key, "reason": reason} for key, reason in found.named]
        display.emit("checked", **facts, hidden=found.hidden, named=named)
    else:
        for key, reason in found.named:
            print(text.printable(f"{spec.place.at(key)}: {reason}"))
        shown = f"{found.files} files in {found.directories} folders, {found.bytes} bytes"
        display.say(
            f"{shown}. {found.hidden} keys cannot be files." if found.hidden else f"{shown}. Nothing is hidden."
        )
    return exits.FAILED if found.hidden else exits.OK


def _tell(spec: MountSpec, *, as_json: bool, until: str) -> None:
    if as_json:
        display.emit("mounted", directory=str(spec.directory), source=spec.place.at(spec.prefix))
        return
    display.say(text.printable(f"{spec.place.at(spec.prefix)} is mounted at {spec.directory}. To unmount: {until}"))


def mount_helper() -> NoReturn:
    """The command ``mount.seqferry``, which mount(8) calls for lines of fstab with the type ``seqferry``."""
    from seqferry.cli import app, errors
    from seqferry.settings import environment

    environment.prepare()
    text.escape_unencodable_output()
    try:
        arguments = foreign_mount_options.helper_arguments(sys.argv[1:])
    except SeqferryError as error:
        sys.exit(errors.report_error(error, as_json=False))
    if not arguments:
        sys.exit(exits.OK)
    # mount(8) clears the environment at boot: without a home the state folder is the system's.
    if "HOME" not in os.environ and "SEQFERRY_STATE_DIR" not in os.environ:
        os.environ["SEQFERRY_STATE_DIR"] = "/var/lib/seqferry"
    sys.exit(app.run(arguments))
