"""Bytes that the ETag of their object contradicts, spoiled at the same place at every read: they never arrive."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from support.buckets import MIB, keys
from support.mover import SMALL_PARTS, Mover
from support.proxy import Proxy, corrupt
from support.servers import S3Server
from support.trees import tree

MoverFactory = Callable[[S3Server], Mover]
BucketFactory = Callable[..., str]


def _put(server: S3Server, bucket: str, key: str, body: bytes) -> None:
    """Write an object without a checksum, as older clients do: its ETag is all that tells of its bytes."""
    plain = server.client(request_checksum_calculation="when_required")
    plain.put_object(Bucket=bucket, Key=key, Body=body)


# With each rule of ``--verify``: ``crates/transfer/tests/etags.rs``.
@pytest.mark.parametrize("verb", ["cp", "mv"])
def test_spoiled_bytes_never_arrive_and_their_source_stays(
    seaweedfs: S3Server,
    make_proxy: Callable[[S3Server], Proxy],
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
    tmp_path: Path,
    verb: str,
) -> None:
    proxy, bucket = make_proxy(seaweedfs), make_bucket(seaweedfs)
    for key, size in (("in/small", 1000), ("in/big", 11 * MIB), ("in/fine", 10)):
        _put(seaweedfs, bucket, key, rng.randbytes(size))
    proxy.rule("GetObject", corrupt(500))

    mover = make_mover(proxy.server)
    code, summary, err = mover.copy(f"s3://{bucket}/in/", f"{tmp_path}/back", *SMALL_PARTS, verb=verb)

    assert code == 3, f"{summary}\n{err}"
    failed = {record.source_key: record.error_class for record in mover.objects(summary["id"], "failed")}
    assert failed == {"in/small": "mismatch", "in/big": "mismatch"}
    assert tree(tmp_path / "back").keys() == {"fine"}
    assert {"in/small", "in/big"} <= set(keys(seaweedfs, bucket))
