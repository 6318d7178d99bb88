"""Services, gateways and caches whose replies contradict themselves, lack their result, or change bytes on the way."""

from __future__ import annotations

import gzip
import random
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from support.buckets import MIB, keys, open_uploads
from support.mover import SMALL_PARTS, Mover
from support.proxy import Proxy, held
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


@pytest.mark.parametrize("is_copy", [False, True])
def test_a_write_that_no_head_proves_is_made_once_more_at_most(
    s3server: S3Server,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
    tmp_path: Path,
    is_copy: bool,
) -> None:
    def rewrite(reply: Reply) -> None:
        if reply.method in {"PUT", "HEAD"} and "/to/file" in reply.target:
            for name in [name for name in reply.headers if name == "etag" or name.startswith("x-amz-checksum")]:
                del reply.headers[name]
            reply.body = b""

    bucket, content = make_bucket(s3server), rng.randbytes(1000)
    (tmp_path / "file").write_bytes(content)
    s3server.client().put_object(Bucket=bucket, Key="from/file", Body=content)
    source = f"s3://{bucket}/from/file" if is_copy else f"{tmp_path}/file"
    with rewriting(s3server, rewrite) as proxy:
        mover = make_mover(proxy.server)
        code, summary, err = mover.copy(source, f"s3://{bucket}/to/file")
        (one,) = mover.objects(summary["id"])

    assert code == 1, (summary, err)
    assert "not proven to be there" in (one.error_message or ""), one
    assert proxy.count("PUT", "/to/file") == 2, proxy.requests


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


def _decompressing(stored: bytes) -> Rewriter:
    """Decompresses objects whatever a request accepts; ranges are answered with the whole body."""

    def rewrite(reply: Reply) -> None:
        if reply.method == "GET" and reply.headers.get("content-encoding") == "gzip":
            del reply.headers["content-encoding"]
            reply.headers.pop("content-range", None)
            reply.headers.pop("x-amz-checksum-crc64nvme", None)
            reply.status, reply.body = 200, gzip.decompress(stored)

    return rewrite


CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "deflate": zlib.compress,
    # The bytes of these are never decoded here: any that are fewer than the content will do.
    "br": lambda content: bytes(range(128, 256)) * (len(content) // 999),
    "zstd": lambda content: b"\x28\xb5\x2f\xfd" + bytes(len(content) // 9),
    "compress": lambda content: b"\x1f\x9d" + bytes(len(content) // 9),
    "X-GZIP": gzip.compress,
    "zstd, gzip": lambda content: gzip.compress(b"\x28\xb5\x2f\xfd" + content[:99]),
    "br,aws-chunked": lambda content: bytes(range(128, 256)) * (len(content) // 999),
}
"""How objects of each content coding are stored."""


def _decoding(content: bytes, *, accepted: bool = False) -> Rewriter:
    """Decodes objects whatever a request accepts, or where it does not accept their coding."""

    def rewrite(reply: Reply) -> None:
        coding = reply.headers.get("content-encoding", "")
        accepts = reply.request_headers.get("accept-encoding", "")
        if reply.method == "GET" and coding and not (accepted and coding in accepts.split(", ")):
            del reply.headers["content-encoding"]
            reply.headers.pop("content-range", None)
            reply.headers.pop("x-amz-checksum-crc64nvme", None)
            reply.status, reply.body = 200, content

    return rewrite


@pytest.mark.parametrize("coding", CODINGS)
def test_objects_of_any_content_coding_that_come_decoded_only_are_copied_so(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path,
    coding: str,
) -> None:  # fmt: skip
    content = rng.randbytes(997) * 30
    stored, bucket = CODINGS[coding](content), make_bucket(s3server)
    s3server.client().put_object(Bucket=bucket, Key="in/a", Body=stored, ContentEncoding=coding)
    with rewriting(s3server, _decoding(content)) as proxy:
        mover = make_mover(proxy.server)
        code, summary, err = mover.copy(f"s3://{bucket}/in/", f"{tmp_path}/back")
        (one,) = mover.objects(summary["id"])
        checked, strict, _ = mover.copy(f"s3://{bucket}/in/", f"{tmp_path}/strict", "--verify", "checksum")
        (refused,) = mover.objects(strict["id"])

    assert code == 0, (summary, err)
    assert (tmp_path / "back/a").read_bytes() == content
    assert (one.state, one.verified, one.size) == ("done", "none", len(content))
    # Services drop aws-chunked, which is a coding of requests.
    kept = coding.removesuffix(",aws-chunked")
    assert any(f"Content-Encoding: {kept}" in note for note in one.not_carried), one.not_carried
    assert (checked, refused.error_code) == (1, "TransformedBody")


@pytest.mark.parametrize("coding", ["br", "zstd", "deflate"])
def test_objects_that_come_decoded_unless_their_coding_is_accepted_arrive_as_they_are_stored(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path,
    coding: str,
) -> None:  # fmt: skip
    content = rng.randbytes(997) * 30
    stored, bucket = CODINGS[coding](content), make_bucket(s3server)
    s3server.client().put_object(Bucket=bucket, Key="in/a", Body=stored, ContentEncoding=coding)
    with rewriting(s3server, _decoding(content, accepted=True)) as proxy:
        code, summary, err = make_mover(proxy.server).copy(f"s3://{bucket}/in/", f"{tmp_path}/back")

    assert code == 0, (summary, err)
    assert (tmp_path / "back/a").read_bytes() == stored
    assert "none" not in summary["verified"]


@pytest.mark.parametrize(("coding", "begin"), [("zstd", b"\x28\xb5\x2f\xfd"), ("deflate", b"\x78\x9c"), ("utf-8", b"")])
def test_bodies_that_are_no_decoded_object_fail(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path,
    coding: str, begin: bytes,
) -> None:  # fmt: skip
    bucket, stored = make_bucket(s3server), begin + rng.randbytes(1000)
    s3server.client().put_object(Bucket=bucket, Key="in/a", Body=stored, ContentEncoding=coding)
    with rewriting(s3server, _decoding(stored * 3)) as proxy:
        mover = make_mover(proxy.server)
        code, summary, _ = mover.copy(f"s3://{bucket}/in/", f"{tmp_path}/back")
        (one,) = mover.objects(summary["id"])

    assert (code, one.error_code) == (1, "TransformedBody"), summary
    assert not (tmp_path / "back/a").exists()


@pytest.mark.parametrize("size", [0, 1000, 40 * MIB])
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("to_bucket", [False, True])
def test_objects_that_come_decompressed_only_are_copied_so_and_called_unverified(
    s3server: S3Server,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
    tmp_path: Path,
    size: int,
    chunked: bool,
    to_bucket: bool,
) -> None:
    content = (rng.randbytes(997) * (size // 997 + 1))[:size]
    stored, bucket, target = gzip.compress(content), make_bucket(s3server), make_bucket(s3server)
    s3server.client().put_object(
        Bucket=bucket, Key="in/a.gz", Body=stored, ContentEncoding="gzip", Metadata={"md5chksum": "x", "lane": "3"}
    )
    back = f"s3://{target}/back" if to_bucket else f"{tmp_path}/back"
    with rewriting(s3server, _decompressing(stored), chunked=chunked) as proxy:
        mover = make_mover(proxy.server)
        direct = ("--target-endpoint-url", s3server.endpoint_url) if to_bucket else ()
        code, summary, err = mover.copy(f"s3://{bucket}/in/", f"{back}/", *direct)
        objects = mover.objects(summary["id"])

    assert code == 0, (summary, err)
    if to_bucket:
        got = s3server.client().get_object(Bucket=target, Key="back/a.gz")
        assert got["Body"].read() == content
        assert "ContentEncoding" not in got
        assert got["Metadata"] == {"lane": "3"}
    else:
        assert (tmp_path / "back/a.gz").read_bytes() == content
    (one,) = objects
    assert (one.state, one.verified, one.size) == ("done", "none", size)
    assert any("decompressed" in note for note in one.not_carried)


def test_a_decompressed_copy_that_was_killed_begins_again_and_leaves_no_upload(
    s3server: S3Server,
    proxy: Proxy,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
) -> None:
    content = rng.randbytes(997) * (20 * MIB // 997)
    stored, bucket, target = gzip.compress(content), make_bucket(s3server), make_bucket(s3server)
    s3server.client().put_object(Bucket=bucket, Key="in/a.gz", Body=stored, ContentEncoding="gzip")
    with rewriting(s3server, _decompressing(stored)) as source:
        mover = make_mover(source.server)
        command = (f"s3://{bucket}/in/", f"s3://{target}/", "--target-endpoint-url", proxy.server.endpoint_url)
        with held(proxy, "UploadPart", part=3):
            running = mover.start("cp", *command)
            proxy.wait_held(count=1)
            running.kill()
        assert len(open_uploads(s3server, target)) == 1
        code, summary, err = mover.copy(*command)

    assert code == 0, (summary, err)
    assert s3server.client().get_object(Bucket=target, Key="a.gz")["Body"].read() == content
    assert open_uploads(s3server, target) == []


def test_a_move_keeps_sources_that_come_decompressed_only(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    content = rng.randbytes(100) * 30
    stored, bucket = gzip.compress(content), make_bucket(s3server)
    s3server.client().put_object(Bucket=bucket, Key="in/a.gz", Body=stored, ContentEncoding="gzip")
    with rewriting(s3server, _decompressing(stored)) as proxy:
        running = make_mover(proxy.server).start("mv", f"s3://{bucket}/in/", f"{tmp_path}/back/")
        assert running.wait() == 0, str(running)

    assert (tmp_path / "back/a.gz").read_bytes() == content, str(running)
    assert "unverified 1 object" in running.stderr, str(running)
    assert keys(s3server, bucket) == ["in/a.gz"]


def _cut(reply: Reply, stored: bytes) -> None:
    del reply.headers["content-encoding"]
    reply.body = stored[:300]


def _cut_content(reply: Reply, stored: bytes) -> None:
    del reply.headers["content-encoding"]
    reply.status, reply.body = 200, gzip.decompress(stored)[:300]


def _compressed_once_more(reply: Reply, stored: bytes) -> None:
    reply.status, reply.body = 200, gzip.compress(stored)


@pytest.mark.parametrize("spoil", [_cut, _cut_content, _compressed_once_more])
@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_of_another_length_that_are_not_the_decompressed_object_fail(
    s3server: S3Server,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
    tmp_path: Path,
    spoil: Callable[[Reply, bytes], None],
    chunked: bool,
) -> None:
    def rewrite(reply: Reply) -> None:
        if reply.method == "GET" and reply.headers.get("content-encoding") == "gzip":
            for name in ("content-range", "x-amz-checksum-crc64nvme"):
                reply.headers.pop(name, None)
            spoil(reply, stored)

    stored, bucket = gzip.compress(rng.randbytes(1000) * 30), make_bucket(s3server)
    s3server.client().put_object(Bucket=bucket, Key="in/a.gz", Body=stored, ContentEncoding="gzip")
    with rewriting(s3server, rewrite, chunked=chunked) as proxy:
        mover = make_mover(proxy.server)
        code, summary, err = mover.copy(f"s3://{bucket}/in/", f"{tmp_path}/back")
        (one,) = mover.objects(summary["id"])

    assert (code, one.error_code) == (1, "TransformedBody"), (summary, err)
    assert not (tmp_path / "back/a.gz").exists()


@pytest.mark.parametrize("arguments", [("--verify", "checksum"), ("--verify", "content")])
def test_decompressed_objects_fail_where_a_verification_is_required(
    s3server: S3Server,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
    tmp_path: Path,
    arguments: tuple[str, str],
) -> None:
    stored, bucket = gzip.compress(rng.randbytes(100) * 30), make_bucket(s3server)
    s3server.client().put_object(Bucket=bucket, Key="in/a.gz", Body=stored, ContentEncoding="gzip")
    with rewriting(s3server, _decompressing(stored)) as proxy:
        mover = make_mover(proxy.server)
        code, summary, _ = mover.copy(f"s3://{bucket}/in/", f"{tmp_path}/back", *arguments)
        (one,) = mover.objects(summary["id"])

    assert (code, one.error_code) == (1, "TransformedBody")
    assert "--verify" in (one.error_message or "")
    assert "overwritten" not in (one.error_message or "")
    assert not (tmp_path / "back/a.gz").exists()


def test_a_head_of_another_size_with_the_same_etag_is_named(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    def rewrite(reply: Reply) -> None:
        if reply.headers.get("content-encoding") == "gzip":
            del reply.headers["content-encoding"]
            reply.status, reply.body = 200, gzip.decompress(stored)
            if reply.method == "HEAD":
                reply.headers["content-length"] = str(len(reply.body))

    stored, bucket = gzip.compress(rng.randbytes(100) * 30), make_bucket(s3server)
    s3server.client().put_object(Bucket=bucket, Key="in/a.gz", Body=stored, ContentEncoding="gzip")
    with rewriting(s3server, rewrite) as proxy:
        mover = make_mover(proxy.server)
        code, summary, err = mover.copy(f"s3://{bucket}/in/", f"{tmp_path}/back")
        (one,) = mover.objects(summary["id"])

    assert (code, one.error_code) == (1, "TransformedBody"), (summary, err)
    assert "Content-Encoding" in (one.error_message or ""), one.error_message


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("asked", [("--range", "2-9"), ("--tail", "3")])
def test_a_range_of_an_object_that_comes_decompressed_only_says_so_and_how_to_get_at_it(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random,
    chunked: bool, asked: tuple[str, ...],
) -> None:  # fmt: skip
    bucket, stored = make_bucket(s3server), gzip.compress(rng.randbytes(997) * 30)
    s3server.client().put_object(Bucket=bucket, Key="in/a.gz", Body=stored, ContentEncoding="gzip")
    with rewriting(s3server, _decompressing(stored), chunked=chunked) as proxy:
        cat = make_mover(proxy.server).start("cat", *asked, f"s3://{bucket}/in/a.gz")
        code = cat.wait()

    assert (code, cat.stdout) == (1, ""), cat.stderr
    assert "Content-Encoding: gzip" in cat.stderr
    assert "Copy the object to a file, which takes it decompressed" in cat.stderr


def test_a_range_of_an_object_whose_endpoint_drops_ranges_says_how_to_get_at_it(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory
) -> None:
    def drop_range(reply: Reply) -> None:
        if reply.method == "GET" and "content-range" in reply.headers:
            del reply.headers["content-range"]
            reply.status, reply.body = 200, b"0123456789"

    bucket = make_bucket(s3server)
    s3server.client().put_object(Bucket=bucket, Key="a", Body=b"0123456789")
    with rewriting(s3server, drop_range) as proxy:
        mover = make_mover(proxy.server)
        part, whole = (mover.start("cat", *asked, f"s3://{bucket}/a") for asked in (("--range", "2-4"), ()))
        codes = part.wait(), whole.wait()

    assert (codes, part.stdout, whole.stdout) == ((1, 0), "", "0123456789"), part.stderr + whole.stderr
    assert "or read the object without a range" in part.stderr


def test_a_whole_object_that_comes_decompressed_is_not_printed_as_if_it_were_the_stored_one(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random
) -> None:
    bucket, stored = make_bucket(s3server), gzip.compress(rng.randbytes(17 * MIB), compresslevel=0)
    s3server.client().put_object(Bucket=bucket, Key="in/a.gz", Body=stored, ContentEncoding="gzip")
    longer = stored + bytes(2)

    def lengthen(reply: Reply) -> None:
        if reply.method == "GET":
            reply.headers.pop("content-range", None)
            reply.status, reply.body = 200, longer

    with rewriting(s3server, lengthen, chunked=True) as proxy:
        cat = make_mover(proxy.server).start("cat", f"s3://{bucket}/in/a.gz")
        code = cat.wait()

    assert code == 1, cat.stderr
    assert "decompresses objects on the way" in cat.stderr
