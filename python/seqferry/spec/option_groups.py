"""Groups of options of the interfaces: those of a spec, with options of endpoints and processes.

``cli.options`` makes Typer's options of them, ``api.fields`` the fields of request bodies. The name of a field is the
option's name at each interface, and that of the argument of ``build_spec``. A group of the command line alone is in
``cli.option_groups``.

What must stay true: nothing here knows Typer or pydantic; names of fields are unique among the groups of a command.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from seqferry.model.frozen import frozen
from seqferry.model.locations import Symlinks
from seqferry.model.models import MAX_ATTEMPTS
from seqferry.model.option_fields import Http, Option
from seqferry.model.option_groups import (
    HEADER,
    Attributes,
    Filters,
    Names,
    Parts,
    Protection,
    Selection,
    Speed,
    Storage,
)
from seqferry.settings.config import MOST_REQUESTS
from seqferry.settings.sizes import Bandwidth

ListFormat = Literal["auto", "lines", "csv", "inventory"]
"""Form of a list of keys; ``auto`` goes by its name."""

_ENDPOINT_URL: Final = Option("S3 endpoint, if not AWS.", "URL", common=True)
_PROFILE: Final = Option("Profile of the AWS configuration.", "NAME", common=True)
_REGION: Final = Option("AWS region. Default: detected.", "NAME")


def _of_side(side: Literal["source", "target"], name: str, metavar: str) -> Option:
    option = name.replace("_", "-")
    return Option(f"--{option} of the {side} only.", metavar, http=Http(text=f"`{name}` of the {side} only."))


@frozen
class SelectionOptions(Selection):
    """The same, and options for symlinks, wildcards and empty folders."""

    symlinks: Annotated[
        Symlinks,
        Option(
            "Symbolic links in a local folder. follow: copy the files they point to. skip: ignore links. "
            "keep: copy the links themselves; a download with keep recreates them.",
            http=None,
        ),
    ] = "follow"
    recursive: Annotated[
        bool,
        Option(
            "Copy everything below SRC if no object has that key. A trailing slash does the same.",
            words=("--recursive", "-r", "-R"),
            http=Http(
                text="Copy everything below `source` if no object has that key. A trailing slash does the same. "
                "Ignored by `pack` and `unpack`."
            ),
            of_interface=True,
            common=True,
        ),
    ] = False
    raw: Annotated[
        bool,
        Option(
            "Treat * and ? in SRC literally.",
            http=Http(text="Treat * and ? in the source literally."),
        ),
    ] = False
    empty_directories: Annotated[
        bool, Option("Store empty local folders as empty objects with a trailing slash.", http=None)
    ] = False


@frozen
class Versions:
    """Options that select the versions of an object to copy."""

    PANEL: ClassVar = "Selection"

    version_id: Annotated[
        str | None,
        Option(
            "Copy this version of SRC. For several objects use --files-from FILE.csv.",
            "ID",
            http=Http(
                text="Copy this version of the object `source`. For several objects use `objects`.",
                max_length=1024,
            ),
        ),
    ] = None
    all_versions: Annotated[bool, Option("Copy all versions of each object, oldest first, to a versioned bucket.")] = (
        False
    )


@frozen
class NameOptions(Names):
    """Options that select and rename objects by their keys.

    ``cli.spec_arguments`` makes ``rules`` of ``include`` and ``exclude``, and keys of ``files_from``.
    """

    exclude: Annotated[
        list[str] | None,
        Option(
            "Exclude keys below SRC that match PATTERN: *, ?, [...]. * also matches slashes.",
            "PATTERN",
            http=None,
            of_interface=True,
            common=True,
        ),
    ] = None
    include: Annotated[
        list[str] | None,
        Option(
            "Re-include keys that match PATTERN. The last --include or --exclude that matches decides.",
            "PATTERN",
            http=None,
            of_interface=True,
            common=True,
        ),
    ] = None
    files_from: Annotated[
        str | None,
        Option(
            "Select keys listed in FILE, one per line. FILE.csv: key[,version_id[,target_key]]. "
            "s3://.../manifest.json: S3 Inventory. -: standard input.",
            "FILE",
            http=None,
            of_interface=True,
            common=True,
        ),
    ] = None
    files_format: Annotated[
        ListFormat, Option("Format of --files-from. auto: by file name.", http=None, of_interface=True)
    ] = "auto"


@frozen
class RecordedSpeed(Speed):
    """The same, and the attempts of a request, which are on record with the places."""

    attempts: Annotated[
        int | None,
        Option(
            "Attempts per request. Recorded with the transfer. Default: AWS_MAX_ATTEMPTS, else 11.",
            "N",
            minimum=1,
            maximum=MAX_ATTEMPTS,
            http=Http(
                text="Attempts per request. Recorded with the transfer. Default: AWS_MAX_ATTEMPTS of the worker, "
                "else 11."
            ),
        ),
    ] = None


@frozen
class SpeedOptions(RecordedSpeed):
    """The same, and limits of this process. Only those hold that are given."""

    max_requests: Annotated[
        int | None,
        Option(
            "Maximum concurrent requests of this process.",
            "N",
            minimum=1,
            maximum=MOST_REQUESTS,
            http=None,
            of_interface=True,
        ),
    ] = None
    max_bandwidth: Annotated[
        Bandwidth | None,
        Option(
            "Bandwidth limit of this process, as 200MiB, or a timetable: '08:00,50MB/s 18:00,off'. "
            "Server-side copies are not limited.",
            "RATE",
            "bandwidth",
            http=None,
            of_interface=True,
            common=True,
        ),
    ] = None
    memory: Annotated[
        int | None,
        Option(
            "Buffer memory of this process. Default: 48MiB per core, from 96MiB to 256MiB.",
            "SIZE",
            "size",
            http=None,
            of_interface=True,
        ),
    ] = None
    cache: Annotated[
        str | None,
        Option(
            "Read downloads through the disk cache of mounts in DIR, and add them to it.",
            "DIR",
            http=None,
            of_interface=True,
        ),
    ] = None
    max_cache_size: Annotated[
        int | None,
        Option(
            "Size limit of the cache. Default: leave 1GiB of the disk free.",
            "SIZE",
            "size",
            http=None,
            of_interface=True,
        ),
    ] = None


@frozen
class PartOptions(Parts):
    """The same, and an option for the page cache."""

    page_cache: Annotated[
        bool,
        Option(
            "Keep downloads in the page cache for a program that reads them next. By default large "
            "downloads bypass it.",
            http=None,
        ),
    ] = False


@frozen
class StorageOptions(Storage):
    """The same, and an option for the permissions of downloads."""

    preserve_permissions: Annotated[
        bool,
        Option(
            "Restore the file permissions stored with the objects and ignore the umask. By default they "
            "can only remove permissions from new files. Setuid, setgid and sticky bits are never "
            "restored.",
            http=None,
        ),
    ] = False


@frozen
class OneEndpoint:
    """Options for endpoint, credentials and region of a command with one side."""

    PANEL: ClassVar = "Storage"

    endpoint_url: Annotated[str | None, _ENDPOINT_URL] = None
    profile: Annotated[str | None, _PROFILE] = None
    region: Annotated[str | None, _REGION] = None


@frozen
class Endpoints:
    """Options for endpoint, credentials and region: for both sides, or for one of them."""

    PANEL: ClassVar = "Storage"

    endpoint_url: Annotated[str | None, _ENDPOINT_URL] = None
    source_endpoint_url: Annotated[str | None, _of_side("source", "endpoint_url", "URL")] = None
    target_endpoint_url: Annotated[str | None, _of_side("target", "endpoint_url", "URL")] = None
    profile: Annotated[str | None, _PROFILE] = None
    source_profile: Annotated[str | None, _of_side("source", "profile", "NAME")] = None
    target_profile: Annotated[str | None, _of_side("target", "profile", "NAME")] = None
    region: Annotated[str | None, _REGION] = None
    source_region: Annotated[str | None, _of_side("source", "region", "NAME")] = None
    target_region: Annotated[str | None, _of_side("target", "region", "NAME")] = None
    no_sign_request: Annotated[bool, Option("Read the source without credentials (public buckets).", common=True)] = (
        False
    )


@frozen
class AccessOptions:
    """Options for what both sides are read and written with: keys of customers, and the payer of requests."""

    PANEL: ClassVar = "Storage"

    sse_c_key: Annotated[
        str | None,
        Option(
            "Customer-provided key (SSE-C) of the target; in a download, of the source. A file with 32 "
            "bytes or their Base64, or env:NAME. Never recorded.",
            "FILE",
            http=Http(
                text="Customer-provided key (SSE-C) of the target: a variable of the server whose name starts with"
                " SEQFERRY_SSE_C_. The key is never recorded.",
                max_length=HEADER,
                example="env:SEQFERRY_SSE_C_LAB",
            ),
        ),
    ] = None
    sse_c_copy_source_key: Annotated[
        str | None,
        Option(
            "Customer-provided key (SSE-C) of the source of an S3 to S3 copy.",
            "FILE",
            http=Http(text="Customer-provided key (SSE-C) of the source, as for `sse_c_key`.", max_length=HEADER),
        ),
    ] = None
    request_payer: Annotated[Literal["requester"] | None, Option("Pay for requests to Requester Pays buckets.")] = None


OF_REQUESTS: Final = (
    SelectionOptions, Filters, Versions, NameOptions, SpeedOptions, PartOptions, StorageOptions, Endpoints,
    AccessOptions, Protection, Attributes,
)  # fmt: skip
"""The groups of options that a request for a copy has, at each interface."""
