"""Files that clients write to a share are objects of the bucket a moment later."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.buckets import bodies
from support.gateways import ServedInstrument, missing_libnfs, names, read
from support.servers import S3Server

MIB = 1024 * 1024
QUIET = 0.3


@pytest.mark.every_server
def test_what_a_client_writes_is_in_the_bucket_byte_for_byte_also_after_kills(
    s3server: S3Server, make_bucket: Callable[..., str], rng: random.Random, tmp_path: Path
) -> None:
    if (missing := missing_libnfs()) is not None:
        if os.environ.get("SEQFERRY_REQUIRE_SERVERS") == "1":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    bucket = make_bucket(s3server)
    client = s3server.client()
    client.put_object(Bucket=bucket, Key="runs/there", Body=b"from the bucket")
    client.put_object(Bucket=bucket, Key="runs/deep/x", Body=b"x")
    files = {
        "large.bin": rng.randbytes(21 * MIB + 77),
        "one": b"1",
        "empty": b"",
        "deep/\u00e9 \u00fc": rng.randbytes(4097),
    }
    shares = ServedInstrument(tmp_path, s3server, bucket, "runs/", quiet=QUIET)
    try:
        for name, body in files.items():
            local = tmp_path / "local"
            local.write_bytes(body)
            subprocess.run(["nfs-cp", local, shares.url(f"runs/{name}", uid=0)], check=True, timeout=60)
            shares.restart()
        expected = {"runs/there": b"from the bucket", "runs/deep/x": b"x"}
        expected |= {f"runs/{name}": body for name, body in files.items()}
        deadline = time.monotonic() + 60
        while (found := bodies(s3server, bucket)).keys() != expected.keys():
            assert time.monotonic() < deadline, sorted(found)
            time.sleep(0.1)
        assert found == expected
        assert not client.list_multipart_uploads(Bucket=bucket).get("Uploads")
        made = client.head_object(Bucket=bucket, Key="runs/large.bin")
        assert made["Metadata"]["file-permissions"].startswith("0100"), made["Metadata"]
        assert made["Metadata"]["file-owner"] == "0"
        shares.restart()
        assert names(shares, "runs") == {"there": 15, "deep": 0, "large.bin": 21 * MIB + 77, "one": 1, "empty": 0}
        for name, body in files.items():
            assert read(shares, f"runs/{name}", uid=0) == body, name
        again = client.head_object(Bucket=bucket, Key="runs/large.bin")
        assert (again["ETag"], again["LastModified"]) == (made["ETag"], made["LastModified"]), "it is uploaded once"
    finally:
        shares.close()
