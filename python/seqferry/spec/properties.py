"""Properties of objects besides their bytes: attributes, tags, encryption, access, retention, as options ask for them.

What must stay true: keys of SSE-C are nowhere in a spec (``customer_keys``); what cannot be put into a header is
refused before anything starts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

from seqferry.model.errors import UsageError
from seqferry.model.locations import LocalFolder, S3Location
from seqferry.model.models import TransferSpec

_CANNED_ACLS: Final = (
    "private",
    "public-read",
    "public-read-write",
    "authenticated-read",
    "aws-exec-read",
    "bucket-owner-read",
    "bucket-owner-full-control",
    "log-delivery-write",
)
_PERMISSIONS: Final = {"read": "read", "readacl": "read-acp", "writeacl": "write-acp", "full": "full-control"}
_GRANTEES: Final = {"id": "id", "uri": "uri", "emailaddress": "emailAddress"}

_METADATA_BYTES: Final = 2048
_TAGS: Final = 10
_TAG_KEY: Final = 128
_TAG_VALUE: Final = 256
_METADATA_NAME: Final = r"[!#$%&'*+.^_`|~0-9a-z-]+"
_AGE: Final = r"([0-9]+)([hdwy])"
_HOURS: Final = {"h": 1, "d": 24, "w": 24 * 7, "y": 24 * 365}
ATTRIBUTES: Final = (
    "content_type",
    "content_encoding",
    "content_language",
    "content_disposition",
    "cache_control",
    "expires",
)
"""Options that are attributes of the target."""


def collect_requested(spec: TransferSpec) -> dict[str, Any]:
    """The requested properties, by the names of their options: only objects at a target in S3 have them."""
    found = {
        one.name: getattr(group, one.name) for group in (spec.attributes, spec.protection) for one in fields(group)
    }
    return {name: value for name, value in found.items() if value not in (None, (), False)}


def check(spec: TransferSpec) -> None:
    """Raise UsageError when a requested property cannot be carried."""
    if isinstance(spec.target, LocalFolder):
        for name in collect_requested(spec):
            option = "--" + name.replace("_", "-")
            raise UsageError(f"{option} is for objects in S3, and the target is a local path; leave it out.").about(
                name
            )
    _check_encryption(spec)
    _check_access(spec)
    for name in ATTRIBUTES:
        _check_value(name, getattr(spec.attributes, name))
    _check_metadata(spec)
    _check_tags(spec)
    _check_lock(spec)


def _check_encryption(spec: TransferSpec) -> None:
    if spec.protection.sse_kms_key_id is not None and (
        spec.protection.sse is None or not spec.protection.sse.startswith("aws:kms")
    ):
        raise UsageError(
            "--sse-kms-key-id names a key of KMS: give --sse aws:kms or --sse aws:kms:dsse with it."
        ).about("sse_kms_key_id")
    _check_value("sse_kms_key_id", spec.protection.sse_kms_key_id)
    if spec.protection.bucket_key_enabled and spec.protection.sse != "aws:kms":
        raise UsageError("--bucket-key-enabled is for keys of KMS: give --sse aws:kms with it.").about(
            "bucket_key_enabled"
        )
    has_key = isinstance(spec.target, S3Location) and spec.target.sse_c is not None
    if has_key and spec.protection.sse not in (None, "none"):
        raise UsageError("--sse and a customer's key (--sse-c-key) cannot be combined; choose one.").about(
            "sse", "sse_c_key"
        )


def _check_access(spec: TransferSpec) -> None:
    if spec.protection.acl is not None and spec.protection.acl not in _CANNED_ACLS:
        raise UsageError(f"--acl '{spec.protection.acl}' is not known; choose one of {', '.join(_CANNED_ACLS)}.").about(
            "acl"
        )
    if spec.protection.acl is not None and spec.protection.grants:
        raise UsageError("--acl and --grants cannot be combined; choose one.").about("acl")
    grants(spec)


def _check_metadata(spec: TransferSpec) -> None:
    size = 0
    for name, value in _split(spec.attributes.metadata):
        if not re.fullmatch(_METADATA_NAME, name):
            raise UsageError(f"--metadata '{name}' cannot be a name: use lower-case letters, digits and - or _.").about(
                "metadata"
            )
        _check_value("metadata", value, of=name)
        size += len(name) + len(value.encode())
    if size > _METADATA_BYTES:
        raise UsageError(f"--metadata has {size} bytes, and S3 allows {_METADATA_BYTES}.").about("metadata")


def _check_tags(spec: TransferSpec) -> None:
    if spec.attributes.tags is not None and len(spec.attributes.tags) > _TAGS:
        raise UsageError(f"--tags: {len(spec.attributes.tags)} tags, and S3 allows {_TAGS}.").about("tags")
    for name, value in _split(spec.attributes.tags or ()):
        if not name or len(name) > _TAG_KEY or len(value) > _TAG_VALUE:
            raise UsageError(
                f"--tags '{name[:40]}': a tag has 1 to {_TAG_KEY} characters, its value {_TAG_VALUE}."
            ).about("tags")


def _check_lock(spec: TransferSpec) -> None:
    if (spec.protection.object_lock_mode is None) != (spec.protection.object_lock_until is None):
        raise UsageError("--object-lock-mode and --object-lock-until belong together: give both.").about(
            "object_lock_mode", "object_lock_until"
        )
    if spec.protection.object_lock == "copy" and (
        spec.protection.object_lock_mode is not None or spec.protection.object_lock_legal_hold
    ):
        raise UsageError(
            "--object-lock copy carries the source's lock; leave the other options of Object Lock out."
        ).about("object_lock")
    if spec.protection.object_lock_until is not None and datetime.fromisoformat(
        spec.protection.object_lock_until
    ) <= datetime.now(UTC):
        raise UsageError(
            f"--object-lock-until {spec.protection.object_lock_until} has passed; choose a later time."
        ).about("object_lock_until")


def _check_value(name: str, value: str | None, *, of: str = "") -> None:
    """Raise UsageError for a value of the option ``name`` that no header holds; ``of`` is the name within its pairs."""
    if value is None:
        return
    if not value or any(ord(one) < 0x20 or ord(one) > 0x7E for one in value):
        option = f"--{name.replace('_', '-')} {of}".rstrip()
        raise UsageError(f"{option}: the value must be printable ASCII, as headers are, and not empty.").about(name)


def grants(spec: TransferSpec) -> list[tuple[str, str]]:
    """The grants by what the headers call them: ``read`` and its grantees.

    Raises:
        UsageError: a grant does not have the form PERMISSION=KIND=GRANTEE.
    """
    found: dict[str, list[str]] = {}
    for grant in spec.protection.grants:
        permission, _, grantee = grant.partition("=")
        kind, _, name = grantee.partition("=")
        if permission not in _PERMISSIONS or kind.lower() not in _GRANTEES or not name:
            raise UsageError(
                f"--grants '{grant}' is not a grant; write PERMISSION=KIND=GRANTEE, as read=id=79a5... or "
                "full=emailaddress=lab@example.org (permissions: read, readacl, writeacl, full; kinds: id, uri, "
                "emailaddress)."
            ).about("grants")
        _check_value("grants", name)
        found.setdefault(_PERMISSIONS[permission], []).append(f'{_GRANTEES[kind.lower()]}="{name}"')
    return [(permission, ", ".join(all_of_it)) for permission, all_of_it in found.items()]


def engine_properties(spec: TransferSpec) -> dict[str, Any]:
    """Arguments of the engine's ``Properties`` for a spec."""
    carries_metadata = spec.attributes.metadata_directive != "REPLACE" and spec.attributes.copy_props != "none"
    if spec.attributes.metadata and spec.attributes.metadata_directive is None and isinstance(spec.source, S3Location):
        # As aws s3 does.
        carries_metadata = False
    return {
        "carry_attributes": carries_metadata,
        "attributes": {
            name: getattr(spec.attributes, name) for name in ATTRIBUTES if getattr(spec.attributes, name) is not None
        },
        "metadata": dict(_split(spec.attributes.metadata)),
        "carry_tags": spec.attributes.copy_props in (None, "default"),
        "tags": None if spec.attributes.tags is None else list(_split(spec.attributes.tags)),
        "sse": spec.protection.sse,
        "sse_kms_key_id": spec.protection.sse_kms_key_id,
        "bucket_key_enabled": spec.protection.bucket_key_enabled,
        "sse_c": isinstance(spec.target, S3Location) and spec.target.sse_c is not None,
        "acl": spec.protection.acl,
        "grants": grants(spec),
        "copy_lock": spec.protection.object_lock == "copy",
        "lock_mode": spec.protection.object_lock_mode,
        "lock_until": spec.protection.object_lock_until,
        "legal_hold": spec.protection.object_lock_legal_hold,
        "checksum": spec.attributes.checksum_algorithm,
    }


