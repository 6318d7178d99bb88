"""Files of the state folder: for their owner only, whatever the folder and the umask allow."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import pwd
import stat
import tempfile
from pathlib import Path
from typing import Final

log: Final = logging.getLogger("seqferry.files")

MODE: Final = 0o600

_REFERENCE: Final = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)
"""Opens a name without its contents (Linux)."""

_NAMES: Final = (
    "seqferry.sqlite",
    "seqferry.sqlite-journal",
    "seqferry.sqlite-shm",
    "seqferry.sqlite-wal",
    "migrate.lock",
    "worker.lock",
    "token",
    "tokens.lock",
    "mount.log",
)
"""Ours in a state folder. All else there is not ours to change: the folder may have been in use before."""


_TEMPORARY: Final = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - a private folder in it, checked before it is used


def temporary_folder() -> Path | None:
    """A folder of this user alone among temporary files, the same one each time; None where none can be made."""
    for place in (os.environ.get("TMPDIR", ""), *_TEMPORARY):
        folder = Path(place) / f"seqferry-{os.geteuid()}"
        try:
            if not place or not os.access(place, os.W_OK | os.X_OK):
                continue
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=0o700)
            found = folder.lstat()
        except OSError:
            continue
        # Another user may have made it, or a link in its place.
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077:
            return folder
    return None


_FOLDERS: Final = ("pipes", "scratch")
"""Folders of Seqferry in a state folder."""


def open_private(path: Path, flags: int) -> int:
    """A descriptor of a plain file with one name: no link is followed, and no pipe is waited for.

    What is opened is a file of this user; root may use those of others, as in a container with a folder of the host.

    Raises:
        OSError: the file cannot be opened, or is no such file.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, MODE)
    except OSError as why:
        if why.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise _planted_error(path) from None
        raise
    found = os.fstat(descriptor)
    if not _is_plain(found):
        os.close(descriptor)
        raise _planted_error(path)
    return descriptor


def _planted_error(path: Path) -> OSError:
    return OSError(errno.EPERM, "it is a link, or no plain file of this user alone; remove it", str(path))


def _is_plain(found: os.stat_result) -> bool:
    # A file that has lost its name since is ours as well.
    is_own = os.geteuid() == 0 or found.st_uid in (0, os.geteuid())
    return stat.S_ISREG(found.st_mode) and found.st_nlink <= 1 and is_own


def read(path: Path, most: int) -> str:
    """The text of a private file of at most so many bytes, of which the permissions of others are taken.

    Raises:
        OSError: the file cannot be read, is no plain file of this user with one name, or is larger.
    """
    with os.fdopen(open_private(path, os.O_RDONLY), encoding="utf-8", errors="replace") as file:
        found = os.fstat(file.fileno())
        if found.st_size > most:
            raise OSError(errno.EFBIG, f"it has more than {most} bytes", str(path))
        if found.st_mode & 0o077:
            log.warning("%s could be read by other users, and is made private", path)
            os.fchmod(file.fileno(), MODE)
        return file.read()


def find_planted(folder: Path) -> Path | None:
    """A file or folder of Seqferry in a state folder that is a link, a pipe or has a second name; None if none is."""
    for name in (*_NAMES, *_FOLDERS):
        with contextlib.suppress(FileNotFoundError):
            found = (folder / name).lstat()
            is_kind = stat.S_ISDIR if name in _FOLDERS else stat.S_ISREG
            if not is_kind(found.st_mode) or (name not in _FOLDERS and found.st_nlink > 1):
                return folder / name
    return None


def is_folder(path: Path) -> bool:
    """True for a folder, or a link to one; False also where a folder on the way to it may not be entered."""
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except OSError:
        return False


def is_own_folder(path: Path) -> bool:
    """True for a folder that belongs to this user, and is no link to one."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def create(path: Path) -> None:
    """Create an empty private file, unless it is there. SQLite gives its other files the permissions of its first.

    Raises:
        OSError: the file cannot be created.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE))


def write(path: Path, text: str) -> None:
    """Put a private file there whole and on the disk, in place of what is there.

    Raises:
        OSError: the file cannot be written.
    """
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)
        _sync(path.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def find_foreign_owner(folder: Path) -> tuple[Path, str] | None:
    """The state folder or a file of Seqferry in it that belongs to another user, with the name of the user; or None.

    The owner of a database can add transfers to it, which would run with the credentials of this user. Root is
    trusted, and may itself open the folder of another user, as in a container with a folder of the host.
    """
    mine = {0, os.geteuid()}
    if os.geteuid() == 0:
        return None
    for path in (folder, *(folder / name for name in (*_NAMES, *_FOLDERS))):
        with contextlib.suppress(FileNotFoundError):
            # The folder itself may be a link that its owner made: the owner of the linked folder counts.
            found = path.stat() if path == folder else path.lstat()
            if found.st_uid not in mine:
                return path, _name(found.st_uid)
    return None


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def restrict_permissions(folder: Path) -> list[str]:
    """Remove the permissions of other users on Seqferry's files in a state folder; returns the names of changed files.

    Raises:
        OSError: a file is a link, or has a second name: the permissions of another file would be changed.
    """
    return [name for name in _NAMES if _restrict(folder / name)]


def _restrict(path: Path) -> bool:
    """Remove the permissions of other users; False if they had none, or if the file is not owned by this user."""
    try:
        # No open file: closing one of a database drops the locks that SQLite holds on it.
        descriptor = os.open(path, _REFERENCE | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        found = os.fstat(descriptor)
        if not found.st_mode & 0o077 or found.st_uid != os.geteuid():
            return False
        if not _is_plain(found):
            raise _planted_error(path)
        with contextlib.suppress(OSError):
            Path(f"/proc/self/fd/{descriptor}").chmod(stat.S_IMODE(found.st_mode) & 0o700)
            return True
        return False
    finally:
        os.close(descriptor)
