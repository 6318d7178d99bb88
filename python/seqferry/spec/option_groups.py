"""Options of transfers: the one definition of each, in frozen dataclasses that all doors share.

``cli.options`` makes Typer's options of them, ``api.fields`` the fields of request bodies. The name of a field is the
option's name at each door, and that of the argument of ``build_spec``. A group of the command line alone is in
``cli.groups``.

What must stay true: nothing here knows Typer or pydantic; names of fields are unique among the groups of a command.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from seqferry.model.models import MOST_ATTEMPTS, MOST_STARTS, IfExists, Symlinks, Verify
from seqferry.settings.config import MOST_REQUESTS, Bandwidth
from seqferry.spec import key_lists
from seqferry.spec.build import MAX_RESTORE_DAYS
from seqferry.spec.option_fields import Http, Option
from seqferry.spec.properties import ChecksumAlgorithm, CopyProps, LockMode, MetadataDirective, Sse
from seqferry.spec.renaming import MAX_RULES

_HEADER: Final = 2048
"""Characters of a text that becomes a header, at most: a choice, above what S3 takes."""

_ENDPOINT_URL: Final = Option("S3 endpoint other than AWS.", "URL")
_PROFILE: Final = Option("AWS profile to use.", "NAME")
_REGION: Final = Option("AWS region.", "NAME")


def _of_side(side: Literal["source", "target"], name: str, metavar: str) -> Option:
    option = name.replace("_", "-")
    return Option(f"--{option} for the {side} only.", metavar, http=Http(text=f"`{name}` for the {side} only."))


def _header(name: str) -> Option:
    return Option(f"{name} of the copies.", "TEXT", http=Http(characters=_HEADER))


@dataclass(frozen=True, slots=True)
class Selection:
    """Options on existing, archived and unsettled objects, symlinks, wildcards and empty folders."""

    PANEL: ClassVar = "Selection"

    if_exists: Annotated[
        IfExists,
        Option(
            "An object that exists at the target: same = skip when identical, else copy; size = skip when of the same "
            "size, else copy; skip = leave it; "
            "overwrite = copy always; fail = report it as failed."
        ),
    ] = "same"
    symlinks: Annotated[
        Symlinks,
        Option(
            "Links in a local folder: follow = copy what they lead to; skip = leave them out; keep = copy the "
            "links themselves, which a download with it makes again.",
            http=None,
        ),
    ] = "follow"
    restore: Annotated[
        bool, Option("Ask for readable copies of archived objects (Glacier), wait for them (hours), and copy.")
    ] = False
    restore_days: Annotated[
        int | None,
        Option(
            "How long restored copies are kept. Default: 7.",
            "N",
            words=("--restore-days", "--days"),
            least=1,
            http=Http(text="Days that restored copies are kept. Default: 7.", most=MAX_RESTORE_DAYS),
        ),
    ] = None
    restore_tier: Annotated[
        Literal["Standard", "Bulk", "Expedited"] | None,
        Option("How quickly they are restored. Default: Standard.", words=("--restore-tier", "--tier")),
    ] = None
    settle: Annotated[
        str | None,
        Option(
            "Leave out what was changed within this age, as 60s: it may still grow. 0s: files are at rest.",
            "AGE",
            http=Http(example="60s"),
        ),
    ] = None
    recursive: Annotated[
        bool,
        Option(
            "A name in SRC that no object has is a prefix: all below it is meant. A last slash says the same.",
            words=("--recursive", "-r", "-R"),
            http=Http(
                text="A name in `source` that no object has is a prefix: all below it is meant. A last slash says the "
                "same. `pack` and `unpack` are as without."
            ),
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
class Filters:
    """Options that filter objects by size and time of change."""

    PANEL: ClassVar = "Selection"

    min_size: Annotated[int | None, Option("Only objects of this size or larger.", "SIZE", "size")] = None
    max_size: Annotated[int | None, Option("Only objects of this size or smaller.", "SIZE", "size")] = None
    newer_than: Annotated[
        str | None, Option("Only objects changed since: an age as 7d or 12h, or a time as 2026-11-01.", "AGE")
    ] = None
    older_than: Annotated[
        str | None,
        Option(
            "Only objects not changed since: an age or a time, as for --newer-than.",
            "AGE",
            http=Http(text="Only objects not changed since: an age or a time, as for `newer_than`."),
        ),
    ] = None


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
class Names:
    """Options that select and rename objects by their keys.

    On the command line ``cli.selecting`` makes ``rules`` of ``include`` and ``exclude``, and keys of ``files_from``.
    """

    PANEL: ClassVar = "Selection"

    include: Annotated[
        list[str] | None,
        Option(
            "Copy what matches after all. The last of --include and --exclude that matches decides.",
            "PATTERN",
            http=None,
        ),
    ] = None
    exclude: Annotated[
        list[str] | None,
        Option(
            "Leave out what matches: *, ? and [...] against the name below SRC; * crosses slashes.",
            "PATTERN",
            http=None,
        ),
    ] = None
    # On the command line --include and --exclude become values of this option, which keeps their order.
    rules: Annotated[
        list[str] | None,
        Option(
            None,
            "RULE",
            words=("--rule",),
            hidden=True,
            http=Http(
                text="`- PATTERN` leaves out, `+ PATTERN` takes in again; the last one that matches decides.",
                items=1000,
                example=("- *", "+ *.fastq.gz"),
            ),
        ),
    ] = None
    files_from: Annotated[
        str | None,
        Option(
            "Only what FILE names, one key below SRC (or member of an archive) on a line; in FILE.csv "
            "key[,version_id[,target_key]]; in s3://.../manifest.json an S3 Inventory; - for standard input.",
            "FILE",
            http=None,
        ),
    ] = None
    files_format: Annotated[key_lists.Format, Option("What FILE holds; auto goes by its name.", http=None)] = "auto"
    rename: Annotated[
        list[str] | None,
        Option(
            "Change names below DST as sed does: 's/PATTERN/REPLACEMENT/', with g for every match and i for upper "
            "and lower case alike. Can be repeated. Nothing is copied if two objects would get one name.",
            "RULE",
            http=Http(
                text="Rules for the names below the target, as sed has them. Nothing is copied if two objects would "
                "get one name.",
                items=MAX_RULES,
                example=(r"s/_R([12])_001/_\1/",),
            ),
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Removal:
    """Options that remove objects at the target."""

    PANEL: ClassVar = "Selection"

    delete: Annotated[bool, Option("Once all has arrived, remove what is at DST and not at SRC.", http=None)] = False
    max_delete: Annotated[
        int | None, Option("Remove nothing if more than N objects would be.", "N", least=0, http=None)
    ] = None


@dataclass(frozen=True, slots=True)
class Speed:
    """Limits of this process, and two that are on record with the transfer. Only those hold that are given."""

    PANEL: ClassVar = "Speed"

    max_requests: Annotated[
        int | None,
        Option(
            "Requests in flight at most, when this process does the work.",
            "N",
            least=1,
            most=MOST_REQUESTS,
            http=None,
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
        ),
    ] = None
    tpslimit: Annotated[
        int | None,
        Option(
            "Requests started per second at most; on record with the transfer, for each process that works at it.",
            "N",
            least=1,
            most=MOST_STARTS,
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
        ),
    ] = None
    cache: Annotated[
        str | None,
        Option(
            "Read downloads through the disk cache of mounts in this folder: what is there is not fetched again, the "
            "rest is kept.",
            "DIR",
            http=None,
        ),
    ] = None
    max_cache_size: Annotated[
        int | None,
        Option("Bytes of the cache at most. Default: all but 1GiB of the disk.", "SIZE", "size", http=None),
    ] = None


@dataclass(frozen=True, slots=True)
class Parts:
    """Options for the part size, the copy threshold and the page cache."""

    PANEL: ClassVar = "Speed"

    part_size: Annotated[
        int | None,
        Option(
            "Part size of big objects, as 64MiB. Default: chosen per object.",
            "SIZE",
            "size",
            http=Http(text="Bytes of a part of big objects. Default: chosen per object."),
        ),
    ] = None
    copy_threshold: Annotated[
        int | None,
        Option(
            "Objects up to this size are copied in one request. Default: 128MiB or what proves more; 16MiB for "
            "what passes through this machine.",
            "SIZE",
            "size",
            http=Http(
                text="Objects up to this size are copied in one request. Default: 128MiB or what proves more; 16MiB "
                "for what passes through a worker."
            ),
        ),
    ] = None
    page_cache: Annotated[
        bool,
        Option(
            "Leave downloads in the system's page cache, for a program that reads them next. Otherwise large ones "
            "pass it, which takes less CPU and leaves it to others.",
            http=None,
        ),
    ] = False


@dataclass(frozen=True, slots=True)
class Storage:
    """Options for verification, storage class, MD5 and permissions of the copies."""

    PANEL: ClassVar = "Storage"

    verify: Annotated[
        Verify,
        Option(
            "auto = the strongest evidence that needs no second read; checksum = a checksum or digest, "
            "where there is none both sides are read; content = both sides are always read."
        ),
    ] = "auto"
    storage_class: Annotated[str | None, Option("Storage class of the copies.", "NAME")] = None
    md5: Annotated[
        bool,
        Option(
            "Keep the MD5 of each local file with its object (metadata md5chksum), as rclone does and checks it. "
            "Files that go in parts are read once more for it, before.",
            http=None,
        ),
    ] = False
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
class Protection:
    """Encryption, access, retention and payer of objects at the target."""

    PANEL: ClassVar = "Protection"

    sse: Annotated[
        Sse | None,
        Option(
            "Encryption of the copies; a look at each must show it. Default: what is encrypted stays so. none = as the "
            "bucket does by default."
        ),
    ] = None
    sse_kms_key_id: Annotated[
        str | None,
        Option(
            "KMS key of --sse aws:kms: its id, alias or ARN.",
            "KEY",
            http=Http(text="KMS key of `sse` aws:kms: its id, alias or ARN.", characters=_HEADER),
        ),
    ] = None
    sse_c_key: Annotated[
        str | None,
        Option(
            "Customer's key (SSE-C) of the target, of the source in a download: a file of 32 bytes or their Base64, or "
            "env:NAME. Never recorded.",
            "FILE",
            http=Http(
                text="Customer's key (SSE-C) of the target: a variable of the server, whose name starts with "
                "SEQFERRY_SSE_C_. The key itself is never recorded.",
                characters=_HEADER,
                example="env:SEQFERRY_SSE_C_LAB",
            ),
        ),
    ] = None
    sse_c_copy_source_key: Annotated[
        str | None,
        Option(
            "Customer's key of the source of a copy between S3 places.",
            "FILE",
            http=Http(text="Customer's key of the source, as for `sse_c_key`.", characters=_HEADER),
        ),
    ] = None
    acl: Annotated[
        str | None,
        Option("Canned ACL of the copies, as bucket-owner-full-control.", "NAME", http=Http(characters=_HEADER)),
    ] = None
    grants: Annotated[
        list[str] | None,
        Option(
            "PERMISSION=KIND=GRANTEE, as read=id=79a5... Can be repeated.",
            "GRANT",
            http=Http(text="PERMISSION=KIND=GRANTEE each, as read=id=79a5...", characters=_HEADER, items=100),
        ),
    ] = None
    request_payer: Annotated[Literal["requester"] | None, Option("Pay for requests to buckets of others.")] = None
    object_lock: Annotated[
        Literal["copy"] | None,
        Option("copy = retention and legal hold of the source. Default: named as not carried."),
    ] = None
    object_lock_mode: Annotated[
        LockMode | None,
        Option(
            "Retention of the copies; with --object-lock-until.",
            http=Http(text="Retention of the copies; with `object_lock_until`."),
        ),
    ] = None
    object_lock_until: Annotated[
        str | None, Option("Until when: 30d, 5y or 2031-01-01T00:00:00Z.", "TIME", http=Http(characters=_HEADER))
    ] = None
    object_lock_legal_hold: Annotated[bool, Option("Put the copies under a legal hold.")] = False


@dataclass(frozen=True, slots=True)
class Attributes:
    """Attributes, metadata and tags of objects at the target."""

    PANEL: ClassVar = "Metadata"

    content_type: Annotated[
        str | None, Option("Content type of the copies.", "TYPE", http=Http(characters=_HEADER))
    ] = None
    content_encoding: Annotated[str | None, _header("Content-Encoding")] = None
    content_language: Annotated[str | None, _header("Content-Language")] = None
    content_disposition: Annotated[str | None, _header("Content-Disposition")] = None
    cache_control: Annotated[str | None, _header("Cache-Control")] = None
    expires: Annotated[str | None, _header("Expires")] = None
    metadata: Annotated[
        list[str] | None,
        Option(
            "User metadata of the copies: NAME=VALUE,... or JSON. Between S3 places it replaces the source's, unless "
            "--metadata-directive COPY is given.",
            "NAME=VALUE",
            "pairs",
            http=Http(
                text="User metadata of the copies. It replaces the source's, unless `metadata_directive` is COPY.",
                items=100,
            ),
        ),
    ] = None
    metadata_directive: Annotated[
        MetadataDirective | None,
        Option(
            "COPY = attributes and metadata of the source, and what is given over them; REPLACE = only what is given."
        ),
    ] = None
    tags: Annotated[
        list[str] | None,
        Option(
            "Tags of the copies instead of the source's. Can be repeated.",
            "NAME=VALUE",
            "pairs",
            http=Http(text="Tags of the copies instead of the source's.", items=10),
        ),
    ] = None
    copy_props: Annotated[
        CopyProps | None,
        Option("none = neither metadata nor tags of the source; metadata-directive = no tags."),
    ] = None
    checksum_algorithm: Annotated[
        ChecksumAlgorithm | None,
        Option("Checksum that the storage keeps. Default: the one that proves most."),
    ] = None
