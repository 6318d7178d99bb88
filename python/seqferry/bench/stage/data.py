"""The user's data: what lies below the prefix, whether it can be staged as files, its digests, and one tar of it."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from seqferry.bench.storage import CONNECTIONS, Storage
from seqferry.bench.workload import Digests, pieces
from seqferry.cost import requests
from seqferry.model.errors import StorageError, UsageError
from seqferry.model.formatting import count, printable, size
from seqferry.model.frozen import frozen

MOST_OBJECTS: Final = 100_000
"""Each way creates so many files in each of its runs."""
_MOST_NAME: Final = 255
"""Bytes of a name in a folder: the limit of Linux file systems."""
_MOUNT_READ: Final = 8 * 2**20
"""Bytes of a request of a mount that reads on, about (``seqferry.cost.stage``)."""


@frozen
class Dataset:
    """Files of a prefix by their names below it, with their sizes, in the order of their names."""

    uri: str
    """With a slash at its end."""
    files: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.files.values())

    @property
    def mean(self) -> int:
        return self.total // len(self.files)

    def __str__(self) -> str:
        each = f"of {size(self.mean)}" + (" on average" if len(set(self.files.values())) > 1 else "")
        return f"{count(len(self.files), 'file')} {each}"

    def share(self, percent: float) -> list[str]:
        """Names of so many percent of the files, spread evenly over them; at least one."""
        names = list(self.files)
        wanted = max(1, round(len(names) * percent / 100))
        return [names[number * len(names) // wanted] for number in range(wanted)]

    def requests_of_files(self) -> int:
        """Requests that download all files one by one, with their listing."""
        gets = sum(requests.count_parts(each, inside=False) for each in self.files.values())
        return gets + self.listings()

    def requests_of_mount(self, names: Iterable[str]) -> int:
        """Requests that read these files by a mount, with its listing."""
        return self.listings() + sum(max(1, -(-self.files[name] // _MOUNT_READ)) for name in names)

    def listings(self) -> int:
        return -(-len(self.files) // requests.PAGE)


def look(storage: Storage, key: str) -> Dataset:
    """Looks at the objects below a key, which ends with a slash or is empty.

    Raises:
        UsageError: there is nothing, too much, or a name that no file can have.
        StorageError: it cannot be listed.
    """
    uri = f"s3://{storage.place.bucket}/{key}"
    found = {name.removeprefix(key): length for name, length in storage.listing(key, MOST_OBJECTS + 1).items()}
    files = {name: found[name] for name in sorted(found) if name and not name.endswith("/")}
    if not files:
        raise UsageError(f"Nothing is below {uri}: give a prefix with the input of a task.")
    if len(found) > MOST_OBJECTS:
        raise UsageError(f"{uri} has more than {MOST_OBJECTS:,} objects, and the bench takes no more.")
    folders = {parent for name in files for parent in _parents(name)}
    for name in files:
        parts = name.split("/")
        if name in folders or any(part in ("", ".", "..") or len(part.encode()) > _MOST_NAME for part in parts):
            raise UsageError(
                f"{uri}{printable(name)} cannot be a file in a folder; choose a prefix without such names."
            )
        if "\0" in name or "\n" in name:
            raise UsageError(f"{uri}{printable(name)}: a name with a line break cannot be staged by all of the tools.")
    return Dataset(uri, files)


def _parents(name: str) -> Iterator[str]:
    at = name.find("/")
    while at >= 0:
        yield name[:at]
        at = name.find("/", at + 1)


def fetch(storage: Storage, key: str, data: Dataset, folder: Path) -> Digests:
    """Downloads all files by boto3, outside of all measured time; the digests of what came.

    Raises:
        StorageError: an object cannot be read, or has changed its size.
    """

    def one(name: str) -> tuple[str, tuple[bytes, ...]]:
        path, digests = folder / name, list[bytes]()
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for start, wanted in pieces(data.files[name]):
                content = storage.read(key + name, start, wanted)
                if len(content) != wanted:
                    raise StorageError(f"GetObject {data.uri}{printable(name)}: it changes while the bench reads it.")
                digests.append(hashlib.sha256(content).digest())
                file.write(content)
        return name, tuple(digests)

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        return dict(pool.map(one, data.files))


def pack(data: Dataset, folder: Path, archive: Path) -> bytes:
    """Writes one tar of the files, in the order of their names; its SHA-256."""
    with tarfile.open(archive, "w") as made:
        for name in data.files:
            member = tarfile.TarInfo(name)
            member.size = data.files[name]
            with (folder / name).open("rb") as file:
                made.addfile(member, file)
    return digest_of(archive)


def digest_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
