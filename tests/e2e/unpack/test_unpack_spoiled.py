"""Archives whose bytes are spoiled at every read: none of their members arrives, or counts as more than compared."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_unpack_index import index_of

from support.made_archives import KIB, MIB, many, names
from support.mover import Mover
from support.proxy import Proxy, corrupt
from support.servers import S3Server

MoverFactory = Callable[[S3Server], Mover]
BucketFactory = Callable[..., str]
ProxyFactory = Callable[[S3Server], Proxy]

STRICT = [("--verify", "checksum"), ("--verify", "content")]


def _store(server: S3Server, bucket: str, key: str, body: bytes, *, parts: int = 1) -> None:
    """Write an object without a checksum, as older clients do: its ETag is all that tells of its bytes."""
    client = server.client(request_checksum_calculation="when_required")
    if parts == 1:
        client.put_object(Bucket=bucket, Key=key, Body=body)
        return
    upload = client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
    made: list[dict[str, Any]] = []
    for number in range(parts):
        piece = body[number * 5 * MIB :][: 5 * MIB if number + 1 < parts else None]
        sent = client.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=number + 1, Body=piece)
        made.append({"PartNumber": number + 1, "ETag": sent["ETag"]})
    client.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": made})


def _zstd(body: bytes) -> bytes:
    """Without a checksum in its frame: nothing but the ETag tells of its bytes. Random bytes are stored as they are."""
    return subprocess.run(["zstd", "-q", "--no-check", "-c"], input=body, stdout=subprocess.PIPE, check=True).stdout


def _small(rng: random.Random) -> bytes:
    return many({f"s/{number:02d}": rng.randbytes(20 * KIB) for number in range(20)})


def _large(rng: random.Random) -> bytes:
    return many({f"s/{number}": rng.randbytes(7 * MIB // 2 + number) for number in range(4)})


def _small_in_zstd(rng: random.Random) -> bytes:
    return _zstd(_small(rng))


def _large_in_zstd(rng: random.Random) -> bytes:
    return _zstd(_large(rng))


CASES: dict[str, tuple[str, Callable[[random.Random], bytes], int]] = {
    "small members": ("x.tar", _small, 1),
    "large members": ("x.tar", _large, 1),
    "large members in parts": ("x.tar", _large, 2),
    "zstd": ("x.tar.zst", _small_in_zstd, 1),
    "zstd in parts": ("x.tar.zst", _large_in_zstd, 3),
}


# Each case with one of the two options: what they ask of the archive is the same.
@pytest.mark.parametrize(("case", "options"), list(zip(CASES, itertools.cycle(STRICT))))
def test_an_archive_that_its_etag_contradicts_is_not_unpacked(
    seaweedfs: S3Server, make_proxy: ProxyFactory, make_bucket: BucketFactory, make_mover: MoverFactory,
    rng: random.Random, tmp_path: Path, options: tuple[str, str], case: str,
) -> None:  # fmt: skip
    key, made, parts = CASES[case]
    proxy, bucket = make_proxy(seaweedfs), make_bucket(seaweedfs)
    _store(seaweedfs, bucket, key, made(rng), parts=parts)
    mover = make_mover(proxy.server)

    code, summary, err = mover.copy(f"s3://{bucket}/{key}", f"{tmp_path}/whole", *options, verb="unpack")
    assert code == 0, err
    assert set(summary["verified"]) <= {"checksum", "content"}

    proxy.rule("GetObject", corrupt(5000))
    code, summary, err = mover.copy(f"s3://{bucket}/{key}", f"{tmp_path}/to", *options, verb="unpack")

    assert (code, summary["error_code"]) == (3, "ContentMismatch"), f"{summary}\n{err}"
    assert "ETag" in str(summary["error_message"])
    assert "Nothing of it is unpacked" in str(summary["error_message"])
    assert names(tmp_path / "to") == []


@pytest.mark.parametrize("case", ["small members", "zstd", "zstd in parts"])
def test_an_archive_that_is_read_whole_anyway_is_held_against_its_etag(
    seaweedfs: S3Server, make_proxy: ProxyFactory, make_bucket: BucketFactory, make_mover: MoverFactory,
    rng: random.Random, tmp_path: Path, case: str,
) -> None:  # fmt: skip
    key, made, parts = CASES[case]
    proxy, bucket = make_proxy(seaweedfs), make_bucket(seaweedfs)
    _store(seaweedfs, bucket, key, made(rng), parts=parts)
    mover = make_mover(proxy.server)

    code, summary, err = mover.copy(f"s3://{bucket}/{key}", f"{tmp_path}/whole", verb="unpack")
    assert (code, set(summary["verified"])) == (0, {"checksum"}), err
    proxy.rule("GetObject", corrupt(5000))
    code, summary, err = mover.copy(f"s3://{bucket}/{key}", f"{tmp_path}/to", verb="unpack")

    assert (code, summary["error_code"]) == (3, "ContentMismatch"), f"{summary}\n{err}"
    assert names(tmp_path / "to") == []


def test_members_that_nothing_was_compared_for_count_by_size(
    seaweedfs: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    bucket = make_bucket(seaweedfs)
    _store(seaweedfs, bucket, "x.tar", many({f"s/{number}": rng.randbytes(20 * MIB) for number in range(2)}))

    for target in (f"{tmp_path}/to", f"s3://{bucket}/out/"):
        code, summary, err = make_mover(seaweedfs).copy(f"s3://{bucket}/x.tar", target, verb="unpack")

        assert (code, summary["verified"]) == (0, {"size": 2}), err


@pytest.mark.parametrize("options", [(), *STRICT])
def test_a_member_without_a_checksum_in_the_index_counts_by_itself(
    seaweedfs: S3Server, make_proxy: ProxyFactory, make_bucket: BucketFactory, make_mover: MoverFactory,
    rng: random.Random, tmp_path: Path, options: tuple[str, ...],
) -> None:  # fmt: skip
    proxy, bucket = make_proxy(seaweedfs), make_bucket(seaweedfs)
    body = many({"a": rng.randbytes(100 * KIB), "b": rng.randbytes(2 * MIB)}, format=tarfile.USTAR_FORMAT)
    _store(seaweedfs, bucket, "x.tar", body)
    # The index of this test states the checksums of members of up to 1 MiB.
    _store(seaweedfs, bucket, "x.tar.sfidx", index_of(seaweedfs, bucket, "x.tar"))
    mover = make_mover(proxy.server)

    code, summary, err = mover.copy(f"s3://{bucket}/x.tar", f"{tmp_path}/whole", *options, verb="unpack")
    verified = {"content": 2} if "content" in options else {"checksum": 2} if options else {"checksum": 1, "size": 1}
    assert (code, summary["verified"]) == (0, verified), err
    proxy.rule("GetObject", corrupt(5000), key_is="x.tar")
    code, summary, err = mover.copy(f"s3://{bucket}/x.tar", f"{tmp_path}/to", *options, verb="unpack")

    assert code == 3, f"{summary}\n{err}"
    assert "a" not in names(tmp_path / "to")
    if options:
        assert (summary["error_code"], names(tmp_path / "to")) == ("ContentMismatch", [])


def test_verify_holds_the_archive_against_its_etag(
    seaweedfs: S3Server, make_proxy: ProxyFactory, make_bucket: BucketFactory, make_mover: MoverFactory,
    rng: random.Random,
) -> None:  # fmt: skip
    proxy, bucket = make_proxy(seaweedfs), make_bucket(seaweedfs)
    _store(seaweedfs, bucket, "x.tar", _small(rng))
    mover = make_mover(proxy.server)

    whole = mover.start("tar", "verify", f"s3://{bucket}/x.tar", "--json")
    assert whole.wait() == 0, whole.stderr
    assert json.loads(whole.stdout.splitlines()[-1])["members"] == 20
    proxy.rule("GetObject", corrupt(5000))
    spoiled = mover.start("tar", "verify", f"s3://{bucket}/x.tar")

    assert spoiled.wait() == 3, spoiled.stderr
    assert "ETag" in spoiled.stdout
