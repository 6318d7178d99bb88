"""Reads files as programs do, in a process of its own: ``bench_mount.py`` starts it and can end it.

Prints one JSON object: the median and the 95th percentile of single reads in milliseconds where they are measured, and
a digest of all bytes in the order in which they were read.

Usage: mount_reads.py random FILE SEED COUNT SIZE | tar ARCHIVE SEED COUNT | members FOLDER SEED COUNT | digest FILE
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import tarfile
import time
from pathlib import Path


def places(seed: int, count: int, size: int, length: int) -> list[int]:
    """Where the random reads begin, aligned to their size."""
    chooser = random.Random(seed)
    return [chooser.randrange(length // size) * size for _ in range(count)]


def members(seed: int, count: int, names: list[str]) -> list[str]:
    """Which members are read, in the order in which they are."""
    return random.Random(seed).sample(sorted(names), min(count, len(names)))


def read_random(path: Path, seed: int, count: int, size: int) -> dict[str, float | str]:
    digest, took = hashlib.sha256(), []
    with path.open("rb", buffering=0) as file:
        for place in places(seed, count, size, os.fstat(file.fileno()).st_size):
            began = time.perf_counter()
            read = os.pread(file.fileno(), size, place)
            took.append(time.perf_counter() - began)
            digest.update(read)
    took.sort()
    at = {"p50_ms": took[len(took) // 2] * 1000, "p95_ms": took[len(took) * 95 // 100] * 1000}
    return {**at, "digest": digest.hexdigest()}


def read_tar(path: Path, seed: int, count: int) -> dict[str, str]:
    digest = hashlib.sha256()
    with tarfile.open(path, "r:") as archive:
        index = {member.name: member for member in archive.getmembers()}
        for name in members(seed, count, list(index)):
            file = archive.extractfile(index[name])
            assert file is not None
            digest.update(file.read())
    return {"digest": digest.hexdigest()}


def read_members(folder: Path, seed: int, count: int) -> dict[str, str]:
    digest = hashlib.sha256()
    for name in members(seed, count, [f"members/{found.name}" for found in (folder / "members").iterdir()]):
        digest.update((folder / name).read_bytes())
    return {"digest": digest.hexdigest()}


def digest_of(path: Path) -> dict[str, str]:
    with path.open("rb") as file:
        return {"digest": hashlib.file_digest(file, "sha256").hexdigest()}


def main() -> None:
    what, path = sys.argv[1], Path(sys.argv[2])
    numbers = [int(word) for word in sys.argv[3:]]
    reads = {"random": read_random, "tar": read_tar, "members": read_members, "digest": digest_of}
    print(json.dumps(reads[what](path, *numbers)))


if __name__ == "__main__":
    main()
