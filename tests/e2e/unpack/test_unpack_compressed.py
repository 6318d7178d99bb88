"""Compressed tars and zips: as their plain tars, by one stream; zips by their directory."""

from __future__ import annotations

import gzip
import io
import random
import shutil
import struct
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from support.buckets import keys, open_uploads
from support.made_archives import MIB, many, names, put, raw, split_zip
from support.mover import SMALL_PARTS, Mover
from support.proxy import Proxy
from support.servers import S3Server

MoverFactory = Callable[[S3Server], Mover]
BucketFactory = Callable[..., str]


def _compressed(kind: str, body: bytes) -> bytes:
    """As the usual program compresses it."""
    program = {"bgz": ["bgzip"], "zst": ["zstd", "-q", "-3"], "frames.zst": ["zstd", "-q", "-3", "--no-check"]}[kind]
    if (found := shutil.which(program[0])) is None:
        pytest.skip(f"{program[0]} is not installed (Debian: tabix, zstd)")
    middle = len(body) // 2 + 77 if kind == "frames.zst" else len(body)
    pieces = [piece for piece in (body[:middle], body[middle:]) if piece]
    made = [
        subprocess.run([found, *program[1:], "-c"], input=piece, stdout=subprocess.PIPE, check=True).stdout
        for piece in pieces
    ]
    skipped = struct.pack("<II", 0x184D2A50, 4) + b"skip" if kind == "frames.zst" else b""
    return skipped.join(made)


