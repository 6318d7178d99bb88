"""What the first ``seqferry pack`` of a process proves of members and archives, on servers with different evidence."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from packed import by_python, fill, stored

from support.buckets import open_uploads
from support.mover import MIB, Mover
from support.servers import S3Server


def _put_in_parts(server: S3Server, bucket: str, key: str, parts: list[bytes]) -> bytes:
    client = server.client()
    upload = client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
    about = {"Bucket": bucket, "Key": key, "UploadId": upload}
    sent = [
        {"PartNumber": number, "ETag": client.upload_part(**about, PartNumber=number, Body=part)["ETag"]}
        for number, part in enumerate(parts, start=1)
    ]
    client.complete_multipart_upload(**about, MultipartUpload={"Parts": sent})
    return b"".join(parts)


@pytest.mark.every_server
def test_no_member_of_a_first_pack_counts_by_size(
    s3server: S3Server,
    make_bucket: Callable[..., str],
    make_mover: Callable[[S3Server], Mover],
    rng: random.Random,
    tmp_path: Path,
) -> None:
    bucket = make_bucket(s3server)
    contents = {"small": rng.randbytes(1000), "empty": b"", "across": rng.randbytes(6 * MIB)}
    contents["large"] = rng.randbytes(17 * MIB + 3)
    fill(s3server, bucket, "run/", contents)
    contents["in-parts"] = _put_in_parts(s3server, bucket, "run/in-parts", [rng.randbytes(5 * MIB), b"x"])
    contents["large-in-parts"] = _put_in_parts(
        s3server, bucket, "run/large-in-parts", [rng.randbytes(6 * MIB), rng.randbytes(12 * MIB)]
    )
    # One with the CRC-64 that a copy can be proven by.
    contents["stated"] = rng.randbytes(18 * MIB + 1)
    (tmp_path / "stated").write_bytes(contents["stated"])
    code, _, err = make_mover(s3server).copy(f"{tmp_path}/stated", f"s3://{bucket}/run/stated")
    assert code == 0, err
    mover = make_mover(s3server)

    code, summary, err = mover.copy(f"s3://{bucket}/run/", f"s3://{bucket}/out.tar", verb="pack")

    assert code == 0, f"{summary}\n{err}"
    verified = {row.source_key.removeprefix("run/"): row.verified for row in mover.objects(summary["id"])}
    assert verified.keys() == contents.keys()
    # A member counts no more than its archive does.
    assert set(verified.values()) <= {"checksum", "etag"}, verified
    assert by_python(stored(s3server, bucket, "out.tar")) == contents
    assert open_uploads(s3server, bucket) == []