def parse_pairs(option: str, given: Mapping[str, str] | Sequence[str] | None) -> tuple[str, ...]:
    """Names and values as ``name=value``, from a list, ``a=1,b=2`` or JSON."""
    if given is None:
        return ()
    if isinstance(given, Mapping):
        return tuple(f"{name}={value}" for name, value in given.items())
    found: list[str] = []
    for text in given:
        if text.startswith("{"):
            found += parse_pairs(option, _json(option, text))
            continue
        # A comma begins another pair where a name and = follow it; else it belongs to the value.
        for part in re.split(r",(?=[^,=]+=)", text):
            if "=" not in part:
                raise UsageError(f"{option} '{part}' has no value; write NAME=VALUE.")
            found.append(part)
    names = [pair.partition("=")[0] for pair in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"{option} names '{twice}' twice; give one value.")
    return tuple(found)


def _json(option: str, text: str) -> Mapping[str, str]:
    try:
        data: Any = json.loads(text)
    except ValueError as why:
        raise UsageError(f"{option}: the JSON cannot be read ({why}).") from None
    values = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    if not values or not all(isinstance(value, str) for value in values.values()):
        raise UsageError(f'{option}: write an object of texts, as {{"name": "value"}}.')
    return values


def _split(pairs: Sequence[str]) -> list[tuple[str, str]]:
    return [(name, value) for name, _, value in (pair.partition("=") for pair in pairs)]


def parse_until(text: str) -> datetime:
    """The time of ``--object-lock-until``; of an age, that time from now.

    Raises:
        UsageError: the text is neither an age nor a time.
    """
    if age := re.fullmatch(_AGE, text):
        at = datetime.now(UTC) + timedelta(hours=int(age[1]) * _HOURS[age[2]])
    else:
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise UsageError(
                f"--object-lock-until '{text}' is not a time; write for example 30d, 5y or 2031-01-01T00:00:00Z."
            ).about("object_lock_until") from None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def format_until(text: str) -> str:
    """The time that ``parse_until`` reads, in RFC 3339."""
    return parse_until(text).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
