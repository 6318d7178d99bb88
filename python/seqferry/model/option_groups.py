"""Options on record with a transfer: the groups that a ``TransferSpec`` is made of, each option declared once.

A field has the type and the default of the spec; its ``Option`` is the description for all doors. The command line, the
bodies of HTTP, the variables of a server, the stored form of a spec and the digest of a submission are made of these
groups. So an option costs a field here, and the place that obeys it. Groups that a door extends by options of its own,
which no spec holds, are in ``spec.option_groups``.

What must stay true: nothing here knows Typer or pydantic; names of fields are unique among all groups; a new option has
a default that means what specs without it have meant.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar

from seqferry.model.option_fields import Http, Option

IfExists = Literal["same", "size", "skip", "overwrite", "fail"]
Verify = Literal["auto", "checksum", "content"]
Sse = Literal["AES256", "aws:kms", "aws:kms:dsse", "none"]
MetadataDirective = Literal["COPY", "REPLACE"]
CopyProps = Literal["none", "metadata-directive", "default"]
ChecksumAlgorithm = Literal["CRC64NVME", "CRC32", "CRC32C", "SHA1", "SHA256"]
LockMode = Literal["GOVERNANCE", "COMPLIANCE"]

MOST_STARTS: Final = 100_000
"""Requests started per second, as a limit: more than one process makes."""
MOST_RESTORE_DAYS: Final = 30_000
MOST_RENAME_RULES: Final = 100

HEADER: Final = 2048
"""Characters of a text that becomes a header, at most: a choice, above what S3 takes."""


def _header(name: str) -> Option:
    return Option(f"{name} of the copies.", "TEXT", http=Http(characters=HEADER))


@dataclass(frozen=True, slots=True)
class Selection:
    """Options on existing, archived and unsettled objects."""

    PANEL: ClassVar = "Selection"

    if_exists: Annotated[
        IfExists,
        Option(
            "An object that exists at the target: same = skip when identical, else copy; size = skip when of the same "
            "size, else copy; skip = leave it; "
            "overwrite = copy always; fail = report it as failed."
        ),
    ] = "same"
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
            http=Http(text="Days that restored copies are kept. Default: 7.", most=MOST_RESTORE_DAYS),
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
                text="`- PATTERN` leaves out, `+ PATTERN` takes in again; the last one that matches decides.",
                items=1000,
                example=("- *", "+ *.fastq.gz"),
            ),
        ),
    ] = ()
    rename: Annotated[
        tuple[str, ...],
        Option(
            "Change names below DST as sed does: 's/PATTERN/REPLACEMENT/', with g for every match and i for upper "
            "and lower case alike. Can be repeated. Nothing is copied if two objects would get one name.",
            "RULE",
            http=Http(
                text="Rules for the names below the target, as sed has them. Nothing is copied if two objects would "
                "get one name.",
                items=MOST_RENAME_RULES,
                example=(r"s/_R([12])_001/_\1/",),
            ),
        ),
    ] = ()
    max_depth: Annotated[
        int | None,
        Option(
            "Only objects at most N levels below SRC: 1 = those directly in it, without its folders.",
            "N",
            least=1,
            http=Http(text="Only objects at most so many levels below the source: 1 = those directly in it."),
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
    """Limits that are on record with the transfer. Only those hold that are given."""

    PANEL: ClassVar = "Speed"

    tpslimit: Annotated[
        int | None,
        Option(
            "Requests started per second at most; on record with the transfer, for each process that works at it.",
            "N",
            least=1,
            most=MOST_STARTS,
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Parts:
    """Options for the part size and the copy threshold."""

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


@dataclass(frozen=True, slots=True)
class Storage:
    """Options for verification, storage class and MD5 of the copies."""

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


@dataclass(frozen=True, slots=True)
class Protection:
    """Encryption, access and retention of objects at the target."""

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
            http=Http(text="KMS key of `sse` aws:kms: its id, alias or ARN.", characters=HEADER),
        ),
    ] = None
    acl: Annotated[
        str | None,
        Option("Canned ACL of the copies, as bucket-owner-full-control.", "NAME", http=Http(characters=HEADER)),
    ] = None
    grants: Annotated[
        tuple[str, ...],
        Option(
            "PERMISSION=KIND=GRANTEE, as read=id=79a5... Can be repeated.",
            "GRANT",
            http=Http(text="PERMISSION=KIND=GRANTEE each, as read=id=79a5...", characters=HEADER, items=100),
        ),
    ] = ()
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
        str | None,
        Option("Until when: 30d, 5y or 2031-01-01T00:00:00Z.", "TIME", "moment", http=Http(characters=HEADER)),
    ] = None
    object_lock_legal_hold: Annotated[bool, Option("Put the copies under a legal hold.")] = False


@dataclass(frozen=True, slots=True)
class Attributes:
    """Attributes, metadata and tags of objects at the target."""

    PANEL: ClassVar = "Metadata"

    content_type: Annotated[str | None, Option("Content type of the copies.", "TYPE", http=Http(characters=HEADER))] = (
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
            "User metadata of the copies: NAME=VALUE,... or JSON. Between S3 places it replaces the source's, unless "
            "--metadata-directive COPY is given.",
            "NAME=VALUE",
            "pairs",
            http=Http(
                text="User metadata of the copies. It replaces the source's, unless `metadata_directive` is COPY.",
                items=100,
            ),
        ),
    ] = ()
    metadata_directive: Annotated[
        MetadataDirective | None,
        Option(
            "COPY = attributes and metadata of the source, and what is given over them; REPLACE = only what is given."
        ),
    ] = None
    tags: Annotated[
        tuple[str, ...] | None,
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


def part(group: type[_Group], of: Any) -> _Group:
    """The options of a group, out of one that extends it."""
    return group(**{one.name: getattr(of, one.name) for one in fields(group)})  # pyright: ignore[reportArgumentType]
