"""Hostile and broken archives: refused member by member or as a whole, and nothing ever lies outside of the target."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from made_archives import MIB, MTIME, many, names, put, raw

from support.buckets import keys, open_uploads
from support.mover import Mover
from support.servers import S3Server

MoverFactory = Callable[[S3Server], Mover]
BucketFactory = Callable[..., str]

GOOD: Final = ({"name": "good"}, b"good")
LINK: Final = tarfile.SYMTYPE
HARD: Final = tarfile.LNKTYPE

MEMBERS: Final[dict[str, tuple[list[tuple[dict[str, Any], bytes]], str]]] = {
    "a path that climbs": ([({"name": "../out"}, b"x")], "ParentComponent"),
    "a path that climbs later": ([({"name": "a/../../out"}, b"x")], "ParentComponent"),
    "an absolute path": ([({"name": "/tmp/seqferry-out"}, b"x")], "AbsolutePath"),
    "a path through a link": (
        [({"name": "d", "type": LINK, "linkname": "inside"}, b""), ({"name": "d/out"}, b"x")],
        "ParentNotDirectory",
    ),
    "an absolute link": ([({"name": "l", "type": LINK, "linkname": "/etc/passwd"}, b"")], "LinkAbsolute"),
    "a link that climbs": ([({"name": "a/l", "type": LINK, "linkname": "../../etc"}, b"")], "LinkEscapes"),
    "links that climb together": (
        [
            ({"name": "a/b", "type": LINK, "linkname": "."}, b""),
            ({"name": "l", "type": LINK, "linkname": "a/b/../../.."}, b""),
        ],
        "LinkEscapes",
    ),
    "a hard link to what is outside": (
        [({"name": "h", "type": HARD, "linkname": "../../etc/passwd"}, b"")],
        "LinkEscapes",
    ),
    "a hard link to a link that would climb there": (
        [
            ({"name": "d/l", "type": LINK, "linkname": "../good"}, b""),
            ({"name": "h", "type": HARD, "linkname": "d/l"}, b""),
        ],
        "LinkEscapes",
    ),
    "the same name again": ([({"name": "good"}, b"evil")], "Duplicate"),
    "the same name in other words": ([({"name": "./x/../good"}, b"evil")], "ParentComponent"),
    "a file where a folder is": ([({"name": "d/x"}, b"1"), ({"name": "d"}, b"2")], "IsDirectory"),
}


@pytest.mark.parametrize("case", MEMBERS)
def test_a_hostile_member_fails_and_the_others_arrive(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path, case: str
) -> None:
    entries, code = MEMBERS[case]
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    put(versitygw, bucket, "in/x.tar", raw(GOOD, *entries))

    exit_code, summary, err = mover.copy(f"s3://{bucket}/in/x.tar", f"{tmp_path}/parent/to", verb="unpack")
    to_s3, in_s3, _ = mover.copy(f"s3://{bucket}/in/x.tar", f"s3://{bucket}/out/deep/", verb="unpack")

    assert (exit_code, to_s3) == (1, 1), err
    assert [failure["error_code"] for failure in summary["failures"]] == [code]
    assert [failure["error_code"] for failure in in_s3["failures"]] == [code]
    assert names(tmp_path / "parent") == ["to"]
    assert (tmp_path / "parent/to/good").read_bytes() == b"good"
    assert all(key.startswith("out/deep/") for key in keys(versitygw, bucket) if not key.startswith("in/"))
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


def _pax_size(size: int) -> bytes:
    """A member whose PAX record states another size than its header."""
    body = many({"inner": b"i" * 100})
    record = f"size={size}\n"
    length = len(record) + 3
    text = f"{length} {record}".encode()
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, len(text)
    member = tarfile.TarInfo("outer")
    member.mtime, member.size = MTIME, 512
    return header.tobuf(tarfile.USTAR_FORMAT) + text.ljust(512, b"\0") + member.tobuf(tarfile.USTAR_FORMAT) + body


def _six_terabytes() -> bytes:
    info = tarfile.TarInfo("huge")
    info.size = 6 * 10**12
    return info.tobuf(tarfile.GNU_FORMAT) + bytes(2048)


def _flipped() -> bytes:
    body = bytearray(many({"a": b"1" * 600, "b": b"2"}))
    body[512 + 1024 + 10] ^= 1
    return bytes(body)


WHOLE: Final[dict[str, tuple[bytes, str]]] = {
    "cut within contents": (many({"a": b"1", "b": b"2" * MIB})[: 1024 + 512 + 5000], "TruncatedArchive"),
    "cut within a header": (many({"a": b"1", "b": b"2"})[:1300], "TruncatedArchive"),
    "without an end mark": (many({"a": b"1"})[:1024], "TruncatedArchive"),
    "a member of 6 TB": (_six_terabytes(), "TruncatedArchive"),
    "two sizes": (_pax_size(10240), "InvalidArchive"),
    "a damaged header": (_flipped(), "InvalidArchive"),
    "bytes behind the end": (many({"a": b"1"}) + many({"b": b"2"}), "InvalidArchive"),
    "no archive": (b"this is no archive" * 100, "NotAnArchive"),
    "nothing": (b"", "TruncatedArchive"),
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


@pytest.mark.parametrize(
    ("rest", "advice"),
    [
        (many({"b": b"2"}), "--tolerate concatenated"),
        (b"a signature", "--tolerate trailing-bytes"),
        (b"x" * 5000, "--tolerate trailing-bytes"),
        (b"", None),
    ],
)
def test_the_advice_on_bytes_behind_the_end_can_work(
    versitygw: S3Server,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    tmp_path: Path,
    rest: bytes,
    advice: str | None,
) -> None:
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    put(versitygw, bucket, "x.tar", many({"a": b"1"}) + rest)

    code, summary, _ = mover.copy(f"s3://{bucket}/x.tar", f"{tmp_path}/to", verb="unpack")
    assert code == int(advice is not None)
    if advice is None:
        return
    assert advice in str(summary["error_message"])
    code, summary, err = mover.copy(f"s3://{bucket}/x.tar", f"{tmp_path}/to", *advice.split(), verb="unpack")

    assert code == 0, err
    assert names(tmp_path / "to")[0] == "a"


@pytest.mark.parametrize(
    "body", [bytes(10240), gzip.compress(bytes(1024)), b"PK\x05\x06" + bytes(18)], ids=["tar", "tar.gz", "zip"]
)
def test_an_archive_without_members_is_empty(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path, body: bytes
) -> None:
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    put(versitygw, bucket, "x", body)

    ran = mover.start("unpack", f"s3://{bucket}/x", f"{tmp_path}/to")
    to_s3 = mover.start("unpack", f"s3://{bucket}/x", f"s3://{bucket}/out/")
    listed = mover.start("tar", "ls", f"s3://{bucket}/x")
    foreseen = mover.start("unpack", f"s3://{bucket}/x", f"{tmp_path}/to", "--dry-run")
    selected = mover.start("unpack", f"s3://{bucket}/x", f"{tmp_path}/other", "--exclude", "*.bam")

    assert (ran.wait(), to_s3.wait(), listed.wait(), foreseen.wait(), selected.wait()) == (0, 0, 0, 0, 4)
    assert f"no files are in s3://{bucket}/x" in ran.stderr
    assert "nothing is at" not in ran.stderr
    assert "nearest" not in ran.stderr
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
    wrong = mover.start("unpack", f"s3://{bucket}/x.tar", f"{tmp_path}/to", "--tolerate", "anything")

    assert code == 0, err
    assert names(tmp_path / "to") == ["a", "b"]
    assert wrong.wait() == 2
    assert "--tolerate 'anything' is not known" in wrong.stderr


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


def test_what_is_asked_wrongly_is_said_before_anything_starts(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    for arguments, said in (
        ((f"s3://{bucket}/none.tar", f"{tmp_path}/to"), "There is no object"),
        ((f"s3://{bucket}/prefix/", f"{tmp_path}/to"), "takes one archive"),
        ((f"{tmp_path}", f"s3://{bucket}/out/"), "takes one archive"),
        (
            (f"s3://{bucket}/x.tar", f"{tmp_path}/to", "--files-from", f"{tmp_path}/none"),
            "Cannot read the list",
        ),
        ((f"s3://{bucket}/x.tar", f"{tmp_path}/to", "--links", "outside"), "--links"),
    ):
        ran = mover.start("unpack", *arguments)
        assert ran.wait() == 2, ran.stderr
        assert said in ran.stderr
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
