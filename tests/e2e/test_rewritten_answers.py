"""Services, gateways and caches whose replies contradict themselves, lack their result, or change bytes on the way."""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from support.buckets import MIB, keys
from support.mover import SMALL_PARTS, Mover
from support.rewriting import Reply, Rewriter, rewriting
from support.servers import S3Server

MoverFactory = Callable[[S3Server], Mover]
BucketFactory = Callable[..., str]


def _in_listing(pattern: bytes, by: bytes) -> Rewriter:
    def rewrite(reply: Reply) -> None:
        if reply.method == "GET" and "list-type=2" in reply.target and b"<Contents>" in reply.body:
            reply.body = re.sub(pattern, by, reply.body, count=1)

    return rewrite


CONTRADICTIONS = {
    "another bucket": _in_listing(rb"<Name>[^<]*</Name>", b"<Name>another-bucket</Name>"),
    "a foreign key": _in_listing(rb"<Key>in/0", b"<Key>other/0"),
    "a token without IsTruncated": _in_listing(
        rb"<IsTruncated>false</IsTruncated>",
        b"<IsTruncated>false</IsTruncated><NextContinuationToken>t</NextContinuationToken>",
    ),
    "more keys than came": _in_listing(rb"<KeyCount>\d+</KeyCount>", b"<KeyCount>31</KeyCount>"),
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_a_listing_that_contradicts_itself_copies_and_removes_nothing(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, what: str
) -> None:
    source, target = make_bucket(s3server), make_bucket(s3server)
    for n in range(3):
        s3server.client().put_object(Bucket=source, Key=f"in/{n}", Body=b"x")
        s3server.client().put_object(Bucket=target, Key=f"in/{n}", Body=b"y")

    with rewriting(s3server, CONTRADICTIONS[what]) as proxy:
        mover = make_mover(proxy.server)
        code, summary, err = mover.copy(f"s3://{source}/in/", f"s3://{target}/in/", "--delete", verb="sync")

    assert code not in (0, 3), err
    assert "ContradictoryListing" in f"{summary}\n{err}"
    assert keys(s3server, target) == [f"in/{n}" for n in range(3)]
    got = s3server.client().get_object(Bucket=target, Key="in/0")["Body"].read()
    assert got == b"y"


def test_a_completion_behind_white_space_is_read(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    def rewrite(reply: Reply) -> None:
        if reply.method == "POST" and "uploadId=" in reply.target:
            reply.body = b"\n\n\n" + reply.body

    bucket, content = make_bucket(s3server), rng.randbytes(11 * MIB)
    (tmp_path / "big").write_bytes(content)
    with rewriting(s3server, rewrite) as proxy:
        code, _, err = make_mover(proxy.server).copy(f"{tmp_path}/big", f"s3://{bucket}/big", *SMALL_PARTS)

    assert code == 0, err
    assert proxy.count("POST", "uploadId=") == 1
    assert s3server.client().get_object(Bucket=bucket, Key="big")["Body"].read() == content


@pytest.mark.parametrize("size", [1000, 11 * MIB])
def test_writes_answered_without_an_etag_are_found_by_one_look(
    s3server: S3Server,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
    tmp_path: Path,
    size: int,
) -> None:
    def rewrite(reply: Reply) -> None:
        if reply.method == "PUT":
            reply.headers.pop("etag", None)

    bucket, content = make_bucket(s3server), rng.randbytes(size)
    (tmp_path / "file").write_bytes(content)
    with rewriting(s3server, rewrite) as proxy:
        code, _, err = make_mover(proxy.server).copy(f"{tmp_path}/file", f"s3://{bucket}/in/file", *SMALL_PARTS)

    assert code == 0, err
    parts = {target for method, target in proxy.requests if method == "PUT" and "/in/file" in target}
    assert proxy.count("PUT", "/in/file") == len(parts), "each is sent once"
    assert s3server.client().get_object(Bucket=bucket, Key="in/file")["Body"].read() == content


def test_objects_that_are_decompressed_on_the_way_arrive_as_they_are_stored(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    def rewrite(reply: Reply) -> None:
        decodes = "gzip" not in reply.request_headers.get("accept-encoding", "")
        if decodes and reply.method == "GET" and reply.headers.get("content-encoding") == "gzip":
            del reply.headers["content-encoding"]
            reply.status, reply.body = 200, gzip.decompress(stored)

    bucket, stored = make_bucket(s3server), gzip.compress(rng.randbytes(1000) * 30)
    s3server.client().put_object(Bucket=bucket, Key="in/a.gz", Body=stored, ContentEncoding="gzip")
    with rewriting(s3server, rewrite) as proxy:
        code, _, err = make_mover(proxy.server).copy(f"s3://{bucket}/in/", f"{tmp_path}/back")

    assert code == 0, err
    assert (tmp_path / "back/a.gz").read_bytes() == stored
