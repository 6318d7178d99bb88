"""Archives with an index beside them: only members are read, and an index of something else is refused."""

from __future__ import annotations

import io
import json
import random
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.buckets import keys
from support.made_archives import MIB, many, names, put
from support.mover import Mover
from support.proxy import Proxy
from support.servers import S3Server

MoverFactory = Callable[[S3Server], Mover]
BucketFactory = Callable[..., str]


def _crc(body: bytes, polynomial: int, bits: int) -> str:
    """A reflected CRC with all bits set before and inverted after, in hexadecimal."""
    ones = (1 << bits) - 1
    table = [0] * 256
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (polynomial if value & 1 else 0)
        table[byte] = value
    value = ones
    for byte in body:
        value = value >> 8 ^ table[(value ^ byte) & 0xFF]
    return f"{value ^ ones:0{bits // 4}x}"


def index_of(server: S3Server, bucket: str, key: str, **head: Any) -> bytes:
    """The index of a tar of small files, with their checksums; ``head`` replaces facts of the archive."""
    found = server.client().get_object(Bucket=bucket, Key=key)
    body = found["Body"].read()
    identity = {"size": len(body), "etag": found["ETag"].strip('"'), **head}
    lines: list[dict[str, Any]] = [{"format": "seqferry-tar-index", "version": 1, "tool": "a test", "tar": identity}]
    with tarfile.open(fileobj=io.BytesIO(body)) as archive:
        for one in archive:
            line = {"name": one.name, "type": "file", "header": one.offset, "data": one.offset_data, "size": one.size}
            lines.append({**line, "mode": one.mode, "mtime": int(one.mtime)})
            if one.size <= MIB:
                stored = body[one.offset_data : one.offset_data + one.size]
                lines[-1]["crc32c"] = _crc(stored, 0x82F63B78, 32)
    text = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    written = lines[1:]
    tail = {
        "members": len(written),
        "stored_total": sum(line["size"] for line in written),
        "sorted": [line["name"] for line in written] == sorted(line["name"] for line in written),
        "crc64nvme": _crc(text, 0x9A6C9329AC4BC9B5, 64),
    }
    return text + json.dumps(tail).encode() + b"\n"


def test_with_an_index_only_the_wanted_members_are_read(
    versitygw: S3Server, make_proxy: Callable[[S3Server], Proxy], make_bucket: BucketFactory, make_mover: MoverFactory,
    rng: random.Random, tmp_path: Path,
) -> None:  # fmt: skip
    bucket, proxy = make_bucket(versitygw), make_proxy(versitygw)
    members = {f"s/{number:03d}": rng.randbytes(20_000) for number in range(300)}
    put(versitygw, bucket, "x.tar", many(members, format=tarfile.USTAR_FORMAT))
    put(versitygw, bucket, "x.tar.sfidx", index_of(versitygw, bucket, "x.tar"))
    mover = make_mover(proxy.server)

    code, summary, err = mover.copy(
        f"s3://{bucket}/x.tar", f"{tmp_path}/some", "--exclude", "*", "--include", "s/12?", verb="unpack"
    )
    assert code == 0, err
    read = sum(
        record.reply_bytes for record in proxy.log() if record.operation == "GetObject" and record.key == "x.tar"
    )
    code, _, err = mover.copy(f"s3://{bucket}/x.tar", f"{tmp_path}/all", verb="unpack")
    assert code == 0, err
    requests = sum(1 for record in proxy.log() if record.operation == "GetObject" and record.range)

    assert summary["objects_done"] == 10
    assert (tmp_path / "some/s/127").read_bytes() == members["s/127"]
    assert read < 10 * 21_000 + 20 * 2_000
    assert {name: (tmp_path / "all" / name).read_bytes() for name in members} == members
    assert requests < 100, "neighbours share reads"
    verified = mover.start("tar", "verify", f"s3://{bucket}/x.tar", "--json")
    assert verified.wait() == 0, verified.stderr
    assert json.loads(verified.stdout.splitlines()[-1])["compared"] == 300


def test_an_index_of_another_archive_is_refused_before_a_byte_is_written(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    put(versitygw, bucket, "in/x.tar", many({"a": b"1" * 600, "b": b"2"}, format=tarfile.USTAR_FORMAT))
    put(versitygw, bucket, "in/y.tar", many({"b": b"2" * 700, "c": b"1"}, format=tarfile.USTAR_FORMAT))
    etag = versitygw.client().head_object(Bucket=bucket, Key="in/x.tar")["ETag"].strip('"')
    indexes = {
        "under a false name": index_of(versitygw, bucket, "in/y.tar", etag=etag),
        "without a proof": index_of(versitygw, bucket, "in/y.tar", etag=None),
    }
    for case, index in indexes.items():
        put(versitygw, bucket, "in/x.tar.sfidx", index)
        code, summary, err = mover.copy(f"s3://{bucket}/in/x.tar", f"s3://{bucket}/out/", verb="unpack")
        assert (code, summary["error_code"]) == (1, "ForeignIndex"), f"{case}: {summary} {err}"
        assert "index" in str(summary["error_message"])
    assert all(key.startswith("in/") for key in keys(versitygw, bucket))

    code, _, err = mover.copy(f"s3://{bucket}/in/x.tar", f"{tmp_path}/to", "--no-index", verb="unpack")
    assert code == 0, err
    assert names(tmp_path / "to") == ["a", "b"]


def test_contents_that_are_not_those_of_the_index_are_not_unpacked(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    body = bytearray(many({"a": b"1" * 600, "b": b"2" * 600}, format=tarfile.USTAR_FORMAT))
    put(versitygw, bucket, "x.tar", bytes(body))
    body[512 + 100] ^= 1
    index = index_of(versitygw, bucket, "x.tar").splitlines(keepends=True)
    put(versitygw, bucket, "x.tar", bytes(body))
    etag = versitygw.client().head_object(Bucket=bucket, Key="x.tar")["ETag"].strip('"')
    head = json.loads(index[0])
    head["tar"]["etag"] = etag
    lines = json.dumps(head).encode() + b"\n" + b"".join(index[1:-1])
    tail = {**json.loads(index[-1]), "crc64nvme": _crc(lines, 0x9A6C9329AC4BC9B5, 64)}
    put(versitygw, bucket, "x.tar.sfidx", lines + json.dumps(tail).encode() + b"\n")

    code, _, _ = mover.copy(f"s3://{bucket}/x.tar", f"{tmp_path}/to", verb="unpack")
    verified = mover.start("tar", "verify", f"s3://{bucket}/x.tar")

    assert code == 3
    assert names(tmp_path / "to") == ["b"]
    assert verified.wait() == 3
    assert "a: its contents are not those that the index promises" in verified.stdout
