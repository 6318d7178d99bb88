"""Few permissions are enough: a bucket that may only be written, an object that may only be read."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from support.buckets import open_uploads
from support.mover import MIB, SMALL_PARTS, Mover
from support.servers import S3Server

BucketFactory = Callable[..., str]
MoverFactory = Callable[[S3Server], Mover]


def _read(server: S3Server, bucket: str, key: str) -> bytes:
    return server.client().get_object(Bucket=bucket, Key=key)["Body"].read()


@pytest.mark.every_server
def test_a_bucket_that_may_only_be_written_takes_files_and_nothing_in_it_is_replaced(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    drop, run = make_bucket(s3server), tmp_path / "run"
    run.mkdir()
    files = {"small": rng.randbytes(100), "big": rng.randbytes(11 * MIB), "empty": b"", "there": b"ours"}
    for name, content in files.items():
        (run / name).write_bytes(content)
    s3server.client().put_object(Bucket=drop, Key="in/there", Body=b"theirs")
    s3server.allow_only(drop, "s3:PutObject")
    mover = make_mover(s3server)

    code, summary, err = mover.copy(f"{run}", f"s3://{drop}/in/", *SMALL_PARTS)

    assert (code, summary["objects_done"], summary["objects_failed"]) == (1, 3, 1), f"{summary}\n{err}"
    [failed] = mover.objects(summary["id"], "failed")
    assert (failed.source_key, failed.error_class, failed.error_code) == ("there", "exists", "TargetExists")
    assert "s3:GetObject" in str(failed.error_message)
    assert _read(s3server, drop, "in/there") == b"theirs"
    assert all(_read(s3server, drop, f"in/{name}") == files[name] for name in ("small", "big", "empty"))
    assert open_uploads(s3server, drop) == []

    code, summary, err = mover.copy(f"{run}/there", f"s3://{drop}/in/", "--if-exists", "skip")
    assert (code, summary["objects_skipped"]) == (0, 1), f"{summary}\n{err}"
    assert _read(s3server, drop, "in/there") == b"theirs"

    code, summary, err = mover.copy(f"{run}/there", f"s3://{drop}/in/", "--if-exists", "overwrite")
    assert (code, summary["objects_done"]) == (0, 1), f"{summary}\n{err}"
    assert _read(s3server, drop, "in/there") == b"ours"


def test_an_object_that_may_only_be_read_is_copied_and_downloaded(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    vendor, drop = make_bucket(s3server), make_bucket(s3server)
    contents = {"run/small": rng.randbytes(100), "run/big": rng.randbytes(11 * MIB)}
    for key, content in contents.items():
        s3server.client().put_object(Bucket=vendor, Key=key, Body=content)
    s3server.client().put_object(Bucket=drop, Key="in/there", Body=b"theirs")
    s3server.allow_only(vendor, "s3:GetObject", "run/*")
    s3server.allow_only(drop, "s3:PutObject")
    mover = make_mover(s3server)

    for key, content in contents.items():
        code, summary, err = mover.copy(f"s3://{vendor}/{key}", f"{tmp_path}/in/", *SMALL_PARTS)
        assert (code, summary["objects_done"]) == (0, 1), f"{summary}\n{err}"
        assert (tmp_path / "in" / Path(key).name).read_bytes() == content

        code, summary, err = mover.copy(f"s3://{vendor}/{key}", f"s3://{drop}/in/", *SMALL_PARTS)
        assert (code, summary["objects_done"]) == (0, 1), f"{summary}\n{err}"
        assert _read(s3server, drop, f"in/{Path(key).name}") == content

        # What is there may not be looked at, and stays.
        code, summary, err = mover.copy(f"s3://{vendor}/{key}", f"s3://{drop}/in/there", *SMALL_PARTS)
        assert (code, summary["objects_failed"]) == (1, 1), f"{summary}\n{err}"
        assert _read(s3server, drop, "in/there") == b"theirs"


@pytest.mark.every_server
def test_a_permission_that_is_needed_is_named_and_so_is_a_bucket_that_is_missing(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    drop, vendor, mover = make_bucket(s3server), make_bucket(s3server), make_mover(s3server)
    s3server.client().put_object(Bucket=drop, Key="key", Body=b"content")
    s3server.client().put_object(Bucket=vendor, Key="key", Body=b"content")
    s3server.allow_only(drop, "s3:PutObject")
    s3server.allow_only(vendor, "s3:GetObject")
    (tmp_path / "file").write_bytes(b"content")

    def said(*arguments: str, verb: str = "cp") -> str:
        running = mover.start(verb, *arguments)
        assert running.wait() == 1, str(running)
        return running.stderr

    assert "s3:GetObject " in said(f"s3://{drop}/key", f"{tmp_path}/in/")
    assert "s3:ListBucket " in said(f"s3://{vendor}/", f"{tmp_path}/in/")
    assert "s3:ListBucket " in said(f"{tmp_path}", f"s3://{drop}/in/", "--delete", verb="sync")
    assert "s3:PutObject " in said(f"{tmp_path}/file", f"s3://{vendor}/in/")
    assert "there is no such bucket" in said("s3://no-such-bucket-here/key", f"{tmp_path}/in/")
    assert "there is no such bucket" in said(f"{tmp_path}/file", "s3://no-such-bucket-here/in/")
