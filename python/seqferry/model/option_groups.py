"""Options on record with a transfer: the groups that a ``TransferSpec`` is made of, each option declared once.

A field has the type and the default of the spec; its ``Option`` describes it for all interfaces. The command line, the
bodies of HTTP, the variables of a server, the stored form of a spec and the digest of a submission are made of these
groups. So an option costs a field here, and the place that obeys it. Groups that an interface extends by its own
options, which no spec holds, are in ``spec.option_groups``.

What must stay true: nothing here knows Typer or pydantic; names of fields are unique among all groups; a new option has
a default that means what specs without it have meant.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar

from seqferry.model.frozen import frozen
from seqferry.model.option_fields import Http, Option

IfExists = Literal["same", "size", "skip", "overwrite", "fail"]
Verify = Literal["auto", "checksum", "content"]
Sse = Literal["AES256", "aws:kms", "aws:kms:dsse", "none"]
MetadataDirective = Literal["COPY", "REPLACE"]
CopyProps = Literal["none", "metadata-directive", "default"]
ChecksumAlgorithm = Literal["CRC64NVME", "CRC32", "CRC32C", "SHA1", "SHA256"]
LockMode = Literal["GOVERNANCE", "COMPLIANCE"]

MAX_REQUEST_RATE: Final = 100_000
"""Requests started per second, as a limit: more than one process makes."""
MAX_RESTORE_DAYS: Final = 30_000
MAX_RENAME_RULES: Final = 100

HEADER: Final = 2048
"""Characters of a text that becomes a header, at most: a choice, above what S3 takes."""


def _header(name: str) -> Option:
    return Option(f"{name} header of the copies.", "TEXT", http=Http(max_length=HEADER))


@frozen
class Selection:
    """Options on existing, archived and unsettled objects."""

    PANEL: ClassVar = "Selection"

    if_exists: Annotated[
        IfExists,
        Option(
            "What to do when the object exists at the target. same: skip if identical, else copy. size: "
            "skip if the size is equal, else copy. skip: keep the target. overwrite: always copy. fail: "
            "report a failure.",
            common=True,
        ),
    ] = "same"
    restore: Annotated[
        bool, Option("Restore archived objects (S3 Glacier), wait for the restore, which takes hours, and copy them.")
    ] = False
    restore_days: Annotated[
        int | None,
        Option(
            "Days to keep the restored copies. Default: 7.",
            "N",
            minimum=1,
            http=Http(text="Days to keep the restored copies. Default: 7.", maximum=MAX_RESTORE_DAYS),
        ),
    ] = None
    restore_tier: Annotated[
        Literal["Standard", "Bulk", "Expedited"] | None,
        Option("Retrieval tier of the restore. Default: Standard."),
    ] = None
    settle: Annotated[
        str | None,
        Option(
            "Skip objects modified within this age, as 60s. 0s: no file is still being written.",
            "AGE",
            http=Http(example="60s"),
        ),
    ] = None


@frozen
class Filters:
    """Options that filter objects by size and time of change."""

    PANEL: ClassVar = "Selection"

    min_size: Annotated[int | None, Option("Select objects of this size or larger.", "SIZE", "size")] = None
    max_size: Annotated[int | None, Option("Select objects of this size or smaller.", "SIZE", "size")] = None
    newer_than: Annotated[
        str | None,
        Option("Select objects modified after this time: an age, as 7d or 12h, or a date, as 2026-11-01.", "AGE"),
    ] = None
    older_than: Annotated[
        str | None,
        Option(
            "Select objects modified before this time: an age or a date.",
            "AGE",
            http=Http(text="Select objects modified before this time: an age or a date, as for `newer_than`."),
        ),
    ] = None


@frozen
class Names:
    """Rules that select and rename objects by their keys."""

    PANEL: ClassVar = "Selection"

    rules: Annotated[
        tuple[str, ...],
        Option(
            None,
            "RULE",
            words=("--rule",),
            hidden=True,
            http=Http(
                text="`- PATTERN` excludes matching keys, `+ PATTERN` re-includes them. The last rule that matches"
                " decides.",
                max_items=1000,
                example=("- *", "+ *.fastq.gz"),
            ),
        ),
    ] = ()
    rename: Annotated[
        tuple[str, ...],
        Option(
            "Rename objects with a sed expression: 's/PATTERN/REPLACEMENT/'. Flags: g for all matches, i "
            "to ignore case. Can be repeated. Nothing is copied if two objects get the same key.",
            "RULE",
            http=Http(
                text="Rename objects with sed expressions on the key below the target. Nothing is copied if two "
                "objects get the same key.",
                max_items=MAX_RENAME_RULES,
                example=(r"s/_R([12])_001/_\1/",),
            ),
        ),
    ] = ()
    max_depth: Annotated[
        int | None,
        Option(
            "Limit the depth below SRC. 1: only objects directly in SRC.",
            "N",
            minimum=1,
            http=Http(text="Limit the depth below the source. 1: only objects directly in it."),
        ),
    ] = None


@frozen
class Removal:
    """Options that remove objects at the target."""

    PANEL: ClassVar = "Selection"

    delete: Annotated[
        bool,
        Option(
            "Delete objects at DST that do not exist at SRC, after all copies have succeeded.", http=None, common=True
        ),
    ] = False
    max_delete: Annotated[
        int | None, Option("Delete nothing if more than N objects would be deleted.", "N", minimum=0, http=None)
    ] = None


@frozen
class Speed:
    """Limits that are on record with the transfer. Only those hold that are given."""

    PANEL: ClassVar = "Speed"

    tpslimit: Annotated[
        int | None,
        Option(
            "Limit of requests started per second. Recorded with the transfer; its workers share it.",
            "N",
            minimum=1,
            maximum=MAX_REQUEST_RATE,
        ),
    ] = None


@frozen
class Parts:
    """Options for the part size and the copy threshold."""

    PANEL: ClassVar = "Speed"

    part_size: Annotated[
        int | None,
        Option(
            "Part size of multipart uploads and copies, as 64MiB. Default: chosen per object.",
            "SIZE",
            "size",
            http=Http(text="Part size in bytes of multipart uploads and copies. Default: chosen per object."),
        ),
    ] = None
    copy_threshold: Annotated[
        int | None,
        Option(
            "Use multipart for objects larger than this size. Default: 128MiB, up to 1GiB if only a "
            "single-part MD5 can verify the object; 16MiB for data that passes through this machine.",
            "SIZE",
            "size",
            http=Http(
                text="Use multipart for objects larger than this size. Default: 128MiB, up to 1GiB if only a "
                "single-part MD5 can verify the object; 16MiB for data that passes through a worker."
            ),
        ),
    ] = None


@frozen
class Storage:
    """Options for verification, storage class and MD5 of the copies."""

    PANEL: ClassVar = "Storage"

    verify: Annotated[
        Verify,
        Option(
            "How to verify each object. auto: strongest checksum that needs no second read. checksum: "
            "require a checksum, and read both sides if there is none. content: read and compare both "
            "sides.",
            common=True,
        ),
    ] = "auto"
    storage_class: Annotated[
        str | None, Option("Storage class of the copies, as STANDARD_IA.", "NAME", common=True)
    ] = None
    md5: Annotated[
        bool,
        Option(
            "Store the MD5 of local files as metadata (md5chksum), as rclone does. Files uploaded in "
            "parts are read twice.",
            http=None,
        ),
    ] = False


@frozen
class Protection:
    """Encryption, access and retention of objects at the target."""

    PANEL: ClassVar = "Protection"

    sse: Annotated[
        Sse | None,
        Option(
            "Server-side encryption of the copies, verified by HEAD. none: default encryption of the "
            "bucket. Default: source encryption is preserved.",
            common=True,
        ),
    ] = None
    sse_kms_key_id: Annotated[
        str | None,
        Option(
            "KMS key id, alias or ARN for --sse aws:kms.",
            "KEY",
            http=Http(text="KMS key id, alias or ARN for `sse` aws:kms.", max_length=HEADER),
        ),
    ] = None
    bucket_key_enabled: Annotated[
        bool,
        Option(
            "Use an S3 Bucket Key with --sse aws:kms: fewer requests to KMS.",
            http=Http(text="Use an S3 Bucket Key with `sse` aws:kms: fewer requests to KMS."),
        ),
    ] = False
    acl: Annotated[
        str | None,
        Option("Canned ACL of the copies, as bucket-owner-full-control.", "NAME", http=Http(max_length=HEADER)),
    ] = None
    grants: Annotated[
        tuple[str, ...],
        Option(
            "Grant permissions on the copies: PERMISSION=KIND=GRANTEE, as read=id=79a5... Can be repeated.",
            "GRANT",
            http=Http(
                text="Grants on the copies: PERMISSION=KIND=GRANTEE each, as read=id=79a5...",
                max_length=HEADER,
                max_items=100,
            ),
        ),
    ] = ()
    object_lock: Annotated[
        Literal["copy"] | None,
        Option(
            "Copy the retention and legal hold of the source. By default they are not copied, and the "
            "record lists them."
        ),
    ] = None
    object_lock_mode: Annotated[
        LockMode | None,
        Option(
            "Object Lock retention mode of the copies. Needs --object-lock-until.",
            http=Http(text="Object Lock retention mode of the copies. Needs `object_lock_until`."),
        ),
    ] = None
    object_lock_until: Annotated[
        str | None,
        Option(
            "Retain until this time: 30d, 5y or 2031-01-01T00:00:00Z.", "TIME", "moment", http=Http(max_length=HEADER)
        ),
    ] = None
    object_lock_legal_hold: Annotated[bool, Option("Place a legal hold on the copies.")] = False


@frozen
class Attributes:
    """Attributes, metadata and tags of objects at the target."""

    PANEL: ClassVar = "Metadata"

    content_type: Annotated[str | None, Option("Content-Type of the copies.", "TYPE", http=Http(max_length=HEADER))] = (
        None
    )
    content_encoding: Annotated[str | None, _header("Content-Encoding")] = None
    content_language: Annotated[str | None, _header("Content-Language")] = None
    content_disposition: Annotated[str | None, _header("Content-Disposition")] = None
    cache_control: Annotated[str | None, _header("Cache-Control")] = None
    expires: Annotated[str | None, _header("Expires")] = None
    metadata: Annotated[
        tuple[str, ...],
        Option(
            "User metadata of the copies: NAME=VALUE,... or JSON. Between buckets it replaces the "
            "source's metadata unless --metadata-directive is COPY.",
            "NAME=VALUE",
            "pairs",
            http=Http(
                text="User metadata of the copies. Between buckets it replaces the source's metadata unless "
                "`metadata_directive` is COPY.",
                max_items=100,
            ),
        ),
    ] = ()
    metadata_directive: Annotated[
        MetadataDirective | None,
        Option("COPY: keep the source's metadata and override the values given. REPLACE: only the values given."),
    ] = None
    tags: Annotated[
        tuple[str, ...] | None,
        Option(
            "Tags of the copies, in place of the source's tags. Can be repeated.",
            "NAME=VALUE",
            "pairs",
            http=Http(text="Tags of the copies, in place of the source's tags.", max_items=10),
        ),
    ] = None
    copy_props: Annotated[
        CopyProps | None,
        Option(
            "Properties copied from the source. none: no metadata and no tags. metadata-directive: no "
            "tags. default: all.",
            hidden=True,
        ),
    ] = None
    checksum_algorithm: Annotated[
        ChecksumAlgorithm | None,
        Option("Checksum that S3 stores with the copies. Default: strongest supported checksum."),
    ] = None


MEMBERS: Final[dict[str, type[Any]]] = {
    "selection": Selection,
    "filters": Filters,
    "names": Names,
    "removal": Removal,
    "speed": Speed,
    "parts": Parts,
    "storage": Storage,
    "protection": Protection,
    "attributes": Attributes,
}
"""The groups by the names of the fields of a spec that hold them."""

MEMBER_OF: Final[dict[str, str]] = {one.name: member for member, group in MEMBERS.items() for one in fields(group)}
"""The field of a spec that holds the group of an option."""

_Group = TypeVar("_Group")


def narrow_group(group: type[_Group], of: Any) -> _Group:
    """The options of a base group, copied from an instance of a group that extends it."""
    return group(**{one.name: getattr(of, one.name) for one in fields(group)})  # pyright: ignore[reportArgumentType]
