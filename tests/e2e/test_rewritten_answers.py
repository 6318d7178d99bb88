"""Services, gateways and caches whose replies contradict themselves, lack their result, or change bytes on the way."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from support.buckets import MIB, keys, open_uploads
from support.mover import SMALL_PARTS, Mover
from support.proxy import Proxy, held
from support.rewriting import Reply, Rewriter, rewriting
from support.servers import S3Server

MoverFactory = Callable[[S3Server], Mover]
BucketFactory = Callable[..., str]


def _with_token(reply: Reply) -> None:
    if reply.method == "GET" and "list-type=2" in reply.target:
        end = b"<IsTruncated>false</IsTruncated>"
        reply.body = reply.body.replace(end, end + b"<NextContinuationToken>t</NextContinuationToken>")


def test_a_listing_that_contradicts_itself_copies_and_removes_nothing(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory
) -> None:
    """Other contradictions: ``crates/store/tests/wire/listings.rs``."""
    source, target = make_bucket(s3server), make_bucket(s3server)
    for n in range(3):
        s3server.client().put_object(Bucket=source, Key=f"in/{n}", Body=b"x")
        s3server.client().put_object(Bucket=target, Key=f"in/{n}", Body=b"y")

    with rewriting(s3server, _with_token) as proxy:
        mover = make_mover(proxy.server)
        code, summary, err = mover.copy(f"s3://{source}/in/", f"s3://{target}/in/", "--delete", verb="sync")

    assert code not in (0, 3), err
    assert "ContradictoryListing" in f"{summary}\n{err}"
    assert keys(s3server, target) == [f"in/{n}" for n in range(3)]
    got = s3server.client().get_object(Bucket=target, Key="in/0")["Body"].read()
    assert got == b"y"


def test_writes_answered_without_an_etag_are_found_by_one_look(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    def rewrite(reply: Reply) -> None:
        if reply.method == "PUT":
            reply.headers.pop("etag", None)

    bucket = make_bucket(s3server)
    contents = {"small": rng.randbytes(1000), "big": rng.randbytes(11 * MIB)}
    (tmp_path / "run").mkdir()
    for name, content in contents.items():
        (tmp_path / "run" / name).write_bytes(content)
    with rewriting(s3server, rewrite) as proxy:
        code, _, err = make_mover(proxy.server).copy(f"{tmp_path}/run", f"s3://{bucket}/in/", *SMALL_PARTS)

    assert code == 0, err
    for name, content in contents.items():
        sent = {target for method, target in proxy.requests if method == "PUT" and f"/in/{name}" in target}
        assert proxy.count("PUT", f"/in/{name}") == len(sent), "each is sent once"
        assert s3server.client().get_object(Bucket=bucket, Key=f"in/{name}")["Body"].read() == content


def test_a_write_that_no_head_proves_is_made_once_more_at_most(
    s3server: S3Server,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
    tmp_path: Path,
    subtests: pytest.Subtests,
) -> None:
    def rewrite(reply: Reply) -> None:
        if reply.method in {"PUT", "HEAD"} and "/to/file" in reply.target:
            for name in [name for name in reply.headers if name == "etag" or name.startswith("x-amz-checksum")]:
                del reply.headers[name]
            reply.body = b""

    bucket, content = make_bucket(s3server), rng.randbytes(1000)
    (tmp_path / "file").write_bytes(content)
    s3server.client().put_object(Bucket=bucket, Key="from/file", Body=content)
    with rewriting(s3server, rewrite) as proxy:
        mover = make_mover(proxy.server)
        # A copy is not repeated over an object that is not proven to be its own.
        for source, target, times in (
            (f"{tmp_path}/file", "upload/to/file", 2),
            (f"s3://{bucket}/from/file", "copy/to/file", 1),
        ):
            with subtests.test(target):
                code, summary, err = mover.copy(source, f"s3://{bucket}/{target}")
                (one,) = mover.objects(summary["id"])

                assert code == 1, (summary, err)
                assert "not proven to be there" in (one.error_message or ""), one
                assert proxy.count("PUT", f"/{target}") == times, proxy.requests


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


def _name(reply: Reply) -> str:
    return urlsplit(reply.target).path.rpartition("/")[2]


def _give(reply: Reply, body: bytes) -> None:
    """Gives these bytes for the whole object, also where a range is asked for, and does not say so."""
    for name in ("content-encoding", "content-range", "x-amz-checksum-crc64nvme"):
        reply.headers.pop(name, None)
    reply.status, reply.body = 200, body


def _decoding(contents: Mapping[str, bytes], *, accepted: bool = False) -> Rewriter:
    """Decodes objects whatever a request accepts, or where it does not accept their coding: name to content."""

    def rewrite(reply: Reply) -> None:
        coding = reply.headers.get("content-encoding", "")
        accepts = reply.request_headers.get("accept-encoding", "")
        if reply.method == "GET" and coding and not (accepted and coding in accepts.split(", ")):
            _give(reply, contents[_name(reply)])

    return rewrite


def _put(server: S3Server, bucket: str, stored: Mapping[str, tuple[str, bytes]], **more: Any) -> None:
    """Objects below ``in/``: name to content coding and stored bytes."""
    for name, (coding, body) in stored.items():
        server.client().put_object(Bucket=bucket, Key=f"in/{name}", Body=body, ContentEncoding=coding, **more)


CODINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "deflate": ("deflate", zlib.compress),
    # The bytes of these are never decoded here: any that are fewer than the content will do.
    "br": ("br", lambda content: bytes(range(128, 256)) * (len(content) // 999)),
    "zstd": ("zstd", lambda content: b"\x28\xb5\x2f\xfd" + bytes(len(content) // 9)),
    "compress": ("compress", lambda content: b"\x1f\x9d" + bytes(len(content) // 9)),
    "upper": ("X-GZIP", gzip.compress),
    "two": ("zstd, gzip", lambda content: gzip.compress(b"\x28\xb5\x2f\xfd" + content[:99])),
    "chunked": ("br,aws-chunked", lambda content: bytes(range(128, 256)) * (len(content) // 999)),
}
"""Content codings by the names of their objects, each with how it stores a content."""


def _coded(rng: random.Random, *names: str) -> tuple[dict[str, bytes], dict[str, tuple[str, bytes]]]:
    """Contents of objects by name, and each with its coding as it is stored."""
    contents = {name: rng.randbytes(997) * 30 for name in names}
    return contents, {name: (CODINGS[name][0], CODINGS[name][1](body)) for name, body in contents.items()}


def test_objects_of_any_content_coding_that_come_decoded_only_are_copied_so(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path,
    subtests: pytest.Subtests,
) -> None:  # fmt: skip
    contents, stored = _coded(rng, *CODINGS)
    bucket = make_bucket(s3server)
    _put(s3server, bucket, stored)
    with rewriting(s3server, _decoding(contents)) as proxy:
        mover = make_mover(proxy.server)
        code, summary, err = mover.copy(f"s3://{bucket}/in/", f"{tmp_path}/back")
        checked, strict, _ = mover.copy(f"s3://{bucket}/in/", f"{tmp_path}/strict", "--verify", "checksum")
        copied = {one.source_key: one for one in mover.objects(summary["id"])}
        refused = {one.source_key: one.error_code for one in mover.objects(strict["id"])}

    assert (code, checked) == (0, 1), (summary, err)
    for name, content in contents.items():
        with subtests.test(name):
            one = copied[f"in/{name}"]
            assert (tmp_path / "back" / name).read_bytes() == content
            assert (one.state, one.verified, one.size) == ("done", "none", len(content))
            # Services drop aws-chunked, which is a coding of requests.
            kept = CODINGS[name][0].removesuffix(",aws-chunked")
            assert any(f"Content-Encoding: {kept}" in note for note in one.not_carried), one.not_carried
            assert refused[f"in/{name}"] == "TransformedBody"


def test_objects_that_come_decoded_unless_their_coding_is_accepted_arrive_as_they_are_stored(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    contents, stored = _coded(rng, "br", "zstd", "deflate")
    bucket = make_bucket(s3server)
    _put(s3server, bucket, stored)
    with rewriting(s3server, _decoding(contents, accepted=True)) as proxy:
        code, summary, err = make_mover(proxy.server).copy(f"s3://{bucket}/in/", f"{tmp_path}/back")

    assert code == 0, (summary, err)
    assert {name: (tmp_path / "back" / name).read_bytes() for name in stored} == {
        name: body for name, (_, body) in stored.items()
    }
    assert "none" not in summary["verified"]


def test_bodies_that_are_no_decoded_object_fail(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    stored = {
        coding: (coding, begin + rng.randbytes(1000))
        for coding, begin in (("zstd", b"\x28\xb5\x2f\xfd"), ("deflate", b"\x78\x9c"), ("utf-8", b""))
    }
    bucket = make_bucket(s3server)
    _put(s3server, bucket, stored)
    with rewriting(s3server, _decoding({name: body * 3 for name, (_, body) in stored.items()})) as proxy:
        mover = make_mover(proxy.server)
        code, summary, _ = mover.copy(f"s3://{bucket}/in/", f"{tmp_path}/back")
        failed = {one.source_key: one.error_code for one in mover.objects(summary["id"])}

    assert (code, failed) == (1, {f"in/{name}": "TransformedBody" for name in stored}), summary
    assert not [name for name in stored if (tmp_path / "back" / name).exists()]


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("to_bucket", [False, True])
def test_objects_that_come_decompressed_only_are_copied_so_and_called_unverified(
    s3server: S3Server,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
    tmp_path: Path,
    chunked: bool,
    to_bucket: bool,
) -> None:
    sizes = {"empty.gz": 0, "small.gz": 1000, "big.gz": 40 * MIB}
    contents = {name: (rng.randbytes(997) * (size // 997 + 1))[:size] for name, size in sizes.items()}
    bucket, target = make_bucket(s3server), make_bucket(s3server)
    stored = {name: ("gzip", gzip.compress(content)) for name, content in contents.items()}
    _put(s3server, bucket, stored, Metadata={"md5chksum": "x", "lane": "3"})
    back = f"s3://{target}/back" if to_bucket else f"{tmp_path}/back"
    with rewriting(s3server, _decoding(contents), chunked=chunked) as proxy:
        mover = make_mover(proxy.server)
        direct = ("--target-endpoint-url", s3server.endpoint_url) if to_bucket else ()
        code, summary, err = mover.copy(f"s3://{bucket}/in/", f"{back}/", *direct)
        objects = {one.source_key.removeprefix("in/"): one for one in mover.objects(summary["id"])}

    assert code == 0, (summary, err)
    for name, content in contents.items():
        if to_bucket:
            got = s3server.client().get_object(Bucket=target, Key=f"back/{name}")
            assert got["Body"].read() == content, name
            assert "ContentEncoding" not in got, name
            assert got["Metadata"] == {"lane": "3"}, name
        else:
            assert (tmp_path / "back" / name).read_bytes() == content, name
        one = objects[name]
        assert (one.state, one.verified, one.size) == ("done", "none", sizes[name])
        assert any("decompressed" in note for note in one.not_carried), name


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
    with rewriting(s3server, _decoding({"a.gz": content})) as source:
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
    with rewriting(s3server, _decoding({"a.gz": content})) as proxy:
        running = make_mover(proxy.server).start("mv", f"s3://{bucket}/in/", f"{tmp_path}/back/")
        assert running.wait() == 0, str(running)

    assert (tmp_path / "back/a.gz").read_bytes() == content, str(running)
    assert "unverified 1 object" in running.stderr, str(running)
    assert keys(s3server, bucket) == ["in/a.gz"]


@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_of_another_length_that_are_not_the_decompressed_object_fail(
    s3server: S3Server,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
    tmp_path: Path,
    chunked: bool,
) -> None:
    content = rng.randbytes(1000) * 30
    stored = gzip.compress(content)
    spoiled = {"cut": stored[:300], "content-cut": content[:300], "compressed-once-more": gzip.compress(stored)}

    def rewrite(reply: Reply) -> None:
        if reply.method == "GET" and reply.headers.get("content-encoding") == "gzip":
            status, coding = reply.status, reply.headers["content-encoding"]
            _give(reply, spoiled[_name(reply)])
            if _name(reply) == "cut":
                reply.status = status
            elif _name(reply) == "compressed-once-more":
                reply.headers["content-encoding"] = coding

    bucket = make_bucket(s3server)
    _put(s3server, bucket, dict.fromkeys(spoiled, ("gzip", stored)))
    with rewriting(s3server, rewrite, chunked=chunked) as proxy:
        mover = make_mover(proxy.server)
        code, summary, err = mover.copy(f"s3://{bucket}/in/", f"{tmp_path}/back")
        failed = {one.source_key: one.error_code for one in mover.objects(summary["id"])}

    assert (code, failed) == (1, {f"in/{name}": "TransformedBody" for name in spoiled}), (summary, err)
    assert not [name for name in spoiled if (tmp_path / "back" / name).exists()]


def test_decompressed_objects_fail_where_a_verification_is_required(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path,
    subtests: pytest.Subtests,
) -> None:  # fmt: skip
    content = rng.randbytes(100) * 30
    bucket = make_bucket(s3server)
    _put(s3server, bucket, {"a.gz": ("gzip", gzip.compress(content))})
    with rewriting(s3server, _decoding({"a.gz": content})) as proxy:
        mover = make_mover(proxy.server)
        for verification in ("checksum", "content"):
            with subtests.test(verification):
                back = tmp_path / verification
                code, summary, _ = mover.copy(f"s3://{bucket}/in/", f"{back}", "--verify", verification)
                (one,) = mover.objects(summary["id"])

                assert (code, one.error_code) == (1, "TransformedBody")
                assert "--verify" in (one.error_message or "")
                assert "overwritten" not in (one.error_message or "")
                assert not (back / "a.gz").exists()


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
def test_a_range_of_an_object_that_comes_decompressed_only_says_so_and_how_to_get_at_it(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, chunked: bool
) -> None:
    content = rng.randbytes(997) * 30
    bucket = make_bucket(s3server)
    _put(s3server, bucket, {"a.gz": ("gzip", gzip.compress(content))})
    with rewriting(s3server, _decoding({"a.gz": content}), chunked=chunked) as proxy:
        mover = make_mover(proxy.server)
        for asked in (("--range", "2-9"), ("--tail", "3")):
            cat = mover.start("cat", *asked, f"s3://{bucket}/in/a.gz")
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
