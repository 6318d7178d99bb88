"""Folders that go up and come back: bytes, names, times, permissions, links; and what cannot go, said so."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from seqferry.model.models import ObjectRecord
from support.buckets import KIB, MIB, keys, open_uploads
from support.mover import SMALL_PARTS, Mover
from support.servers import S3Server
from support.trees import LATEST_NS, assert_same_tree, fill, odd_names, random_names, settle, tree

SIZES = (0, 1, 1000, 5 * MIB - 1, 5 * MIB, 5 * MIB + 1, 11 * MIB, 70_000)

MoverFactory = Callable[[S3Server], Mover]
BucketFactory = Callable[..., str]


def summary_of(ended: tuple[int, dict[str, object], str]) -> dict[str, object]:
    """The summary of a copy that must have gone well."""
    code, summary, err = ended
    assert code == 0, f"{summary}\n{err}"
    return summary


def by_key(records: list[ObjectRecord]) -> dict[str, ObjectRecord]:
    return {record.source_key: record for record in records}


@pytest.mark.every_server
@pytest.mark.timeout(600)
def test_a_folder_goes_up_and_comes_back_the_same(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(s3server)
    names = [f"sized/{number}.bin" for number in range(len(SIZES))] + odd_names(s3server.kind)
    fill(tmp_path / "run", rng, names, SIZES)
    fill(tmp_path / "run", rng, random_names(rng, 200, without="\\"), latest_ns=LATEST_NS)

    up = summary_of(mover.copy(f"{tmp_path}/run", f"s3://{bucket}/in", *SMALL_PARTS))
    assert up["objects_done"] == up["streamed"] == len(names) + 200
    assert {key.removeprefix("in/") for key in keys(s3server, bucket)} == tree(tmp_path / "run").keys()
    for name in names:
        stored = s3server.client().get_object(Bucket=bucket, Key=f"in/{name}")
        assert stored["Body"].read() == (tmp_path / "run" / name).read_bytes(), name
        seconds, _, fraction = stored["Metadata"]["mtime"].partition(".")
        assert int(seconds) * 10**9 + int(fraction.ljust(9, "0") or 0) == (tmp_path / "run" / name).stat().st_mtime_ns

    down = summary_of(mover.copy(f"s3://{bucket}/in/", f"{tmp_path}/back", *SMALL_PARTS))
    assert down["objects_done"] == down["streamed"] == up["objects_done"]
    assert_same_tree(tmp_path / "run", tmp_path / "back")

    again = summary_of(mover.copy(f"{tmp_path}/run/", f"s3://{bucket}/in/", *SMALL_PARTS))
    assert (again["objects_skipped"], again["objects_done"]) == (up["objects_done"], 0)
    again = summary_of(mover.copy(f"s3://{bucket}/in/", f"{tmp_path}/back/", *SMALL_PARTS))
    assert (again["objects_skipped"], again["objects_done"]) == (up["objects_done"], 0)
    assert open_uploads(s3server, bucket) == []


def test_one_file_and_its_name(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(s3server)
    fill(tmp_path, rng, ["f.gz", "other.gz"])

    # All the ways of naming a place: ``unit/spec/test_spec.py``.
    summary_of(mover.copy(f"{tmp_path}/f.gz", f"s3://{bucket}/x/"))
    assert keys(s3server, bucket) == ["x/f.gz"]

    (tmp_path / "folder").mkdir()
    summary_of(mover.copy(f"s3://{bucket}/x/f.gz", f"{tmp_path}/folder"))
    assert (tmp_path / "folder/f.gz").read_bytes() == (tmp_path / "f.gz").read_bytes()


def test_a_file_that_has_changed_is_copied_again_and_one_of_another_time_is_looked_at(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(s3server)
    fill(tmp_path / "run", rng, ["same", "other bytes", "touched"], [5000])
    summary_of(mover.copy(f"{tmp_path}/run", f"s3://{bucket}/in/"))
    (tmp_path / "run/other bytes").write_bytes(rng.randbytes(5000))
    (tmp_path / "run/touched").touch()

    up = summary_of(mover.copy(f"{tmp_path}/run", f"s3://{bucket}/in/"))

    assert (
        s3server.client().get_object(Bucket=bucket, Key="in/other bytes")["Body"].read()
        == (tmp_path / "run/other bytes").read_bytes()
    )
    fates = {key: record.state for key, record in by_key(mover.objects(str(up["id"]))).items()}
    assert fates["same"] == "skipped"
    assert fates["other bytes"] == "done"


def _with_holes(path: Path, rng: random.Random, size: int, holes: list[tuple[int, int]]) -> None:
    """A file of random bytes but for the holes, from and to, of which the file system keeps nothing."""
    with path.open("wb") as file:
        at = 0
        for begin, end in [*holes, (size, size)]:
            file.write(rng.randbytes(begin - at))
            at = file.seek(end)
        file.truncate(size)
    settle(path)


HOLES: Final = {
    "nothing else": (21 * MIB, [(0, 21 * MIB)]),
    "at both ends": (21 * MIB, [(0, 6 * MIB), (7 * MIB, 13 * MIB + 5), (14 * MIB, 21 * MIB)]),
    "parts of zeros": (21 * MIB, [(4 * MIB, 16 * MIB)]),
    "between blocks": (21 * MIB, [(256 * KIB, 10 * MIB), (10 * MIB + 256 * KIB, 21 * MIB - 256 * KIB)]),
    "whole": (4 * MIB, [(256 * KIB, 2 * MIB), (2 * MIB + 256 * KIB, 4 * MIB - 256 * KIB)]),
    "small": (MIB, [(0, MIB)]),
}
"""Sizes of files, and their holes from and to: files of several parts, and of one."""


def test_a_file_with_holes_arrives_as_it_reads(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(s3server)
    (tmp_path / "run").mkdir()
    for name, (size, holes) in HOLES.items():
        _with_holes(tmp_path / "run" / name, rng, size, holes)
    taken = {name: _on_disk(tmp_path / "run" / name) for name in HOLES}
    for name, (size, holes) in HOLES.items():
        without = size - sum(end - begin for begin, end in holes)
        assert taken[name] < without + MIB, f"{name}: the file system keeps no holes"

    summary_of(mover.copy(f"{tmp_path}/run", f"s3://{bucket}/in/", *SMALL_PARTS))
    for name in HOLES:
        stored = s3server.client().get_object(Bucket=bucket, Key=f"in/{name}")["Body"].read()
        assert stored == (tmp_path / "run" / name).read_bytes(), name

    # What comes down takes no more room either, but for runs that are shorter than a piece.
    summary_of(mover.copy(f"s3://{bucket}/in/", f"{tmp_path}/back", *SMALL_PARTS))
    assert_same_tree(tmp_path / "run", tmp_path / "back")
    for name, (_, holes) in HOLES.items():
        assert _on_disk(tmp_path / "back" / name) <= taken[name] + 2 * MIB * len(holes), name
    assert _on_disk(tmp_path / "back" / "between blocks") < 21 * MIB // 2
    assert _on_disk(tmp_path / "back" / "whole") < 2 * MIB


def test_zeros_that_another_tool_has_uploaded_become_holes(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket, size = make_bucket(s3server), 16 * MIB
    s3server.client().put_object(Bucket=bucket, Key="in/zeros", Body=b"\0" * size + b"end")

    summary_of(make_mover(s3server).copy(f"s3://{bucket}/in/zeros", f"{tmp_path}/zeros", *SMALL_PARTS))

    assert (tmp_path / "zeros").read_bytes() == b"\0" * size + b"end"
    assert _on_disk(tmp_path / "zeros") < size // 2


def _on_disk(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_links_are_followed_skipped_or_kept(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(s3server)
    fill(tmp_path / "elsewhere", rng, ["d/e"])
    fill(tmp_path / "run", rng, ["f"])
    (tmp_path / "run/to-file").symlink_to("f")
    (tmp_path / "run/to-folder").symlink_to(tmp_path / "elsewhere")

    summary_of(mover.copy(f"{tmp_path}/run", f"s3://{bucket}/follow/"))
    assert sorted(keys(s3server, bucket, "follow/")) == [
        "follow/f",
        "follow/to-file",
        "follow/to-folder/d/e",
    ]

    skipped = summary_of(mover.copy(f"{tmp_path}/run", f"s3://{bucket}/skip/", "--symlinks", "skip"))
    assert keys(s3server, bucket, "skip/") == ["skip/f"]
    records = by_key(mover.objects(str(skipped["id"])))
    assert {key: record.error_code for key, record in records.items() if record.state == "skipped"} == {
        "to-file": "SymlinkSkipped",
        "to-folder": "SymlinkSkipped",
    }

    summary_of(mover.copy(f"{tmp_path}/run", f"s3://{bucket}/keep/", "--symlinks", "keep"))
    summary_of(mover.copy(f"s3://{bucket}/keep/", f"{tmp_path}/back", "--symlinks", "keep"))
    assert_same_tree(tmp_path / "run", tmp_path / "back")


def test_empty_folders_are_kept_when_asked_for(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(s3server)
    fill(tmp_path / "run", rng, ["a/f"])
    (tmp_path / "run/a/empty/inner").mkdir(parents=True)

    summary_of(mover.copy(f"{tmp_path}/run", f"s3://{bucket}/without/"))
    assert keys(s3server, bucket, "without/") == ["without/a/f"]

    summary_of(mover.copy(f"{tmp_path}/run", f"s3://{bucket}/with/", "--empty-directories"))
    summary_of(mover.copy(f"s3://{bucket}/with/", f"{tmp_path}/back", "--empty-directories"))
    assert_same_tree(tmp_path / "run", tmp_path / "back")


def test_what_cannot_be_an_object_is_said_and_the_rest_arrives(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(s3server)
    run = tmp_path / "run"
    fill(run, rng, ["f", "d/g"])
    os.mkfifo(run / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(run / "sock"))
    (run / "dangling").symlink_to("nowhere")
    (run / "d/loop").symlink_to("..")
    (latin := Path(os.fsdecode(bytes(run) + b"/latin-\xe9.txt"))).write_bytes(b"x")
    settle(latin)

    code, summary, err = mover.copy(str(run), f"s3://{bucket}/in/")

    assert code == 1, err
    assert sorted(keys(s3server, bucket)) == ["in/d/g", "in/f"]
    records = mover.objects(str(summary["id"]))
    left_out = {record.source_key: record.error_code for record in records if record.state == "skipped"}
    assert left_out == {"pipe": "SpecialFile", "sock": "SpecialFile"}
    failed = {record.error_code: record for record in records if record.state == "failed"}
    assert failed.keys() == {"SymlinkDangling", "SymlinkLoop", "NameNotUtf8"}
    assert all(record.error_message for record in records if record.state != "done")


@pytest.mark.timeout(300)
def test_thousands_of_odd_names_go_up_and_come_back(
    seaweedfs: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(seaweedfs), make_mover(seaweedfs)
    # Several pages of a listing, and several batches.
    fill(tmp_path / "run", rng, random_names(rng, 3000, without="\\"), (0, 1, 100, 2000))

    up = summary_of(mover.copy(f"{tmp_path}/run", f"s3://{bucket}/"))
    down = summary_of(mover.copy(f"s3://{bucket}/", f"{tmp_path}/back"))

    assert up["objects_done"] == down["objects_done"] == 3000
    assert_same_tree(tmp_path / "run", tmp_path / "back")


def test_permissions_stay_within_the_umask_unless_they_are_to_be_preserved(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(s3server), make_mover(s3server)
    wanted = {"open": "0100777", "setuid": "0104755", "usual": "0100644", "private": "0100600"}
    for name, mode in wanted.items():
        s3server.client().put_object(Bucket=bucket, Key=f"in/{name}", Body=b"x", Metadata={"mode": mode})
    mover.within = ("sh", "-c", 'umask 077; exec "$@"', "sh")

    summary_of(mover.copy(f"s3://{bucket}/in/", f"{tmp_path}/narrow"))
    summary_of(mover.copy(f"s3://{bucket}/in/", f"{tmp_path}/kept", "--preserve-permissions"))

    def modes(folder: str) -> dict[str, int]:
        return {path.name: path.stat().st_mode & 0o7777 for path in (tmp_path / folder).iterdir()}

    assert modes("narrow") == {"open": 0o700, "setuid": 0o700, "usual": 0o600, "private": 0o600}
    assert modes("kept") == {"open": 0o777, "setuid": 0o755, "usual": 0o644, "private": 0o600}
