"""``s5cmd cp`` and ``s5cmd ls`` as the task wrappers of Nextflow call them on AWS Fargate."""

from __future__ import annotations

import glob
import itertools
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from seqferry.model.foreign_options import NO_EFFECT, Meaning, options_of_tool
from seqferry.model.locations import LocalFolder
from seqferry.nextflow import session, shim_listing
from seqferry.nextflow.arguments import ParsedArguments, RefusedError, parse, refuse

_FAILED: Final = 1

_REFUSED: Final[dict[str, Meaning]] = {
    "--numworkers": refuse("requests in flight are found while working; SEQFERRY_MAX_REQUESTS limits them."),
    **dict.fromkeys(("--retry-count", "-r"), refuse("set the attempts of each request in AWS_MAX_ATTEMPTS.")),
}
_GLOBAL: Final = options_of_tool("s5cmd", "ls") | _REFUSED
# Archived objects are always requested, as by ``aws``.
_COPY: Final = options_of_tool("s5cmd", "cp") | _REFUSED | {"--force-glacier-transfer": NO_EFFECT}
_OWN: Final = ("log", "raw")
"""Options that say how these commands work, and not what is copied."""

_COMMANDS: Final = {"cp": _COPY, "ls": _GLOBAL}
_GO_PIECE: Final = re.compile(r"\\.|\[[\^!][^\]]*\]")
_LOG_LEVELS: Final = ("trace", "debug", "info", "error")


def run(words: Sequence[str]) -> int:
    """Carry out ``s5cmd WORDS``; returns its exit code: 0 done, 1 anything else, 128 and more by a signal."""
    from seqferry.model.errors import SeqferryError

    if list(words) in (["version"], ["--version"]):
        from seqferry.engine.engine import version

        print(f"seqferry-s5cmd {version()} (s5cmd cp and ls by Seqferry)")
        return 0
    try:
        command, parsed = _command(words)
        return _copy(parsed, words) if command == "cp" else _list(parsed, words)
    except RefusedError as why:
        print(f'ERROR "{_command_text(words)}": {why}', file=sys.stderr)
    except session.StoppedError as why:
        print(
            f'ERROR "{_command_text(words)}": {why}; open uploads were aborted, and whole objects stay', file=sys.stderr
        )
        return 128 + why.number
    except SeqferryError as why:
        print(f'ERROR "{_command_text(words)}": {why.message}', file=sys.stderr)
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
    found = parsed.without(*_OWN)
    if url := os.environ.get("S3_ENDPOINT_URL"):
        found.setdefault("endpoint_url", url)
    return found


def _copy(parsed: ParsedArguments, words: Sequence[str]) -> int:

    if len(parsed.operands) != 2:
        raise RefusedError("cp takes a source and a target.")
    source, target = parsed.operands
    if "-" in (source, target):
        raise RefusedError("standard input and output are not taken by s5cmd cp; use aws s3 cp.")
    given = _sources(source, target, raw=parsed.given("raw"))
    below = bool(given.pop("below"))
    source, target = given.pop("source"), given.pop("target")
    options = _where(parsed) | given
    shows = parsed.options.get("log") != "error"

    def report_arrival(from_: str, to: str) -> None:
        print(f"cp {shim_listing.printable(from_)} {shim_listing.printable(to)}")

    spec, result = session.copy(source, target, options, below=below, arrived=report_arrival if shows else None)
    for failed in result.failures:
        what = f"cp {shim_listing.printable(failed.source)} {shim_listing.printable(failed.target)}"
        print(f'ERROR "{what}": {failed.code}: {failed.message}', file=sys.stderr)
    if result.failed > len(result.failures):
        print(f'ERROR "{_command_text(words)}": {result.failed - len(result.failures)} more', file=sys.stderr)
    if result.missing:
        print(f'ERROR "{_command_text(words)}": NoSuchKey: there is no object {spec.source.uri}', file=sys.stderr)
        return _FAILED
    if (below or spec.pattern is not None) and not result.found and not isinstance(spec.source, LocalFolder):
        print(f'ERROR "{_command_text(words)}": no object found', file=sys.stderr)
        return _FAILED
    return _FAILED if result.failed else 0


