"""``s5cmd cp`` and ``s5cmd ls`` as the task wrappers of Nextflow call them on AWS Fargate."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, Final

from seqferry.models import LocalFolder
from seqferry.nextflow import level, session
from seqferry.nextflow.arguments import FLAG, Option, ParsedArguments, RefusedError, flag, parse, refused, value

_FAILED: Final = 1

_GLOBAL: Final[dict[str, Option]] = {
    "--endpoint-url": value("endpoint_url"),
    "--profile": value("profile"),
    "--no-sign-request": flag("no_sign_request"),
    "--log": value("log"),
    "--request-payer": refused("requests are paid by the bucket's owner here; use s5cmd for requester-pays buckets."),
    "--numworkers": refused("requests in flight are found while working; SEQFERRY_MAX_REQUESTS limits them."),
    "--retry-count": refused("name the tries of each request in AWS_MAX_ATTEMPTS."),
    "-r": refused("name the tries of each request in AWS_MAX_ATTEMPTS."),
    "--no-verify-ssl": refused("certificates are always checked; name yours in AWS_CA_BUNDLE.", takes_value=False),
}

_ENCRYPTION: Final = "the engine sets no encryption per object; set the bucket's default encryption instead."

_COPY: Final[dict[str, Option]] = {
    **_GLOBAL,
    "--storage-class": value("storage_class"),
    "--region": value("region"),
    "--source-region": value("source_region"),
    "--destination-region": value("target_region"),
    "--force-glacier-transfer": FLAG,
    "--ignore-glacier-warnings": FLAG,
    "--acl": refused("the engine sets no ACL; use a bucket that enforces its owner's ownership, or a bucket policy."),
    "--sse": refused(_ENCRYPTION),
    "--sse-kms-key-id": refused(_ENCRYPTION),
}

_COMMANDS: Final = {"cp": _COPY, "ls": _GLOBAL}
_LOG_LEVELS: Final = ("trace", "debug", "info", "error")


def run(words: Sequence[str]) -> int:
    """Carry out ``s5cmd WORDS``; returns its exit code: 0 done, 1 anything else, 128 and more by a signal."""
    from seqferry.errors import SeqferryError

    if list(words) in (["version"], ["--version"]):
        from seqferry.engine import version

        print(f"seqferry-s5cmd {version()} (s5cmd cp and ls by Seqferry)")
        return 0
    try:
        command, parsed = _command(words)
        return _copy(parsed, words) if command == "cp" else _list(parsed, words)
    except RefusedError as why:
        print(f'ERROR "{_shown(words)}": {why}', file=sys.stderr)
    except session.StoppedError as why:
        print(f'ERROR "{_shown(words)}": {why}; open uploads were aborted, and whole objects stay', file=sys.stderr)
        return 128 + why.number
    except SeqferryError as why:
        print(f'ERROR "{_shown(words)}": {why.message}', file=sys.stderr)
    return _FAILED


def _command(words: Sequence[str]) -> tuple[str, ParsedArguments]:
    every = {**_COPY, **_GLOBAL}
    parsed = parse("s5cmd", words, every)
    if not parsed.operands or parsed.operands[0] not in _COMMANDS:
        found = f"unknown command '{parsed.operands[0]}'" if parsed.operands else "no command"
        raise RefusedError(f"{found}: of s5cmd this command has cp and ls only.")
    command = parsed.operands.pop(0)
    parse(f"s5cmd {command}", words, _COMMANDS[command])
    if (level_ := parsed.options.get("log")) is not None and level_ not in _LOG_LEVELS:
        raise RefusedError(f"--log '{level_}' is not known; choose one of {', '.join(_LOG_LEVELS)}.")
    return command, parsed


def _where(parsed: ParsedArguments) -> dict[str, Any]:
    names = ("endpoint_url", "profile", "region", "source_region", "target_region")
    found: dict[str, Any] = {name: parsed.options[name] for name in names if parsed.options.get(name)}
    if url := os.environ.get("S3_ENDPOINT_URL"):
        found.setdefault("endpoint_url", url)
    if parsed.given("no_sign_request"):
        found["no_sign_request"] = True
    return found


def _copy(parsed: ParsedArguments, words: Sequence[str]) -> int:
    from seqferry import paths

    if len(parsed.operands) != 2:
        raise RefusedError("cp takes a source and a target.")
    source, target = parsed.operands
    if "-" in (source, target):
        raise RefusedError("standard input and output are not taken by s5cmd cp; use aws s3 cp.")
    below = False
    if paths.is_local(source):
        below = os.path.isdir(source)  # noqa: PTH112
    elif "*" in source or "?" in source:
        if not source.endswith("/*") or "*" in source[:-1] or "?" in source:
            raise RefusedError("of patterns this command takes s3://bucket/prefix/* only, which is all below it.")
        source, below = source[:-1], True
    options = _where(parsed)
    if parsed.options.get("storage_class"):
        if paths.is_local(target):
            raise RefusedError("--storage-class is for objects, and the target is a local path.")
        options["storage_class"] = parsed.options["storage_class"]
    shows = parsed.options.get("log") != "error"

    def arrived(from_: str, to: str) -> None:
        print(f"cp {level.printable(from_)} {level.printable(to)}")

    spec, result = session.copy(source, target, options, below=below, arrived=arrived if shows else None)
    for failed in result.failures:
        what = f"cp {level.printable(failed.source)} {level.printable(failed.target)}"
        print(f'ERROR "{what}": {failed.code}: {failed.message}', file=sys.stderr)
    if result.failed > len(result.failures):
        print(f'ERROR "{_shown(words)}": {result.failed - len(result.failures)} more', file=sys.stderr)
    if result.missing:
        print(f'ERROR "{_shown(words)}": NoSuchKey: there is no object {spec.source.uri}', file=sys.stderr)
        return _FAILED
    if below and not result.found and not isinstance(spec.source, LocalFolder):
        print(f'ERROR "{_shown(words)}": no object found', file=sys.stderr)
        return _FAILED
    return _FAILED if result.failed else 0


def _list(parsed: ParsedArguments, words: Sequence[str]) -> int:
    from seqferry.models import S3Location
    from seqferry.spec import check_place, parse_uri

    if len(parsed.operands) != 1:
        raise RefusedError("ls takes one address here: s3://bucket/prefix.")
    bucket, key = parse_uri(parsed.operands[0])
    found = _where(parsed)
    place = S3Location(bucket, key, anonymous=bool(found.pop("no_sign_request", False)), **found)
    check_place(place)
    lines = 0
    for entry in level.entries(session.engine(), place, recursive=False):
        lines += 1
        if isinstance(entry, str):
            print(f"{'DIR':>37}  {level.printable(entry)}")
        else:
            when = level.moment(entry.last_modified, "%Y/%m/%d %H:%M:%S")
            print(f"{when} {entry.size:>17}  {level.shown(entry.key, key, recursive=False)}")
    if not lines and key:
        print(f'ERROR "{_shown(words)}": no object found', file=sys.stderr)
        return _FAILED
    return 0


def _shown(words: Sequence[str]) -> str:
    return level.printable(" ".join(words))
