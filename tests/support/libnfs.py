"""A share that libnfs has mounted, for programs that tests and benches run beside them.

Such a program is started as ``python -I FILE ...``, since a test may kill it in the middle of a call.
"""

from __future__ import annotations

import ctypes
import os
import re
from typing import Any, Final

_LIBRARY: Final = "libnfs.so.13"
_STATUS: Final = {5: "NFS3ERR_IO", 28: "NFS3ERR_NOSPC", 10008: "NFS3ERR_JUKEBOX"}


class NfsError(Exception):
    """A call has failed. ``status`` is a negative number of ``errno``, or a status of NFS."""

    def __init__(self, what: str, status: int, said: str) -> None:
        super().__init__(f"{what}: {said}")
        self.status = status


class _Url(ctypes.Structure):
    _fields_ = (("server", ctypes.c_char_p), ("path", ctypes.c_char_p), ("file", ctypes.c_char_p))


class Share:
    """The share of an address ``nfs://HOST/SHARE?...``. Each call waits for its answer.

    Raises:
        NfsError: by each call that fails.
    """

    def __init__(self, url: str) -> None:
        pointer, text, out = ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)
        library = ctypes.CDLL(_LIBRARY)
        for name, *arguments in (
            ("nfs_parse_url_dir", text),
            ("nfs_get_error",),
            ("nfs_mount", text, text),
            ("nfs_creat", text, ctypes.c_int, out),
            ("nfs_open", text, ctypes.c_int, out),
            ("nfs_open2", text, ctypes.c_int, ctypes.c_int, out),
            ("nfs_write", pointer, ctypes.c_uint64, text),
            ("nfs_pwrite", pointer, ctypes.c_uint64, ctypes.c_uint64, text),
            ("nfs_read", pointer, ctypes.c_uint64, text),
            ("nfs_fsync", pointer),
            ("nfs_close", pointer),
            ("nfs_rename", text, text),
            ("nfs_unlink", text),
            ("nfs_mkdir", text),
            ("nfs_rmdir", text),
            ("nfs_truncate", text, ctypes.c_uint64),
            ("nfs_chmod", text, ctypes.c_int),
            ("nfs_utimes", text, pointer),
            ("nfs_opendir", text, out),
            ("nfs_readdir", pointer),
            ("nfs_closedir", pointer),
        ):
            getattr(library, name).argtypes = (pointer, *arguments)
        library.nfs_destroy_context.argtypes = (pointer,)
        library.nfs_destroy_context.restype = None
        library.nfs_init_context.restype = library.nfs_readdir.restype = pointer
        library.nfs_parse_url_dir.restype = ctypes.POINTER(_Url)
        library.nfs_get_error.restype = text
        self._library: Any = library
        self._context = library.nfs_init_context()
        parsed = library.nfs_parse_url_dir(self._context, url.encode())
        if not parsed:
            raise self._error(url, -1)
        self._call(f"mounting {url}", "nfs_mount", parsed.contents.server, parsed.contents.path)

    def _error(self, what: str, status: int) -> NfsError:
        said: bytes = self._library.nfs_get_error(self._context) or b""
        # Of a write that was refused libnfs prints the bytes of the status.
        raw = re.search(rb'failed with "([^"]{1,2})"', said)
        if raw is not None:
            status = int.from_bytes(raw[1], "little")
            said = _STATUS.get(status, f"NFS status {status}").encode()
        return NfsError(what, status, said.decode(errors="replace"))

    def _call(self, what: str, function: str, *arguments: Any) -> int:
        status = getattr(self._library, function)(self._context, *arguments)
        if status < 0:
            raise self._error(what, status)
        return status

    def create(self, name: str) -> ctypes.c_void_p:
        """An empty file, open."""
        file = ctypes.c_void_p()
        self._call(name, "nfs_creat", f"/{name}".encode(), 0o644, ctypes.byref(file))
        return file

    def open(self, name: str) -> ctypes.c_void_p:
        """A file, open to be read."""
        file = ctypes.c_void_p()
        self._call(name, "nfs_open", f"/{name}".encode(), os.O_RDONLY, ctypes.byref(file))
        return file

    def open_to_write(self, name: str, flags: int, mode: int = 0o644) -> ctypes.c_void_p:
        """A file, open to be written. With ``os.O_SYNC`` among the flags each write is on the server's disk."""
        file = ctypes.c_void_p()
        self._call(name, "nfs_open2", f"/{name}".encode(), os.O_WRONLY | flags, mode, ctypes.byref(file))
        return file

    def write_at(self, file: ctypes.c_void_p, offset: int, body: bytes) -> None:
        """Write bytes at an offset, all of them."""
        while body:
            count = self._call("write", "nfs_pwrite", file, offset, len(body), body)
            body, offset = body[count:], offset + count

    def write(self, file: ctypes.c_void_p, body: bytes) -> None:
        """Append bytes, all of them."""
        while body:
            body = body[self._call("write", "nfs_write", file, len(body), body) :]

    def read(self, file: ctypes.c_void_p, buffer: Any) -> bytes:
        """The next bytes; none at the end."""
        count = self._call("read", "nfs_read", file, len(buffer), buffer)
        return buffer.raw[:count]

    def sync(self, file: ctypes.c_void_p) -> None:
        """Commit what was written."""
        self._call("sync", "nfs_fsync", file)

    def close(self, file: ctypes.c_void_p) -> None:
        self._call("close", "nfs_close", file)

    def rename(self, name: str, other: str) -> None:
        self._call(f"rename of {name}", "nfs_rename", f"/{name}".encode(), f"/{other}".encode())

    def remove(self, name: str) -> None:
        self._call(f"removal of {name}", "nfs_unlink", f"/{name}".encode())

    def make_folder(self, name: str) -> None:
        self._call(f"folder {name}", "nfs_mkdir", f"/{name}".encode())

    def remove_folder(self, name: str) -> None:
        self._call(f"removal of {name}", "nfs_rmdir", f"/{name}".encode())

    def truncate(self, name: str, size: int) -> None:
        self._call(f"truncation of {name}", "nfs_truncate", f"/{name}".encode(), size)

    def set_mode(self, name: str, mode: int) -> None:
        self._call(f"mode of {name}", "nfs_chmod", f"/{name}".encode(), mode)

    def set_modified(self, name: str, microseconds: int) -> None:
        """Set the time of a file, both of access and of change, in microseconds since the epoch."""
        times = (ctypes.c_long * 4)(*divmod(microseconds, 1_000_000) * 2)
        self._call(f"time of {name}", "nfs_utimes", f"/{name}".encode(), times)

    def end(self) -> None:
        """Leave the share. No call follows."""
        self._library.nfs_destroy_context(self._context)

    def count(self, folder: str) -> int:
        """Number of names in a folder."""
        found, opened = 0, ctypes.c_void_p()
        self._call(folder, "nfs_opendir", f"/{folder}".encode(), ctypes.byref(opened))
        while self._library.nfs_readdir(self._context, opened):
            found += 1
        self._library.nfs_closedir(self._context, opened)
        # The folder itself and the one above it.
        return found - 2
