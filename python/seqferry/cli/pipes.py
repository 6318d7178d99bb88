"""``-`` as one side of ``cp``: standard input and standard output.

Bytes stream in bounded memory: input goes up as it comes, output is written in order, and what is proven wrong ends the
command with exit code 3. A stream cannot be read twice, so it is no transfer on record.

Input has a folder in the state folder, with a lock for as long as its command lives. It holds the id of the upload, so
that the next command aborts the upload of one that was killed.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import sys
import time
import uuid
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from seqferry.cli import exits, follow
from seqferry.cli.option_groups import Output, SourcesAndTarget, Start, merge
from seqferry.cli.output import display, text
from seqferry.model.errors import ConfigError, SeqferryError, StorageError, UsageError
from seqferry.model.frozen import frozen
from seqferry.model.locations import S3Location
from seqferry.model.models import ResolvedSpec
from seqferry.places import paths, private_files
from seqferry.settings.config import Settings
from seqferry.spec import identity, stored
from seqferry.spec.addresses import parse_uri
from seqferry.spec.build import build_spec
from seqferry.spec.option_groups import SpeedOptions, StorageOptions
from seqferry.spec.selection import has_wildcard

if TYPE_CHECKING:
    from seqferry.engine.engine import Engine
    from seqferry.engine.pipes import Pipe

log: Final = logging.getLogger("seqferry.pipes")

_LOOK_SECONDS: Final = 0.2
_VERIFIED_BY: Final = {
    "checksum": "its checksum",
    "etag": "its ETag",
    "size": "its size",
    "none": "nothing (it was there)",
}
_SPEC: Final = "spec.json"
_UPLOAD: Final = "upload"
_MAX_ABORTED: Final = 20
"""Uploads of killed commands that one command aborts."""
_PIPE_BYTES: Final = 1024 * 1024
"""The size of the pipe to the reader, as far as the system gives it. By default 64 KiB, which wakes it all the time."""


@frozen
class _StreamRequest:
    """One command with a pipe."""

    settings: Settings
    engine: Engine
    output: Output


def is_stream(places: SourcesAndTarget) -> bool:
    return "-" in (places.source, places.target)


def reject_streams(places: SourcesAndTarget, option: str) -> None:
    """Raise UsageError for a pipe together with ``option``, which cannot be used with one."""
    if is_stream(places):
        _check_open(places)
        raise UsageError(f"Standard input and output cannot be used with {option}.")


def check_options(places: SourcesAndTarget, storage: StorageOptions, start: Start, output: Output) -> None:
    """Refuse options that do not fit a pipe, before a byte is read.

    Raises:
        UsageError: an option or a place does not fit standard input or output.
    """
    _check_open(places)
    for option, given in (("--dry-run", start.dry_run), ("--detach", start.detach)):
        if given:
            reject_streams(places, option)
    if storage.md5:
        raise UsageError("--md5 is for local files, which are read twice; leave it out for standard input and output.")
    if storage.verify == "content":
        raise UsageError("--verify content reads both sides again, and a stream is read once; leave it out.")
    if places.target == "-" and output.as_json:
        raise UsageError("--json prints events on standard output, where the object is to go.")
    sources = places.sources or []
    if len(sources) > 1 and "-" in sources:
        raise UsageError("Standard input (-) is a source by itself; leave the other sources out.")
    for uri in [places.target] if places.source == "-" else sources:
        bucket, key = parse_uri(uri)
        if key == "" or key.endswith("/"):
            raise UsageError(f"Standard input and output are one object: name its key, as s3://{bucket}/{key}name.")


def _check_open(places: SourcesAndTarget) -> None:
    if (sys.__stdin__ if places.source == "-" else sys.__stdout__) is None:
        side = "input" if places.source == "-" else "output"
        raise UsageError(f"Standard {side} is closed; give it a file or a pipe.")


def copy_stream(output: Output, speed: SpeedOptions, given: dict[str, Any]) -> int:
    """Carry a checked transfer from standard input, or to standard output; returns the exit code."""
    from seqferry.engine.engine import Engine  # --help need not wait for it

    settings = Settings.load(state_dir=output.state_dir, **merge(speed))
    return _copy(_StreamRequest(settings, Engine.of(settings), output), given)


def _copy(work: _StreamRequest, given: dict[str, Any]) -> int:
    given = _expand(work, given)
    if not isinstance(given["source"], str):
        return _concatenate(work, given)
    return _store_input(work, given) if given["source"] == "-" else _write_output(work, given)


def _expand(work: _StreamRequest, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments with the objects that wildcards select, in the order of their keys, in place of the wildcards."""
    written: list[str] = [given["source"]] if isinstance(given["source"], str) else given["source"]
    if given["raw"] or not any(map(has_wildcard, written)):
        return given
    from seqferry.preflight import reading  # it brings the engine

    found: list[str] = []
    for source in written:
        if has_wildcard(source):
            spec = _readable({**given, "source": source})
            found += [spec.source.at(key) for key in reading.select_keys(work.engine, spec)]
        else:
            found.append(source)
    return {**given, "source": found, "raw": True, "rules": None}


def _readable(given: dict[str, Any]) -> ResolvedSpec:
    # The target is only for the checks: nothing is written there.
    return identity.resolve(build_spec(**{**given, "target": os.sep}, allow_local=True))


