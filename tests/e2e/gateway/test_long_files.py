"""Long files, of which parts are in the bucket while they are written, and the gateway is killed meanwhile."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable

import pytest

from support.buckets import open_parts
from support.gateways import WrittenShares, need_libnfs, written_share
from support.libnfs import Share
from support.servers import S3Server
from support.waiting import eventually

MIB = 1024 * 1024
PARTS = "runs/.seqferry-parts/"

Serving = Callable[..., WrittenShares]


@pytest.fixture(autouse=True)
def _libnfs() -> None:
    need_libnfs()


class _Writer:
    """A client that appends to a file, and what it has written."""

    def __init__(self, shares: WrittenShares, rng: random.Random) -> None:
        self._shares, self._block = shares, rng.randbytes(MIB)
        self._share = Share(shares.url("runs"))
        self._file = self._share.create("run.tmp")
        self.size, self.digest = 0, hashlib.sha256()

    def append(self, size: int) -> None:
        piece = (self.size.to_bytes(8, "little") + self._block[8:])[:size]
        self._share.write_at(self._file, self.size, piece)
        self.digest.update(piece)
        self.size += size

    def reconnect(self) -> None:
        self._share = Share(self._shares.url("runs"))
        self._file = self._share.open_to_write("run.tmp", os.O_APPEND)

    def sync(self) -> None:
        self._share.sync(self._file)

    def end(self, name: str) -> None:
        self.sync()
        self._share.close(self._file)
        self._share.rename("run.tmp", name)


def test_parts_of_a_long_file_go_up_while_it_is_written_and_it_becomes_one_version(
    s3server: S3Server, make_bucket: Callable[..., str], serving: Serving, rng: random.Random
) -> None:
    bucket = make_bucket(s3server, versioned=True)
    shares, client = serving(s3server, written_share("runs", f"s3://{bucket}/runs/", "settle = 1")), s3server.client()
    writer = _Writer(shares, rng)

    def parts() -> int:
        # It never settles.
        writer.append(64 * 1024)
        return open_parts(s3server, bucket, PARTS)

    while writer.size < 270 * MIB:
        writer.append(MIB)
    eventually(lambda: parts() >= 20, what="20 parts of the file that grows", deadline=60)
    assert "Contents" not in client.list_objects_v2(Bucket=bucket, Prefix="runs/run")
    writer.sync()
    shares.restart()
    writer.reconnect()
    sent = parts()
    while writer.size < 300 * MIB:
        writer.append(MIB)
    eventually(lambda: parts() > sent, what="more parts after the gateway was killed", deadline=60)
    writer.end("run.bcl")

    def contents() -> set[str]:
        return {one["Key"] for one in client.list_objects_v2(Bucket=bucket).get("Contents", [])}

    eventually(lambda: "runs/run.bcl" in contents(), what="the file to be in the bucket", deadline=120)
    digest, body = hashlib.sha256(), client.get_object(Bucket=bucket, Key="runs/run.bcl")["Body"]
    while piece := body.read(8 * MIB):
        digest.update(piece)
    assert digest.hexdigest() == writer.digest.hexdigest()
    assert len(client.list_object_versions(Bucket=bucket, Prefix="runs/run.bcl")["Versions"]) == 1
    eventually(lambda: contents() == {"runs/.seqferry-share", "runs/run.bcl"}, what="its parts to go", deadline=60)
    assert not client.list_multipart_uploads(Bucket=bucket).get("Uploads")
    assert shares.writing()["dirty_files"] == 0
