"""Object Lock: carried, set, and seen at the target; else the object fails."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.mover import MIB, SMALL_PARTS, Mover
from support.servers import S3Server
from support.trees import settle

MoverFactory = Callable[[S3Server], Mover]
BucketFactory = Callable[..., str]
UNTIL = datetime.now(UTC).replace(microsecond=0) + timedelta(days=2)


@pytest.fixture
def locked_bucket(versitygw: S3Server) -> Callable[[], str]:
    """``locked_bucket()``: a bucket with Object Lock. What is locked in it ends with the server."""
    client = versitygw.client(versitygw.user)

    def make() -> str:
        bucket = f"locked-{random.SystemRandom().randrange(10**12)}"
        client.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
        return bucket

    return make


def _lock(client: Any, bucket: str, key: str) -> tuple[str | None, datetime | None, str | None]:
    head = client.head_object(Bucket=bucket, Key=key)
    return (
        head.get("ObjectLockMode"),
        head.get("ObjectLockRetainUntilDate"),
        head.get("ObjectLockLegalHoldStatus"),
    )


def test_a_lock_is_set_and_carried_and_named_when_it_is_not(
    versitygw: S3Server,
    make_bucket: BucketFactory,
    locked_bucket: Callable[[], str],
    make_mover: MoverFactory,
    rng: random.Random,
    tmp_path: Path,
) -> None:
    first, second, plain = locked_bucket(), locked_bucket(), make_bucket(versitygw)
    client, mover = versitygw.client(versitygw.user), make_mover(versitygw)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/small").write_bytes(b"ACGT")
    (tmp_path / "run/big").write_bytes(rng.randbytes(6 * MIB))
    settle(*(tmp_path / "run").iterdir())
    until = UNTIL.strftime("%Y-%m-%dT%H:%M:%SZ")
    lock = ("--object-lock-mode", "GOVERNANCE", "--object-lock-until", until, "--object-lock-legal-hold")

    code, summary, err = mover.copy(f"{tmp_path}/run/", f"s3://{first}/run/", *SMALL_PARTS, *lock)
    assert code == 0, (err, [one.error_message for one in mover.objects(summary["id"], "failed")])
    for key in ("run/small", "run/big"):
        assert _lock(client, first, key) == ("GOVERNANCE", UNTIL, "ON"), key

    code, summary, err = mover.copy(f"s3://{first}/run/", f"s3://{second}/run/", *SMALL_PARTS, "--object-lock", "copy")
    assert code == 0, (err, [one.error_message for one in mover.objects(summary["id"], "failed")])
    for key in ("run/small", "run/big"):
        assert _lock(client, second, key) == ("GOVERNANCE", UNTIL, "ON"), key

    code, summary, err = mover.copy(f"s3://{first}/run/", f"s3://{plain}/run/", *SMALL_PARTS)
    assert code == 0, err
    (big,) = [one for one in mover.objects(summary["id"]) if one.source_key == "run/big"]
    assert any("Object Lock" in text for text in big.not_carried)


def test_a_bucket_without_object_lock_refuses_and_nothing_stays(
    seaweedfs: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(seaweedfs), make_mover(seaweedfs)
    (tmp_path / "a").write_bytes(b"a")
    settle(tmp_path / "a")

    code, summary, _ = mover.copy(
        str(tmp_path / "a"), f"s3://{bucket}/a", "--object-lock-mode", "GOVERNANCE", "--object-lock-until", "1d"
    )

    assert (code, summary["objects_failed"]) == (1, 1)
    assert "Contents" not in seaweedfs.client().list_objects_v2(Bucket=bucket)


def test_a_server_that_drops_the_lock_of_a_copy_is_found_out(
    seaweedfs: S3Server, make_mover: MoverFactory, make_bucket: BucketFactory
) -> None:
    client, source = seaweedfs.client(), make_bucket(seaweedfs)
    bucket = f"locked-{random.SystemRandom().randrange(10**12)}"
    client.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    client.put_object(Bucket=source, Key="run/a", Body=b"a")
    mover = make_mover(seaweedfs)

    code, summary, _ = mover.copy(f"s3://{source}/run/", f"s3://{bucket}/run/", "--object-lock-legal-hold")

    assert (code, summary["objects_failed"]) == (1, 1)
    (failed,) = mover.objects(summary["id"], "failed")
    assert failed.error_code == "NotLocked"
    assert "a legal hold was sent, and the target does not show it" in str(failed.error_message)
