"""``seqferry tar index``: an index for archives that other programs have made."""

from __future__ import annotations

import io
import json
import random
import tarfile
from collections.abc import Callable

import pytest
from packed import stored

from support.buckets import keys
from support.mover import Mover
from support.servers import S3Server


def _foreign(rng: random.Random) -> tuple[bytes, dict[str, bytes]]:
    contents = {f"d/{number}.bin": rng.randbytes(rng.choice([0, 10, 700, 300_000])) for number in range(40)}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as made:
        for name, data in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            made.addfile(info, io.BytesIO(data))
    return buffer.getvalue(), contents


def test_each_member_lies_where_the_index_says(
    s3server: S3Server, make_bucket: Callable[..., str], make_mover: Callable[[S3Server], Mover], rng: random.Random
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(s3server)
    archive, contents = _foreign(rng)
    s3server.client().put_object(Bucket=bucket, Key="x.tar", Body=archive)

    running = mover.start("tar", "index", f"s3://{bucket}/x.tar", "--json")

    assert running.wait() == 0, str(running)
    assert json.loads(running.stdout)["members"] == len(contents)
    lines = [json.loads(line) for line in stored(s3server, bucket, "x.tar.sfidx").splitlines()]
    head = s3server.client().head_object(Bucket=bucket, Key="x.tar")
    assert (lines[0]["tar"]["size"], lines[0]["tar"]["etag"]) == (len(archive), head["ETag"].strip('"'))
    found = {line["name"]: archive[line["data"] : line["data"] + line["size"]] for line in lines[1:-1]}
    assert found == contents
    listed = mover.start("tar", "ls", f"s3://{bucket}/x.tar", "--json")
    assert listed.wait() == 0, str(listed)
    assert len(listed.stdout.splitlines()) == len(contents)


@pytest.mark.parametrize(("damage", "said"), [("cut", "truncated"), ("other", "not a tar archive")])
def test_a_damaged_archive_gets_no_index(
    versitygw: S3Server,
    make_bucket: Callable[..., str],
    make_mover: Callable[[S3Server], Mover],
    rng: random.Random,
    damage: str,
    said: str,
) -> None:
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    archive = _foreign(rng)[0]
    body = archive[: len(archive) // 2] if damage == "cut" else rng.randbytes(5000)
    versitygw.client().put_object(Bucket=bucket, Key="x.tar", Body=body)

    running = mover.start("tar", "index", f"s3://{bucket}/x.tar")

    assert running.wait() == 1, str(running)
    assert said in running.stderr
    assert "Traceback" not in running.stderr
    assert keys(versitygw, bucket) == ["x.tar"]
