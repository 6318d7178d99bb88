"""Digests of contents for receipts: checksums of S3, and ETags that are MD5, computed in bounded memory.

``expected`` chooses what a recorded object can be compared with; ``Digest`` takes its bytes in order.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final, Protocol

_MIB: Final = 1024 * 1024
_MD5_ETAG: Final = re.compile(r"([0-9a-f]{32})(?:-([1-9][0-9]{0,4}))?")
_PART_SIZES: Final = tuple(mib * _MIB for mib in (5, 8, 16, 32, 64, 128, 256, 512, 1024, 10, 15, 25, 50, 100))
"""Sizes of parts that clients use, those that are likely first."""
_GUESSES: Final = 3


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def digest(self) -> bytes: ...


class Crc:
    """A reflected CRC with all bits set at its start and inverted at its end, as S3 has them.

    The bytes are one polynomial over GF(2). Half of it is folded onto the other half again and again, by shifts of
    long integers: some 80 MB/s, where a table takes 5.
    """

    def __init__(self, width: int, polynomial: int) -> None:
        """Args: ``polynomial`` is reflected, as in tables."""
        self._width: Final = width
        self._polynomial: Final = polynomial
        self._state = (1 << width) - 1

    def update(self, data: bytes) -> None:
        if len(data) < self._width:
            self._state = self._by_table(data, self._state)
            return
        # The state goes over the first bits of what follows.
        folded = int.from_bytes(data, "little") ^ self._state
        length = 8 * len(data)
        while length > 4 * self._width:
            low = (length + 1) // 2
            high_bits = length - low
            high = folded & ((1 << high_bits) - 1)
            result = (folded >> high_bits) << self._width
            offset = 2 * low - length + self._width
            for power in _powers(self._width, self._polynomial, low):
                result ^= high << (offset - power)
            folded, length = result, low + self._width
        padding = -length % 8
        self._state = self._by_table((folded << padding).to_bytes((length + padding) // 8, "little"), 0)

    def digest(self) -> bytes:
        return (self._state ^ ((1 << self._width) - 1)).to_bytes(self._width // 8, "big")

    def _by_table(self, data: bytes, state: int) -> int:
        table = _table(self._polynomial)
        for byte in data:
            state = table[(state ^ byte) & 0xFF] ^ (state >> 8)
        return state


@cache
def _table(polynomial: int) -> tuple[int, ...]:
    def entry(value: int) -> int:
        for _ in range(8):
            value = (value >> 1) ^ (polynomial if value & 1 else 0)
        return value

    return tuple(map(entry, range(256)))


@cache
def _powers(width: int, polynomial: int, exponent: int) -> tuple[int, ...]:
    """The powers of x that x to the ``exponent`` is made of, modulo the polynomial."""
    # Not reflected: bit k is the coefficient of the k-th power.
    modulus = int(f"{polynomial:0{width}b}"[::-1], 2) | 1 << width
    found = 1
    for bit in f"{exponent:b}":
        found = _remainder(_spread(found), modulus, width)
        if bit == "1":
            found = _remainder(found << 1, modulus, width)
    return tuple(power for power in range(width) if found >> power & 1)


def _spread(value: int) -> int:
    """The square of a polynomial: a zero between each two coefficients."""
    return int("0".join(f"{value:b}"), 2)


def _remainder(value: int, modulus: int, width: int) -> int:
    while (over := value.bit_length() - 1 - width) >= 0:
        value ^= modulus << over
    return value


class _Crc32:
    def __init__(self) -> None:
        self._state = 0

    def update(self, data: bytes) -> None:
        self._state = zlib.crc32(data, self._state)

    def digest(self) -> bytes:
        return self._state.to_bytes(4, "big")


_ALGORITHMS: Final[dict[str, Callable[[], _Hash]]] = {
    "CRC64NVME": lambda: Crc(64, 0x9A6C9329AC4BC9B5),
    "CRC32C": lambda: Crc(32, 0x82F63B78),
    "CRC32": _Crc32,
    "SHA1": lambda: hashlib.sha1(usedforsecurity=False),
    "SHA256": hashlib.sha256,
}


def _md5() -> _Hash:
    return hashlib.md5(usedforsecurity=False)


@dataclass(frozen=True, slots=True)
class Expected:
    """What the content of an object is compared with.

    Attributes:
        name: for a person, as ``CRC64NVME`` or ``ETag``.
        value: in base64 for a checksum, in hexadecimal for an ETag.
        part_sizes: of a digest over the digests of parts: sizes that its parts may have; empty: it is over all bytes.
    """

    name: str
    value: str
    algorithm: Callable[[], _Hash]
    part_sizes: tuple[int, ...] = ()


def expected(
    size: int, *, checksum_algorithm: str | None, checksum: str | None, etag: str | None, part_size: int | None
) -> Expected | None:
    """What a recorded object of ``size`` bytes can be compared with; None when nothing on record covers its bytes."""
    if checksum and checksum_algorithm and (algorithm := _ALGORITHMS.get(checksum_algorithm.upper())) is not None:
        value, _, count = checksum.partition("-")
        sizes = _sizes(size, int(count), part_size) if count.isdecimal() else ()
        if not count or sizes:
            return Expected(checksum_algorithm.upper(), value, algorithm, sizes)
    found = _MD5_ETAG.fullmatch((etag or "").strip('"').lower())
    if found is None:
        return None
    if found[2] is None:
        return Expected("ETag", found[1], _md5)
    sizes = _sizes(size, int(found[2]), part_size)
    return Expected("ETag", found[1], _md5, sizes) if sizes else None


def _sizes(size: int, count: int, recorded: int | None) -> tuple[int, ...]:
    """Sizes of parts that give so many of them, the recorded one first."""
    if count == 1:
        return (max(size, 1),)
    likely = [] if recorded is None else [recorded]
    fitting = [one for one in (*likely, *_PART_SIZES) if -(-size // one) == count]
    return tuple(dict.fromkeys(fitting))[: 1 if recorded in fitting else _GUESSES]


class Digest:
    """Takes the bytes of one object in their order, and says whether they are those that were expected."""

    def __init__(self, wanted: Expected) -> None:
        self._wanted: Final = wanted
        self._whole: Final = None if wanted.part_sizes else wanted.algorithm()
        self._parts: Final = [_Parts(size, wanted.algorithm) for size in wanted.part_sizes]

    def update(self, data: bytes) -> None:
        if self._whole is not None:
            self._whole.update(data)
        for parts in self._parts:
            parts.update(data)

    def fits(self) -> bool:
        found = [one.digest() for one in (self._parts if self._whole is None else [self._whole])]
        return self._wanted.value in [self._text(one) for one in found]

    def shown(self) -> str:
        """What the bytes have, as far as it can be told."""
        one = self._parts[0] if self._whole is None else self._whole
        return f"{self._wanted.name} {self._text(one.digest())}"

    def _text(self, digest: bytes) -> str:
        return digest.hex() if self._wanted.name == "ETag" else base64.b64encode(digest).decode()


class _Parts:
    """A digest over the digests of parts."""

    def __init__(self, size: int, algorithm: Callable[[], _Hash]) -> None:
        self._size: Final = size
        self._algorithm: Final = algorithm
        self._digests = algorithm()
        self._part = algorithm()
        self._filled = 0

    def update(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            piece = data[at : at + self._size - self._filled]
            self._part.update(piece)
            at += len(piece)
            self._filled += len(piece)
            if self._filled == self._size:
                self._end_part()

    def digest(self) -> bytes:
        if self._filled:
            self._end_part()
        return self._digests.digest()

    def _end_part(self) -> None:
        self._digests.update(self._part.digest())
        self._part, self._filled = self._algorithm(), 0