def _members(rng: random.Random) -> dict[str, bytes]:
    sizes = [0, 1, 511, 3 * MIB, 100_000, 11 * MIB, *(rng.randrange(60_000) for _ in range(40))]
    # Half of it compresses well.
    return {
        f"run/{number:02d}": rng.randbytes(size) if number % 2 else (b"ACGT" * (size // 4 + 1))[:size]
        for number, size in enumerate(sizes)
    }


# All that other programs compress is unpacked in ``integration/planning/test_archive_corpus.py``.
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["bgz", "frames.zst"])
def test_a_compressed_tar_is_unpacked_as_its_plain_tar(
    versitygw: S3Server,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
    tmp_path: Path,
    kind: str,
) -> None:
    bucket, mover, members = make_bucket(versitygw), make_mover(versitygw), _members(rng)
    key = f"x.tar.{kind.rpartition('.')[2]}"
    put(versitygw, bucket, key, _compressed(kind, many(members)))

    code, _, err = mover.copy(f"s3://{bucket}/{key}", f"{tmp_path}/to", verb="unpack")
    assert code == 0, err
    code, summary, err = mover.copy(f"s3://{bucket}/{key}", f"s3://{bucket}/out/", *SMALL_PARTS, verb="unpack")
    assert code == 0, err

    assert summary["verified"] == {"checksum": len(members)}
    client = versitygw.client()
    for name, body in members.items():
        assert (tmp_path / "to" / name).read_bytes() == body, name
        assert client.get_object(Bucket=bucket, Key=f"out/{name}")["Body"].read() == body, name


def test_a_small_archive_without_an_index_is_read_once(
    s3server: S3Server, make_proxy: Callable[[S3Server], Proxy], make_bucket: BucketFactory, make_mover: MoverFactory,
    rng: random.Random, tmp_path: Path,
) -> None:  # fmt: skip
    bucket, proxy = make_bucket(s3server), make_proxy(s3server)
    members = {f"run/{number:03d}": rng.randbytes(rng.randrange(40_000)) for number in range(150)}
    members["run/long"] = rng.randbytes(3 * MIB)
    plain = many(members)
    archives = {"x.tar": plain, "x.tgz": gzip.compress(plain, 1), "x.tar.zst": _compressed("zst", plain), "only": plain}
    mover = make_mover(proxy.server)
    for key, stored in archives.items():
        put(s3server, bucket, key, stored)
        chosen = ["--exclude", "*", "--include", "run/00*"] if key == "only" else []

        code, _, err = mover.copy(f"s3://{bucket}/{key}", f"{tmp_path}/{key}", *chosen, verb="unpack")

        assert code == 0, f"{key}: {err}"
        wanted = {name: body for name, body in members.items() if not chosen or name.startswith("run/00")}
        assert {f"run/{path.name}": path.read_bytes() for path in (tmp_path / key / "run").iterdir()} == wanted, key
        gets = [record for record in proxy.log("GetObject") if record.key == key]
        # The first bytes are read by themselves where the name does not tell the format.
        read = sum(record.reply_bytes for record in gets)
        assert 0 < read < len(stored) + 64 * 1024, f"{key}: {len(gets)} reads of {len(stored)} bytes"


def test_a_damaged_or_truncated_compressed_tar_leaves_nothing_behind(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    whole = gzip.compress(many({"a": rng.randbytes(200_000), "b": rng.randbytes(200_000)}), 1)
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0x55
    for name, body in {"cut": whole[: len(whole) // 2], "flipped": bytes(flipped)}.items():
        put(versitygw, bucket, f"in/{name}.tgz", body)

        code, summary, err = mover.copy(f"s3://{bucket}/in/{name}.tgz", f"s3://{bucket}/out/", verb="unpack")

        assert (code, summary["state"]) == (1, "failed"), err
        assert "Fetch the archive again" in summary["error_message"], summary
    assert all(key.startswith("in/") for key in keys(versitygw, bucket))
    assert open_uploads(versitygw, bucket) == []


def test_hostile_members_of_a_compressed_tar_are_refused(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    body = raw(({"name": "good"}, b"good"), ({"name": "../out"}, b"x"), ({"name": "late"}, b"late"))
    put(versitygw, bucket, "x.tgz", gzip.compress(body))

    code, summary, _ = mover.copy(f"s3://{bucket}/x.tgz", f"{tmp_path}/parent/to", verb="unpack")

    assert code == 1
    assert [failure["error_code"] for failure in summary["failures"]] == ["ParentComponent"]
    assert names(tmp_path / "parent") == ["to"]
    assert names(tmp_path / "parent/to") == ["good", "late"]


def _zip(members: dict[str, bytes], method: int, *, stream: bool = False) -> bytes:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return not stream

    buffer = Pipe()
    with zipfile.ZipFile(buffer, "w", method) as made:
        for name, body in members.items():
            made.writestr(name, body)
    return buffer.getvalue()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("method", "stream"), [(zipfile.ZIP_STORED, False), (zipfile.ZIP_DEFLATED, True)], ids=["stored", "deflated stream"]
)
def test_a_zip_is_unpacked(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path,
    method: int, stream: bool,
) -> None:  # fmt: skip
    bucket, mover, members = make_bucket(versitygw), make_mover(versitygw), _members(rng)
    members["Ünï/中文.txt"] = b"x"
    put(versitygw, bucket, "x.zip", _zip(members, method, stream=stream))

    code, summary, err = mover.copy(f"s3://{bucket}/x.zip", f"{tmp_path}/to", verb="unpack")
    assert code == 0, f"{summary}{err}"
    code, summary, err = mover.copy(f"s3://{bucket}/x.zip", f"s3://{bucket}/out/", *SMALL_PARTS, verb="unpack")
    assert code == 0, f"{summary}{err}"

    assert summary["verified"] == {"checksum": len(members)}
    client = versitygw.client()
    for name, body in members.items():
        assert (tmp_path / "to" / name).read_bytes() == body, name
        assert client.get_object(Bucket=bucket, Key=f"out/{name}")["Body"].read() == body, name


def test_hostile_and_damaged_zips_are_refused(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    put(versitygw, bucket, "x.zip", _zip({"good": b"good", "../out": b"x", "/abs": b"x"}, zipfile.ZIP_DEFLATED))
    code, summary, _ = mover.copy(f"s3://{bucket}/x.zip", f"{tmp_path}/parent/to", verb="unpack")
    assert code == 1
    assert {failure["error_code"] for failure in summary["failures"]} == {"ParentComponent", "AbsolutePath"}
    assert names(tmp_path / "parent/to") == ["good"]

    wrong = bytearray(_zip({"good": b"good" * 1000}, zipfile.ZIP_STORED))
    wrong[200] ^= 1
    put(versitygw, bucket, "wrong.zip", bytes(wrong))
    code, summary, _ = mover.copy(f"s3://{bucket}/wrong.zip", f"{tmp_path}/wrong", verb="unpack")
    assert code in (1, 3)
    assert names(tmp_path / "wrong") == []


def test_the_joined_volumes_of_a_split_zip_are_unpacked(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket, mover, volumes = make_bucket(versitygw), make_mover(versitygw), split_zip("7z", tmp_path)
    assert len(volumes) > 1
    put(versitygw, bucket, "y.zip.001", volumes["y.zip.001"])
    put(versitygw, bucket, "whole.zip", b"".join(volumes.values()))

    code, summary, _ = mover.copy(f"s3://{bucket}/y.zip.001", f"{tmp_path}/to", verb="unpack")
    assert (code, summary["error_code"]) == (1, "SplitArchive"), summary
    assert names(tmp_path / "to") == []
    code, _, err = mover.copy(f"s3://{bucket}/whole.zip", f"{tmp_path}/to", verb="unpack")
    assert (code, names(tmp_path / "to")) == (0, ["a", "b"]), err


def test_archives_are_listed(versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory) -> None:
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    members = {"a": b"12345", "d/b": b""}
    put(versitygw, bucket, "x.tar", many(members))
    put(versitygw, bucket, "x.tgz", gzip.compress(many(members)))
    put(versitygw, bucket, "x.zip", _zip(members, zipfile.ZIP_DEFLATED))
    for key in ("x.tar", "x.tgz", "x.zip"):
        listed = mover.start("tar", "ls", f"s3://{bucket}/{key}")
        assert listed.wait() == 0, listed.stderr
        lines = [line.split() for line in listed.stdout.splitlines()]
        assert [(line[1], line[-1]) for line in lines] == [("5", "a"), ("0", "d/b")], key


def test_verify_reads_the_whole_tar(versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory) -> None:
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    body = many({"a": b"12345", "d/b": b"1" * 100_000})
    put(versitygw, bucket, "x.tar", body)
    put(versitygw, bucket, "cut.tar", body[:60_000])

    sound = mover.start("tar", "verify", f"s3://{bucket}/x.tar", "--json")
    cut = mover.start("tar", "verify", f"s3://{bucket}/cut.tar")

    assert sound.wait() == 0, sound.stderr
    assert '"members": 2' in sound.stdout.replace('":2', '": 2')
    assert cut.wait() != 0
    assert "truncated" in cut.stderr
