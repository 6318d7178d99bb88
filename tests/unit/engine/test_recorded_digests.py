"""Digests that receipts hold: which of them covers the bytes of an object, and how it is computed."""

from __future__ import annotations

import pytest

from seqferry.engine.buckets import RecordedDigest

MIB = 1024 * 1024
MD5 = "0123456789abcdef0123456789abcdef"


Found = tuple[str, str, list[int]] | None
"""Name, value and part sizes."""


def _found(
    size: int,
    *,
    checksum_algorithm: str | None = None,
    checksum: str | None = None,
    etag: str | None = None,
    part_size: int | None = None,
) -> Found:
    found = RecordedDigest.of(
        size, checksum_algorithm=checksum_algorithm, checksum=checksum, etag=etag, part_size=part_size
    )
    return None if found is None else (found.name, found.value, found.part_sizes)


@pytest.mark.parametrize("algorithm", ["CRC64NVME", "CRC32C", "CRC32", "SHA1", "SHA256"])
def test_a_checksum_on_record_goes_before_the_etag(algorithm: str) -> None:
    found = _found(7, checksum_algorithm=algorithm.lower(), checksum="AAAA", etag=MD5)
    assert found == (algorithm, "AAAA", [])


def test_an_unknown_checksum_leaves_the_etag() -> None:
    found = _found(7, checksum_algorithm="XXHASH", checksum="AAAA", etag=f'"{MD5.upper()}"')
    assert found == ("ETag", MD5, [])


@pytest.mark.parametrize(
    ("size", "part_size", "tried"),
    [
        (11 * MIB, 5 * MIB, 5 * MIB),
        (12 * MIB, 4 * MIB, 4 * MIB),
        (11 * MIB, None, 5 * MIB),
        (11 * MIB, 6 * MIB, 5 * MIB),
    ],
)
def test_an_etag_of_parts_has_the_size_on_record_or_one_that_clients_use(
    size: int, part_size: int | None, tried: int
) -> None:
    assert _found(size, etag=f"{MD5}-3", part_size=part_size) == ("ETag", f"{MD5}-3", [tried])


def test_a_checksum_of_parts_is_compared_over_parts_of_the_recorded_size() -> None:
    found = _found(5 * MIB + 1, checksum_algorithm="SHA256", checksum="AAAA-2", etag="x", part_size=5 * MIB)
    assert found == ("SHA256", "AAAA-2", [5 * MIB])


def test_all_sizes_that_fit_are_tried() -> None:
    found = _found(9 * MIB, etag=f"{MD5}-2")
    assert found == ("ETag", f"{MD5}-2", [5 * MIB, 8 * MIB])


@pytest.mark.parametrize("size", [0, 1, 7 * MIB])
def test_one_part_is_the_whole_object(size: int) -> None:
    assert _found(size, etag=f"{MD5}-1") == ("ETag", f"{MD5}-1", [max(size, 1)])


def test_parts_without_a_recorded_size_are_compared_by_the_sizes_that_clients_use() -> None:
    found = _found(11 * MIB, etag=f"{MD5}-2", part_size=0)
    assert found is not None
    assert found[2][0] == 8 * MIB


def test_a_digest_over_parts_of_no_size_that_fits_is_not_compared() -> None:
    assert _found(11 * MIB, etag=f"{MD5}-7") is None
    assert _found(11 * MIB, checksum_algorithm="SHA256", checksum="AAAA-7", etag=MD5) == ("ETag", MD5, [])


@pytest.mark.parametrize("etag", ["0xABC", "", None, f"{MD5}-0", f"{MD5}0", f"{MD5}-", f"{MD5}-+2", f"{MD5}-100000"])
def test_an_etag_that_is_no_digest_is_not_compared(etag: str | None) -> None:
    assert _found(1, etag=etag) is None
