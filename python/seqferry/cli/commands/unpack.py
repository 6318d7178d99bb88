"""``seqferry unpack``."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import typer

from seqferry.cli import options, spec_arguments
from seqferry.cli.option_groups import Output, Pricing, Start, merge
from seqferry.cli.start_transfer import start_arguments, start_transfer
from seqferry.model.frozen import frozen
from seqferry.model.option_groups import Filters, IfExists
from seqferry.spec.option_groups import Endpoints, NameOptions, PartOptions, SpeedOptions, StorageOptions


@frozen
class ArchivePlaces:
    """Archive and target of an unpacking."""

    PANEL: ClassVar = "Arguments"

    source: Annotated[str, typer.Argument(metavar="ARCHIVE", help="s3://bucket/x.tar or a local file.")]
    target: Annotated[str, typer.Argument(metavar="DST", help="s3://bucket/prefix/ or a local folder.")]


@frozen
class Members:
    """Options for members that exist at the target, and for empty folders."""

    PANEL: ClassVar = "Selection"

    if_exists: Annotated[
        IfExists,
        options.common(
            typer.Option(
                "--if-exists",
                envvar="SEQFERRY_IF_EXISTS",
                help="What to do when a member exists at the target. same: skip if identical, else replace. size: "
                "skip if the size is equal, else replace. skip: keep the target. overwrite: always replace. "
                "fail: report a failure.",
            )
        ),
    ] = "same"
    empty_directories: Annotated[
        bool,
        typer.Option(
            "--empty-directories",
            envvar="SEQFERRY_EMPTY_DIRECTORIES",
            help="Store empty folders of the archive in S3 as empty objects with a trailing slash. Local "
            "targets always have them.",
        ),
    ] = False


@frozen
class Scratch:
    """Option for targets whose files may be lost with the power."""

    PANEL: ClassVar = "Speed"

    no_sync: Annotated[
        bool,
        typer.Option(
            "--no-sync",
            envvar="SEQFERRY_NO_SYNC",
            help="Do not wait for small files to reach the disk. A power failure may lose files that count as "
            "done. For scratch folders.",
        ),
    ] = False


@frozen
class Safety:
    """Options for the index of an archive, and for links, duplicates and faults in it."""

    PANEL: ClassVar = "Archive"

    no_index: Annotated[
        bool,
        typer.Option(
            "--no-index",
            envvar="SEQFERRY_NO_INDEX",
            help="Read the headers of the archive and ignore its index (x.tar.sfidx).",
        ),
    ] = False
    links: Annotated[
        Literal["inside", "skip", "all"],
        options.common(
            typer.Option(
                "--links",
                envvar="SEQFERRY_LINKS",
                help="Symbolic links. inside: only links within DST. skip: none. all: also links that leave DST.",
            )
        ),
    ] = "inside"
    duplicates: Annotated[
        Literal["refuse", "last"],
        options.common(
            typer.Option(
                "--duplicates",
                envvar="SEQFERRY_DUPLICATES",
                help="Members with the same path. refuse: report a failure. last: unpack the last one.",
            )
        ),
    ] = "refuse"
    tolerate: Annotated[
        list[str] | None,
        typer.Option(
            "--tolerate",
            envvar="SEQFERRY_TOLERATE",
            metavar="FAULT",
            help="Accept an archive with this fault: missing-end, concatenated, trailing-bytes or two-sizes. "
            "Can be repeated.",
        ),
    ] = None


def unpack(
    places: ArchivePlaces,
    members: Members,
    filters: Filters,
    names: NameOptions,
    safety: Safety,
    scratch: Scratch,
    speed: SpeedOptions,
    parts: PartOptions,
    storage: StorageOptions,
    endpoints: Endpoints,
    start: Start,
    pricing: Pricing,
    output: Output,
) -> int:
    """Unpack a tar archive to a prefix or a folder.

    Only the selected members are read. Within one S3 endpoint large members are copied server-side. Nothing is
    written outside DST.
    """
    from seqferry.planning import unpacking  # it brings the engine, which --help need not wait for

    given = merge(places, members, filters, names, safety, scratch, parts, storage, endpoints)
    spec_arguments.set_keys(given)
    given["index"] = "never" if given.pop("no_index") else "auto"
    given["tolerate"] = given["tolerate"] or ()
    spec = unpacking.build_unpack_spec(**given, **start_arguments(speed, start), allow_local=True)
    return start_transfer(spec, speed, start, output, pricing)
