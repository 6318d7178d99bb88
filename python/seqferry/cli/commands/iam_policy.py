"""``seqferry iam-policy``."""

from __future__ import annotations

import json
from typing import Annotated, Literal, get_args

import typer

from seqferry.cli import exits
from seqferry.cli.output import display
from seqferry.model import permissions
from seqferry.model.errors import UsageError
from seqferry.model.permissions import Extra, PolicyRequest, PolicyScope, Side
from seqferry.spec.addresses import is_s3_uri, parse_uri


def iam_policy(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="s3://bucket/prefix/, s3://bucket/key, or a local path.")
    ],
    target: Annotated[
        str | None, typer.Argument(metavar="TARGET", help="The same. Omit it for operations on one place.")
    ] = None,
    operation: Annotated[
        str,
        typer.Option(
            "--operation",
            metavar="NAME",
            help=f"Operation: {', '.join(permissions.OPERATIONS)}.",
        ),
    ] = "copy",
    extras: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="WHAT",
            help=f"Additional feature: {', '.join(get_args(Extra))}. Can be repeated.",
        ),
    ] = None,
    without_tags: Annotated[bool, typer.Option("--without-tags", help="Do not copy tags.")] = False,
    relay: Annotated[
        bool,
        typer.Option(
            "--relay",
            help="The data passes through this machine, as between two endpoints.",
        ),
    ] = False,
    side: Annotated[
        Literal["both", "source", "target"],
        typer.Option(
            "--side",
            help="Print the policy of one side only, if both sides use different identities.",
        ),
    ] = "both",
    source_kms_key: Annotated[
        str | None,
        typer.Option("--source-kms-key", metavar="ARN", help="KMS key of the source."),
    ] = None,
    target_kms_key: Annotated[
        str | None,
        typer.Option("--target-kms-key", metavar="ARN", help="KMS key of the target."),
    ] = None,
    partition: Annotated[
        str,
        typer.Option(
            "--partition",
            metavar="NAME",
            help="AWS partition: aws, aws-cn or aws-us-gov.",
        ),
    ] = "aws",
) -> int:
    """Print a least-privilege IAM policy for an operation. No request is sent."""
    known = get_args(Extra)
    wanted = [one for word in extras or [] for one in word.split(",")]
    if unknown := [one for one in wanted if one not in known]:
        raise UsageError(f"--with '{unknown[0][:40]}' is not known; choose one of {', '.join(known)}.")
    need = PolicyRequest(
        operation=operation,
        source=_place(source, operation, is_target=False, of_many=False),
        target=None if target is None else _place(target, operation, is_target=True, of_many=_is_of_many(source)),
        extras=frozenset(one for one in known if one in wanted),
        without_tags=without_tags,
        relays=relay,
        source_key=source_kms_key,
        target_key=target_kms_key,
        partition=partition,
    )
    if target is None and permissions.OPERATIONS.get(operation, ((), ()))[1]:
        raise UsageError(f"--operation {operation} has a target; name it after the source.")
    sides: tuple[Side, ...] = get_args(Side) if side == "both" else (side,)
    print(json.dumps(permissions.policy(need, sides), indent=2))
    display.say(permissions.NOT_KNOWN)
    return exits.OK


def _is_of_many(source: str) -> bool:
    return not is_s3_uri(source) or source.endswith("/") or any(sign in source for sign in "*?")


def _place(uri: str, operation: str, *, is_target: bool, of_many: bool) -> PolicyScope | None:
    """The place; None for one on this machine. Of a wildcard it is what comes before."""
    if not uri.lower().startswith("s3:"):
        return None
    bucket, key = parse_uri(uri)
    is_archive = permissions.ARCHIVES.get(operation) == ("target" if is_target else "source")
    is_served = operation in permissions.WRITTEN
    if (is_served or (is_target and of_many)) and key and not key.endswith("/") and not is_archive:
        key += "/"
    start = len(key) if is_target else min((key.find(sign) for sign in "*?" if sign in key), default=len(key))
    is_one = bool(key) and start == len(key) and not key.endswith("/") and not is_archive
    return PolicyScope(bucket, key[:start], is_one)
