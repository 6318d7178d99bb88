"""Work on a share by libnfs, one call at a time: ``python share_client.py URL WORK FILE NUMBER BYTES``.

It prints what it measured as one line of JSON. ``WORK`` is one of these:

- ``write``: a file of ``BYTES``, in pieces of 1 MiB, and one sync: ``seconds``.
- ``read``: a whole file in pieces of 1 MiB: ``seconds``, and ``sha256`` of it.
- ``sync``: ``NUMBER`` pieces of ``BYTES`` to one file, each synced: ``ms`` of each piece.
- ``append``: a file of ``BYTES``, in pieces of 64 KiB, under a name with ``.tmp``, synced, closed and renamed then:
  ``seconds``.
- ``create``: ``NUMBER`` files of ``BYTES``, each written, synced and closed: ``seconds``.
- ``list``: the folder ``FILE``: ``seconds``, and the ``names`` that were found.

What is written follows from name and position (``piece``), so that others can tell it from other bytes.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import sys
import time
from typing import Any, Final

PIECE: Final = 1 << 20
APPENDED: Final = 1 << 16
"""Bytes that an instrument writes at a time."""
_LIBRARY: Final = "libnfs.so.13"


def piece(name: str, number: int, size: int) -> bytes:
    """Bytes of a file's piece."""
    return hashlib.shake_128(f"{name} {number}".encode()).digest(size)


class Share:
    """A share that libnfs has mounted."""

    def __init__(self, url: str) -> None:
        pointer, text = ctypes.c_void_p, ctypes.c_char_p
        library = ctypes.CDLL(_LIBRARY)
        library.nfs_init_context.restype = pointer
        library.nfs_parse_url_dir.argtypes = (pointer, text)
        library.nfs_parse_url_dir.restype = ctypes.POINTER(_Url)
        library.nfs_get_error.argtypes = (pointer,)
        library.nfs_get_error.restype = text
        library.nfs_mount.argtypes = (pointer, text, text)
        library.nfs_creat.argtypes = (pointer, text, ctypes.c_int, ctypes.POINTER(pointer))
        library.nfs_open.argtypes = (pointer, text, ctypes.c_int, ctypes.POINTER(pointer))
        library.nfs_write.argtypes = (pointer, pointer, ctypes.c_uint64, text)
        library.nfs_read.argtypes = (pointer, pointer, ctypes.c_uint64, text)
        library.nfs_fsync.argtypes = (pointer, pointer)
        library.nfs_close.argtypes = (pointer, pointer)
        library.nfs_rename.argtypes = (pointer, text, text)
        library.nfs_opendir.argtypes = (pointer, text, ctypes.POINTER(pointer))
        library.nfs_readdir.argtypes = (pointer, pointer)
        library.nfs_readdir.restype = pointer
        library.nfs_closedir.argtypes = (pointer, pointer)
        self._library: Any = library
        self._context = library.nfs_init_context()
        parsed = library.nfs_parse_url_dir(self._context, url.encode())
        if not parsed:
            self._fail(f"the address {url}")
        self._call("mount", "nfs_mount", parsed.contents.server, parsed.contents.path)

    def _fail(self, what: str) -> None:
        sys.exit(f"{what}: {(self._library.nfs_get_error(self._context) or b'').decode(errors='replace')}")

    def _call(self, what: str, function: str, *arguments: Any) -> int:
        status = getattr(self._library, function)(self._context, *arguments)
        if status < 0:
            self._fail(what)
        return status

    def create(self, name: str) -> ctypes.c_void_p:
        """A new file, open."""
        file = ctypes.c_void_p()
        self._call(name, "nfs_creat", f"/{name}".encode(), 0o644, ctypes.byref(file))
        return file

    def open(self, name: str) -> ctypes.c_void_p:
        """A file, open to be read."""
        file = ctypes.c_void_p()
        self._call(name, "nfs_open", f"/{name}".encode(), os.O_RDONLY, ctypes.byref(file))
        return file

    def write(self, file: ctypes.c_void_p, body: bytes) -> None:
        """Append bytes, all of them."""
        while body:
            body = body[self._call("write", "nfs_write", file, len(body), body) :]

    def read(self, file: ctypes.c_void_p, buffer: Any) -> bytes:
        """The next bytes; none at the end."""
        count = self._call("read", "nfs_read", file, len(buffer), buffer)
        return buffer.raw[:count]

    def sync(self, file: ctypes.c_void_p) -> None:
        self._call("sync", "nfs_fsync", file)

    def close(self, file: ctypes.c_void_p) -> None:
        self._call("close", "nfs_close", file)

    def rename(self, name: str, other: str) -> None:
        self._call(name, "nfs_rename", f"/{name}".encode(), f"/{other}".encode())

    def count(self, folder: str) -> int:
        """Number of names in a folder."""
        found, opened = 0, ctypes.c_void_p()
        self._call(folder, "nfs_opendir", f"/{folder}".encode(), ctypes.byref(opened))
        while self._library.nfs_readdir(self._context, opened):
            found += 1
        self._library.nfs_closedir(self._context, opened)
        # The folder itself and the one above it.
        return found - 2


