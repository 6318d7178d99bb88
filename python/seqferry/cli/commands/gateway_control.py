"""Commands that ask a gateway that serves: what waits, what fails, and that it goes to the bucket now."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from seqferry.cli import exits, options
from seqferry.cli.mount_process import resolve_path
from seqferry.cli.output import display, text
from seqferry.model.errors import ConfigError, NotFoundError, UsageError

GatewayCache = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        envvar="SEQFERRY_CACHE",
        metavar="DIR",
        help="Cache of the gateway, as given to serve. Default: that of the only running gateway.",
    ),
]
SharePath = Annotated[str, typer.Argument(metavar="PATH", help="File or folder with its share name, as /runs/run42.")]

_STATES = {"in_s3": "in S3", "ignored": "stays here"}
"""States whose words for people are others."""


def _ask(cache: Path | None, command: str, **facts: Any) -> dict[str, Any]:
    from seqferry.engine.gateway_control import ask

    return ask(_cache_of(cache), command, **facts)


def _cache_of(given: Path | None) -> Path:
    """The cache that is named, or that of the one gateway that runs.

    Raises:
        ConfigError: none runs that this user can ask.
        UsageError: several run.
    """
    from seqferry.engine.gateway_control import find_running

    if given is not None:
        return resolve_path(given)
    found = find_running()
    if not found:
        raise ConfigError(
            "No gateway of this user runs on this machine: start one with seqferry gateway serve --cache DIR, or run "
            "this command as the user of the gateway."
        )
    if len(found) > 1:
        named = ", ".join(str(cache) for cache in found)
        raise UsageError(f"{len(found)} gateways run here: name the cache of one with --cache: {named}.")
    return found[0]


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def status(
    cache: GatewayCache = None,
    path: Annotated[
        str | None,
        typer.Argument(metavar="[PATH]", help="Folder or file, as /runs/run42: how many of its files are in S3."),
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Show pending and failing uploads and the upload rate of each share, or how many files of a folder are in S3."""
    if path is not None:
        return _files_status(_ask(cache, "files", path=path, count=True), path, as_json=as_json)
    found = _ask(cache, "status")
    shares: list[dict[str, Any]] = found["shares"]
    if as_json:
        gateway = {name: found[name] for name in ("address", "seconds", "is_draining", "is_healthy")}
        for share in shares:
            display.emit("gateway_share", **share, gateway=gateway)
        return exits.OK
    headings = ("SHARE", "WAITING", "BYTES", "OLDEST", "UPLOADING", "FAILING", "CONFLICTS", "UPLOADED", "RATE", "FREE")
    _print_table([headings, *(_share_row(share) for share in shares)])
    for share in shares:
        for line in _share_lines(share):
            print(text.printable(line))
    if found["is_draining"]:
        print("The gateway is draining: it accepts no changes and ends when all files are in S3.")
    return exits.OK


def _files_status(found: dict[str, Any], path: str, *, as_json: bool) -> int:
    top = "/" + path.strip("/")
    if found["kind"] is None:
        raise NotFoundError(f"There is no {text.printable(top)}; list the names with seqferry gateway ls.")
    if as_json:
        display.emit("gateway_files", path=path, **found)
        return exits.OK
    for line in _files_lines(found, top):
        print(text.printable(line))
    return exits.OK


def _files_lines(found: dict[str, Any], top: str) -> Iterable[str]:
    """Number of files of a folder in S3, and the state of the others."""
    waiting, in_s3 = found["dirty_files"] - found["dirty_folders"], found["in_s3"]
    if in_s3 is None:
        yield f"{top}: {text.count(waiting, 'file')} waiting; the others are not counted: {found['in_s3_error']}"
    elif in_s3["is_cut"]:
        yield f"{top}: more than {in_s3['files']:,} files are in S3, {text.count(waiting, 'file')} waiting"
    else:
        yield f"{top}: {in_s3['files']:,} of {text.count(in_s3['files'] + waiting, 'file')} in S3"
    share = "/" + top.strip("/").partition("/")[0]
    if found["oldest"] is not None:
        oldest = found["oldest"]
        size, age = text.size(found["dirty_bytes"]), text.duration(oldest["age_seconds"])
        yield f"{top}: {size} to upload; the oldest pending file is {share}/{oldest['path']}, for {age}"
    if found["uploading_files"]:
        yield f"{top}: {text.count(found['uploading_files'], 'file')} being uploaded"
    yield from _name_lines(found, share)


