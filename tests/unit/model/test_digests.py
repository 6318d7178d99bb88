"""Digests that receipts hold: which of them covers the bytes of an object, and how it is computed."""

from __future__ import annotations

import pytest

from seqferry.model.digests import ExpectedDigest, expected

MIB = 1024 * 1024
MD5 = "0123456789abcdef0123456789abcdef"


def _expected(
    size: int,
    *,
    checksum_algorithm: str | None = None,
    checksum: str | None = None,
    etag: str | None = None,
    part_size: int | None = None,
) -> ExpectedDigest | None:
    return expected(size, checksum_algorithm=checksum_algorithm, checksum=checksum, etag=etag, part_size=part_size)


@pytest.mark.parametrize("algorithm", ["CRC64NVME", "CRC32C", "CRC32", "SHA1", "SHA256"])
def test_a_checksum_on_record_goes_before_the_etag(algorithm: str) -> None:
    found = _expected(7, checksum_algorithm=algorithm.lower(), checksum="AAAA", etag=MD5)
    assert found == ExpectedDigest(algorithm, "AAAA", algorithm)


def test_an_unknown_checksum_leaves_the_etag() -> None:
    found = _expected(7, checksum_algorithm="XXHASH", checksum="AAAA", etag=f'"{MD5.upper()}"')
    assert found == ExpectedDigest("ETag", MD5, "MD5")


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
    assert _expected(size, etag=f"{MD5}-3", part_size=part_size) == ExpectedDigest("ETag", f"{MD5}-3", "MD5", (tried,))


def test_a_checksum_of_parts_is_compared_over_parts_of_the_recorded_size() -> None:
    found = _expected(5 * MIB + 1, checksum_algorithm="SHA256", checksum="AAAA-2", etag="x", part_size=5 * MIB)
    assert found == ExpectedDigest("SHA256", "AAAA-2", "SHA256", (5 * MIB,))


def test_all_sizes_that_fit_are_tried() -> None:
    found = _expected(9 * MIB, etag=f"{MD5}-2")
    assert found is not None
    assert found.part_sizes == (5 * MIB, 8 * MIB)


@pytest.mark.parametrize("size", [0, 1, 7 * MIB])
def test_one_part_is_the_whole_object(size: int) -> None:
    assert _expected(size, etag=f"{MD5}-1") == ExpectedDigest("ETag", f"{MD5}-1", "MD5", (max(size, 1),))


def test_parts_without_a_recorded_size_are_compared_by_the_sizes_that_clients_use() -> None:
    expected = _expected(11 * MIB, etag=f"{MD5}-2", part_size=0)
    assert expected is not None
    assert expected.part_sizes[0] == 8 * MIB


def test_a_digest_over_parts_of_no_size_that_fits_is_not_compared() -> None:
    assert _expected(11 * MIB, etag=f"{MD5}-7") is None
    assert _expected(11 * MIB, checksum_algorithm="SHA256", checksum="AAAA-7", etag=MD5) == ExpectedDigest(
        "ETag", MD5, "MD5"
    )


@pytest.mark.parametrize("etag", ["0xABC", "", None, f"{MD5}-0", f"{MD5}0"])
def test_an_etag_that_is_no_digest_is_not_compared(etag: str | None) -> None:
    assert _expected(1, etag=etag) is None
