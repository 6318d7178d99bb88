"""The data that is moved: a number of files of one size, of random bytes that derive from one seed.

Random bytes do not compress and are not found twice, so neither a method nor the storage can spare itself the work.
What was made is known by the SHA-256 of each piece of 8 MiB: files and objects are compared with that, in parallel and
without a second copy.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from seqferry.model.errors import UsageError
from seqferry.model.formatting import count, size
from seqferry.model.frozen import frozen
from seqferry.settings.sizes import parse_size

PIECE: Final = 8 * 1024 * 1024
MOST_FILES: Final = 1_000_000
MOST_BYTES: Final = 5 * 2**40
"""Most bytes of a file: S3's limit for many years. A larger bench is a typing error."""

_FORM: Final = re.compile(r"(?:(\d{1,9})\s*[x*])?\s*(\S+)", re.IGNORECASE)
_UNITS: Final = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))

PieceMaker = Callable[["Workload", int, int, int], bytes]
"""The bytes of one piece: of which workload and file, from which offset, how many."""

Sizes = Mapping[str, int]
"""Bytes of each file, by its name."""

Digests = dict[str, tuple[bytes, ...]]
"""SHA-256 of the pieces of each file, by its name."""


@frozen
class Workload:
    """``files`` files of ``size`` bytes each."""

    files: int
    size: int

    @property
    def total(self) -> int:
        return self.files * self.size

    @property
    def name(self) -> str:
        """Name as it is written on the command line: ``20x256MiB``."""
        return f"{self.files}x{_exact(self.size)}"

    def __str__(self) -> str:
        if self.files == 1:
            return f"1 file of {size(self.size)}"
        return f"{count(self.files, 'file')} of {size(self.size)}, {size(self.total)}"

    def sizes(self) -> dict[str, int]:
        """Bytes of each file, by its name."""
        return {_name(number): self.size for number in range(self.files)}


def pieces(size: int) -> Iterator[tuple[int, int]]:
    """Offset and length of each piece of a file of ``size`` bytes."""
    return ((start, min(PIECE, size - start)) for start in range(0, size, PIECE))


def parse(written: str) -> Workload:
    """``20x256MiB``, or ``2GiB`` for one file of it.

    Raises:
        UsageError: the text has another form, or the files or bytes are none or too many.
    """
    match = _FORM.fullmatch(written.strip())
    try:
        if match is None:
            raise ValueError("it is empty")
        found = Workload(int(match[1] or 1), parse_size(match[2]))
    except ValueError as why:
        raise UsageError(f"--workload {written}: {why}; write for example 2GiB, 20x256MiB or 10000x100KiB.") from None
    if not 1 <= found.files <= MOST_FILES:
        raise UsageError(f"--workload {written}: between 1 and {MOST_FILES:,} files can be moved.")
    if not 1 <= found.size <= MOST_BYTES:
        raise UsageError(f"--workload {written}: a file has between 1 byte and {size(MOST_BYTES)}.")
    return found


def random_pieces(seed: int) -> PieceMaker:
    """The same bytes for the same seed, on every machine."""

    def make(workload: Workload, file: int, start: int, length: int) -> bytes:
        return random.Random(f"{seed}/{workload.name}/{file}/{start}").randbytes(length)  # noqa: S311 - not for secrets

    return make


def write(folder: Path, workload: Workload, piece: PieceMaker) -> Digests:
    """Writes all files of a workload into an empty folder; returns what they hold."""
    found: Digests = {}
    for number, (name, whole) in enumerate(workload.sizes().items()):
        digests: list[bytes] = []
        with (folder / name).open("wb") as file:
            for start, length in pieces(whole):
                content = piece(workload, number, start, length)
                digests.append(hashlib.sha256(content).digest())
                file.write(content)
        found[name] = tuple(digests)
    return found


def _name(number: int) -> str:
    return f"{number:06d}.bin"


def _exact(size: int) -> str:
    for unit, factor in _UNITS:
        if size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)
