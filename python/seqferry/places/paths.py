"""Local paths: parses paths that a user wrote into a folder and a path below it, and creates and checks folders."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from seqferry.model.errors import StorageError, UsageError

LOCK: Final = "lock"
"""File in a folder that is there for one process: the process holds its lock."""
LEFT_OUT: Final = frozenset({"SpecialFile", "SymlinkSkipped", "StateFolder", "Unsettled"})
"""Codes of what is not copied (devices, sockets, what still grows): it is left out, which is no failure."""


def is_absent(path: str) -> bool:
    """True when nothing has this path."""
    return not os.path.lexists(path)


def is_local(text: str) -> bool:
    """True for what is meant as a path: everything but addresses and what looks like one."""
    return "://" not in text and not text.lower().startswith("s3:")


def parse_source(text: str) -> tuple[str, str]:
    """The absolute path of a folder, and the name of the one file in it that is meant; no name means all of the folder.

    Raises:
        UsageError: ``text`` names nothing, or neither a file nor a folder.
    """
    _check(text)
    try:
        mode = os.stat(text).st_mode
    except OSError as why:
        if isinstance(why, FileNotFoundError) and os.path.islink(text):
            raise UsageError(
                f"'{text}' is a link to nothing; to copy the link itself give the folder above it and --symlinks keep."
            ) from None
        if text.endswith("/") and os.path.isfile(text.rstrip("/")):
            raise UsageError(
                f"'{text}' is a file, and a last slash means a folder; write '{text.rstrip('/')}'."
            ) from None
        raise UsageError(
            f"Cannot read '{text}': {why.strerror or why}. Give a file or a folder of this machine, or s3://bucket/prefix/."
        ) from None
    if stat.S_ISDIR(mode):
        return _real(text), ""
    if not stat.S_ISREG(mode):
        raise UsageError(f"'{text}' is neither a file nor a folder; devices, pipes and sockets cannot be copied.")
    folder, name = os.path.split(text)
    return _real(folder), name


def parse_target(text: str, name: str | None) -> tuple[str, str]:
    """The absolute path of a folder, and the name that the one file gets there.

    Args:
        name: of the one object that is copied, for the target may be a folder; None when all of a prefix is copied.

    Raises:
        UsageError: a file is where a folder is needed.
    """
    _check(text)
    is_folder = name is None or text.endswith("/") or os.path.isdir(text)
    if not is_folder:
        if (os.path.exists(text) and not os.path.isfile(text)) or _is_system_path(text):
            raise UsageError(
                f"'{text}' is a device, pipe or socket, which is not replaced by a file; write - for standard output."
            )
        folder, last = os.path.split(text)
        return _real(folder), last
    if os.path.lexists(text.rstrip("/") or "/") and not os.path.isdir(text):
        raise UsageError(f"'{text}' is no folder, and what is copied needs one; choose another target.")
    return _real(text), name or ""


def _is_system_path(path: str) -> bool:
    """True when it stands for a device or an open file, as /dev/stdout does, though that may be a file just now."""
    places = [os.path.join(os.path.realpath(os.path.dirname(path) or "."), "")]
    if os.path.islink(path):
        places.append(os.readlink(path))
    shared_memory = "/dev/shm/"  # noqa: S108 - an ordinary file system
    return any(place.startswith(("/dev/", "/proc/")) and not place.startswith(shared_memory) for place in places)


def is_below(path: str, roots: Iterable[str]) -> bool:
    """True when a file or folder is one of these folders or lies in one, wherever links lead now."""
    whole = os.path.join(os.path.realpath(path), "")
    return any(whole.startswith(os.path.join(os.path.realpath(root), "")) for root in roots)


@cache
def path_below(folder: str, other: str) -> str | None:
    """Prefix of the keys below ``folder`` that are files in ``other``, a folder; None when there are none."""
    # Both as they are: of the one that was given, parts may be links.
    base, other = os.path.join(folder, ""), os.path.join(os.path.realpath(other), "")
    return other.removeprefix(base) if other.startswith(base) else None


def changed_at(folder: str, key: str) -> float | None:
    """Last change (ctime) of the file ``key`` below the folder and of the link that leads to it; None: not there."""
    path = f"{folder}/{key}"
    try:
        found = os.lstat(path)
        return max(found.st_ctime, os.stat(path).st_ctime) if stat.S_ISLNK(found.st_mode) else found.st_ctime
    except (OSError, ValueError):
        return None


def check_source(folder: str) -> None:
    """Raise StorageError when the folder cannot be read."""
    if not os.path.isdir(folder):
        raise _unusable(folder, "NoSuchFolder", "there is no such folder on this machine", "Check the path")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise _unusable(folder, "AccessDenied", "this user may not read it", "Allow it, or choose another source")


def check_target(folder: str) -> None:
    """Raise StorageError when no files can be made in the folder, which need not be there yet."""
    there = _nearest(folder)
    if not os.path.isdir(there):
        raise _unusable(folder, "NotAFolder", f"{there} is no folder", "Choose another target")
    # What is there is looked for in the folder before anything is written to it.
    if there == folder and not os.access(there, os.R_OK):
        raise _unusable(folder, "AccessDenied", "this user may not read it", "Allow it, or choose another target")
    if not os.access(there, os.W_OK | os.X_OK):
        why = f"this user may not write to {there}, or it is mounted read-only"
        raise _unusable(folder, "AccessDenied", why, "Allow it, or choose another target")


def check_exists(folder: str, *, is_target: bool) -> None:
    """Raise StorageError when a folder that was in use cannot be used any more."""
    if not os.path.isdir(folder):
        advice = "If it is on a disk that is not mounted, mount it; then resume again"
        raise _unusable(folder, "NoSuchFolder", "it is not there any more", advice)
    (check_target if is_target else check_source)(folder)


def make_target(folder: str) -> None:
    """Make the folder and those above it, unless they are there.

    Raises:
        StorageError: the folder cannot be made.
    """
    try:
        make_folders(folder)
    except OSError as why:
        advice = "Choose a shorter name" if why.errno == errno.ENAMETOOLONG else "Make it, or choose another"
        raise _unusable(folder, "NoSuchFolder", f"it cannot be made: {why.strerror or why}", advice) from None


def make_folders(folder: str, *, mode: int = 0o777) -> None:
    """Make the folder, with ``mode``, and those above it; their names are on the disk when this returns.

    Raises:
        OSError: one of the folders cannot be made, or is no folder.
    """
    missing: list[str] = []
    there = folder
    while not os.path.isdir(there):
        missing.append(there)
        there = os.path.dirname(there)
    # Also of the one that is there: a process that was killed may have made it and not come to its sync.
    sync_folder(os.path.dirname(there))
    for each in reversed(missing):
        try:
            os.mkdir(each, mode if each == folder else 0o777)
        except FileExistsError:
            if not os.path.isdir(each):
                raise
        sync_folder(os.path.dirname(each))


def sync_folder(folder: str) -> None:
    """Bring the names in a folder to the disk, where this user may and the file system can."""
    with contextlib.suppress(OSError):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def set_folder_attributes(root: str, path: str, mode: int, modified: float, *, preserve_permissions: bool) -> bool:
    """Give a folder below ``root`` its time and permissions, as files get them; False where that cannot be done.

    The time is in nanoseconds since 1970 as a whole number, or in seconds as a floating point number.
    No link is followed below ``root``. Its owner may still write to it, so that a transfer can be repeated. Setuid,
    setgid and sticky bits stay as they are.
    """
    names = [name for name in path.split("/") if name]
    if ".." in names:
        return False
    try:
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for name in names:
                below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
                os.close(folder)
                folder = below
            now = stat.S_IMODE(os.fstat(folder).st_mode)
            allowed = 0o777 if preserve_permissions else now
            os.fchmod(folder, ((mode | 0o700) & 0o777 & allowed) | (now & 0o7000))
            moment = modified if isinstance(modified, int) else _nanoseconds(modified)
            os.utime(folder, ns=(moment, moment))
        finally:
            os.close(folder)
    except (OSError, OverflowError):
        return False
    return True


def _nanoseconds(seconds: float) -> int:
    """Nanoseconds since 1970. Finer than microseconds is not exact in a floating point number."""
    whole = int(seconds // 1)
    return whole * 10**9 + round((seconds - whole) * 10**6) * 1000


def free_bytes(folder: str) -> int:
    """Bytes that may still be written on the file system of a folder, which need not be there yet."""
    return shutil.disk_usage(_nearest(folder)).free


@contextmanager
def hold_lock(path: Path) -> Generator[None]:
    """Within: this process holds the lock of a file or folder, for which others wait. A killed process gives it up.

    Raises:
        OSError: the file or folder cannot be opened.
    """
    # What another user has put there is not followed, and not waited for.
    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def is_held(folder: Path) -> bool:
    """True while the process that created this folder of Seqferry lives: it holds the lock in it."""
    try:
        lock = os.open(folder / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def _nearest(folder: str) -> str:
    """The folder, or the nearest one above it that is there."""
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    return folder


def _unusable(folder: str, code: str, cause: str, advice: str) -> StorageError:
    return StorageError(f"Cannot use {folder}: {cause}. {advice}.", "person", code, "open folder", True)


def _real(folder: str) -> str:
    """Absolute and without links, so that it stays the same place whatever becomes of a link or of this process."""
    return os.path.realpath(folder or ".")


def _check(text: str) -> None:
    if text == "-":
        raise UsageError("- means standard input or output, and only cp takes it; for a file of that name write ./-.")
    if text == "":
        raise UsageError("A path is empty; write . for the folder you are in.")
    if not os.path.isabs(text):
        try:
            os.getcwd()
        except FileNotFoundError:
            raise UsageError(
                "The folder that this command runs in is not there any more; change to one that is."
            ) from None
    if "\0" in text:
        raise UsageError("A path holds a NUL byte, which no name of a file has.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # Python has put each byte that it could not read into half a character.
        bytes_shown = re.sub("[\udc80-\udcff]", lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", text)
        shown = bytes_shown.encode("utf-8", "backslashreplace").decode()
        raise UsageError(f"The path '{shown}' is not valid UTF-8; rename it, or give the folder above it.") from None
