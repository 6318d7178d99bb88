"""Shares that clients write to, served by the shipped command and looked at in the bucket by another program."""

from __future__ import annotations

import random
import shutil
import stat
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from support import nfs_calls
from support.buckets import bodies
from support.gateways import WrittenShares, names, need_libnfs, read, written_share
from support.processes import run, seqferry
from support.servers import S3Server
from support.waiting import eventually

MIB = 1024 * 1024
NEVER = "settle = 86400"

Serving = Callable[..., WrittenShares]


@pytest.fixture(autouse=True)
def _libnfs() -> None:
    need_libnfs()


def test_what_clients_write_is_in_the_bucket_once_and_what_programs_leave_stays_here(
    s3server: S3Server, make_bucket: Callable[..., str], serving: Serving, rng: random.Random
) -> None:
    bucket = make_bucket(s3server, versioned=True)
    s3server.client().put_object(Bucket=bucket, Key="runs/deep/x", Body=b"x")
    shares = serving(
        s3server, written_share("runs", f"s3://{bucket}/runs/", "settle = 1", 'storage_class = "STANDARD"')
    )
    files = {"a.bam": rng.randbytes(9 * MIB + 7), "deep/é ü": rng.randbytes(4097), "empty": b""}
    for name, body in files.items():
        shares.write(f"runs/{name}", body)
    for litter in (".DS_Store", "._a.bam", "Thumbs.db", "desktop.ini", ".nfs0001", "~$a.docx"):
        shares.write(f"runs/{litter}", b"litter")

    wanted = {f"runs/{name}": body for name, body in files.items()} | {"runs/deep/x": b"x"}
    eventually(lambda: bodies(s3server, bucket) == wanted, what="the files to be in the bucket", deadline=60)
    shares.restart()

    assert read(shares, "runs/a.bam") == files["a.bam"]
    assert names(shares, "runs")[".DS_Store"] == 6
    writing = shares.writing()
    assert (writing["dirty_files"], writing["ignored_files"], writing["failing_files"]) == (0, 6, 0)
    versions = s3server.client().list_object_versions(Bucket=bucket, Prefix="runs/a.bam")["Versions"]
    assert len(versions) == 1
    assert not s3server.client().list_multipart_uploads(Bucket=bucket).get("Uploads")
    folder = shares.cache / "writes"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((shares.cache / "gateway.sock").stat().st_mode) == 0o600


def test_a_gateway_that_was_killed_with_files_that_wait_sends_them_when_it_is_started_again(
    seaweedfs: S3Server, make_bucket: Callable[..., str], serving: Serving, rng: random.Random
) -> None:
    bucket = make_bucket(seaweedfs)
    shares = serving(seaweedfs, written_share("runs", f"s3://{bucket}/runs/", NEVER))
    body = rng.randbytes(3 * MIB)
    shares.write("runs/a.bam", body)
    shares.restart()

    assert shares.writing()["dirty_files"] == 1
    shares.ask("flush", "--wait", "/runs")

    assert bodies(seaweedfs, bucket) == {"runs/a.bam": body}


@pytest.mark.every_server
def test_a_file_that_was_removed_and_made_anew_is_uploaded_where_the_bucket_keeps_versions(
    s3server: S3Server, make_bucket: Callable[..., str], serving: Serving, rng: random.Random
) -> None:
    bucket = make_bucket(s3server, versioned=True)
    shares = serving(s3server, written_share("runs", f"s3://{bucket}/runs/", NEVER))
    calls = [sys.executable, "-I", Path(nfs_calls.__file__), shares.url("runs")]
    client = s3server.client()
    listed = {"Bucket": bucket, "Prefix": "runs/a.bam"}

    for size in (10, 9 * MIB, 20):
        body = rng.randbytes(size)
        shares.write("runs/a.bam", body)
        shares.ask("flush", "--wait")
        assert bodies(s3server, bucket) == {"runs/a.bam": body}
        run([*calls, "remove:a.bam"])
        shares.ask("flush", "--wait")
        assert not client.list_objects_v2(**listed)["KeyCount"]

    assert shares.writing()["conflicts"] == 0


