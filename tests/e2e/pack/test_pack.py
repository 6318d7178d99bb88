"""``seqferry pack`` on real servers: what other programs read, what decides the bytes, what is refused."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from packed import by_command, by_python, fill, sha256, stored

from support.buckets import keys, open_uploads
from support.mover import MIB, Mover
from support.servers import S3Server
from support.trees import settle

NAMES = ["a.txt", "lane1/r1.fq", "lane1/r2.fq", "lane1/ü ß.txt", "z" * 120 + "/" + "y" * 200, "zz/empty"]


def _contents(rng: random.Random) -> dict[str, bytes]:
    sizes = [10, 17 * MIB + 3, 100_000, 1, 700, 0]
    return {name: rng.randbytes(size) for name, size in zip(NAMES, sizes, strict=True)}


@pytest.fixture
def bucket(s3server: S3Server, make_bucket: Callable[..., str]) -> str:
    return make_bucket(s3server)


@pytest.fixture
def mover(s3server: S3Server, make_mover: Callable[[S3Server], Mover]) -> Mover:
    return make_mover(s3server)


def test_other_programs_read_what_was_packed(
    s3server: S3Server, bucket: str, mover: Mover, rng: random.Random, tmp_path: Path
) -> None:
    contents = _contents(rng)
    fill(s3server, bucket, "run/", contents)

    code, summary, err = mover.copy(f"s3://{bucket}/run/", f"s3://{bucket}/out/run.tar", verb="pack")

    assert code == 0, f"{summary}\n{err}"
    archive = stored(s3server, bucket, "out/run.tar")
    assert by_python(archive) == contents
    assert by_command("tar", archive, tmp_path / "gnu") == contents
    assert by_command("bsdtar", archive, tmp_path / "bsd") == contents
    assert open_uploads(s3server, bucket) == []
    head = s3server.client().head_object(Bucket=bucket, Key="out/run.tar")
    index = [json.loads(line) for line in stored(s3server, bucket, "out/run.tar.sfidx").splitlines()]
    assert index[0]["tar"]["etag"] == head["ETag"].strip('"')
    assert [member["name"] for member in index[1:-1]] == sorted(contents, key=str.encode)
    rows = mover.objects(summary["id"])
    assert {row.source_key for row in rows} == {f"run/{name}" for name in contents}
    assert {(row.state, row.target_key, row.target_etag) for row in rows} == {
        ("done", "out/run.tar", head["ETag"].strip('"'))
    }


def test_the_bytes_depend_on_names_and_contents_only(
    s3server: S3Server, bucket: str, mover: Mover, rng: random.Random, tmp_path: Path
) -> None:
    contents = _contents(rng)
    fill(s3server, bucket, "run/", contents)
    for name, data in contents.items():
        path = tmp_path / "run" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        settle(path)
    ways = {
        "a.tar": (f"s3://{bucket}/run/", "--part-size", "10MiB"),
        "b.tar": (f"s3://{bucket}/run", "--part-size", "64MiB"),
        "c.tar": (f"{tmp_path}/run", "--no-index"),
    }

    for name, (source, *options) in ways.items():
        code, summary, err = mover.copy(source, f"s3://{bucket}/out/{name}", *options, verb="pack")
        assert code == 0, f"{summary}\n{err}"
    for name, source in (("d.tar", f"s3://{bucket}/run/"), ("e.tar", f"{tmp_path}/run")):
        code, summary, err = mover.copy(source, f"{tmp_path}/{name}", verb="pack")
        assert code == 0, f"{summary}\n{err}"

    digests = {name: sha256(stored(s3server, bucket, f"out/{name}")) for name in ways}
    digests |= {name: sha256((tmp_path / name).read_bytes()) for name in ("d.tar", "e.tar")}
    assert len(set(digests.values())) == 1, digests
    assert "out/c.tar.sfidx" not in keys(s3server, bucket, "out/")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.endswith((".tar", ".sfidx"))) == [
        "d.tar", "d.tar.sfidx", "e.tar", "e.tar.sfidx",
    ]  # fmt: skip


def test_the_same_again_makes_nothing_and_a_change_makes_it_anew(s3server: S3Server, bucket: str, mover: Mover) -> None:
    fill(s3server, bucket, "run/", {"a": b"1", "b": b"2"})
    arguments = (f"s3://{bucket}/run/", f"s3://{bucket}/run.tar")
    assert mover.copy(*arguments, verb="pack")[0] == 0
    first = s3server.client().head_object(Bucket=bucket, Key="run.tar")["LastModified"]

    code, summary, _ = mover.copy(*arguments, verb="pack")
    assert (code, summary["objects_skipped"], summary["objects_done"]) == (0, 2, 0)
    assert s3server.client().head_object(Bucket=bucket, Key="run.tar")["LastModified"] == first

    fill(s3server, bucket, "run/", {"b": b"3"})
    code, summary, _ = mover.copy(*arguments, verb="pack")
    assert (code, summary["objects_done"]) == (0, 2)
    assert by_python(stored(s3server, bucket, "run.tar")) == {"a": b"1", "b": b"3"}


def test_without_an_index_the_one_of_an_earlier_archive_does_not_stay(
    s3server: S3Server, bucket: str, mover: Mover, tmp_path: Path
) -> None:
    fill(s3server, bucket, "run/", {"a": b"1", "b": b"2"})
    arguments = (f"s3://{bucket}/run/", f"s3://{bucket}/run.tar")
    assert mover.copy(*arguments, verb="pack")[0] == 0
    fill(s3server, bucket, "run/", {"a": b"111"})

    code, summary, err = mover.copy(*arguments, "--no-index", verb="pack")

    assert code == 0, f"{summary}\n{err}"
    code, summary, err = mover.copy(f"s3://{bucket}/run.tar", f"{tmp_path}/to", verb="unpack")
    assert code == 0, f"{summary}\n{err}"
    assert (tmp_path / "to/a").read_bytes() == b"111"


def test_the_same_again_on_this_machine_makes_nothing_and_a_change_makes_it_anew(
    versitygw: S3Server, make_mover: Callable[[S3Server], Mover], tmp_path: Path
) -> None:
    mover, target = make_mover(versitygw), tmp_path / "run.tar"
    (tmp_path / "run").mkdir()
    (tmp_path / "run/a").write_bytes(b"1")
    (tmp_path / "run/b").write_bytes(b"2")
    settle(*(tmp_path / "run").iterdir())
    arguments = (f"{tmp_path}/run", str(target))
    assert mover.copy(*arguments, verb="pack")[0] == 0
    first = target.stat()

    code, summary, _ = mover.copy(*arguments, verb="pack")
    assert (code, summary["objects_skipped"], summary["objects_done"]) == (0, 2, 0)
    assert (target.stat().st_ino, target.stat().st_mtime_ns) == (first.st_ino, first.st_mtime_ns)

    (tmp_path / "run/b").write_bytes(b"3")
    code, summary, _ = mover.copy(*arguments, verb="pack")
    assert (code, summary["objects_done"]) == (0, 2)
    assert by_python(target.read_bytes()) == {"a": b"1", "b": b"3"}

    # An index that is damaged, or of another file, says nothing.
    (tmp_path / "run.tar.sfidx").write_bytes(b"{}\n")
    code, summary, _ = mover.copy(*arguments, verb="pack")
    assert (code, summary["objects_done"]) == (0, 2)
    target.write_bytes(target.read_bytes()[:-1] + b"x")
    code, summary, _ = mover.copy(*arguments, verb="pack")
    assert (code, summary["objects_done"]) == (0, 2)
    assert by_python(target.read_bytes()) == {"a": b"1", "b": b"3"}


def test_shards_hold_all_members_within_their_size(
    s3server: S3Server, bucket: str, mover: Mover, rng: random.Random
) -> None:
    contents = {f"{number:02}.bin": rng.randbytes(300_000) for number in range(10)}
    fill(s3server, bucket, "run/", contents)

    code, summary, err = mover.copy(f"s3://{bucket}/run/", f"s3://{bucket}/out/x.tar", "--split", "1MiB", verb="pack")

    assert code == 0, f"{summary}\n{err}"
    names = [key for key in keys(s3server, bucket, "out/") if key.endswith(".tar")]
    assert names == [f"out/x-{number:05}.tar" for number in range(4)]
    found: dict[str, bytes] = {}
    for name in names:
        archive = stored(s3server, bucket, name)
        assert len(archive) <= MIB
        found |= by_python(archive)
    assert found == contents
    assert {row.target_key for row in mover.objects(summary["id"])} == set(names)


@pytest.mark.parametrize("place", ["bucket", "folder"])
def test_shards_of_an_earlier_pack_are_not_left_behind_those_of_a_later_one(
    s3server: S3Server, bucket: str, mover: Mover, rng: random.Random, tmp_path: Path, place: str
) -> None:
    target = f"s3://{bucket}/out" if place == "bucket" else str(tmp_path)
    fill(s3server, bucket, "run/", {f"{number}.bin": rng.randbytes(700_000) for number in range(3)})
    arguments = (f"s3://{bucket}/run/", f"{target}/x.tar", "--split", "1MiB")
    assert mover.copy(*arguments, verb="pack")[0] == 0
    assert mover.copy(*arguments, "--new", verb="pack")[0] == 0
    s3server.client().delete_object(Bucket=bucket, Key="run/0.bin")
    s3server.client().delete_object(Bucket=bucket, Key="run/2.bin")

    code, summary, _ = mover.copy(*arguments, verb="pack")
    planned = mover.start("pack", *arguments, "--dry-run")

    assert (code, summary["error_code"]) == (1, "LaterShards"), summary
    assert f"{target}/x-00001.tar is there" in summary["error_message"]
    assert planned.wait() == 1
    assert "x-00001.tar is there" in planned.stderr
    # The first shard is as it was.
    first = (
        stored(s3server, bucket, "out/x-00000.tar") if place == "bucket" else (tmp_path / "x-00000.tar").read_bytes()
    )
    assert by_python(first).keys() == {"0.bin"}


def test_a_cancelled_pack_leaves_no_upload(s3server: S3Server, bucket: str, mover: Mover, rng: random.Random) -> None:
    fill(s3server, bucket, "run/", {"a": rng.randbytes(17 * MIB)})
    running = mover.start("pack", f"s3://{bucket}/run/", f"s3://{bucket}/x.tar", "--detach")
    assert running.wait() == 0, str(running)
    transfer_id = running.stdout.strip()

    assert mover.start("cancel", transfer_id).wait() in (0, 1)

    assert mover.status(transfer_id).state in ("cancelled", "cancelling")
    with mover.start("resume", transfer_id) as last:
        last.wait(60)
    assert mover.status(transfer_id).state == "cancelled"
    assert open_uploads(s3server, bucket) == []
    assert "x.tar" not in keys(s3server, bucket)


# What else makes no sense is in ``unit/cli/test_refused_options.py``.
def test_what_makes_no_sense_is_refused_with_a_line(s3server: S3Server, bucket: str, mover: Mover) -> None:
    running = mover.start("pack", f"s3://{bucket}/run/", f"s3://{bucket}/run/x.tar")

    assert running.wait() == 2, str(running)
    assert "would list its own output" in running.stderr
    assert "Traceback" not in running.stderr


def test_an_archive_that_would_lack_members_is_not_made(
    versitygw: S3Server, make_bucket: Callable[..., str], make_mover: Callable[[S3Server], Mover], tmp_path: Path
) -> None:
    bucket = make_bucket(versitygw)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "good").write_bytes(b"x")
    (folder / os.fsdecode(b"bad\xff")).write_bytes(b"x")
    mover = make_mover(versitygw)

    code, summary, _ = mover.copy(str(folder), f"s3://{bucket}/x.tar", verb="pack")

    assert code == 1
    assert "bad\\\\xff" in json.dumps(summary)
    assert "Nothing was written" in json.dumps(summary)
    assert keys(versitygw, bucket) == []


def test_nothing_to_pack_makes_no_archive(s3server: S3Server, bucket: str, mover: Mover) -> None:
    assert mover.copy(f"s3://{bucket}/nothing/", f"s3://{bucket}/x.tar", verb="pack")[0] == 4
    assert keys(s3server, bucket) == []


def test_a_dry_run_names_the_members_and_writes_nothing(s3server: S3Server, bucket: str, mover: Mover) -> None:
    fill(s3server, bucket, "run/", {"a": b"1", "b/c": b"2"})

    running = mover.start("pack", f"s3://{bucket}/run/", f"s3://{bucket}/x.tar", "--dry-run")

    assert running.wait() == 0, str(running)
    assert sorted(running.stdout.splitlines()) == [
        f"(dry run) pack s3://{bucket}/run/a as a",
        f"(dry run) pack s3://{bucket}/run/b/c as b/c",
    ]
    assert sorted(keys(s3server, bucket)) == ["run/a", "run/b/c"]


@pytest.mark.parametrize("options", [(), ("--dry-run",)], ids=["for real", "dry run"])
def test_a_member_that_is_refused_forbids_the_archive_in_a_dry_run_too(
    s3server: S3Server, bucket: str, mover: Mover, tmp_path: Path, options: tuple[str]
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "a").write_bytes(b"1")
    (folder / "gone").symlink_to("nowhere")

    running = mover.start("pack", str(folder), f"s3://{bucket}/x.tar", *options)

    assert running.wait() == 1, str(running)
    assert f"No archive is made that lacks members: {folder}/gone" in running.stderr
    assert keys(s3server, bucket) == []


def test_a_dry_run_selects_as_the_archive_itself_does(bucket: str, mover: Mover, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "a").write_bytes(b"1")
    settle(folder / "a")
    os.mkfifo(folder / "pipe")

    shown = mover.start("pack", str(folder), f"s3://{bucket}/x.tar", "--dry-run", "--json")
    code, summary, errors = mover.copy(str(folder), f"s3://{bucket}/x.tar", verb="pack")

    assert (shown.wait(), code) == (0, 0), str(shown) + errors
    events = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [(one["event"], one.get("name"), one.get("left_out")) for one in events[:-1]] in (
        [("planned", "a", None), ("refused", None, True)],
        [("refused", None, True), ("planned", "a", None)],
    )
    assert events[-1]["objects"] == summary["objects_done"] == 1


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_dry_run_over_an_archive_says_that_it_is_compared(
    s3server: S3Server, bucket: str, mover: Mover, tmp_path: Path, *, on_disk: bool
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/a").write_bytes(b"1")
    settle(tmp_path / "run/a")
    fill(s3server, bucket, "run/", {"a": b"1"})
    place = str(tmp_path) if on_disk else f"s3://{bucket}"
    source, target = f"{place}/run", f"{place}/x.tar"
    assert mover.copy(source, target, verb="pack")[0] == 0

    shown = mover.start("pack", source, target, "--dry-run")
    told = mover.start("pack", source, target, "--dry-run", "--json")
    code, summary, _ = mover.copy(source, target, verb="pack")

    assert (shown.wait(), told.wait(), code) == (0, 0, 0), str(shown)
    assert shown.stdout.splitlines() == [f"(dry run) compare {source}/a as a (it exists; compared when it is done)"]
    assert "1 member of them would be compared first" in shown.stderr
    planned, total = (json.loads(line) for line in told.stdout.splitlines())
    assert (planned["action"], total["objects"], total["compared"]) == ("compare", 1, 1)
    assert summary["objects_skipped"] == 1
