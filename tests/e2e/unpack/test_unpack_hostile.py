"""Hostile and broken archives: refused member by member or as a whole, and nothing ever lies outside of the target."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from support.buckets import keys, open_uploads
from support.made_archives import HOSTILE, MIB, many, names, put, raw
from support.mover import Mover
from support.servers import S3Server
from support.trees import tree

MoverFactory = Callable[[S3Server], Mover]
BucketFactory = Callable[..., str]

GOOD: Final = ({"name": "good"}, b"good")


def test_a_hostile_member_fails_and_the_others_arrive(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    put(versitygw, bucket, "in/x.tar", raw(GOOD, *(entry for entries, _ in HOSTILE.values() for entry in entries)))

    exit_code, summary, err = mover.copy(f"s3://{bucket}/in/x.tar", f"{tmp_path}/parent/to", verb="unpack")
    to_s3, in_s3, _ = mover.copy(f"s3://{bucket}/in/x.tar", f"s3://{bucket}/out/deep/", verb="unpack")

    assert (exit_code, to_s3) == (1, 1), err
    for ended in (summary, in_s3):
        failed = mover.objects(ended["id"], "failed")
        codes = {one.source_key.removeprefix("in/x.tar!/"): one.error_code for one in failed}
        assert codes == {member: code for member, (_, code) in HOSTILE.items()}
    sound = ["a/b", "d/link", "folder/x", "good", "way"]
    assert names(tmp_path / "parent") == ["to"]
    assert sorted(tree(tmp_path / "parent/to")) == sound
    assert (tmp_path / "parent/to/good").read_bytes() == b"good"
    assert [key for key in keys(versitygw, bucket) if key != "in/x.tar"] == [f"out/deep/{name}" for name in sound]
    assert not Path("/tmp/seqferry-out").exists()


def test_devices_are_left_out_and_are_no_failure(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    device = {"name": "dev", "type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3}
    put(versitygw, bucket, "x.tar", raw(GOOD, (device, b""), ({"name": "fifo", "type": tarfile.FIFOTYPE}, b"")))

    code, summary, _ = mover.copy(f"s3://{bucket}/x.tar", f"{tmp_path}/to", verb="unpack")

    assert (code, summary["objects_skipped"]) == (0, 2)
    assert names(tmp_path / "to") == ["good"]


def test_a_link_at_the_target_is_not_followed(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    put(versitygw, bucket, "x.tar", many({"sub/file": b"new", "other": b"new"}))
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "other").write_bytes(b"old")
    (tmp_path / "to").mkdir()
    (tmp_path / "to/sub").symlink_to(outside)
    (tmp_path / "to/other").symlink_to(outside / "other")

    code, summary, _ = mover.copy(f"s3://{bucket}/x.tar", f"{tmp_path}/to", verb="unpack")

    assert code == 1
    assert [failure["error_code"] for failure in summary["failures"]] == ["SymlinkInTheWay"]
    assert sorted(path.name for path in outside.iterdir()) == ["other"]
    assert (outside / "other").read_bytes() == b"old"
    assert (tmp_path / "to/other").read_bytes() == b"new"


# One for each code: what makes an archive broken is decided in ``unit/planning/test_archive_verdicts.py``.
WHOLE: Final[dict[str, tuple[bytes, str]]] = {
    "cut within contents": (many({"a": b"1", "b": b"2" * MIB})[: 1024 + 512 + 5000], "TruncatedArchive"),
    "bytes behind the end": (many({"a": b"1"}) + b"a signature", "InvalidArchive"),
    "no archive": (b"this is no archive" * 100, "NotAnArchive"),
}


@pytest.mark.parametrize("case", WHOLE)
def test_a_broken_archive_is_refused_before_a_byte_is_written(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path, case: str
) -> None:
    body, code = WHOLE[case]
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    put(versitygw, bucket, "in/x.tar", body)

    exit_code, summary, err = mover.copy(f"s3://{bucket}/in/x.tar", f"{tmp_path}/to", verb="unpack")
    to_s3, _, _ = mover.copy(f"s3://{bucket}/in/x.tar", f"s3://{bucket}/out/", verb="unpack")

    assert (exit_code, to_s3) == (1, 1), err
    assert (summary["state"], summary["error_code"]) == ("failed", code)
    assert "Nothing of it is unpacked" in str(summary["error_message"])
    assert names(tmp_path / "to") == []
    assert keys(versitygw, bucket) == ["in/x.tar"]
    assert open_uploads(versitygw, bucket) == []


def test_an_archive_without_members_is_empty(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    put(versitygw, bucket, "x", bytes(10240))
    put(versitygw, bucket, "x.zip", b"PK\x05\x06" + bytes(18))

    ran = mover.start("unpack", f"s3://{bucket}/x", f"{tmp_path}/to")
    zipped = mover.start("unpack", f"s3://{bucket}/x.zip", f"{tmp_path}/to")
    to_s3 = mover.start("unpack", f"s3://{bucket}/x", f"s3://{bucket}/out/")
    listed = mover.start("tar", "ls", f"s3://{bucket}/x")
    foreseen = mover.start("unpack", f"s3://{bucket}/x", f"{tmp_path}/to", "--dry-run")
    selected = mover.start("unpack", f"s3://{bucket}/x", f"{tmp_path}/other", "--exclude", "*.bam")

    ended = (ran, zipped, to_s3, listed, foreseen, selected)
    assert [one.wait() for one in ended] == [0, 0, 0, 0, 0, 4]
    for one, key in ((ran, "x"), (zipped, "x.zip")):
        assert f"no files are in s3://{bucket}/{key}" in one.stderr
        assert "nothing is at" not in one.stderr
        assert "nearest" not in one.stderr
    assert "has no members" in listed.stderr


def test_faults_can_be_tolerated_when_that_is_asked_for(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    put(versitygw, bucket, "x.tar", many({"a": b"1"}) + many({"b": b"2"})[:1024])

    code, _, err = mover.copy(
        f"s3://{bucket}/x.tar",
        f"{tmp_path}/to",
        "--tolerate",
        "concatenated",
        "--tolerate",
        "missing-end",
        verb="unpack",
    )

    assert code == 0, err
    assert names(tmp_path / "to") == ["a", "b"]


def test_the_last_of_two_members_of_one_name_counts_when_that_is_asked_for(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    put(versitygw, bucket, "x.tar", raw(({"name": "a"}, b"first"), ({"name": "b"}, b"b"), ({"name": "a"}, b"last")))

    code, summary, _ = mover.copy(f"s3://{bucket}/x.tar", f"{tmp_path}/to", "--duplicates", "last", verb="unpack")

    assert (code, summary["objects_done"]) == (0, 2)
    assert (tmp_path / "to/a").read_bytes() == b"last"


def test_a_member_that_would_replace_the_archive_is_refused(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory
) -> None:
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    body = many({"x.tar": b"1", "y": b"2"})
    put(versitygw, bucket, "in/x.tar", body)

    code, summary, _ = mover.copy(f"s3://{bucket}/in/x.tar", f"s3://{bucket}/in/", verb="unpack")

    assert code == 1
    assert [failure["error_code"] for failure in summary["failures"]] == ["TargetIsSource"]
    assert versitygw.client().get_object(Bucket=bucket, Key="in/x.tar")["Body"].read() == body


def test_an_archive_that_is_not_there_is_said_before_anything_starts(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    ran = make_mover(versitygw).start("unpack", f"s3://{make_bucket(versitygw)}/none.tar", f"{tmp_path}/to")

    assert ran.wait() == 2, ran.stderr
    assert "There is no object" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_name_that_is_no_text_is_refused(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT, encoding="latin-1") as made:
        info = tarfile.TarInfo("gr\xfcn")
        info.size = 1
        made.addfile(info, io.BytesIO(b"x"))
        info = tarfile.TarInfo("good")
        info.size = 4
        made.addfile(info, io.BytesIO(b"good"))
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    put(versitygw, bucket, "x.tar", buffer.getvalue())

    code, summary, _ = mover.copy(f"s3://{bucket}/x.tar", f"{tmp_path}/to", verb="unpack")

    assert code == 1
    assert [failure["error_code"] for failure in summary["failures"]] == ["NameNotText"]
    assert names(tmp_path / "to") == ["good"]