def _concatenate(work: _StreamRequest, given: dict[str, Any]) -> int:
    """Objects one after another to standard output, each proven; nothing follows one that is not."""
    for source in given["source"]:
        code = _copy(work, {**given, "source": source})
        if code != exits.OK:
            return code
    return exits.OK


def _write_output(work: _StreamRequest, given: dict[str, Any]) -> int:
    """The object to standard output, in order, each range checked before it is written."""
    spec = _readable(given)
    assert isinstance(spec.source, S3Location)
    sys.stdout.flush()
    with suppress(OSError, AttributeError):  # a file, or a system without this
        fcntl.fcntl(sys.stdout.buffer.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    version_id = spec.versions[0] if spec.versions else None
    pipe = work.engine.write_output(spec.source, version_id=version_id)
    try:
        return _stream(work, pipe, spec.source.uri)
    except StorageError as why:
        from seqferry.preflight import reading

        if pipe.bytes or not reading.is_missing(why):
            raise
        raise reading.missing_error(work.engine, spec.source, version_id) from None


def _store_input(work: _StreamRequest, given: dict[str, Any]) -> int:
    """Standard input to the object, in parts as they come."""
    # The source stands for any one file: its name is nowhere used, since the target is a whole key.
    spec = identity.resolve(build_spec(**{**given, "source": sys.executable}, allow_local=True))
    assert isinstance(spec.target, S3Location)
    with _folder(work.settings, work.engine) as folder:
        _record_upload(folder / _SPEC, stored.write(spec))
        pipe = work.engine.store_input(spec, str(folder / _UPLOAD))
        code = _stream(work, pipe, spec.target.uri)
        (folder / _UPLOAD).unlink(missing_ok=True)
        return code


def _stream(work: _StreamRequest, pipe: Pipe, uri: str) -> int:
    """See a pipe to its end; returns the exit code."""
    began = time.monotonic()
    with follow.interruptible() as watch:
        while not pipe.wait(_LOOK_SECONDS):
            if watch.asked_to_stop:
                pipe.cancel()
        try:
            report = pipe.end()
        except BrokenPipeError:
            raise
        except OSError as why:
            raise display.short_write_error(why) from None
    if report is None:
        display.say(f"Interrupted after {text.size(pipe.bytes)} of {text.printable(uri)}; a stream cannot be resumed.")
        return exits.INTERRUPTED
    if not work.output.quiet:
        took = f"{text.size(report.bytes)} in {time.monotonic() - began:.1f} s"
        display.say(f"{text.printable(uri)}: {took}, verified by {_VERIFIED_BY.get(report.verified, report.verified)}.")
    return exits.OK


@contextmanager
def _folder(settings: Settings, engine: Engine) -> Generator[Path]:
    """A folder that is gone in the end; those that killed commands have left go now."""
    base = settings.working_dir()
    if base is None:
        raise ConfigError(
            f"The state folder {settings.state_dir} and the folder for temporary files are not writable: the upload id "
            "cannot be recorded. Name a folder with --state-dir or TMPDIR."
        )
    place = base / "pipes"
    folder = place / uuid.uuid4().hex
    with ExitStack() as held:
        with _disk_errors(place):
            paths.make_folders(str(place), mode=0o700)
            with paths.hold_lock(place):  # so that the new folder is not taken for one that was left
                _remove_stale(place)
                folder.mkdir(mode=0o700)
                paths.sync_folder(str(place))
                (folder / paths.LOCK).touch()
                held.enter_context(paths.hold_lock(folder / paths.LOCK))
        _abort_left(engine, place)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _disk_errors(place: Path) -> Generator[None]:
    """Context that reports errors of the disk as errors of the disk."""
    try:
        yield
    except OSError as why:
        raise ConfigError(
            f"Standard input and output pass through {place}: {why.strerror or why}. "
            "Free disk space, or choose another folder with --state-dir."
        ) from None


def _remove_stale(place: Path) -> None:
    """Remove folders of killed commands that had no upload yet."""
    for folder in place.iterdir():
        if not (folder / _UPLOAD).exists() and not paths.is_held(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _abort_left(engine: Engine, place: Path) -> None:
    """Abort uploads of streams whose commands were killed. What cannot be aborted now is left for later."""
    # What another user has put there would have uploads aborted with our credentials.
    mine = (folder for folder in place.iterdir() if private_files.is_own_folder(folder))
    left = [folder for folder in mine if (folder / _UPLOAD).exists() and not paths.is_held(folder)]
    for folder in left[:_MAX_ABORTED]:
        try:
            spec = stored.read((folder / _SPEC).read_text(encoding="utf-8"))
            upload_id = (folder / _UPLOAD).read_text(encoding="utf-8")
            if upload_id and isinstance(spec.target, S3Location):
                engine.abort_upload(spec.target, upload_id)
        except (OSError, SeqferryError) as why:
            log.info("the upload of a killed command stays open: %s", why)
            continue
        shutil.rmtree(folder, ignore_errors=True)


def _record_upload(path: Path, content: str) -> None:
    with _disk_errors(path.parent), path.open("w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    paths.sync_folder(str(path.parent))
