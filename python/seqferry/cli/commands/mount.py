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
        str, typer.Argument(metavar="URI", help="s3://bucket or s3://bucket/prefix; s3:// may be left out.")
    ],
    directory: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="An empty folder. Not needed with --check.")
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            envvar="SEQFERRY_CHECK",
            help="Mount nothing: list everything and name the keys that cannot be files.",
        ),
    ] = False,
    foreground: Annotated[
        bool,
        typer.Option(
            "--foreground", "-f", envvar="SEQFERRY_FOREGROUND", help="Serve in this process until Ctrl-C or umount."
        ),
    ] = False,
    metadata_ttl: Annotated[
        str,
        typer.Option(
            "--metadata-ttl",
            envvar="SEQFERRY_METADATA_TTL",
            metavar="SECONDS",
            help="How long names and sizes are believed: seconds, indefinite, or minimal (ask each time).",
        ),
    ] = "60",
    consistency: Annotated[
        str,
        typer.Option(
            "--consistency",
            envvar="SEQFERRY_CONSISTENCY",
            metavar="MODE",
            help="ttl: a file is as fresh as its listing; open: each open asks; frozen: nothing is asked twice.",
        ),
    ] = "ttl",
    prefix: Annotated[
        str | None,
        typer.Option(
            "--prefix",
            envvar="SEQFERRY_PREFIX",
            metavar="PREFIX",
            help="Show what is below this prefix of URI alone, as at the end of URI.",
        ),
    ] = None,
    read_only: Annotated[
        bool,
        typer.Option(
            "--read-only/--read-write",
            envvar="SEQFERRY_READ_ONLY",
            help="--read-write: what is written is in the cache (--cache DIR) when it is synced or closed, and then "
            "goes to the bucket. A preview.",
        ),
    ] = True,
    take_over: options.TakeOver = False,
    settle: mount_write_options.Settle = None,
    storage_class: mount_write_options.StorageClass = None,
    ignore: mount_write_options.Ignore = None,
    markers: mount_write_options.Markers = None,
    upload_window: mount_write_options.UploadWindow = None,
    max_upload_bandwidth: mount_write_options.MaxUploadBandwidth = None,
    free_space: mount_write_options.FreeSpace = None,
    allow_other: Annotated[
        bool,
        typer.Option(
            "--allow-other",
            envvar="SEQFERRY_ALLOW_OTHER",
            help="Let other users use it (user_allow_other in /etc/fuse.conf).",
        ),
    ] = False,
    allow_non_empty: Annotated[
        bool,
        typer.Option(
            "--allow-non-empty",
            envvar="SEQFERRY_ALLOW_NON_EMPTY",
            help="Mount over a folder with files in it, which go out of sight.",
        ),
    ] = False,
    uid: Annotated[
        int | None,
        typer.Option("--uid", envvar="SEQFERRY_UID", metavar="N", min=0, help="Owner of everything. Default: you."),
    ] = None,
    gid: Annotated[
        int | None, typer.Option("--gid", envvar="SEQFERRY_GID", metavar="N", min=0, help="Group of everything.")
    ] = None,
    file_mode: Annotated[
        str,
        typer.Option(
            "--file-mode", envvar="SEQFERRY_FILE_MODE", metavar="OCTAL", help="Permissions of files that store none."
        ),
    ] = "0644",
    dir_mode: Annotated[
        str, typer.Option("--dir-mode", envvar="SEQFERRY_DIR_MODE", metavar="OCTAL", help="Permissions of folders.")
    ] = "0755",
    memory: options.BlockMemory = None,
    cache: options.BlockCache = None,
    max_cache_size: options.MaxCacheSize = None,
    pin: Annotated[
        bool,
        typer.Option("--pin", envvar="SEQFERRY_PIN", help="Keep what this mount reads in the cache, whatever comes."),
    ] = False,
    manifest: Annotated[
        Path | None,
        typer.Option(
            "--manifest",
            envvar="SEQFERRY_MANIFEST",
            metavar="FILE",
            help="Show what this file names, as seqferry ls --recursive --json prints it, and list nothing.",
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
            help="Requests in flight at most.",
        ),
    ] = 256,
    request_payer: Annotated[
        str | None,
        typer.Option(
            "--request-payer",
            envvar="SEQFERRY_REQUEST_PAYER",
            metavar="requester",
            help="Pay for requests to a bucket of others.",
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
            help="A file of s3fs with keys: KEY:SECRET, or BUCKET:KEY:SECRET.",
        ),
    ] = None,
    region: options.Region = None,
    no_sign_request: options.NoSignRequest = False,
    state_dir: options.StateDir = None,
    as_json: options.Json = False,
) -> int:
    """Show a bucket, or what is below a prefix, as a folder."""
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
        "ignore": ignore,
        "markers": markers,
        "upload_window": upload_window,
        "max_bandwidth": max_upload_bandwidth,
    }
    if read_only:
        mount_write_options.refuse({**of_writes, "free_space": free_space})
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
        raise UsageError(f"'{consistency}' is none of {', '.join(FRESHNESS)}.")
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
    text.escape_what_cannot_be_encoded()
    try:
        arguments = foreign_mount_options.helper_arguments(sys.argv[1:])
    except SeqferryError as error:
        sys.exit(errors.report(error, as_json=False))
    if not arguments:
        sys.exit(exits.OK)
    # mount(8) clears the environment at boot: without a home the state folder is the system's.
    if "HOME" not in os.environ and "SEQFERRY_STATE_DIR" not in os.environ:
        os.environ["SEQFERRY_STATE_DIR"] = "/var/lib/seqferry"
    sys.exit(app.run(arguments))
