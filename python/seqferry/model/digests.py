"""Digests that receipts hold of the bytes of objects: checksums of S3, and ETags that are MD5.

``expected`` chooses what a recorded object can be compared with. The engine computes what its bytes have.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_MIB: Final = 1024 * 1024
_MD5_ETAG: Final = re.compile(r"([0-9a-f]{32})(?:-([1-9][0-9]{0,4}))?")
_PART_SIZES: Final = tuple(mib * _MIB for mib in (5, 8, 16, 32, 64, 128, 256, 512, 1024, 10, 15, 25, 50, 100))
"""Sizes of parts that clients use, those that are likely first."""
_GUESSES: Final = 3
_CHECKSUMS: Final = ("CRC64NVME", "CRC32C", "CRC32", "SHA1", "SHA256")


@dataclass(frozen=True, slots=True)
class ExpectedDigest:
    """A digest that the content of an object is compared with.

    Attributes:
        name: for a person, as ``CRC64NVME`` or ``ETag``.
        value: in base64 for a checksum, in hexadecimal for an ETag; over parts with their number at its end.
        algorithm: as the engine calls it, as ``CRC64NVME`` or ``MD5``.
        part_sizes: of a digest over the digests of parts: sizes that its parts may have; empty: it is over all bytes.
    """

    name: str
    value: str
    algorithm: str
    part_sizes: tuple[int, ...] = ()


def expected(
    size: int, *, checksum_algorithm: str | None, checksum: str | None, etag: str | None, part_size: int | None
) -> ExpectedDigest | None:
    """The digest that an object of ``size`` bytes is compared with; None when nothing on record covers its bytes."""
    algorithm = (checksum_algorithm or "").upper()
    if checksum and algorithm in _CHECKSUMS:
        _, _, count = checksum.partition("-")
        sizes = _sizes(size, int(count), part_size) if count.isdecimal() else ()
        if not count or sizes:
            return ExpectedDigest(algorithm, checksum.removesuffix("-"), algorithm, sizes)
    found = _MD5_ETAG.fullmatch((etag or "").strip('"').lower())
    if found is None:
        return None
    if found[2] is None:
        return ExpectedDigest("ETag", found[0], "MD5")
    sizes = _sizes(size, int(found[2]), part_size)
    return ExpectedDigest("ETag", found[0], "MD5", sizes) if sizes else None


def _sizes(size: int, count: int, recorded: int | None) -> tuple[int, ...]:
    """Part sizes that give ``count`` parts, the recorded one first."""
    if count == 1:
        return (max(size, 1),)
    likely = [recorded] if recorded else []  # 0: parts of unknown sizes
    fitting = [one for one in (*likely, *_PART_SIZES) if -(-size // one) == count]
    return tuple(dict.fromkeys(fitting))[: 1 if recorded in fitting else _GUESSES]