def _share_row(share: dict[str, Any]) -> tuple[str, ...]:
    name, writing = text.printable(f"/{share['share']}"), share["writing"]
    if writing is None:
        return (name, "read-only", *["-"] * 8)
    oldest = writing["oldest"]
    uploaded = f"{text.count(writing['uploaded_files'], 'file')}, {text.size(writing['uploaded_bytes'])}"
    return (
        name,
        text.count(writing["dirty_files"], "file"),
        text.size(writing["dirty_bytes"]),
        "-" if oldest is None else text.duration(oldest["age_seconds"]),
        str(writing["uploading_files"]),
        str(writing["failing_files"]),
        str(writing["conflicts"]),
        uploaded,
        text.rate(writing["bytes_per_second"]),
        "-" if writing["free_bytes"] is None else text.size(writing["free_bytes"]),
    )


def _share_lines(share: dict[str, Any]) -> Iterable[str]:
    """Lines on failures and waits, for which the table of shares has no room."""
    top, writing = f"/{share['share']}", share["writing"]
    if share["read_bytes"]:
        here = max(0, 100 * (share["read_bytes"] - share["fetched_bytes"]) // share["read_bytes"])
        yield f"{top}: {text.size(share['read_bytes'])} of objects were read, {here} % of them without the bucket"
    if writing is None:
        return
    if writing["failure"] is not None:
        yield f"{top}: writes have stopped: {writing['failure']}"
    if writing["claimed_by"] is not None:
        yield f"{top}: nothing is uploaded: {writing['claimed_by']}"
    if writing["oldest"] is not None:
        yield f"{top}: the oldest pending file is {top}/{writing['oldest']['path']}"
    yield from _name_lines(writing, top)
    if writing["unrecorded"]:
        yield f"{top}: {text.count(writing['unrecorded'], 'outcome')} not recorded yet"
    if not writing["window_is_open"]:
        yield f"{top}: uploads wait for the next upload_window; seqferry gateway flush uploads them now"


def _name_lines(files: dict[str, Any], top: str) -> Iterable[str]:
    """Lines on single files of a share, or of a folder of it."""
    for one in files["failing"]:
        attempts = text.count(one["attempts"], "attempt")
        yield f"{top}/{one['path']}: failing, {attempts} in {text.duration(one['seconds'])}: {one['cause']}"
    for one in files["held"]:
        cause = "" if one["cause"] is None else f", which fails: {one['cause']}"
        yield f"{top}/{one['path']}: waits for {top}/{one['waits_for']}{cause}"
    for one in files["renames"]:
        target = f"{top}/{one['to']}/" if one["to"] else "a folder that was removed"
        copied = "no file is copied yet"
        if one["files"] > one["waiting_files"]:
            size = f"{text.size(one['bytes'] - one['waiting_bytes'])} of {text.size(one['bytes'])}"
            copied = f"{one['files'] - one['waiting_files']} of {text.count(one['files'], 'file')} copied, {size}"
        yield f"{top}/{one['from']}/: renamed to {target}: {copied}"
    if files["removals"]:
        yield f"{top}: {text.count(files['removals'], 'object')} to remove from the bucket"
    if files["ignored_files"]:
        yield f"{top}: kept on this machine by name: {text.count(files['ignored_files'], 'file')}"


def ls(path: SharePath, cache: GatewayCache = None, as_json: options.Json = False) -> int:
    """List a folder of a share with the upload state of each file."""
    found = _ask(cache, "ls", path=path)
    names: list[dict[str, Any]] = found["names"]
    if as_json:
        for one in names:
            display.emit("gateway_name", path=path, **one)
        return exits.OK
    if names:
        _print_table([("STATE", "SIZE", "MODIFIED", "NAME"), *(_name_row(one) for one in names)])
    if found["is_cut"]:
        display.say(f"There are more: these are the first {len(names)}.")
    return exits.OK


def _words(state: str) -> str:
    return _STATES.get(state, state)


def _name_row(one: dict[str, Any]) -> tuple[str, str, str, str]:
    is_folder = one["kind"] == "folder"
    state = _words(one["state"])
    if is_folder and one["state"] != "in_s3":
        counted = ((one[name], name) for name in ("waiting", "uploading", "failing", "ignored"))
        state = ", ".join(f"{number} {_words(name)}" for number, name in counted if number)
    name = text.printable(one["name"]) + ("/" if is_folder else "")
    return state, "-" if is_folder else str(one["size"]), text.timestamp(one["modified"]), name


def flush(
    cache: GatewayCache = None,
    path: Annotated[
        str | None, typer.Argument(metavar="[PATH]", help="Share, or a file or folder in it. Default: all shares.")
    ] = None,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait until the files are in S3 and recorded, or fail."),
    ] = False,
    as_json: options.Json = False,
) -> int:
    """Upload pending files now, even outside the upload window.

    Files written later are uploaded as usual.
    """
    from seqferry.engine.gateway_control import list_epochs, open_process, wait_for_record

    cache = _cache_of(cache)
    with open_process(cache) as process:
        found = _ask(cache, "flush", path=path, wait=wait)
        not_batched = found.pop("not_batched", None)
        if wait:
            found["is_recorded"] = not_batched is None and wait_for_record(cache, list_epochs(cache), process)
    if as_json:
        display.emit("flushed", path=path, **found)
    elif wait:
        _say_end(found, f"Everything of {path or 'all shares'} is in S3.", not_batched)
    else:
        display.say(f"{text.count(found['waiting'], 'file')} are being uploaded now.")
    return exits.FAILED if wait and not found["is_done"] else exits.OK