def test_names_of_its_own_replace_those_that_stay_here(
    seaweedfs: S3Server, make_bucket: Callable[..., str], serving: Serving
) -> None:
    bucket = make_bucket(seaweedfs)
    shares = serving(seaweedfs, written_share("runs", f"s3://{bucket}/runs/", NEVER, 'ignore = ["*.tmp"]'))
    for name in ("a.tmp", "Thumbs.db"):
        shares.write(f"runs/{name}", b"x")

    shares.ask("flush", "--wait")

    assert set(bodies(seaweedfs, bucket)) == {"runs/Thumbs.db"}


def test_uploads_wait_for_their_window_and_a_flush_does_not(
    seaweedfs: S3Server, make_bucket: Callable[..., str], serving: Serving
) -> None:
    bucket = make_bucket(seaweedfs)
    hour = time.localtime().tm_hour
    window = f"{(hour + 2) % 24:02}:00-{(hour + 3) % 24:02}:00"
    config = written_share("runs", f"s3://{bucket}/runs/", "settle = 1", f'upload_window = ["{window}"]')
    shares = serving(seaweedfs, config)
    shares.write("runs/a", b"a")

    def has_settled_and_waits() -> bool:
        writing = shares.writing()
        assert writing["uploaded_files"] == 0
        assert not writing["window_is_open"]
        return bool(writing["oldest"]["age_seconds"] > 4)

    eventually(has_settled_and_waits, what="the file to settle", every=0.5)
    assert bodies(seaweedfs, bucket) == {}
    assert "uploads wait for the next upload_window" in shares.ask("status").stdout
    shares.ask("flush", "/runs/a", "--wait")
    assert bodies(seaweedfs, bucket) == {"runs/a": b"a"}


def test_a_share_uploads_at_the_rate_that_it_is_given(
    seaweedfs: S3Server, make_bucket: Callable[..., str], serving: Serving, rng: random.Random
) -> None:
    bucket = make_bucket(seaweedfs)
    config = written_share("runs", f"s3://{bucket}/runs/", NEVER, 'max_bandwidth = "1MiB/s"')
    shares = serving(seaweedfs, config)
    files = {f"runs/{number}": rng.randbytes(MIB) for number in range(4)}
    for path, body in files.items():
        shares.write(path, body)

    began = time.monotonic()
    shares.ask("flush", "--wait")

    # The first MiB passes at once.
    assert time.monotonic() - began >= 2.9
    assert bodies(seaweedfs, bucket) == files
    assert shares.writing()["uploaded_bytes"] == 4 * MIB


def test_a_completion_marker_waits_for_older_files_and_says_for_which(
    s3server: S3Server, make_bucket: Callable[..., str], serving: Serving
) -> None:
    bucket = make_bucket(s3server)
    s3server.client().put_object(Bucket=bucket, Key="runs/r1/data/x", Body=b"x")
    s3server.client().put_object(Bucket=bucket, Key="runs/r2/x", Body=b"x")
    shares = serving(s3server, written_share("runs", f"s3://{bucket}/runs/", NEVER))
    for path in ("runs/r1/data/a.bcl", "runs/r1/CopyComplete.txt", "runs/r1/late", "runs/r2/CopyComplete.txt"):
        shares.write(path, b"bytes")
    s3server.deny(bucket, "runs/r1/data/*", actions=("s3:PutObject",))

    failed = shares.ask("flush", "--wait", expect=1)

    assert "/runs/r1/data/a.bcl: " in failed.stderr
    assert "Denied" in failed.stderr
    assert set(bodies(s3server, bucket)) == {"runs/r1/data/x", "runs/r1/late", "runs/r2/x", "runs/r2/CopyComplete.txt"}
    [held] = shares.writing()["held"]
    assert (held["path"], held["waits_for"]) == ("r1/CopyComplete.txt", "r1/data/a.bcl")
    said = shares.ask("status").stdout
    assert "/runs/r1/data/a.bcl: failing, " in said
    assert "/runs/r1/CopyComplete.txt: waits for /runs/r1/data/a.bcl, which fails" in said

    s3server.deny(bucket, "elsewhere/*")
    shares.ask("flush", "--wait")

    written = s3server.client().list_objects_v2(Bucket=bucket, Prefix="runs/r1/")["Contents"]
    assert {entry["Key"] for entry in written} >= {"runs/r1/data/a.bcl", "runs/r1/CopyComplete.txt"}
    assert shares.writing()["held"] == []


