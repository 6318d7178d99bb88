"""Unpacking that is killed again and again: all arrives, and no finished member is written twice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from support.buckets import open_uploads
from support.made_archives import MIB, many, put
from support.mover import SMALL_PARTS, Mover
from support.proxy import Proxy, hold
from support.servers import S3Server

KILLS = 6
MoverFactory = Callable[[S3Server], Mover]
BucketFactory = Callable[..., str]


def _members(rng: random.Random) -> dict[str, bytes]:
    sizes = [11 * MIB + n for n in range(3)] + [rng.randrange(200_000) for _ in range(60)]
    rng.shuffle(sizes)
    return {f"run/{number:03d}": rng.randbytes(size) for number, size in enumerate(sizes)}


def _submit(mover: Mover, *arguments: str) -> str:
    running = mover.start("unpack", *arguments, "--detach")
    assert running.wait() == 0, running.stderr
    return running.stdout.strip()


def _kill(
    proxy: Proxy, mover: Mover, transfer_id: str, operations: tuple[str, ...], rng: random.Random
) -> Counter[str]:
    """Kill workers while such requests are under way; returns what was in flight at the kills, by key."""
    in_flight: Counter[str] = Counter()
    for kill in range(KILLS):
        rule = proxy.rule(operations, hold(rng.choice(["request", "reply"])), after=rng.randrange(1, 6))
        worker = mover.start("worker", "--max-requests", str(rng.choice([1, 2, 4])))
        if not mover.is_held(proxy, rule, transfer_id):
            # Fewer requests were left than the kill was to wait for.
            assert kill, "nothing was killed"
            worker.kill()
            proxy.remove_rule(rule)
            break
        in_flight.update(record.key or "" for record in proxy.in_flight() if record.operation in operations)
        finished = {record.target_key for record in mover.objects(transfer_id, "done")}
        worker.kill()
        proxy.remove_rule(rule)
        proxy.wait_idle()
        assert finished <= {record.target_key for record in mover.objects(transfer_id, "done")}
    if not mover.status(transfer_id).ended:
        with mover.start("resume", transfer_id) as last:
            assert last.wait(300) == 0, str(last)
    status = mover.status(transfer_id)
    assert (status.state, status.totals.failed, status.totals.cancelled) == ("done", 0, 0)
    return in_flight


@pytest.mark.timeout(600)
def test_unpacking_to_a_prefix_goes_on_with_the_member_it_was_at(
    s3server: S3Server, make_proxy: Callable[[S3Server], Proxy], make_bucket: BucketFactory, make_mover: MoverFactory,
    rng: random.Random,
) -> None:  # fmt: skip
    bucket, proxy, members = make_bucket(s3server), make_proxy(s3server), _members(rng)
    put(s3server, bucket, "x.tar", many(members))
    mover = make_mover(proxy.server)
    transfer_id = _submit(mover, f"s3://{bucket}/x.tar", f"s3://{bucket}/out/", *SMALL_PARTS)

    writes = ("PutObject", "CreateMultipartUpload", "UploadPartCopy", "UploadPart", "CompleteMultipartUpload")
    in_flight = _kill(proxy, mover, transfer_id, writes, rng)

    client = s3server.client()
    for name, body in members.items():
        assert client.get_object(Bucket=bucket, Key=f"out/{name}")["Body"].read() == body, name
    assert open_uploads(s3server, bucket) == []
    put_twice = Counter(record.key for record in proxy.log() if record.operation == "PutObject" and record.took_effect)
    again = {key: times for key, times in put_twice.items() if times > 1 + in_flight[key or ""]}
    # What was written and not yet on record when its worker was killed cannot be told from what others wrote.
    assert len(again) <= 8 * KILLS, again


@pytest.mark.timeout(600)
def test_unpacking_to_a_folder_leaves_whole_files_only(
    s3server: S3Server, make_proxy: Callable[[S3Server], Proxy], make_bucket: BucketFactory, make_mover: MoverFactory,
    rng: random.Random, tmp_path: Path,
) -> None:  # fmt: skip
    bucket, proxy, members = make_bucket(s3server), make_proxy(s3server), _members(rng)
    put(s3server, bucket, "x.tar", many(members))
    mover = make_mover(proxy.server)
    transfer_id = _submit(mover, f"s3://{bucket}/x.tar", f"{tmp_path}/to", *SMALL_PARTS)

    _kill(proxy, mover, transfer_id, ("GetObject",), rng)

    found = {str(path.relative_to(tmp_path / "to")): path for path in (tmp_path / "to").rglob("*") if path.is_file()}
    assert found.keys() == members.keys()
    assert all(found[name].read_bytes() == body for name, body in members.items())
