"""How clients reach a share: over NFS by libnfs, or in a mounted folder. Each call returns when it is acknowledged."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, TypeVar

from support.libnfs import NfsError, Share

T = TypeVar("T")

_PIECE: Final = 256 * 1024
_NFS_ERRORS: Final = {errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.ENOSPC, errno.EACCES, errno.EPERM}


class AskedLaterError(Exception):
    """The server has carried nothing out and asks to be asked again."""


class UnreachableError(Exception):
    """No server answers: what was asked last may have been carried out or not."""


class Access(Protocol):
    """A way into a share. Paths are relative to its top.

    Raises:
        AskedLaterError, UnreachableError, OSError: by each call.
    """

    loses_commits: bool
    """True where a kill between a write and the end of its commit may lose it: the client has to write again."""

    def write(self, path: str, body: bytes, *, at: int | None, is_synchronous: bool) -> None:
        """Write the whole file, new or not, or with ``at`` a part of one that is there. It is synced in the end.

        Args:
            is_synchronous: each write is synced; else all are committed together.
        """
        ...

    def read(self, path: str) -> bytes: ...

    def truncate(self, path: str, size: int) -> None: ...

    def set_mode(self, path: str, mode: int) -> None: ...

    def set_modified(self, path: str, nanoseconds: int) -> None: ...

    def rename(self, path: str, other: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def make_folder(self, path: str) -> None: ...

    def remove_folder(self, path: str) -> None: ...

    def close(self) -> None: ...


class NfsAccess:
    """A client of its own in this process."""

    loses_commits = True

    def __init__(self, url: str) -> None:
        self._url = url
        self._share: Share | None = None

    def write(self, path: str, body: bytes, *, at: int | None, is_synchronous: bool) -> None:
        flags = (os.O_SYNC if is_synchronous else 0) | (os.O_CREAT | os.O_TRUNC if at is None else 0)

        def act(share: Share) -> None:
            file = share.open_to_write(path, flags)
            try:
                for start in range(0, len(body), _PIECE):
                    share.write_at(file, (at or 0) + start, body[start : start + _PIECE])
                if not is_synchronous:
                    share.sync(file)
            finally:
                share.close(file)

        self._call(act)

    def read(self, path: str) -> bytes:
        def act(share: Share) -> bytes:
            file, pieces = share.open(path), list[bytes]()
            try:
                buffer = ctypes.create_string_buffer(_PIECE)
                while piece := share.read(file, buffer):
                    pieces.append(piece)
            finally:
                share.close(file)
            return b"".join(pieces)

        return self._call(act)

    def truncate(self, path: str, size: int) -> None:
        self._call(lambda share: share.truncate(path, size))

    def set_mode(self, path: str, mode: int) -> None:
        self._call(lambda share: share.set_mode(path, mode))

    def set_modified(self, path: str, nanoseconds: int) -> None:
        self._call(lambda share: share.set_modified(path, nanoseconds // 1000))

    def rename(self, path: str, other: str) -> None:
        self._call(lambda share: share.rename(path, other))

    def remove(self, path: str) -> None:
        self._call(lambda share: share.remove(path))

    def make_folder(self, path: str) -> None:
        self._call(lambda share: share.make_folder(path))

    def remove_folder(self, path: str) -> None:
        self._call(lambda share: share.remove_folder(path))

    def close(self) -> None:
        if self._share is not None:
            self._share.end()
            self._share = None

    def _call(self, act: Callable[[Share], T]) -> T:
        try:
            if self._share is None:
                self._share = Share(self._url)
            return act(self._share)
        except NfsError as error:
            if "JUKEBOX" in str(error):
                raise AskedLaterError(str(error)) from None
            if -error.status in _NFS_ERRORS:
                raise OSError(-error.status, str(error)) from None
            self.close()
            raise UnreachableError(str(error)) from None


class MountAccess:
    """A folder that is mounted, or not at the moment."""

    loses_commits = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, path: str, body: bytes, *, at: int | None, is_synchronous: bool) -> None:
        flags = (os.O_SYNC if is_synchronous else 0) | (os.O_CREAT | os.O_TRUNC if at is None else 0)

        def act(top: int) -> None:
            file = os.open(path, os.O_WRONLY | flags, 0o644, dir_fd=top)
            try:
                for start in range(0, len(body), _PIECE):
                    os.pwrite(file, body[start : start + _PIECE], (at or 0) + start)
                if not is_synchronous:
                    os.fsync(file)
            finally:
                os.close(file)

        self._call(act)

    def read(self, path: str) -> bytes:
        def act(top: int) -> bytes:
            with os.fdopen(os.open(path, os.O_RDONLY, dir_fd=top), "rb") as file:
                return file.read()

        return self._call(act)

    def truncate(self, path: str, size: int) -> None:
        def act(top: int) -> None:
            file = os.open(path, os.O_WRONLY, dir_fd=top)
            try:
                os.ftruncate(file, size)
            finally:
                os.close(file)

        self._call(act)

    def set_mode(self, path: str, mode: int) -> None:
        self._call(lambda top: os.chmod(path, mode, dir_fd=top))

    def set_modified(self, path: str, nanoseconds: int) -> None:
        self._call(lambda top: os.utime(path, ns=(nanoseconds, nanoseconds), dir_fd=top))

    def rename(self, path: str, other: str) -> None:
        self._call(lambda top: os.rename(path, other, src_dir_fd=top, dst_dir_fd=top))

    def remove(self, path: str) -> None:
        self._call(lambda top: os.unlink(path, dir_fd=top))

    def make_folder(self, path: str) -> None:
        self._call(lambda top: os.mkdir(path, dir_fd=top))

    def remove_folder(self, path: str) -> None:
        self._call(lambda top: os.rmdir(path, dir_fd=top))

    def close(self) -> None:
        """Nothing is held between calls."""

    def _call(self, act: Callable[[int], T]) -> T:
        top: int | None = None
        try:
            # The folder below the mount must not be written: each call is relative to the mount or fails.
            top = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
            if os.fstat(top).st_dev == self._folder.parent.stat().st_dev:
                raise UnreachableError(f"{self._folder} is not mounted")
            return act(top)
        except OSError as error:
            if error.errno in {errno.ENOTCONN, errno.ECONNABORTED, errno.EHOSTDOWN}:
                raise UnreachableError(str(error)) from None
            raise
        finally:
            if top is not None:
                os.close(top)
