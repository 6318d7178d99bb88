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
import sys
import time
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.libnfs import NfsError, Share

PIECE: Final = 1 << 20
APPENDED: Final = 1 << 16
"""Bytes that an instrument writes at a time."""


def piece(name: str, number: int, size: int) -> bytes:
    """Bytes of a file's piece."""
    return hashlib.shake_128(f"{name} {number}".encode()).digest(size)


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
    try:
        main(*sys.argv[1:])
    except NfsError as error:
        sys.exit(str(error))
