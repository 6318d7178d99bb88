"""A mount that is written takes the cache over from the process of one that was unmounted and still uploads."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.buckets import CLAIM, keys
from support.mounts import Mount, Mounter, gone
from support.own_server import OwnServer
from support.processes import run_seqferry
from support.servers import S3Server
from support.waiting import eventually


@pytest.fixture
def own(tmp_path: Path) -> Iterator[OwnServer]:
    server = OwnServer(tmp_path)
    yield server
    server.stop()


def has_ended(mount: Mount, cache: Path) -> bool:
    command = ["gateway", "status", "--cache", cache]
    return "No gateway runs" in run_seqferry(*command, environment=mount.environment, expect=None).stderr


def end(mount: Mount, cache: Path) -> None:
    """Unmount, and wait until everything is uploaded."""
    mount.umount()
    gone(mount)
    eventually(lambda: has_ended(mount, cache), what="the end of the process", deadline=90)


def test_a_mount_goes_on_with_what_waits_since_another_one_was_unmounted_while_the_bucket_is_away(
    own: OwnServer, mounter: Mounter, tmp_path: Path, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    cache = tmp_path / "cache"
    bucket = own.server.create_bucket(versioned=True)
    uri, options = f"s3://{bucket}/runs", ("--read-write", "--cache", str(cache))
    first = mounter(own.server, uri, *options)
    files = {f"runs/{number}": rng.randbytes(100_000 + number) for number in range(3)}
    # New names are taken in folders that were listed.
    assert list(first.directory.iterdir()) == []
    own.stop()
    for key, body in files.items():
        (first.directory / key.removeprefix("runs/")).write_bytes(body)
    first.umount()
    gone(first)
    assert not has_ended(first, cache), "its process uploads on"

    other = ["mount", f"s3://{bucket}/other", first.directory, *options]
    refused = run_seqferry(*other, environment=first.environment, expect=None)
    assert f"it still uploads to s3://{bucket}/runs/: wait for its end" in refused.stderr
    began = time.monotonic()
    second = mounter(own.server, uri, *options)

    assert time.monotonic() - began < 60
    assert {f"runs/{path.name}": path.read_bytes() for path in second.directory.iterdir()} == files
    own.start()
    end(second, cache)
    assert own.objects(bucket) == files
    assert own.versions(bucket) == sorted(files)


def test_a_mount_on_a_claimed_prefix_is_refused_and_takes_it_over_when_asked(
    s3server: S3Server, make_bucket: Callable[..., str], mounter: Mounter, tmp_path: Path
) -> None:
    bucket = make_bucket(s3server)
    first = mounter(s3server, f"s3://{bucket}/runs", "--read-write", "--cache", str(tmp_path / "first"))
    command = ["--read-write", "--cache", str(tmp_path / "second")]
    (folder := tmp_path / "mnt").mkdir()

    refused = run_seqferry("mount", f"s3://{bucket}/runs", folder, *command, environment=first.environment, expect=None)
    second = mounter(s3server, f"s3://{bucket}/runs", *command, "--take-over")
    (second.directory / "a").write_bytes(b"a")
    assert [path.name for path in second.directory.iterdir()] == ["a"]
    end(second, tmp_path / "second")
    end(first, tmp_path / "first")

    assert refused.returncode != 0
    assert f"writes to s3://{bucket}/runs/ (share mount, since " in refused.stderr
    assert "by unmounting, or " in refused.stderr
    assert keys(s3server, bucket) == ["runs/a"]
    assert f"runs/{CLAIM}" not in keys(s3server, bucket)