def test_a_bucket_that_cannot_be_written_is_told_of_before_anything_is_served(
    s3server: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    bucket, other = make_bucket(s3server), make_bucket(s3server)
    s3server.deny(bucket, "runs/*", actions=("s3:PutObject",))
    config = written_share("other", f"s3://{other}/x/") + written_share("runs", f"s3://{bucket}/runs/")

    refused = refusal(s3server, tmp_path, config, "--cache", str(tmp_path / "cache"))

    assert refused.startswith("seqferry: share runs: it cannot be written: CreateMultipartUpload")
    assert "set read_only = true" in refused
    assert refused.count("\n") == 1
    for name in (bucket, other):
        assert not s3server.client().list_multipart_uploads(Bucket=name).get("Uploads")
        assert not s3server.client().list_objects_v2(Bucket=name).get("Contents")


def refusal(server: S3Server, folder: Path, config: str, *options: str) -> str:
    """What a gateway says that does not start."""
    path = folder / "refused.toml"
    path.write_text(config, encoding="utf-8")
    state = folder / f"state-{uuid.uuid4().hex}"
    environment = {**server.environment(), "SEQFERRY_CONFIG": str(path), "SEQFERRY_STATE_DIR": str(state)}
    command = [seqferry(), "gateway", "serve", "--port", "0", *options]
    refused = run(command, environment=environment, expect=None)
    assert refused.returncode in {1, 2}, refused
    assert "is served at" not in refused.stderr + refused.stdout
    assert "Traceback" not in refused.stderr
    return refused.stderr


def test_a_cache_that_cannot_keep_files_is_refused_with_one_line(
    seaweedfs: S3Server, make_bucket: Callable[..., str], serving: Serving, tmp_path: Path
) -> None:
    bucket = make_bucket(seaweedfs)
    runs = written_share("runs", f"s3://{bucket}/runs/", NEVER)
    in_memory = Path("/dev/shm") / f"seqferry-{uuid.uuid4().hex}"
    try:
        assert "share runs can be written, and there is no folder" in refusal(seaweedfs, tmp_path, runs)
        said = refusal(seaweedfs, tmp_path, runs, "--cache", str(in_memory))
        assert "is on tmpfs" in said
        assert "--unsafe-cache" in said
        assert not in_memory.exists()
        overlapping = runs + f'[[share]]\nname = "all"\nsource = "s3://{bucket}"\n'
        said = refusal(seaweedfs, tmp_path, overlapping, "--cache", str(tmp_path / "third"))
        assert "the shares runs and all overlap" in said
        assert "runs is writable" in said
        shares = serving(seaweedfs, runs)
        said = refusal(seaweedfs, tmp_path, runs, "--cache", str(shares.cache))
        assert f"another gateway uses the cache {shares.cache}: stop it" in said
        shares.write("runs/a", b"a")
        shares.process.__exit__()
        other = written_share("moved", f"s3://{bucket}/runs/", NEVER)
        said = refusal(seaweedfs, tmp_path, other, "--cache", str(shares.cache))
        assert "holds 1 changes of the share runs" in said
        assert f"(s3://{bucket}/runs/)" in said
        read_only = f'[[share]]\nname = "runs"\nsource = "s3://{bucket}/runs/"\n'
        assert "holds 1 changes of the share runs" in refusal(
            seaweedfs, tmp_path, read_only, "--cache", str(shares.cache)
        )
    finally:
        shutil.rmtree(in_memory, ignore_errors=True)


def test_a_cache_in_memory_is_accepted_by_those_who_ask_for_it(
    seaweedfs: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    bucket = make_bucket(seaweedfs)
    in_memory = Path("/dev/shm") / f"seqferry-{uuid.uuid4().hex}"
    in_memory.mkdir(mode=0o700)
    try:
        config = written_share("runs", f"s3://{bucket}/runs/", NEVER)
        shares = WrittenShares(in_memory, seaweedfs, config, "--unsafe-cache")
        try:
            shares.write("runs/a", b"a")
            shares.ask("flush", "--wait")
        finally:
            shares.close()
        assert bodies(seaweedfs, bucket) == {"runs/a": b"a"}
    finally:
        shutil.rmtree(in_memory)
