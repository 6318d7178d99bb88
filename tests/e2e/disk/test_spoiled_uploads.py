"""Bytes that are spoiled on their way to the storage: what is called done is what was sent."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.buckets import MIB, keys, open_uploads
from support.mover import SMALL_PARTS, Mover
from support.processes import seqferry
from support.proxy import Proxy, Record, corrupt_request
from support.servers import S3Server
from support.trees import fill

pytestmark = pytest.mark.every_server  # checksums differ

MoverFactory = Callable[[S3Server], Mover]
BucketFactory = Callable[..., str]

WRITES = ("PutObject", "UploadPart")
SIZES = [21 * MIB, 11 * MIB, 5 * MIB + 1, 5 * MIB, *(7919 * n + 1 for n in range(26))]
NOW_AND_THEN = [
    pytest.param({"every": 3}, id="every-third"),
    pytest.param({"probability": 0.3}, id="by-chance"),
]


def _spoil(proxy: Proxy, rng: random.Random, key: str | None = None, **choice: Any) -> None:
    """Flip a byte anywhere of some of the bodies that are written."""
    for operation in WRITES:
        action = corrupt_request(rng.randrange(2**32))
        proxy.rule(operation, action, key=key, seed=rng.randrange(2**32), **choice)


def _spoiled(proxy: Proxy) -> list[Record]:
    proxy.wait_idle()
    return [record for record in proxy.log() if record.spoiled_at is not None]


def _assert_some_were_spoiled(proxy: Proxy, choice: Mapping[str, Any]) -> None:
    operations = {record.operation for record in _spoiled(proxy)}
    # Chance may pass over the few parts that there are.
    assert operations == set(WRITES) if "every" in choice else operations


def _stored(server: S3Server, bucket: str) -> dict[str, bytes]:
    client = server.client()
    return {key: client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys(server, bucket)}


def _assert_only_right_ones_are_done(
    server: S3Server, bucket: str, mover: Mover, ended: tuple[int, dict[str, Any], str], expected: Mapping[str, bytes]
) -> set[str]:
    """What is done holds its bytes, and what is not is not there; returns the keys of the latter."""
    code, summary, err = ended
    records = {record.target_key: record for record in mover.objects(summary["id"])}
    assert records.keys() == expected.keys(), f"{summary}\n{err}"
    failed = {key for key, record in records.items() if record.state == "failed"}
    assert {records[key].error_class for key in failed} <= {"mismatch"}, f"{summary}\n{err}"
    assert {records[key].state for key in records.keys() - failed} == {"done"}
    assert code == (3 if failed else 0), f"{summary}\n{err}"
    stored = _stored(server, bucket)
    assert stored.keys() == expected.keys() - failed
    wrong = [key for key in stored if stored[key] != expected[key]]
    assert not wrong, f"called done: {wrong}"
    assert open_uploads(server, bucket) == []
    return failed


@pytest.mark.parametrize("choice", NOW_AND_THEN)
def test_files_arrive_whole_although_bodies_are_spoiled_now_and_then(
    s3server: S3Server,
    proxy: Proxy,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
    tmp_path: Path,
    choice: dict[str, Any],
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(proxy.server)
    fill(tmp_path / "run", rng, [f"{n:02d}.fq" for n in range(len(SIZES))], SIZES)
    expected = {f"in/{path.name}": path.read_bytes() for path in (tmp_path / "run").iterdir()}
    _spoil(proxy, rng, **choice)

    ended = mover.copy(f"{tmp_path}/run", f"s3://{bucket}/in/", *SMALL_PARTS)

    failed = _assert_only_right_ones_are_done(s3server, bucket, mover, ended, expected)
    _assert_some_were_spoiled(proxy, choice)
    assert failed == set(), ended[2]


def test_what_passes_through_us_to_another_storage_arrives_whole_as_well(
    s3server: S3Server,
    proxy: Proxy,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
) -> None:
    from_, to = make_bucket(s3server), make_bucket(s3server)
    expected = {f"{n:02d}.fq": rng.randbytes(size) for n, size in enumerate(SIZES)}
    for key, content in expected.items():
        s3server.client().put_object(Bucket=from_, Key=key, Body=content)
    mover = make_mover(s3server)
    endpoints = ("--source-endpoint-url", s3server.endpoint_url, "--target-endpoint-url", proxy.endpoint_url)
    _spoil(proxy, rng, every=3)

    ended = mover.copy(f"s3://{from_}/", f"s3://{to}/", *endpoints, *SMALL_PARTS)

    failed = _assert_only_right_ones_are_done(s3server, to, mover, ended, expected)
    assert ended[1]["streamed"] == len(expected)
    _assert_some_were_spoiled(proxy, {"every": 3})
    assert failed == set(), ended[2]


def test_what_is_spoiled_every_time_fails_as_a_mismatch_and_is_not_left(
    s3server: S3Server,
    proxy: Proxy,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
    tmp_path: Path,
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(proxy.server)
    fill(tmp_path / "run", rng, ["bad-big", "bad-small", "fine-big", "fine-small"], [11 * MIB, 1000])
    expected = {f"in/{path.name}": path.read_bytes() for path in (tmp_path / "run").iterdir()}
    _spoil(proxy, rng, "in/bad-*")

    # All the tries that there are without an option take half a minute.
    ended = mover.copy(f"{tmp_path}/run", f"s3://{bucket}/in/", *SMALL_PARTS, "--attempts", "4")

    failed = _assert_only_right_ones_are_done(s3server, bucket, mover, ended, expected)
    assert failed == {"in/bad-big", "in/bad-small"}
    proxy.clear_rules()
    again = mover.copy(f"{tmp_path}/run", f"s3://{bucket}/in/", *SMALL_PARTS)
    assert again[0] == 0, again
    assert _stored(s3server, bucket) == expected


@pytest.mark.parametrize("size", [1000, 11 * MIB])
def test_standard_input_arrives_whole(
    s3server: S3Server,
    proxy: Proxy,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
    size: int,
) -> None:
    bucket, mover, content = make_bucket(s3server), make_mover(proxy.server), rng.randbytes(size)
    _spoil(proxy, rng, every=2)
    environment = {**os.environ, **mover.server.environment(), "SEQFERRY_STATE_DIR": str(mover.state)}

    ended = subprocess.run(
        [str(seqferry()), "cp", "-", f"s3://{bucket}/a", *SMALL_PARTS],
        input=content,
        capture_output=True,
        env=environment,
        check=False,
        timeout=120,
    )

    assert ended.returncode == 0, ended.stderr
    assert _spoiled(proxy)
    assert _stored(s3server, bucket) == {"a": content}
