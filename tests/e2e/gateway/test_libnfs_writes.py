"""Writing to a share by a client in user space, which commits when it closes a file."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.buckets import file_keys
from support.gateways import ServedInstrument, missing_libnfs, names, read
from support.servers import S3Server

MIB = 1024 * 1024


def test_what_a_client_has_closed_is_there_when_the_gateway_was_killed(
    s3server: S3Server, make_bucket: Callable[..., str], rng: random.Random, tmp_path: Path
) -> None:
    if (missing := missing_libnfs()) is not None:
        if os.environ.get("SEQFERRY_REQUIRE_SERVERS") == "1":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    bucket = make_bucket(s3server)
    s3server.client().put_object(Bucket=bucket, Key="runs/there", Body=b"from the bucket")
    s3server.client().put_object(Bucket=bucket, Key="runs/deep/x", Body=b"x")
    files = {"large.bin": rng.randbytes(9 * MIB + 77), "one": b"1", "deep/é ü": rng.randbytes(4097)}
    shares = ServedInstrument(tmp_path, s3server, bucket, "runs/")
    try:
        for name, body in files.items():
            local = tmp_path / "local"
            local.write_bytes(body)
            subprocess.run(["nfs-cp", local, shares.url(f"runs/{name}", uid=0)], check=True, timeout=60)
        for _ in range(2):
            assert names(shares, "runs") == {"there": 15, "deep": 0, "large.bin": len(files["large.bin"]), "one": 1}
            assert set(names(shares, "runs/deep")) == {"x", "é ü"}
            for name, body in {**files, "there": b"from the bucket"}.items():
                # nfs-cp makes files that only their owner and group may read.
                assert read(shares, f"runs/{name}", uid=0) == body, name
            shares.restart()
        assert file_keys(s3server, bucket) == ["runs/deep/x", "runs/there"]
    finally:
        shares.close()