def _sources(source: str, target: str, *, raw: bool) -> dict[str, Any]:
    """Arguments of ``build_spec`` for a source and a target of s5cmd: ``*`` and ``?`` select, unless ``raw``.

    Raises:
        RefusedError: s5cmd refuses them as well, or they name too many files.
    """
    from seqferry.places import paths
    from seqferry.spec.selection import has_wildcard

    is_prefix = target.endswith("/") or "/" not in target.removeprefix("s3://")
    selects = has_wildcard(source) and not raw
    is_folder = paths.is_local(source) and not selects and os.path.isdir(source)  # noqa: PTH112
    if has_wildcard(target) and not paths.is_local(target) and not raw:
        raise RefusedError(f"target {target!r} can not contain glob characters; with --raw they are part of the key.")
    if not paths.is_local(target) and not is_prefix and (selects or is_folder):
        raise RefusedError(f"target {target!r} must be a bucket or a prefix: let it end in a slash.")
    if not paths.is_local(source):
        key = source.removeprefix("s3://").partition("/")[2]
        if key == "" or key.endswith("/"):
            raise RefusedError("source argument must contain wildcard character: all below it is s3://bucket/prefix/*")
        return {"source": source, "target": target, "below": False, "raw": not selects}
    if selects:
        folder, names = _matching_files(source)
        return {"source": folder, "target": target, "below": False, "raw": True, "keys": names}
    if is_folder and not source.endswith("/") and (name := os.path.basename(source)) not in (".", ".."):  # noqa: PTH119
        # As rsync: a folder without its last slash keeps its name.
        target = f"{target if target.endswith('/') else target + '/'}{name}/"
    return {"source": source, "target": target, "below": is_folder, "raw": True}


def _matching_files(pattern: str) -> tuple[str, list[str]]:
    """The folder above the first wildcard of a path, and the files below it that match or lie in folders that do."""
    from seqferry.spec.selection import literal_prefix
    from seqferry.spec.validation import MAX_KEYS

    above = literal_prefix(pattern)
    folder = above[: above.rfind("/") + 1]
    names = [name[len(folder) :] for name in itertools.islice(_files(pattern), MAX_KEYS + 1)]
    if len(names) > MAX_KEYS:
        raise RefusedError(f"{pattern!r} matches more than {MAX_KEYS:,} files; copy the folder above them.")
    if not names:
        raise RefusedError(f"no match found for {pattern!r}")
    return folder or "./", names


def _files(pattern: str) -> Iterator[str]:
    for found in glob.iglob(_GO_PIECE.sub(_as_python_writes, pattern), include_hidden=True):  # noqa: PTH207
        if not os.path.isdir(found):  # noqa: PTH112
            yield found
            continue
        for above, _, inside in os.walk(found, followlinks=True):
            yield from (os.path.join(above, name) for name in inside)  # noqa: PTH118


def _as_python_writes(found: re.Match[str]) -> str:
    """A piece of a pattern of Go, where a backslash takes away any meaning and ``^`` negates a class, not ``!``."""
    piece = found[0]
    if piece.startswith("\\"):
        return glob.escape(piece[1:])
    if piece.startswith("[^"):
        return f"[!{piece[2:]}"
    return f"[{piece[2:-1]}!]" if piece.startswith("[!") and len(piece) > 3 else glob.escape("!")


def _list(parsed: ParsedArguments, words: Sequence[str]) -> int:
    from seqferry.model.locations import S3Location
    from seqferry.spec.addresses import parse_uri
    from seqferry.spec.selection import Conditions, build_matcher, has_wildcard, literal_prefix
    from seqferry.spec.validation import check_place

    if len(parsed.operands) != 1:
        raise RefusedError("ls takes one address here: s3://bucket/prefix.")
    bucket, key = parse_uri(parsed.operands[0])
    found = _where(parsed)
    place = S3Location(bucket, key, anonymous=bool(found.pop("no_sign_request", False)), **found)
    check_place(place)
    selects = has_wildcard(key)
    fits = build_matcher(Conditions(pattern=key)) if selects else None
    # What a wildcard selects is shown below the last slash before it, as s5cmd does.
    start = literal_prefix(key)
    lines = 0
    for entry in shim_listing.entries(session.engine(), replace(place, key=start), recursive=selects):
        if isinstance(entry, str):
            print(f"{'DIR':>37}  {shim_listing.printable(entry)}")
        elif fits is None or fits(entry.key, entry.size, entry.last_modified):
            when = shim_listing.format_time(entry.last_modified, "%Y/%m/%d %H:%M:%S")
            print(f"{when} {entry.size:>17}  {shim_listing.name_in_listing(entry.key, start, recursive=False)}")
        else:
            continue
        lines += 1
    if not lines and key:
        print(f'ERROR "{_command_text(words)}": no object found', file=sys.stderr)
        return _FAILED
    return 0


def _command_text(words: Sequence[str]) -> str:
    return shim_listing.printable(" ".join(words))
