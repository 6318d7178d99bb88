"""The comparison of what has arrived with its source: names, sizes, and the digest of each piece.

Downloaded files are read from the disk, uploaded objects with ranged GETs by the independent client. Both is done after
the measured time.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Final

from seqferry.bench.storage import CONNECTIONS, Storage
from seqferry.bench.workload import Digests, Sizes, pieces
from seqferry.model.formatting import printable

_SHOWN: Final = 3

_Read = Callable[[str, int, int], bytes]


def files(folder: Path, sizes: Sizes, digests: Digests) -> str | None:
    """Differences between the files of a folder and their source, in one line; None when there are none."""
    found = {
        os.path.relpath(os.path.join(where, name), folder): os.stat(os.path.join(where, name)).st_size  # noqa: PTH116, PTH118 - as os.walk tells
        for where, _, names in os.walk(folder)
        for name in names
    }

    def read(name: str, start: int, length: int) -> bytes:
        with (folder / name).open("rb") as file:
            file.seek(start)
            return file.read(length)

    return _names(found, sizes) or _bytes(sizes, digests, read, os.cpu_count() or 1)


def objects(storage: Storage, below: str, sizes: Sizes, digests: Digests) -> str | None:
    """Verifies the objects below a prefix, as ``files`` does those of a folder.

    Raises:
        StorageError: the objects cannot be listed or read.
    """
    found = {key.removeprefix(below): size for key, size in storage.listing(below).items()}

    def read(name: str, start: int, length: int) -> bytes:
        return storage.read(below + name, start, length)

    return _names(found, sizes) or _bytes(sizes, digests, read, CONNECTIONS)


def _names(found: dict[str, int], wanted: Sizes) -> str | None:
    if found == wanted:
        return None
    missing = sorted(wanted.keys() - found.keys())
    surplus = sorted(found.keys() - wanted.keys())
    wrong = sorted(name for name in wanted.keys() & found.keys() if wanted[name] != found[name])
    differences = [
        f"{len(names)} {what}, first {', '.join(map(printable, names[:_SHOWN]))}"
        for names, what in ((missing, "missing"), (surplus, "unexpected"), (wrong, "of another size"))
        if names
    ]
    return "other files than the source: " + "; ".join(differences)


def _bytes(sizes: Sizes, digests: Digests, read: _Read, readers: int) -> str | None:
    """Compares all pieces; holds at most one piece per reader in memory."""

    def expected() -> Iterator[tuple[str, int, int, bytes]]:
        for name, size in sizes.items():
            for (start, length), digest in zip(pieces(size), digests[name], strict=True):
                yield name, start, length, digest

    def check(piece: tuple[str, int, int, bytes]) -> str | None:
        name, start, length, digest = piece
        content = read(name, start, length)
        if len(content) != length:
            return f"{len(content)} bytes of {printable(name)} at {start} were read where {length} were requested"
        if hashlib.sha256(content).digest() != digest:
            return f"{printable(name)} differs from the source within bytes {start} to {start + length - 1}"
        return None

    todo = expected()
    with ThreadPoolExecutor(readers) as pool:
        while batch := list(islice(todo, readers * 4)):
            for wrong in pool.map(check, batch):
                if wrong is not None:
                    return wrong
    return None
