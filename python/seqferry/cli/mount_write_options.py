"""Options of mounts that are written: keys that a share with ``read_only = false`` has in the configuration file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, cast

import typer

from seqferry.cli import options
from seqferry.model.errors import UsageError
from seqferry.settings import tables
from seqferry.settings.share_writes import Writes
from seqferry.settings.tables import TableError


def _option(name: str, metavar: str | None, text: str, parser: Callable[[str], int] | None = None) -> Any:
    variable = "SEQFERRY_MOUNT_" + name.removeprefix("--").replace("-", "_").upper()
    return typer.Option(name, envvar=variable, metavar=metavar, help=text, parser=parser, rich_help_panel="Writing")


_SETTLE: Final = "Upload a file after it has not changed for this many seconds. Default: 5."
_SSE: Final = "Server-side encryption of new objects: AES256, aws:kms or aws:kms:dsse. Default: that of the bucket."
_BUCKET_KEY: Final = "Use an S3 Bucket Key with --sse aws:kms: fewer requests to KMS."
_GRANTS: Final = "Grant permissions on new objects: PERMISSION=KIND=GRANTEE, as read=id=79a5... Can be repeated."
_IGNORE: Final = (
    "Never upload files with this name, as '*.tmp'. Replaces the default list. Can be repeated; '' for none."
)
_MARKERS: Final = (
    "Upload files with this name after all older files beside and below them, as RTAComplete.txt."
    " Can be repeated; '' for none."
)
_WINDOW: Final = "Upload only at these times of day, as 22:00-06:00. Can be repeated."
_BANDWIDTH: Final = "Upload bandwidth limit, as 50MB/s. Reads are not limited."
_FREE_SPACE: Final = "Free space reported to programs, at most that of the cache disk."

Settle = Annotated[str | None, _option("--settle", "SECONDS", _SETTLE)]
StorageClass = Annotated[
    str | None, _option("--storage-class", "NAME", "Storage class of new objects. Default: that of the bucket.")
]
Sse = Annotated[str | None, _option("--sse", "KIND", _SSE)]
SseKmsKeyId = Annotated[str | None, _option("--sse-kms-key-id", "KEY", "KMS key id, alias or ARN for --sse aws:kms.")]
BucketKeyEnabled = Annotated[bool, _option("--bucket-key-enabled", None, _BUCKET_KEY)]
Acl = Annotated[str | None, _option("--acl", "NAME", "Canned ACL of new objects, as bucket-owner-full-control.")]
Grants = Annotated[list[str] | None, _option("--grants", "GRANT", _GRANTS)]
Tags = Annotated[list[str] | None, _option("--tags", "NAME=VALUE", "Tags of new objects. Can be repeated.")]
Ignore = Annotated[list[str] | None, _option("--ignore", "PATTERN", _IGNORE)]
Markers = Annotated[list[str] | None, _option("--markers", "PATTERN", _MARKERS)]
UploadWindow = Annotated[list[str] | None, _option("--upload-window", "HH:MM-HH:MM", _WINDOW)]
MaxUploadBandwidth = Annotated[int | None, _option("--max-upload-bandwidth", "RATE", _BANDWIDTH, options.rate)]
FreeSpace = Annotated[int | None, _option("--free-space", "SIZE", _FREE_SPACE, options.size)]

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
