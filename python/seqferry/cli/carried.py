"""Options of what objects carry besides their bytes, under the names that the AWS CLI has for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import typer

from seqferry.carrying import ChecksumAlgorithm, CopyProps, LockMode, MetadataDirective, Sse


def _option(name: str, metavar: str | None, text: str) -> object:
    twin = "SEQFERRY_" + name.removeprefix("--").upper().replace("-", "_")
    return typer.Option(name, envvar=twin, metavar=metavar, help=text)


@dataclass(frozen=True, slots=True)
class Protection:
    """Encryption, access and retention of objects at the target, and who pays."""

    PANEL: ClassVar = "Protection"

    sse: Annotated[
        Sse | None,
        _option(
            "--sse",
            None,
            "Encryption of the copies; a look at each must show it. Default: what is encrypted stays so. none = as the "
            "bucket does by default.",
        ),
    ] = None
    sse_kms_key_id: Annotated[
        str | None, _option("--sse-kms-key-id", "KEY", "KMS key of --sse aws:kms: its id, alias or ARN.")
    ] = None
    sse_c_key: Annotated[
        str | None,
        _option(
            "--sse-c-key",
            "FILE",
            "Customer's key (SSE-C) of the target, of the source in a download: a file of 32 bytes or their Base64, or "
            "env:NAME. Never recorded.",
        ),
    ] = None
    sse_c_copy_source_key: Annotated[
        str | None,
        _option("--sse-c-copy-source-key", "FILE", "Customer's key of the source of a copy between S3 places."),
    ] = None
    acl: Annotated[str | None, _option("--acl", "NAME", "Canned ACL of the copies, as bucket-owner-full-control.")] = (
        None
    )
    grants: Annotated[
        list[str] | None,
        _option("--grants", "GRANT", "PERMISSION=KIND=GRANTEE, as read=id=79a5... Can be repeated."),
    ] = None
    request_payer: Annotated[
        Literal["requester"] | None, _option("--request-payer", None, "Pay for requests to buckets of others.")
    ] = None
    object_lock: Annotated[
        Literal["copy"] | None,
        _option("--object-lock", None, "copy = retention and legal hold of the source. Default: named as not carried."),
    ] = None
    object_lock_mode: Annotated[
        LockMode | None, _option("--object-lock-mode", None, "Retention of the copies; with --object-lock-until.")
    ] = None
    object_lock_until: Annotated[
        str | None, _option("--object-lock-until", "TIME", "Until when: 30d, 5y or 2031-01-01T00:00:00Z.")
    ] = None
    object_lock_legal_hold: Annotated[
        bool, _option("--object-lock-legal-hold", None, "Put the copies under a legal hold.")
    ] = False


@dataclass(frozen=True, slots=True)
class Attributes:
    """Attributes, metadata and tags of objects at the target."""

    PANEL: ClassVar = "Metadata"

    content_type: Annotated[str | None, _option("--content-type", "TYPE", "Content type of the copies.")] = None
    content_encoding: Annotated[
        str | None, _option("--content-encoding", "TEXT", "Content-Encoding of the copies.")
    ] = None
    content_language: Annotated[
        str | None, _option("--content-language", "TEXT", "Content-Language of the copies.")
    ] = None
    content_disposition: Annotated[
        str | None, _option("--content-disposition", "TEXT", "Content-Disposition of the copies.")
    ] = None
    cache_control: Annotated[str | None, _option("--cache-control", "TEXT", "Cache-Control of the copies.")] = None
    expires: Annotated[str | None, _option("--expires", "TEXT", "Expires of the copies.")] = None
    metadata: Annotated[
        list[str] | None,
        _option(
            "--metadata",
            "NAME=VALUE",
            "User metadata of the copies: NAME=VALUE,... or JSON. Between S3 places it replaces the source's, unless "
            "--metadata-directive COPY is given.",
        ),
    ] = None
    metadata_directive: Annotated[
        MetadataDirective | None,
        _option(
            "--metadata-directive",
            None,
            "COPY = attributes and metadata of the source, and what is given over them; REPLACE = only what is given.",
        ),
    ] = None
    tags: Annotated[
        list[str] | None,
        _option("--tags", "NAME=VALUE", "Tags of the copies instead of the source's. Can be repeated."),
    ] = None
    copy_props: Annotated[
        CopyProps | None,
        _option("--copy-props", None, "none = neither metadata nor tags of the source; metadata-directive = no tags."),
    ] = None
    checksum_algorithm: Annotated[
        ChecksumAlgorithm | None,
        _option("--checksum-algorithm", None, "Checksum that the storage keeps. Default: the one that proves most."),
    ] = None
