"""The least client of ``make bench-transfer``: a floor is none that does not move the bytes."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.servers import S3Server

pytestmark = pytest.mark.every_server


def _move(
    floor: Path, server: S3Server, direction: str, bucket: str, folder: Path, files: int
) -> subprocess.CompletedProcess[str]:
    host = server.endpoint_url.removeprefix("http://")
    command = [str(floor), direction, host, bucket, "some/where/", str(folder), str(files)]
    environment = {**os.environ, **server.environment()}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_files_are_what_they_were_when_they_have_gone_up_and_down(
    floor: Path, s3server: S3Server, make_bucket: Callable[..., str], tmp_path: Path, rng: random.Random
) -> None:
    bucket = make_bucket(s3server)
    # Of all sizes: none, part of a buffer, more than one.
    bodies = {f"{number:06}.bin": rng.randbytes(size) for number, size in enumerate((0, 1, 100_000, 3 * 2**20 + 7))}
    (tmp_path / "from").mkdir()
    (tmp_path / "to").mkdir()
    for name, body in bodies.items():
        (tmp_path / "from" / name).write_bytes(body)

    up = _move(floor, s3server, "upload", bucket, tmp_path / "from", len(bodies))
    down = _move(floor, s3server, "download", bucket, tmp_path / "to", len(bodies))

    assert (up.returncode, down.returncode) == (0, 0), up.stderr + down.stderr
    client = s3server.client()
    for name, body in bodies.items():
        assert client.get_object(Bucket=bucket, Key=f"some/where/{name}")["Body"].read() == body
        assert (tmp_path / "to" / name).read_bytes() == body


def test_what_goes_wrong_ends_it(
    floor: Path, s3server: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    ended = _move(floor, s3server, "download", make_bucket(s3server), tmp_path, 1)

    assert ended.returncode != 0
    assert "http/1.1 404" in ended.stderr
