"""``-``: an object out of standard input, and one to standard output: streamed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.buckets import MIB
from support.mover import SMALL_PARTS, Mover
from support.processes import seqferry
from support.proxy import Proxy, corrupt, hold, slow_down, truncate
from support.servers import S3Server
from support.waiting import eventually

MoverFactory = Callable[[S3Server], Mover]
BucketFactory = Callable[..., str]


def _piped(mover: Mover, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, **mover.server.environment(), "SEQFERRY_STATE_DIR": str(mover.state)}
    return subprocess.run(
        [str(seqferry()), *arguments], input=given, capture_output=True, env=environment, check=False, timeout=120
    )


def _folders(mover: Mover) -> list[Path]:
    place = mover.state / "pipes"
    return list(place.iterdir()) if place.exists() else []


@pytest.mark.every_server
@pytest.mark.parametrize("size", [0, 11 * MIB])
def test_what_goes_in_comes_out(
    s3server: S3Server,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
    size: int,
) -> None:
    bucket, mover, content = make_bucket(s3server), make_mover(s3server), rng.randbytes(size)

    into = _piped(mover, "cp", "-", f"s3://{bucket}/a/b", *SMALL_PARTS, given=content)
    out_of = _piped(mover, "cp", f"s3://{bucket}/a/b", "-", *SMALL_PARTS)

    assert (into.returncode, into.stdout) == (0, b""), into.stderr
    assert s3server.client().get_object(Bucket=bucket, Key="a/b")["Body"].read() == content
    assert out_of.returncode == 0, out_of.stderr
    assert out_of.stdout == content
    assert _folders(mover) == []


def test_nothing_that_is_not_proven_comes_out(
    s3server: S3Server, proxy: Proxy, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(proxy.server)
    assert _piped(make_mover(s3server), "cp", "-", f"s3://{bucket}/a", given=rng.randbytes(1000)).returncode == 0
    proxy.rule("GetObject", corrupt(500))

    ended = _piped(mover, "cp", f"s3://{bucket}/a", "-")

    assert (ended.returncode, ended.stdout) == (3, b""), ended.stderr
    assert _folders(mover) == []


def test_a_large_object_that_is_not_what_the_storage_promises_ends_with_a_mismatch(
    s3server: S3Server, proxy: Proxy, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random
) -> None:
    bucket, content = make_bucket(s3server), rng.randbytes(33 * MIB)
    s3server.client().put_object(Bucket=bucket, Key="a", Body=content)
    good = _piped(make_mover(s3server), "cp", f"s3://{bucket}/a", "-")
    assert (good.returncode, good.stdout == content) == (0, True), good.stderr
    proxy.rule("GetObject", corrupt(500), times=1)

    ended = _piped(make_mover(proxy.server), "cp", f"s3://{bucket}/a", "-")

    assert ended.returncode == 3, ended.stderr
    assert b"Do not use" in ended.stderr


def test_a_broken_answer_is_read_again_and_nothing_comes_out_twice(
    s3server: S3Server, proxy: Proxy, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random
) -> None:
    bucket, content = make_bucket(s3server), rng.randbytes(33 * MIB)
    s3server.client().put_object(Bucket=bucket, Key="a", Body=content)
    proxy.rule("GetObject", truncate(100_000), times=2)
    proxy.rule("GetObject", slow_down(), times=1)

    ended = _piped(make_mover(proxy.server), "cp", f"s3://{bucket}/a", "-")

    assert (ended.returncode, ended.stdout == content) == (0, True), ended.stderr


@pytest.mark.every_server
def test_an_object_that_is_overwritten_while_it_is_read_ends_the_command(
    s3server: S3Server, proxy: Proxy, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random
) -> None:
    bucket, client = make_bucket(s3server), s3server.client()
    client.put_object(Bucket=bucket, Key="a", Body=rng.randbytes(33 * MIB))
    held = proxy.rule("GetObject", hold())
    environment = {**os.environ, **proxy.server.environment(), "SEQFERRY_STATE_DIR": str(make_mover(s3server).state)}
    command = [str(seqferry()), "cp", f"s3://{bucket}/a", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as running:
        proxy.wait_held(held)
        client.put_object(Bucket=bucket, Key="a", Body=rng.randbytes(33 * MIB))
        proxy.remove_rule(held)
        out, err = running.communicate(timeout=120)

    assert running.returncode == 1, err
    assert len(out) < 33 * MIB
    assert b"was overwritten while it was read" in err


def test_a_reader_that_has_enough_ends_the_command_without_a_word(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random
) -> None:
    bucket, mover, content = make_bucket(s3server), make_mover(s3server), rng.randbytes(33 * MIB)
    s3server.client().put_object(Bucket=bucket, Key="a", Body=content)
    environment = {**os.environ, **s3server.environment(), "SEQFERRY_STATE_DIR": str(mover.state)}
    command = [str(seqferry()), "cp", f"s3://{bucket}/a", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.read(1000) == content[:1000]
        running.stdout.close()
        said = running.stderr.read()
        running.wait(60)

    assert b"Traceback" not in said
    assert b"unexpected" not in said


def test_input_whose_end_does_not_come_goes_up_and_is_aborted_when_the_command_is_killed(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random
) -> None:
    bucket, mover, client = make_bucket(s3server), make_mover(s3server), s3server.client()
    environment = {**os.environ, **s3server.environment(), "SEQFERRY_STATE_DIR": str(mover.state)}
    command = [str(seqferry()), "cp", "-", f"s3://{bucket}/a", "--part-size", "5MiB"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as running:
        assert running.stdin is not None
        running.stdin.write(rng.randbytes(11 * MIB))
        running.stdin.flush()

        def has_parts() -> bool:
            uploads = client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
            return any(
                len(client.list_parts(Bucket=bucket, Key="a", UploadId=one["UploadId"]).get("Parts", [])) == 2
                for one in uploads
            )

        eventually(has_parts, what="two parts, before the end of the input")
        running.kill()
    assert len(_folders(mover)) == 1

    other = _piped(mover, "cp", "-", f"s3://{bucket}/b", given=b"b")

    assert other.returncode == 0, other.stderr
    assert client.list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []
    assert _folders(mover) == []


def test_input_that_is_interrupted_leaves_nothing(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random
) -> None:
    bucket, mover, client = make_bucket(s3server), make_mover(s3server), s3server.client()
    environment = {**os.environ, **s3server.environment(), "SEQFERRY_STATE_DIR": str(mover.state)}
    command = [str(seqferry()), "cp", "-", f"s3://{bucket}/a", "--part-size", "5MiB"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as running:
        assert running.stdin is not None
        running.stdin.write(rng.randbytes(11 * MIB))
        running.stdin.flush()
        eventually(lambda: bool(client.list_multipart_uploads(Bucket=bucket).get("Uploads")), what="an upload")
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 130

    assert client.list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []
    assert "Contents" not in client.list_objects_v2(Bucket=bucket)
