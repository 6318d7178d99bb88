"""Groups of options as doors have them: those of a spec, extended by options that places and doors obey.

``cli.options`` makes Typer's options of them, ``api.fields`` the fields of request bodies. The name of a field is the
option's name at each door, and that of the argument of ``build_spec``. A group of the command line alone is in
``cli.option_groups``.

What must stay true: nothing here knows Typer or pydantic; names of fields are unique among the groups of a command.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from seqferry.model.locations import Symlinks
from seqferry.model.models import MOST_ATTEMPTS
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

_ENDPOINT_URL: Final = Option("S3 endpoint other than AWS.", "URL")
_PROFILE: Final = Option("AWS profile to use.", "NAME")
_REGION: Final = Option("AWS region.", "NAME")


def _of_side(side: Literal["source", "target"], name: str, metavar: str) -> Option:
    option = name.replace("_", "-")
    return Option(f"--{option} for the {side} only.", metavar, http=Http(text=f"`{name}` for the {side} only."))


@dataclass(frozen=True, slots=True)
class SelectionOptions(Selection):
    """The same, and options for symlinks, wildcards and empty folders."""

    symlinks: Annotated[
        Symlinks,
        Option(
            "Links in a local folder: follow = copy what they lead to; skip = leave them out; keep = copy the "
            "links themselves, which a download with it makes again.",
            http=None,
        ),
    ] = "follow"
    recursive: Annotated[
        bool,
        Option(
            "A name in SRC that no object has is a prefix: all below it is meant. A last slash says the same.",
            words=("--recursive", "-r", "-R"),
            http=Http(
                text="A name in `source` that no object has is a prefix: all below it is meant. A last slash says the "
                "same. `pack` and `unpack` are as without."
            ),
            of_door=True,
        ),
    ] = False
    raw: Annotated[
        bool,
        Option(
            "Take * and ? in SRC as they are, not as wildcards.",
            http=Http(text="Take * and ? in the source as they are, not as wildcards."),
        ),
    ] = False
    empty_directories: Annotated[
        bool, Option("Keep the empty folders of a local folder as empty objects with a last slash.", http=None)
    ] = False


@dataclass(frozen=True, slots=True)
class Versions:
    """Options that select the versions of an object to copy."""

    PANEL: ClassVar = "Selection"

    version_id: Annotated[
        str | None,
        Option(
            "Copy this version of the object SRC; of several objects see --files-from FILE.csv.",
            "ID",
            http=Http(
                text="This version of the object that `source` names; of several objects see `objects`.",
                characters=1024,
            ),
        ),
    ] = None
    all_versions: Annotated[
        bool, Option("Copy all versions of each object, oldest first, to a bucket that keeps versions.")
    ] = False


@dataclass(frozen=True, slots=True)
class NameOptions(Names):
    """Options that select and rename objects by their keys.

    ``cli.spec_arguments`` makes ``rules`` of ``include`` and ``exclude``, and keys of ``files_from``.
    """

    include: Annotated[
        list[str] | None,
        Option(
            "Copy what matches after all. The last of --include and --exclude that matches decides.",
            "PATTERN",
            http=None,
            of_door=True,
        ),
    ] = None
    exclude: Annotated[
        list[str] | None,
        Option(
            "Leave out what matches: *, ? and [...] against the name below SRC; * crosses slashes.",
            "PATTERN",
            http=None,
            of_door=True,
        ),
    ] = None
    files_from: Annotated[
        str | None,
        Option(
            "Only what FILE names, one key below SRC (or member of an archive) on a line; in FILE.csv "
            "key[,version_id[,target_key]]; in s3://.../manifest.json an S3 Inventory; - for standard input.",
            "FILE",
            http=None,
            of_door=True,
        ),
    ] = None
    files_format: Annotated[ListFormat, Option("What FILE holds; auto goes by its name.", http=None, of_door=True)] = (
        "auto"
    )


@dataclass(frozen=True, slots=True)
class SpeedOptions(Speed):
    """The same, and limits of this process. Only those hold that are given."""

    max_requests: Annotated[
        int | None,
        Option(
            "Requests in flight at most, when this process does the work.",
            "N",
            least=1,
            most=MOST_REQUESTS,
            http=None,
            of_door=True,
        ),
    ] = None
    max_bandwidth: Annotated[
        Bandwidth | None,
        Option(
            "Bytes per second that pass through this process at most, as 200MiB; or a timetable, as "
            "'08:00,50MB/s 18:00,off'. Copies inside the storage do not count.",
            "RATE",
            "bandwidth",
            http=None,
            of_door=True,
        ),
    ] = None
    attempts: Annotated[
        int | None,
        Option(
            "Tries of each request at most, on record with the transfer. Default: AWS_MAX_ATTEMPTS, or 11.",
            "N",
            least=1,
            most=MOST_ATTEMPTS,
            http=Http(
                text="Tries of each request at most, on record with the transfer. Default: AWS_MAX_ATTEMPTS of the "
                "worker, or 11."
            ),
        ),
    ] = None
    memory: Annotated[
        int | None,
        Option(
            "Bytes of buffers at most, when this process does the work. Default: 48MiB for each core, "
            "at least 96MiB and at most 256MiB.",
            "SIZE",
            "size",
            http=None,
            of_door=True,
        ),
    ] = None
    cache: Annotated[
        str | None,
        Option(
            "Read downloads through the disk cache of mounts in this folder: what is there is not fetched again, the "
            "rest is kept.",
            "DIR",
            http=None,
            of_door=True,
        ),
    ] = None
    max_cache_size: Annotated[
        int | None,
        Option(
            "Bytes of the cache at most. Default: all but 1GiB of the disk.", "SIZE", "size", http=None, of_door=True
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class PartOptions(Parts):
    """The same, and an option for the page cache."""

    page_cache: Annotated[
        bool,
        Option(
            "Leave downloads in the system's page cache, for a program that reads them next. Otherwise large ones "
            "pass it, which takes less CPU and leaves it to others.",
            http=None,
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class StorageOptions(Storage):
    """The same, and an option for the permissions of downloads."""

    preserve_permissions: Annotated[
        bool,
        Option(
            "Give downloads the permissions that are kept with their objects, whatever the umask says. Otherwise "
            "those only narrow what a new file gets. Setuid, setgid and sticky bits are never set.",
            http=None,
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class OneEndpoint:
    """Options for endpoint, credentials and region of a command with one side."""

    PANEL: ClassVar = "Storage"

    endpoint_url: Annotated[str | None, _ENDPOINT_URL] = None
    profile: Annotated[str | None, _PROFILE] = None
    region: Annotated[str | None, _REGION] = None


@dataclass(frozen=True, slots=True)
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
    no_sign_request: Annotated[bool, Option("Read the source anonymously (public buckets).")] = False


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """Options for what both sides are read and written with: keys of customers, and the payer of requests."""

    PANEL: ClassVar = "Storage"

    sse_c_key: Annotated[
        str | None,
        Option(
            "Customer's key (SSE-C) of the target, of the source in a download: a file of 32 bytes or their Base64, or "
            "env:NAME. Never recorded.",
            "FILE",
            http=Http(
                text="Customer's key (SSE-C) of the target: a variable of the server, whose name starts with "
                "SEQFERRY_SSE_C_. The key itself is never recorded.",
                characters=HEADER,
                example="env:SEQFERRY_SSE_C_LAB",
            ),
        ),
    ] = None
    sse_c_copy_source_key: Annotated[
        str | None,
        Option(
            "Customer's key of the source of a copy between S3 places.",
            "FILE",
            http=Http(text="Customer's key of the source, as for `sse_c_key`.", characters=HEADER),
        ),
    ] = None
    request_payer: Annotated[Literal["requester"] | None, Option("Pay for requests to buckets of others.")] = None


OF_REQUESTS: Final = (
    SelectionOptions, Filters, Versions, NameOptions, SpeedOptions, PartOptions, StorageOptions, Endpoints,
    AccessOptions, Protection, Attributes,
)  # fmt: skip
"""The groups of options that a request for a copy has, at each door."""
