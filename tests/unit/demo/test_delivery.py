"""The delivery of the demo: real gzip, always the same bytes, sums that fit."""

from __future__ import annotations

import gzip
import hashlib

import pytest

from seqferry.demo.delivery import MIB, DeliveryFile, DeliveryReader, make_delivery, parse_sums, sums_text


def test_the_delivery_looks_like_one() -> None:
    files = make_delivery()
    names = [file.name for file in files]

    assert len(files) == 60
    assert 1.0e9 <= sum(file.size for file in files) <= 1.1e9
    assert sum(file.size > 128 * MIB for file in files) == 3
    assert any(" " in name and not name.isascii() for name in names)
    assert any(file.size == 0 for file in files)
    assert len(set(names)) == len(names)
    for name in names:
        if "_R1_" in name:
            assert name.replace("_R1_", "_R2_") in names


@pytest.mark.parametrize("length", [0, 1, 65535, 65536, 64 * 65535, 64 * 65535 + 1])
def test_fastq_files_are_valid_gzip_of_the_stated_size(length: int) -> None:
    file = DeliveryFile("x.fastq.gz", "seed", random_bytes=length)

    content = b"".join(file.chunks())

    assert len(content) == file.size
    assert len(gzip.decompress(content)) == length


def test_the_same_seed_gives_the_same_bytes_and_another_one_others() -> None:
    def digest(seed: int) -> list[str]:
        return [hashlib.md5(b"".join(file.chunks())).hexdigest() for file in make_delivery(seed=seed, scale=0.001)[:4]]

    assert digest(1) == digest(1)
    assert set(digest(1)).isdisjoint(digest(2))


@pytest.mark.parametrize("step", [1000, 65536, -1])
def test_the_reader_gives_the_file_whole_and_its_md5(step: int) -> None:
    file = DeliveryFile("x.fastq.gz", "seed", random_bytes=300_000)
    reader = DeliveryReader(file)

    pieces: list[bytes] = []
    while piece := reader.read(step):
        pieces.append(piece)

    assert b"".join(pieces) == b"".join(file.chunks())
    assert reader.md5() == hashlib.md5(b"".join(pieces)).hexdigest()


def test_sums_survive_a_round_trip_with_odd_names() -> None:
    sums = {"a b  c.txt": "0" * 32, "Müller –.txt": "f" * 32}

    assert parse_sums(sums_text(sums)) == sums
