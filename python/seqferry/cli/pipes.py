"""``-`` as one side of ``cp``: standard input and standard output.

What comes out of a pipe cannot be read twice, and what went into one cannot be taken back. So input is put on the disk
before the transfer begins, which is then as durable as any other, and output comes from the disk after it was proven.
The folders for this are in the state folder; each holds a lock for as long as its command lives.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import uuid
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from seqferry import paths
from seqferry.cli import display, exits
from seqferry.cli.groups import Output, Places, Start, Storage
from seqferry.cli.session import Session
from seqferry.errors import ConfigError, UsageError
from seqferry.spec import build_spec, parse_uri

_CHUNK: Final = 1024 * 1024
_INPUT: Final = "input"
_OUTPUT: Final = "output"
_LOCK: Final = "lock"


def is_asked_for(places: Places) -> bool:
    return "-" in (places.source, places.target)


def refuse(places: Places, option: str) -> None:
    """Raise UsageError where a pipe is asked for together with what cannot be done with one."""
    if is_asked_for(places):
        _check_open(places)
        raise UsageError(f"Standard input and output cannot be used with {option}.")


def check(places: Places, storage: Storage, start: Start, output: Output) -> None:
    """Refuse what makes no sense before a byte is read.

    Raises:
        UsageError: it makes none.
    """
    _check_open(places)
    for option, given in (("--dry-run", start.dry_run), ("--detach", start.detach)):
        if given:
            refuse(places, option)
    if places.target == "-" and storage.md5:
        raise UsageError(
            f"--md5 is for local files that are copied to S3, and the source is {places.source}; leave it out."
        )
    if places.target == "-" and output.as_json:
        raise UsageError("--json prints events on standard output, where the object is to go.")
    bucket, key = parse_uri(places.target if places.source == "-" else places.source)
    if key == "" or key.endswith("/"):
        raise UsageError(f"Standard input and output are one object: name its key, as s3://{bucket}/{key}name.")


def _check_open(places: Places) -> None:
    if (sys.__stdin__ if places.source == "-" else sys.__stdout__) is None:
        side = "input" if places.source == "-" else "output"
        raise UsageError(f"Standard {side} is closed; give it a file or a pipe.")


def copy(session: Session, given: dict[str, Any]) -> int:
    """Carry a checked transfer from standard input, or to standard output; returns the exit code."""
    with _folder(session) as folder:
        if given["source"] == "-":
            source = folder / _INPUT
            _fill(source)
            code = _see_through(session, {**given, "source": str(source)})
            if code == exits.INTERRUPTED:
                # Whoever resumes the transfer reads it, and removes it in the end.
                (folder / _LOCK).unlink()
            return code
        target = folder / _OUTPUT
        # It is read once more, at once.
        code = _see_through(session, {**given, "target": str(target), "page_cache": True})
        if code == exits.OK:
            _pour(target)
        return code


def _see_through(session: Session, given: dict[str, Any]) -> int:
    spec = build_spec(**given, allow_local=True)
    return session.copy(spec, known=session.service.check(spec))


def _pour(path: Path) -> None:
    with path.open("rb") as file:
        try:
            shutil.copyfileobj(file, sys.stdout.buffer, _CHUNK)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            raise
        except OSError as why:
            raise display.full_stdout(why) from None


def _fill(path: Path) -> None:
    part = path.with_suffix(".part")
    with _told(path.parent), part.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file, _CHUNK)
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)
    paths.sync_folder(str(path.parent))


@contextmanager
def _folder(session: Session) -> Generator[Path]:
    """A folder that is gone in the end; those that killed commands have left go now."""
    place = paths.spool(session.settings.state_dir)
    folder = place / uuid.uuid4().hex
    with ExitStack() as held:
        with _told(place):
            paths.make_folders(str(place), mode=0o700)
            with _locked(place):  # so that the new folder is not taken for one that was left
                _sweep(place)
                folder.mkdir(mode=0o700)
                paths.sync_folder(str(place))
                (folder / _LOCK).touch()
                held.enter_context(_locked(folder / _LOCK))
        try:
            yield folder
        finally:
            if (folder / _LOCK).exists():
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Generator[None]:
    opened = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


@contextmanager
def _told(place: Path) -> Generator[None]:
    """Trouble with the disk, told as what it is."""
    try:
        yield
    except OSError as why:
        raise ConfigError(
            f"Standard input and output pass through {place}: {why.strerror or why}. "
            "Make room there, or choose another folder with --state-dir."
        ) from None


def _sweep(place: Path) -> None:
    """Remove spooled input that no transfer will read.

    What was put on the disk as input of a transfer is read by its next worker.
    """
    for folder in place.iterdir():
        if not (folder / _INPUT).exists() and not paths.is_held(folder):
            shutil.rmtree(folder, ignore_errors=True)