def _say_end(found: dict[str, Any], done: str, not_batched: str | None) -> None:
    for one in found["failing"]:
        display.say(text.printable(f"/{one['share']}/{one['path']}: {one['cause']}"))
    if found["is_done"]:
        display.say(text.printable(done))
    else:
        display.say(f"{text.count(found['waiting'], 'file')} failed. The gateway retries them.")
    if not found["is_recorded"]:
        cause = not_batched or "the database does not answer, or is busy"
        display.say(
            text.printable(
                f"It is not all on record in seqferry status yet: {cause}. The cache keeps the outcomes, and a gateway "
                "with this cache puts them on record."
            )
        )


def refresh(
    path: SharePath,
    cache: GatewayCache = None,
    recursive: Annotated[
        bool,
        typer.Option("--recursive", "-r", help="Include subfolders."),
    ] = False,
    as_json: options.Json = False,
) -> int:
    """Reload the listing of a folder from the bucket."""
    began = time.monotonic()
    found = _ask(cache, "refresh", path=path, recursive=recursive)
    if as_json:
        display.emit("refreshed", path=path, **found)
    else:
        seconds = text.duration(time.monotonic() - began)
        display.say(f"{text.count(found['folders'], 'folder')} read again in {seconds}.")
    return exits.OK


def conflicts(cache: GatewayCache = None, as_json: options.Json = False) -> int:
    """List files that conflict with an object of another program.

    Shows where each local file is kept.
    """
    found = _ask(cache, "conflicts")
    rows: list[dict[str, Any]] = found["conflicts"]
    if as_json:
        for one in rows:
            display.emit("gateway_conflict", **one)
        return exits.OK if rows else exits.NOTHING
    if rows:
        _print_table([("FILE", "SIZE", "WRITTEN", "KEPT AS"), *(_conflict_row(one) for one in rows)])
    display.say(f"{text.count(len(rows), 'conflict')}{', and more' if found['is_cut'] else ''}.")
    return exits.OK if rows else exits.NOTHING


def _conflict_row(one: dict[str, Any]) -> tuple[str, str, str, str]:
    top = f"/{one['share']}"
    written = "-" if one["changed"] is None else text.timestamp(float(one["changed"]))
    return (
        text.printable(f"{top}/{one['path']}"),
        text.size(one["size"]),
        written,
        text.printable(f"{top}/{one['kept']}"),
    )


def drain(cache: GatewayCache = None, as_json: options.Json = False) -> int:
    """Upload all files and stop the gateway. Writing clients wait until a gateway serves the share again."""
    from seqferry.engine.gateway_control import list_epochs, open_process, wait_for_end

    cache = _cache_of(cache)
    with open_process(cache) as process:
        found = _ask(cache, "drain")
        # Its last act is to put on record what it has uploaded.
        has_ended = found["is_done"] and process is not None and wait_for_end(process)
    not_batched = found.pop("not_batched", None)
    found["is_recorded"] = not_batched is None and not list_epochs(cache)
    if as_json:
        display.emit("drained", **found)
    else:
        _say_end(found, f"Everything is in S3; the gateway {'has ended' if has_ended else 'ends'}.", not_batched)
        if found["ignored"]:
            display.say(f"Kept on this machine by name: {text.count(found['ignored'], 'file')}.")
    return exits.OK if found["is_done"] else exits.FAILED


def add_to(group: typer.Typer) -> None:
    """Add the commands to ``seqferry gateway``."""
    for command in (status, ls, flush, refresh, conflicts, drain):
        group.command()(command)
