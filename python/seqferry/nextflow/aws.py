"""``aws s3 cp`` and ``aws s3 ls`` as the task wrappers of Nextflow call them: same words, same exit codes.

Exit codes are those of the AWS CLI 2: 0 done; 1 something did not arrive, or is not there; 252 the command line is not
understood or asks for what cannot be done; 253 a setting is wrong; 254 the service refused a listing; 130 and 143
stopped by a signal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Final

from seqferry.model.foreign_options import NO_EFFECT, Meaning, complete, options_of_tool
from seqferry.model.locations import LocalFolder
from seqferry.nextflow import session, shim_listing
from seqferry.nextflow.arguments import USAGE, ParsedArguments, RefusedError, key_file, parse, refuse

_FAILED: Final = 1
_CONFIGURATION: Final = 253
_SERVICE: Final = 254

_BOTH: Final = {
    **dict.fromkeys(("--debug", "--v2-debug"), Meaning(("--debug",))),
    "--cli-error-format": refuse("its errors are text."),
}
_COPY: Final = {
    **options_of_tool("aws", "cp"),
    **_BOTH,
    # Archived objects are always requested, and one that is not restored fails by name.
    "--force-glacier-transfer": NO_EFFECT,
    "--dryrun": refuse("write seqferry cp --dry-run.", values=0),
    **{name: Meaning((name,), 1, partial(key_file, name)) for name in ("--sse-c-key", "--sse-c-copy-source-key")},
}
_LIST: Final = {
    **options_of_tool("aws", "ls"),
    **_BOTH,
    **dict.fromkeys(("--human-readable", "--summarize"), refuse("write seqferry ls, which has it.", values=0)),
    **dict.fromkeys(("--bucket-name-prefix", "--bucket-region"), refuse("it lists no buckets.")),
}
_OWN: Final = ("quiet", "no_progress", "recursive", "debug")
"""Options that say how these commands work, and not what is copied."""

_COMMANDS: Final = {"cp": _COPY, "ls": _LIST}
_RETRY_MODES: Final = ("legacy", "standard", "adaptive")


def run(words: Sequence[str]) -> int:
    """Carry out ``aws WORDS``; returns its exit code."""
    from seqferry.model.errors import SeqferryError, StorageError, UsageError

    if list(words) == ["--version"]:
        from seqferry.engine.engine import version

        print(f"seqferry-aws/{version()} (aws s3 cp and aws s3 ls by Seqferry)")
        return 0
    command, parsed = "", ParsedArguments()
    try:
        command, parsed = _command(words)
        _check_retry_mode()
        return _copy(parsed) if command == "cp" else _list(parsed)
    except RefusedError as why:
        _say(f"aws: error: {why}")
        return USAGE
    except session.StoppedError as why:
        _say(f"aws: {why}; open uploads were aborted, and whole objects stay.")
        return 128 + why.number
    except UsageError as why:
        _say(f"aws: error: {why.message}")
        # A path that is not there is no fault of the command line.
        return _FAILED if command == "cp" and not _is_address(parsed) else USAGE
    except StorageError as why:
        prefix = "fatal error: " if command == "cp" else ""
        _say(f"{prefix}{_service_error(why.error_code, why.operation, why.message)}")
        return _FAILED if command == "cp" else _SERVICE
    except SeqferryError as why:
        _say(f"aws: error: {why.message}")
        return _FAILED


def _command(words: Sequence[str]) -> tuple[str, ParsedArguments]:
    # The first words that are no options are service and command: their options depend on them.
    every = {**_COPY, **_LIST}
    names: list[str] = []
    skip = False
    for word in complete(words):
        if skip:
            skip = False
        elif word.startswith("-") and word != "-":
            known = every.get(word)
            skip = known is not None and known.values > 0
        else:
            names.append(word)
    if not names or names[0] != "s3":
        found = f"invalid choice '{names[0]}'" if names else "no service"
        raise RefusedError(f"{found}: of the AWS CLI's services this command has s3 only.")
    if len(names) < 2 or names[1] not in _COMMANDS:
        found = f"invalid choice '{names[1]}'" if len(names) > 1 else "no command"
        raise RefusedError(f"{found}: of aws s3 this command has cp and ls only.")
    parsed = parse(f"aws s3 {names[1]}", words, _COMMANDS[names[1]])
    del parsed.operands[:2]
    return names[1], parsed


def _check_retry_mode() -> None:
    """The engine reads AWS_MAX_ATTEMPTS itself, and adapts its rate in every mode."""
    mode = os.environ.get("AWS_RETRY_MODE")
    if mode and mode not in _RETRY_MODES:
        _say(f"aws: AWS_RETRY_MODE '{mode}' is not known; choose one of {', '.join(_RETRY_MODES)}.")
        raise SystemExit(_CONFIGURATION)


# --- cp ---------------------------------------------------------------------------------------------------------------


def _copy(parsed: ParsedArguments) -> int:
    from seqferry.model.errors import UsageError
    from seqferry.places import paths

    if len(parsed.operands) != 2:
        raise RefusedError("aws s3 cp takes a source and a target.")
    source, target = parsed.operands
    recursive = parsed.given("recursive")
    if recursive and "-" in (source, target):
        raise RefusedError("Streaming currently is only compatible with non-recursive cp commands")
    # The AWS CLI has no wildcards in keys and paths: a * is a character.
    options = {"raw": True, **parsed.without(*_OWN)}
    if not recursive and not paths.is_local(source) and _is_prefix(source):
        raise RefusedError(f"{source} is a prefix; copy all below it with --recursive.")
    if not recursive and paths.is_local(source) and source != "-" and os.path.isdir(source):  # noqa: PTH112
        raise RefusedError(f"{source} is a folder; copy it with --recursive.")
    direction = _direction(source, target)
    shows = not (parsed.given("quiet") or target == "-")

    def report_arrival(from_: str, to: str) -> None:
        # What comes from a pipe lies in a temporary file meanwhile.
        print(f"{direction}: {'-' if source == '-' else shim_listing.printable(from_)} to {shim_listing.printable(to)}")

    try:
        spec, result = session.copy(source, target, options, below=recursive, arrived=report_arrival if shows else None)
    except UsageError as why:
        if paths.is_local(source) and source != "-" and not os.path.exists(source):  # noqa: PTH110
            _say(f"The user-provided path {source} does not exist. {why.message}")
            return _FAILED
        raise
    if parsed.given("debug"):
        _say(f"debug: {result.done} of {result.found} objects, {result.bytes_done} bytes, {result.failed} failed")
    for failed in result.failures:
        where = f"{shim_listing.printable(failed.source)} to {shim_listing.printable(failed.target)}"
        _say(f"{direction} failed: {where} {_service_error(failed.code, failed.operation, failed.message)}")
    if result.failed > len(result.failures):
        _say(f"{direction} failed: {result.failed - len(result.failures)} more")
    for why in result.left_out:
        _say(f"warning: {why}")
    if result.missing:
        key = shim_listing.printable(spec.source.key)
        missing = f'Key "{key}" does not exist in {spec.source.container}'
        _say(f"fatal error: An error occurred (404) when calling the HeadObject operation: {missing}")
        return _FAILED
    if recursive and not result.found and not isinstance(spec.source, LocalFolder):
        _say(f"fatal error: there is no object below {spec.source.uri}")
        return _FAILED
    return _FAILED if result.failed else 0


def _direction(source: str, target: str) -> str:
    from seqferry.places import paths

    if paths.is_local(source):
        return "upload"
    return "download" if paths.is_local(target) else "copy"


def _is_prefix(address: str) -> bool:
    key = address.removeprefix("s3://").partition("/")[2]
    return key == "" or key.endswith("/")


def _is_address(parsed: ParsedArguments) -> bool:
    from seqferry.places import paths

    return all(not paths.is_local(word) for word in parsed.operands)


# --- ls ---------------------------------------------------------------------------------------------------------------


def _list(parsed: ParsedArguments) -> int:
    from seqferry.model.locations import S3Location
    from seqferry.spec.addresses import parse_uri
    from seqferry.spec.validation import check_place

    if len(parsed.operands) != 1:
        raise RefusedError("aws s3 ls takes one address here: s3://bucket/prefix.")
    address = parsed.operands[0]
    bucket, key = parse_uri(address if address.startswith("s3://") else f"s3://{address}")
    found = parsed.without(*_OWN)
    place = S3Location(bucket, key, anonymous=bool(found.pop("no_sign_request", False)), **found)
    check_place(place)
    engine = session.engine()
    recursive = parsed.given("recursive")
    lines = 0
    for entry in shim_listing.entries(engine, place, recursive=recursive):
        lines += 1
        if isinstance(entry, str):
            print(f"{'PRE':>30} {shim_listing.printable(entry)}")
        else:
            when = shim_listing.format_time(entry.last_modified, "%Y-%m-%d %H:%M:%S")
            print(f"{when} {entry.size:>10} {shim_listing.name_in_listing(entry.key, key, recursive=recursive)}")
    # As the AWS CLI: an empty bucket is no failure, a name that is not there is one.
    return _FAILED if key and not lines else 0


# --- messages ---------------------------------------------------------------------------------------------------------


def _service_error(code: str, operation: str, message: str) -> str:
    """Error text that begins as the AWS CLI's does, which scripts look for, and ends with the engine's message."""
    if not code or not operation:
        return message
    return f"An error occurred ({code}) when calling the {operation} operation: {message}"


def _say(text: str) -> None:
    print(text, file=sys.stderr)
