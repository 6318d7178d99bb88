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
from support.trees import settle

pytestmark = pytest.mark.every_server

BucketFactory = Callable[..., str]
MoverFactory = Callable[[S3Server], Mover]


@pytest.mark.parametrize("algorithm", ["CRC64NVME", "CRC32", "CRC32C", "SHA1", "SHA256"])
def test_copies_and_uploads_keep_the_checksum_that_was_asked_for(
    versitygw: S3Server,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
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
        settle(tmp_path / "run" / name)
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


def test_a_checksum_that_the_target_does_not_show_is_on_record(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random
) -> None:
    source, target, client = make_bucket(s3server), make_bucket(s3server), s3server.client()
    mover = make_mover(s3server)
    for name, size in (("small", 4), ("big", 6 * MIB)):
        client.put_object(Bucket=source, Key=f"in/{name}", Body=rng.randbytes(size), ChecksumAlgorithm="SHA256")

    given = (*SMALL_PARTS, "--checksum-algorithm", "SHA256")
    code, summary, err = mover.copy(f"s3://{source}/in/", f"s3://{target}/in/", *given)

    assert code == 0, err
    noted = {one.source_key: one.not_carried for one in mover.objects(summary["id"])}
    assert not noted["in/small"]
    head = client.head_object(Bucket=target, Key="in/big", ChecksumMode="ENABLED")
    if s3server.kind == "versitygw":
        assert "ChecksumCRC64NVME" in head
        assert "ChecksumSHA256" not in head
        assert noted["in/big"] == ("checksum SHA256: the target shows CRC64NVME",)
    else:
        assert "ChecksumSHA256" in head
        assert not noted["in/big"]
