"""``-``: an object out of standard input, and one to standard output, as durable and as proven as any other."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.buckets import MIB
from support.mover import SMALL_PARTS, Mover
from support.processes import seqferry
from support.proxy import Proxy, corrupt, hold
from support.servers import S3Server

MakeMover = Callable[[S3Server], Mover]
MakeBucket = Callable[..., str]


def _piped(mover: Mover, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, **mover.server.environment(), "SEQFERRY_STATE_DIR": str(mover.state)}
    return subprocess.run(
        [str(seqferry()), *arguments], input=given, capture_output=True, env=environment, check=False, timeout=120
    )


def _spooled(mover: Mover) -> list[Path]:
    return list((mover.state / "pipes").iterdir())


@pytest.mark.parametrize("size", [0, 1, 11 * MIB])
def test_what_goes_in_comes_out(
    s3server: S3Server, make_bucket: MakeBucket, make_mover: MakeMover, rng: random.Random, size: int
) -> None:
    bucket, mover, content = make_bucket(s3server), make_mover(s3server), rng.randbytes(size)

    into = _piped(mover, "cp", "-", f"s3://{bucket}/a/b", *SMALL_PARTS, given=content)
    out_of = _piped(mover, "cp", f"s3://{bucket}/a/b", "-", *SMALL_PARTS)

    assert (into.returncode, into.stdout) == (0, b""), into.stderr
    assert s3server.client().get_object(Bucket=bucket, Key="a/b")["Body"].read() == content
    assert out_of.returncode == 0, out_of.stderr
    assert out_of.stdout == content
    assert _spooled(mover) == []


def test_nothing_that_is_not_proven_comes_out(
    s3server: S3Server, proxy: Proxy, make_bucket: MakeBucket, make_mover: MakeMover, rng: random.Random
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(proxy.server)
    assert _piped(make_mover(s3server), "cp", "-", f"s3://{bucket}/a", given=rng.randbytes(1000)).returncode == 0
    proxy.rule("GetObject", corrupt(500))

    ended = _piped(mover, "cp", f"s3://{bucket}/a", "-")

    assert (ended.returncode, ended.stdout) == (3, b""), ended.stderr
    assert _spooled(mover) == []


def test_input_is_not_lost_with_the_command_that_has_read_it(
    s3server: S3Server,
    proxy: Proxy,
    make_bucket: MakeBucket,
    make_mover: MakeMover,
    rng: random.Random,
) -> None:
    bucket, mover, content = make_bucket(s3server), make_mover(proxy.server), rng.randbytes(100_000)
    held = proxy.rule("PutObject", hold())
    environment = {**os.environ, **proxy.server.environment(), "SEQFERRY_STATE_DIR": str(mover.state)}
    command = [str(seqferry()), "cp", "-", f"s3://{bucket}/a"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as running:
        assert running.stdin is not None
        assert running.stderr is not None
        running.stdin.write(content)
        running.stdin.close()
        transfer_id = running.stderr.readline().split()[1].decode()
        proxy.wait_held(held)
        running.kill()
    proxy.remove_rule(held)

    with mover.start("resume", transfer_id) as last:
        assert last.wait() == 0, str(last)

    assert s3server.client().get_object(Bucket=bucket, Key="a")["Body"].read() == content
    assert _spooled(mover) == []
