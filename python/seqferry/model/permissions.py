"""The rights on AWS that each operation needs, and IAM policies made of them.

The one table of rights: ``seqferry iam-policy`` prints parts of it, ``docs/use/manual.md`` shows it, and
``tests/e2e/test_iam_policy.py`` holds it against the requests that commands send.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final, Literal, NamedTuple, get_args

from seqferry.model.errors import UsageError
from seqferry.model.frozen import frozen

Side = Literal["source", "target"]
Extra = Literal["versions", "tags", "acl", "object-lock", "restore", "writing"]


class RequiredAction(NamedTuple):
    """An IAM action, and whether its resource is the bucket or its objects."""

    action: str
    of: Literal["bucket", "objects"]


_LIST: Final[str] = "list"
_READ: Final[str] = "read"
_WRITE: Final[str] = "write"
_UPLOADS: Final[str] = "uploads"
_REMOVE: Final[str] = "remove"
_ENCRYPTION: Final[str] = "encryption"
_TAGS_READ: Final[str] = "read tags"
_TAGS_WRITE: Final[str] = "write tags"
_VERSIONS_LIST: Final[str] = "list versions"
_VERSIONS_READ: Final[str] = "read versions"
_VERSIONS_REMOVE: Final[str] = "remove versions"
_ACL: Final[str] = "set an ACL"
_LOCK_READ: Final[str] = "read a lock"
_LOCK_WRITE: Final[str] = "set a lock"
_RESTORE: Final[str] = "restore"

RIGHTS: Final[Mapping[str, tuple[RequiredAction, ...]]] = {
    _LIST: (RequiredAction("s3:ListBucket", "bucket"),),
    _READ: (RequiredAction("s3:GetObject", "objects"),),
    _WRITE: (RequiredAction("s3:PutObject", "objects"),),
    _UPLOADS: (
        RequiredAction("s3:ListBucketMultipartUploads", "bucket"),
        RequiredAction("s3:AbortMultipartUpload", "objects"),
        RequiredAction("s3:ListMultipartUploadParts", "objects"),
    ),
    _REMOVE: (RequiredAction("s3:DeleteObject", "objects"),),
    _ENCRYPTION: (RequiredAction("s3:GetEncryptionConfiguration", "bucket"),),
    _TAGS_READ: (RequiredAction("s3:GetObjectTagging", "objects"),),
    _TAGS_WRITE: (RequiredAction("s3:PutObjectTagging", "objects"),),
    _VERSIONS_LIST: (RequiredAction("s3:ListBucketVersions", "bucket"),),
    _VERSIONS_READ: (
        RequiredAction("s3:GetObjectVersion", "objects"),
        RequiredAction("s3:GetObjectVersionTagging", "objects"),
    ),
    _VERSIONS_REMOVE: (RequiredAction("s3:DeleteObjectVersion", "objects"),),
    _ACL: (RequiredAction("s3:PutObjectAcl", "objects"),),
    _LOCK_READ: (
        RequiredAction("s3:GetObjectRetention", "objects"),
        RequiredAction("s3:GetObjectLegalHold", "objects"),
    ),
    _LOCK_WRITE: (
        RequiredAction("s3:PutObjectRetention", "objects"),
        RequiredAction("s3:PutObjectLegalHold", "objects"),
    ),
    _RESTORE: (RequiredAction("s3:RestoreObject", "objects"),),
}
"""Rights by what they are used for."""

_ALL_READ: Final = (_LIST, _READ)
# A copy that proves wrong is removed.
_ALL_WRITTEN: Final = (_LIST, _READ, _WRITE, _UPLOADS, _REMOVE)

OPERATIONS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "copy": (_ALL_READ, _ALL_WRITTEN),
    "sync": (_ALL_READ, _ALL_WRITTEN),
    "move": ((*_ALL_READ, _REMOVE), _ALL_WRITTEN),
    "history": ((*_ALL_READ, _VERSIONS_LIST, _VERSIONS_READ), (*_ALL_WRITTEN, _VERSIONS_LIST)),
    "pack": (_ALL_READ, _ALL_WRITTEN),
    "unpack": (_ALL_READ, _ALL_WRITTEN),
    "check": (_ALL_READ, _ALL_READ),
    "verify": (_ALL_READ, ()),
    "remove": ((*_ALL_READ, _REMOVE), ()),
    "cleanup": ((_LIST, _UPLOADS), ()),
    "mount": (_ALL_READ, ()),
    "gateway": (_ALL_READ, ()),
}
"""Uses by operation: at the source, or the one place that it is about, and at the target."""

WRITTEN: Final = frozenset({"mount", "gateway"})
"""Operations whose one place can be written as well (``writing``)."""

_WRITING: Final = (_WRITE, _UPLOADS, _REMOVE, _TAGS_READ, _TAGS_WRITE)
"""Uses at a place that is written: an object that gets other bytes or another name keeps its tags."""

OF_VERSIONS: Final = frozenset({"remove"})
"""Operations that remove versions, where versions are requested."""

ARCHIVES: Final[Mapping[str, Side]] = {"pack": "target", "unpack": "source"}
"""Sides that are an archive, by operation: its index lies beside it."""

_COPYING: Final = ("copy", "sync", "move", "history")
"""Operations whose copies carry the properties of objects."""

NOT_KNOWN: Final = (
    "Not known here: policies of buckets and keys of other accounts, service control policies and boundaries, which "
    "have to allow the same, and KMS keys that were not named."
)

_KMS_KEY: Final = re.compile(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+")
_PARTITION: Final = re.compile(r"aws(-[a-z]+)*")


@frozen
class PolicyScope:
    """Objects of a bucket that a policy covers: the object with this key, or all whose keys begin with it."""

    bucket: str
    key: str
    is_one: bool = False


@frozen
class PolicyRequest:
    """An operation and the objects that it uses.

    Attributes:
        operation: one of ``OPERATIONS``.
        source: None: on this machine.
        target: None: on this machine, or the operation is about one place.
        extras: what else is carried, set or requested; ``tags`` on uploads, ``writing`` to a share or a mount.
        without_tags: tags of the source are not carried.
        relays: the bytes pass through this machine, so that the target's identity reads no source.
        source_key, target_key: ARNs of KMS keys.
        partition: of AWS.
    """

    operation: str
    source: PolicyScope | None
    target: PolicyScope | None
    extras: frozenset[Extra] = field(default_factory=frozenset[Extra])
    without_tags: bool = False
    relays: bool = False
    source_key: str | None = None
    target_key: str | None = None
    partition: str = "aws"


def policy(need: PolicyRequest, sides: Iterable[Side] = get_args(Side)) -> dict[str, Any]:
    """The IAM policy of the identity that acts at these sides.

    Raises:
        UsageError: the operation is unknown, a place is missing or too many, or a key or partition is not valid.
    """
    _check(need)
    sides = tuple(sides)
    source, target = _uses(need)
    statements: list[dict[str, Any]] = []
    if need.source is not None:
        found = set(source) if "source" in sides else set[str]()
        if "target" in sides and _copies_inside(need):
            # The storage reads the source for the one who asks for the copy.
            found |= {one for one in source if one in (_READ, _TAGS_READ, _VERSIONS_READ, _LOCK_READ)}
        statements += _statements("Source", need.source, found, need.partition)
    if need.target is not None and "target" in sides:
        statements += _statements("Target", need.target, set(target), need.partition)
    reads = "source" in sides or _copies_inside(need)
    if need.source_key is not None and need.source is not None and reads:
        actions = ["kms:GenerateDataKey", "kms:Decrypt"] if "writing" in need.extras else ["kms:Decrypt"]
        statements.append(_statement("SourceKey", actions, need.source_key))
    if need.target_key is not None and need.target is not None and "target" in sides:
        statements.append(_statement("TargetKey", ["kms:GenerateDataKey", "kms:Decrypt"], need.target_key))
    if not statements:
        raise UsageError("No AWS permission is needed: these sides are on this machine.")
    return {"Version": "2012-10-17", "Statement": statements}


def _check(need: PolicyRequest) -> None:
    if need.operation not in OPERATIONS:
        raise UsageError(f"--operation '{need.operation}' is not known; choose one of {', '.join(OPERATIONS)}.")
    if need.source is None and need.target is None:
        raise UsageError("No location is in S3: no AWS permission is needed.")
    if not OPERATIONS[need.operation][1] and need.target is not None:
        raise UsageError(f"--operation {need.operation} is about one place; name no other.")
    if "writing" in need.extras and need.operation not in WRITTEN:
        raise UsageError(
            f"--with writing is about a place that is served; choose --operation {' or '.join(sorted(WRITTEN))}."
        )
    for option, key in (("--source-kms-key", need.source_key), ("--target-kms-key", need.target_key)):
        if key is not None and not _KMS_KEY.fullmatch(key):
            raise UsageError(
                f"{option} '{key[:100]}' is not the ARN of a KMS key; write arn:aws:kms:REGION:ACCOUNT:key/ID."
            )
    if not _PARTITION.fullmatch(need.partition):
        raise UsageError(f"--partition '{need.partition[:40]}' does not exist; choose aws, aws-cn or aws-us-gov.")


def _uses(need: PolicyRequest) -> tuple[list[str], list[str]]:
    """Uses at the source, or the one place, and at the target."""
    at_source, at_target = OPERATIONS[need.operation]
    source: list[str] = [*at_source]
    target: list[str] = [*at_target]
    if need.operation in _COPYING:
        between = need.source is not None and need.target is not None
        if between and not need.without_tags:
            source.append(_TAGS_READ)
        if (between and not need.without_tags) or "tags" in need.extras:
            target.append(_TAGS_WRITE)
        if _copies_inside(need):
            source.append(_ENCRYPTION)
            target.append(_ENCRYPTION)
        if need.source is not None and need.source.is_one:
            source.append(_VERSIONS_READ)  # the version that is found is the one that is copied
        if "acl" in need.extras:
            target.append(_ACL)
        if "object-lock" in need.extras:
            source.append(_LOCK_READ)
            target.append(_LOCK_WRITE)
    if "restore" in need.extras:
        source.append(_RESTORE)
    if "writing" in need.extras:
        source += _WRITING
    removes = need.operation in OF_VERSIONS
    if "versions" in need.extras and removes:
        source += [_VERSIONS_LIST, _VERSIONS_REMOVE]
    elif "versions" in need.extras:
        source.append(_VERSIONS_READ)
    return source, target


def _copies_inside(need: PolicyRequest) -> bool:
    return need.source is not None and need.target is not None and not need.relays


def _statements(name: str, place: PolicyScope, uses: set[str], partition: str) -> list[dict[str, Any]]:
    rights = [right for use in RIGHTS if use in uses for right in RIGHTS[use]]
    bucket = f"arn:{partition}:s3:::{place.bucket}"
    objects = f"{bucket}/{_literally(place.key)}{'' if place.is_one else '*'}"
    found = (
        (f"{name}Bucket", [one.action for one in rights if one.of == "bucket"], bucket),
        (f"{name}Objects", [one.action for one in rights if one.of == "objects"], objects),
    )
    return [_statement(sid, actions, resource) for sid, actions, resource in found if actions]


def _statement(sid: str, actions: list[str], resource: str) -> dict[str, Any]:
    return {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resource}


def _literally(key: str) -> str:
    """A key in a resource, where ``*``, ``?`` and ``$`` mean something else."""
    return re.sub(r"[*?$]", lambda found: f"${{{found[0]}}}", key)
