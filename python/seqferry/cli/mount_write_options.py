"""Options of mounts that are written: keys that a share with ``read_only = false`` has in the configuration file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, cast

import typer

from seqferry.cli import options
from seqferry.model.errors import UsageError
from seqferry.settings import tables
from seqferry.settings.share_writes import Writes
from seqferry.settings.tables import TableError

Settle = Annotated[
    str | None,
    typer.Option(
        "--settle",
        envvar="SEQFERRY_MOUNT_SETTLE",
        metavar="SECONDS",
        help="Upload a file after it has not changed for this many seconds. Default: 5.",
        rich_help_panel="Writing",
    ),
]
StorageClass = Annotated[
    str | None,
    typer.Option(
        "--storage-class",
        envvar="SEQFERRY_MOUNT_STORAGE_CLASS",
        metavar="NAME",
        help="Storage class of new objects. Default: that of the bucket.",
        rich_help_panel="Writing",
    ),
]
Sse = Annotated[
    str | None,
    typer.Option(
        "--sse",
        envvar="SEQFERRY_MOUNT_SSE",
        metavar="KIND",
        help="Server-side encryption of new objects: AES256, aws:kms or aws:kms:dsse. Default: that of the bucket.",
        rich_help_panel="Writing",
    ),
]
SseKmsKeyId = Annotated[
    str | None,
    typer.Option(
        "--sse-kms-key-id",
        envvar="SEQFERRY_MOUNT_SSE_KMS_KEY_ID",
        metavar="KEY",
        help="KMS key id, alias or ARN for --sse aws:kms.",
        rich_help_panel="Writing",
    ),
]
BucketKeyEnabled = Annotated[
    bool,
    typer.Option(
        "--bucket-key-enabled",
        envvar="SEQFERRY_MOUNT_BUCKET_KEY_ENABLED",
        help="Use an S3 Bucket Key with --sse aws:kms: fewer requests to KMS.",
        rich_help_panel="Writing",
    ),
]
Acl = Annotated[
    str | None,
    typer.Option(
        "--acl",
        envvar="SEQFERRY_MOUNT_ACL",
        metavar="NAME",
        help="Canned ACL of new objects, as bucket-owner-full-control.",
        rich_help_panel="Writing",
    ),
]
Grants = Annotated[
    list[str] | None,
    typer.Option(
        "--grants",
        envvar="SEQFERRY_MOUNT_GRANTS",
        metavar="GRANT",
        help="Grant permissions on new objects: PERMISSION=KIND=GRANTEE, as read=id=79a5... Can be repeated.",
        rich_help_panel="Writing",
    ),
]
Tags = Annotated[
    list[str] | None,
    typer.Option(
        "--tags",
        envvar="SEQFERRY_MOUNT_TAGS",
        metavar="NAME=VALUE",
        help="Tags of new objects. Can be repeated.",
        rich_help_panel="Writing",
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore",
        envvar="SEQFERRY_MOUNT_IGNORE",
        metavar="PATTERN",
        help="Never upload files with this name, as '*.tmp'. Replaces the default list. Can be repeated; '' for none.",
        rich_help_panel="Writing",
    ),
]
Markers = Annotated[
    list[str] | None,
    typer.Option(
        "--markers",
        envvar="SEQFERRY_MOUNT_MARKERS",
        metavar="PATTERN",
        help="Upload files with this name after all older files beside and below them, as RTAComplete.txt."
        " Can be repeated; '' for none.",
        rich_help_panel="Writing",
    ),
]
UploadWindow = Annotated[
    list[str] | None,
    typer.Option(
        "--upload-window",
        envvar="SEQFERRY_MOUNT_UPLOAD_WINDOW",
        metavar="HH:MM-HH:MM",
        help="Upload only at these times of day, as 22:00-06:00. Can be repeated.",
        rich_help_panel="Writing",
    ),
]
MaxUploadBandwidth = Annotated[
    int | None,
    typer.Option(
        "--max-upload-bandwidth",
        envvar="SEQFERRY_MOUNT_MAX_UPLOAD_BANDWIDTH",
        metavar="RATE",
        parser=options.rate,
        help="Upload bandwidth limit, as 50MB/s. Reads are not limited.",
        rich_help_panel="Writing",
    ),
]
FreeSpace = Annotated[
    int | None,
    typer.Option(
        "--free-space",
        envvar="SEQFERRY_MOUNT_FREE_SPACE",
        metavar="SIZE",
        parser=options.size,
        help="Free space reported to programs, at most that of the cache disk.",
        rich_help_panel="Writing",
    ),
]

_OPTIONS: Final = {"max_bandwidth": "--max-upload-bandwidth"}
"""Options that are not called as the key of a share: ``--max-bandwidth`` limits reads as well."""


def option_of(key: str) -> str:
    """Name of the option for a key of a share."""
    return _OPTIONS.get(key, "--" + key.replace("_", "-"))


def refuse_write_options(given: Mapping[str, Any]) -> None:
    """Raise UsageError if one of these was given for a mount that is only read."""
    for key in (key for key, value in given.items() if value not in (None, False)):
        raise UsageError(f"{option_of(key)} is for writable mounts: add --read-write and --cache DIR.")


def parse(given: Mapping[str, Any]) -> Writes:
    """Settings for writing.

    Args:
        given: values of options by the keys of a share; None, or False, for an option that was not given.

    Raises:
        UsageError: a value does not fit.
    """
    table = {key: _in_the_form_of_a_file(key, value) for key, value in given.items() if value not in (None, False)}
    try:
        return tables.build(Writes, table, "[[share]]") if table else Writes()
    except TableError as why:
        raise UsageError(f"{option_of(str(why.key))}: {why.reason}.") from None


def _in_the_form_of_a_file(key: str, value: Any) -> Any:
    if key == "tags":
        for item in (item for item in value if "=" not in item):
            raise UsageError(f"--tags: '{item}' has no '='; write NAME=VALUE.")
        return {name: text for name, _, text in (item.partition("=") for item in value)}
    if isinstance(value, list):
        return [item for item in cast("list[str]", value) if item]
    if key == "settle":
        try:
            return float(value.removesuffix("s"))
        except ValueError:
            return value
    return value
