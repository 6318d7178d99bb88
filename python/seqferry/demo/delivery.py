"""A delivery as a sequencing core sends it: FASTQ pairs, a few small files, and ``md5sum.txt`` over all of them.

Deterministic: the same seed and scale give the same bytes on every machine. The FASTQ files are valid gzip whose
content is random bytes in stored blocks: random data does not compress anyway, and this is made as fast as it can be
hashed. Nothing is held in memory but a few blocks.
"""

from __future__ import annotations

import hashlib
import random
import struct
import zlib
from collections.abc import Iterator
from typing import Final

from seqferry.model.frozen import frozen

MIB: Final = 1024 * 1024
SUMS_NAME: Final = "md5sum.txt"

_SAMPLES: Final = ("HG001", "HG002", "HG003", "HG004", "HG005", "HG006", "HG007")
_LANES: Final = (1, 2, 3, 4)
_GIANTS: Final = {
    "HG002_S2_L001_R1_001.fastq.gz": 168 * MIB,
    "HG002_S2_L001_R2_001.fastq.gz": 152 * MIB,
    "HG005_S5_L003_R1_001.fastq.gz": 136 * MIB,
}
"""Over 128 MiB, from where on objects are copied in parts by default."""
_ORDINARY: Final = (4 * MIB, 16 * MIB)

_STORED_BLOCK: Final = 65535
"""Most bytes of a stored block of deflate (RFC 1951, 3.2.4)."""
_GZIP_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_CHUNK: Final = 64 * _STORED_BLOCK


@frozen
class DeliveryFile:
    """One file. ``random_bytes`` is the length of the content of a FASTQ file; other files have their ``text``."""

    name: str
    seed: str
    random_bytes: int = 0
    text: str | None = None

    @property
    def size(self) -> int:
        """Bytes of the file itself."""
        if self.text is not None:
            return len(self.text.encode())
        blocks = max(-(-self.random_bytes // _STORED_BLOCK), 1)
        return len(_GZIP_HEADER) + self.random_bytes + 5 * blocks + 8

    def chunks(self) -> Iterator[bytes]:
        """The bytes of the file, a few MiB at a time."""
        if self.text is not None:
            yield self.text.encode()
            return
        source = random.Random(self.seed)  # noqa: S311 - test data
        yield _GZIP_HEADER
        crc, left = 0, self.random_bytes
        while True:
            content = source.randbytes(min(_CHUNK, left))
            left -= len(content)
            crc = zlib.crc32(content, crc)
            yield _make_stored_blocks(content, last=left == 0)
            if left == 0:
                break
        yield struct.pack("<II", crc, self.random_bytes & 0xFFFFFFFF)


def _make_stored_blocks(content: bytes, *, last: bool) -> bytes:
    """``content`` as stored deflate blocks; with ``last`` the final one is marked so."""
    pieces: list[bytes] = []
    view = memoryview(content)
    for start in range(0, max(len(content), 1), _STORED_BLOCK):
        block = view[start : start + _STORED_BLOCK]
        final = last and start + _STORED_BLOCK >= len(content)
        pieces += (struct.pack("<BHH", final, len(block), len(block) ^ 0xFFFF), bytes(block))
    return b"".join(pieces)


class DeliveryReader:
    """A file as a stream for uploads, which hashes what passes through."""

    def __init__(self, file: DeliveryFile) -> None:
        self._chunks = file.chunks()
        self._rest = bytearray()
        self._md5 = hashlib.md5(usedforsecurity=False)

    def read(self, count: int = -1, /) -> bytes:
        while count < 0 or len(self._rest) < count:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            self._rest += chunk
        if count < 0:
            count = len(self._rest)
        piece = bytes(self._rest[:count])
        del self._rest[:count]
        self._md5.update(piece)
        return piece

    def md5(self) -> str:
        """MD5 of the bytes read so far, in hexadecimal."""
        return self._md5.hexdigest()


def make_delivery(*, seed: int = 42, scale: float = 1.0) -> list[DeliveryFile]:
    """About 60 files and 1 GB at ``scale`` 1; ``md5sum.txt`` is not among them, as it needs their sums.

    Args:
        scale: multiplies the sizes of the FASTQ files.
    """
    sizes = random.Random(seed)  # noqa: S311 - test data
    files: list[DeliveryFile] = []
    for number, sample in enumerate(_SAMPLES, start=1):
        for lane in _LANES:
            for read in ("R1", "R2"):
                name = f"{sample}_S{number}_L{lane:03d}_{read}_001.fastq.gz"
                ordinary = sizes.randrange(*_ORDINARY)
                size = int(_GIANTS.get(name, ordinary) * scale)
                files.append(DeliveryFile(f"fastq/{name}", f"{seed}:{name}", random_bytes=size))
    files += [
        DeliveryFile("SampleSheet.csv", "", text=_sample_sheet()),
        DeliveryFile(
            "RunInfo.xml", "", text='<?xml version="1.0"?>\n<RunInfo><Run Id="261120_A00123_0042_AHXYZ"/></RunInfo>\n'
        ),
        DeliveryFile(
            "notes for Dr. Müller – HG002 (re-run).txt", "", text="HG002 was sequenced twice: L001 is the re-run.\n"
        ),
        DeliveryFile("RTAComplete.txt", "", text=""),
    ]
    return files


def sums_text(sums: dict[str, str]) -> str:
    """``md5sum.txt`` in the form that ``md5sum -c`` reads. ``sums`` maps names to hex digests."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items()))


def parse_sums(text: str) -> dict[str, str]:
    """The inverse of ``sums_text``."""
    pairs = (line.split("  ", 1) for line in text.splitlines() if line)
    return {name: digest for digest, name in pairs}


def _sample_sheet() -> str:
    rows = [f"{lane},{sample},{sample}" for sample in _SAMPLES for lane in _LANES]
    return "\n".join(["[Data]", "Lane,Sample_ID,Sample_Name", *rows, ""])