class _Url(ctypes.Structure):
    _fields_ = (("server", ctypes.c_char_p), ("path", ctypes.c_char_p), ("file", ctypes.c_char_p))


def _write(share: Share, name: str, _: int, size: int) -> dict[str, Any]:
    pieces = [piece(name, number, min(PIECE, size - number * PIECE)) for number in range(-(-size // PIECE))]
    began = time.perf_counter()
    file = share.create(name)
    for body in pieces:
        share.write(file, body)
    share.sync(file)
    share.close(file)
    return {"seconds": time.perf_counter() - began}


def _read(share: Share, name: str, _: int, size: int) -> dict[str, Any]:
    buffer, bodies = ctypes.create_string_buffer(PIECE), list[bytes]()
    began = time.perf_counter()
    file = share.open(name)
    while body := share.read(file, buffer):
        bodies.append(body)
    share.close(file)
    seconds = time.perf_counter() - began
    digest = hashlib.sha256()
    for body in bodies:
        digest.update(body)
    return {"seconds": seconds, "sha256": digest.hexdigest(), "size": sum(map(len, bodies)), "wanted": size}


def _sync(share: Share, name: str, count: int, size: int) -> dict[str, Any]:
    pieces = [piece(name, number, size) for number in range(count)]
    file, took = share.create(name), list[float]()
    for body in pieces:
        began = time.perf_counter()
        share.write(file, body)
        share.sync(file)
        took.append(1000 * (time.perf_counter() - began))
    share.close(file)
    return {"ms": took}


def _append(share: Share, name: str, _: int, size: int) -> dict[str, Any]:
    began = time.perf_counter()
    file = share.create(f"{name}.tmp")
    for number in range(-(-size // APPENDED)):
        share.write(file, piece(name, number, min(APPENDED, size - number * APPENDED)))
    share.sync(file)
    share.close(file)
    share.rename(f"{name}.tmp", name)
    return {"seconds": time.perf_counter() - began}


def _create(share: Share, name: str, count: int, size: int) -> dict[str, Any]:
    bodies = {f"{name}-{number:05d}": piece(f"{name}-{number:05d}", 0, size) for number in range(count)}
    began = time.perf_counter()
    for path, body in bodies.items():
        file = share.create(path)
        share.write(file, body)
        share.sync(file)
        share.close(file)
    return {"seconds": time.perf_counter() - began}


def _list(share: Share, name: str, _count: int, _size: int) -> dict[str, Any]:
    began = time.perf_counter()
    names = share.count(name)
    return {"seconds": time.perf_counter() - began, "names": names}


_WORKS: Final = {"write": _write, "read": _read, "sync": _sync, "append": _append, "create": _create, "list": _list}


def main(url: str, work: str, name: str, count: str, size: str) -> None:
    """Do the work and print what was measured."""
    print(json.dumps(_WORKS[work](Share(url), name, int(count), int(size))))


if __name__ == "__main__":
    main(*sys.argv[1:])
