"""Files that grow or change: left alone with --settle, and never taken for whole."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from support.buckets import MIB
from support.mover import SMALL_PARTS, Mover
from support.proxy import Proxy, hold
from support.servers import S3Server

MoverFactory = Callable[[S3Server], Mover]
BucketFactory = Callable[..., str]


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
    refused = mover.start("cp", f"{folder}/", f"s3://{bucket}/in/", "--settle", "soon")
    assert refused.wait() == 2
    assert "--settle 'soon' is no age" in refused.stderr


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
