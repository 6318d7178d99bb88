"""Files that grow or change: left alone with --settle, and never taken for whole."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from support.buckets import MIB
from support.mover import SMALL_PARTS, Mover
from support.proxy import Proxy, hold
from support.servers import S3Server

MoverFactory = Callable[[S3Server], Mover]
BucketFactory = Callable[..., str]


@contextmanager
def _appended_to(file: Path) -> Generator[None]:
    """The file grows each half second, and is at rest in between."""
    ended = threading.Event()

    def append() -> None:
        while True:
            with file.open("ab") as grown:
                grown.write(b"x" * 65_536)
            if ended.wait(0.5):
                return

    writer = threading.Thread(target=append)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join()


@pytest.mark.parametrize("verb", ["cp", "mv", "pack"])
def test_half_of_a_file_that_rests_between_two_appends_is_no_success(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path, verb: str
) -> None:
    bucket, mover, file = make_bucket(s3server), make_mover(s3server), tmp_path / "run" / "run.log"
    file.parent.mkdir()
    to = f"s3://{bucket}/in.tar" if verb == "pack" else f"s3://{bucket}/in/"
    with _appended_to(file):
        code, summary, err = mover.copy(f"{file.parent}/", to, verb=verb)

    assert code == 1, err
    [failed] = mover.objects(summary["id"], "failed")
    assert (failed.source_key.rpartition("/")[2], failed.error_class) == ("run.log", "source_changed")
    assert "--settle" in str(failed.error_message)
    assert "Contents" not in s3server.client().list_objects_v2(Bucket=bucket)
    assert file.exists()


def test_what_was_changed_a_moment_ago_is_left_alone(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket, mover, folder = make_bucket(s3server), make_mover(s3server), tmp_path / "run"
    folder.mkdir()
    (folder / "old").write_bytes(b"settled")
    os.utime(folder / "old", (1_700_000_000, 1_700_000_000))
    (folder / "new").write_bytes(b"still written")

    code, summary, err = mover.copy(f"{folder}/", f"s3://{bucket}/in/", "--settle", "10m")

    assert code == 0, err
    found = s3server.client().list_objects_v2(Bucket=bucket)["Contents"]
    assert [one["Key"] for one in found] == ["in/old"]
    (left,) = mover.objects(summary["id"], "skipped")
    assert (left.source_key, left.error_code) == ("new", "Unsettled")
    assert "may still grow" in str(left.error_message)
    # Files that are said to be at rest go, and are not looked at again.
    code, summary, err = mover.copy(f"{folder}/", f"s3://{bucket}/in/", "--settle", "0s")
    assert code == 0, err
    assert [one.source_key for one in mover.objects(summary["id"], "done")] == ["new"]


def test_a_file_that_grows_while_it_goes_up_is_no_success(
    s3server: S3Server,
    proxy: Proxy,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
    tmp_path: Path,
) -> None:
    bucket, mover, file = make_bucket(s3server), make_mover(proxy.server), tmp_path / "log"
    file.write_bytes(rng.randbytes(MIB))
    each = proxy.rule("PutObject", hold())
    running = mover.start("cp", str(file), f"s3://{bucket}/log", *SMALL_PARTS, "--json")
    # Each try meets a file that has grown since its last byte was read.
    with file.open("ab", buffering=0) as grown:
        while running.running:
            with suppress(TimeoutError):
                proxy.wait_held(each, deadline=1.0)
                grown.write(b"more")
                proxy.release(each)

    assert running.wait() == 1, running.stderr
    assert "source_changed" in running.stdout
    assert '"verified": "checksum"' not in running.stdout


def test_a_file_that_grew_after_it_was_listed_arrives_as_it_is_now_and_that_is_said(
    s3server: S3Server,
    proxy: Proxy,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    rng: random.Random,
    tmp_path: Path,
) -> None:
    bucket, mover, file = make_bucket(s3server), make_mover(proxy.server), tmp_path / "log"
    file.write_bytes(rng.randbytes(MIB))
    held = proxy.rule("PutObject", hold(), times=1)
    running = mover.start("cp", str(file), f"s3://{bucket}/log", *SMALL_PARTS)
    proxy.wait_held(held)
    with file.open("ab") as grown:
        grown.write(b"more")
    proxy.release(held)

    assert running.wait() == 0, running.stderr
    assert s3server.client().get_object(Bucket=bucket, Key="log")["Body"].read() == file.read_bytes()
    assert "files changed after they were listed" in running.stderr
