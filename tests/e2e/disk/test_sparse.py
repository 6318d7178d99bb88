"""Sparse files: their holes arrive as zeros, and a download leaves holes again."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from support.mover import MIB, SMALL_PARTS, Mover
from support.servers import S3Server

BucketFactory = Callable[..., str]
MoverFactory = Callable[[S3Server], Mover]

DATA = 256 * 1024


def _make_sparse(path: Path, size: int, rng: random.Random) -> bytes:
    """A file of ``size`` bytes with data at its start, in its middle and at its end; what it reads as."""
    blocks = [rng.randbytes(DATA) for _ in range(3)]
    with path.open("wb") as file:
        file.truncate(size)
        for offset, block in zip((0, size // 2, size - DATA), blocks, strict=True):
            file.seek(offset)
            file.write(block)
    return path.read_bytes()


def _on_disk(path: Path) -> int:
    return os.stat(path).st_blocks * 512  # noqa: PTH116


@pytest.mark.parametrize("size", [4 * MIB, 40 * MIB], ids=["whole", "in parts"])
def test_holes_are_zeros_in_s3_and_holes_again_on_the_disk(
    s3server: S3Server,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
    tmp_path: Path,
    size: int,
) -> None:
    bucket, client, mover = make_bucket(s3server), s3server.client(), make_mover(s3server)
    file = tmp_path / "run" / "sparse"
    file.parent.mkdir()
    content = _make_sparse(file, size, rng)
    if _on_disk(file) > size // 2:
        pytest.skip("this file system has no holes")

    code, _, err = mover.copy(f"{file.parent}/", f"s3://{bucket}/in/", *SMALL_PARTS)

    assert code == 0, err
    assert client.get_object(Bucket=bucket, Key="in/sparse")["Body"].read() == content
    code, _, err = mover.copy(f"s3://{bucket}/in/", f"{tmp_path}/back/", *SMALL_PARTS)
    assert code == 0, err
    back = tmp_path / "back" / "sparse"
    assert back.read_bytes() == content
    assert _on_disk(back) < size // 2


def test_zeros_that_another_tool_has_uploaded_become_holes(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket, size = make_bucket(s3server), 16 * MIB
    s3server.client().put_object(Bucket=bucket, Key="in/zeros", Body=b"\0" * size + b"end")

    code, _, err = make_mover(s3server).copy(f"s3://{bucket}/in/zeros", f"{tmp_path}/zeros", *SMALL_PARTS)

    assert code == 0, err
    assert (tmp_path / "zeros").read_bytes() == b"\0" * size + b"end"
    assert _on_disk(tmp_path / "zeros") < size // 2
