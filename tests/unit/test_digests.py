"""Digests of contents: known values, any cuts of the bytes, and digests over parts."""

from __future__ import annotations

import base64
import hashlib
import random
import zlib

import pytest

from seqferry import digests
from seqferry.digests import Crc, Digest

MIB = 1024 * 1024
CRCS = {"CRC64NVME": (64, 0x9A6C9329AC4BC9B5), "CRC32C": (32, 0x82F63B78), "CRC32": (32, 0xEDB88320)}


def _bitwise(width: int, polynomial: int, data: bytes) -> bytes:
    state = (1 << width) - 1
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (polynomial if state & 1 else 0)
    return (state ^ ((1 << width) - 1)).to_bytes(width // 8, "big")


@pytest.mark.parametrize(
    ("name", "value"), [("CRC64NVME", "ae8b14860a799888"), ("CRC32C", "e3069283"), ("CRC32", "cbf43926")]
)
def test_a_crc_has_the_check_value_of_its_catalogue(name: str, value: str) -> None:
    crc = Crc(*CRCS[name])
    crc.update(b"123456789")
    assert crc.digest().hex() == value


@pytest.mark.parametrize("name", CRCS)
@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 127, 128, 129, 1000, 4099])
def test_a_crc_is_that_of_its_definition_however_the_bytes_are_cut(name: str, length: int, rng: random.Random) -> None:
    data, cut = rng.randbytes(length), rng.randrange(length + 1)
    crc = Crc(*CRCS[name])
    crc.update(data[:cut])
    crc.update(data[cut:])
    assert crc.digest() == _bitwise(*CRCS[name], data)


def test_a_long_crc_is_that_of_the_library(rng: random.Random) -> None:
    data = rng.randbytes(MIB + 5)
    crc = Crc(*CRCS["CRC32"])
    crc.update(data)
    assert crc.digest() == zlib.crc32(data).to_bytes(4, "big")


@pytest.mark.parametrize("recorded", [5 * MIB, None])
def test_an_etag_of_parts_is_compared(recorded: int | None, rng: random.Random) -> None:
    data = rng.randbytes(11 * MIB)
    parts = [hashlib.md5(data[at : at + 5 * MIB]).digest() for at in range(0, len(data), 5 * MIB)]
    etag = f"{hashlib.md5(b''.join(parts)).hexdigest()}-3"
    wanted = digests.expected(len(data), checksum_algorithm=None, checksum=None, etag=etag, part_size=recorded)
    assert wanted is not None
    for content, fits in ((data, True), (data[:-1] + b"?", False)):
        digest = Digest(wanted)
        for at in range(0, len(content), 3 * MIB):
            digest.update(content[at : at + 3 * MIB])
        assert digest.fits() is fits


def test_a_checksum_of_parts_is_compared() -> None:
    parts = [hashlib.sha256(each).digest() for each in (b"a" * 5 * MIB, b"b")]
    value = base64.b64encode(hashlib.sha256(b"".join(parts)).digest()).decode()
    wanted = digests.expected(
        5 * MIB + 1, checksum_algorithm="SHA256", checksum=f"{value}-2", etag="x", part_size=5 * MIB
    )
    assert wanted is not None
    digest = Digest(wanted)
    digest.update(b"a" * 5 * MIB + b"b")
    assert digest.fits()


def test_an_etag_that_is_no_digest_is_not_compared() -> None:
    assert digests.expected(1, checksum_algorithm=None, checksum=None, etag="0xABC", part_size=None) is None
