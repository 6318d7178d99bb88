"""``--checksum-algorithm``: the checksum that the target keeps, of copies and of uploads, whole and in parts."""

from __future__ import annotations

import base64
import hashlib
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from support.mover import MIB, SMALL_PARTS, Mover
from support.servers import S3Server

MakeBucket = Callable[..., str]
MakeMover = Callable[[S3Server], Mover]


@pytest.mark.parametrize("algorithm", ["CRC64NVME", "CRC32", "CRC32C", "SHA1", "SHA256"])
def test_copies_and_uploads_keep_the_checksum_that_was_asked_for(
    versitygw: S3Server,
    make_bucket: MakeBucket,
    make_mover: MakeMover,
    rng: random.Random,
    tmp_path: Path,
    algorithm: str,
) -> None:
    up, over, client, mover = make_bucket(versitygw), make_bucket(versitygw), versitygw.client(), None
    mover = make_mover(versitygw)
    contents = {"small": b"ACGT", "big": rng.randbytes(6 * MIB)}
    (tmp_path / "run").mkdir()
    for name, content in contents.items():
        (tmp_path / "run" / name).write_bytes(content)
    given = (*SMALL_PARTS, "--checksum-algorithm", algorithm)

    # versitygw takes the checksum of a source for that of each of its copied parts, so that none is kept of a copy in
    # parts whose source has the same algorithm.
    other = "CRC32" if algorithm != "CRC32" else "CRC32C"
    for name, content in contents.items():
        client.put_object(Bucket=over, Key=f"from/{name}", Body=content, ChecksumAlgorithm=other)
    for source, bucket in ((f"{tmp_path}/run/", up), (f"s3://{over}/from/", over)):
        code, _, err = mover.copy(source, f"s3://{bucket}/in/", *given)

        assert code == 0, err
        for name, content in contents.items():
            head = client.head_object(Bucket=bucket, Key=f"in/{name}", ChecksumMode="ENABLED")
            assert f"Checksum{algorithm}" in head, (source, name, head)
            assert client.get_object(Bucket=bucket, Key=f"in/{name}")["Body"].read() == content
        if algorithm.startswith("SHA"):
            digest = hashlib.new(algorithm, contents["small"]).digest()
            head = client.head_object(Bucket=bucket, Key="in/small", ChecksumMode="ENABLED")
            assert head[f"Checksum{algorithm}"] == base64.b64encode(digest).decode()
