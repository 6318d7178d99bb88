"""Archives of other programs, unpacked by the shipped command to folders and to prefixes."""

from __future__ import annotations

import json
import os
import random
import stat
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.buckets import keys, open_uploads
from support.made_archives import MIB, MTIME, make_gnu_tar, make_tree, many, names, put
from support.mover import Mover
from support.proxy import Proxy
from support.servers import S3Server
from support.trees import tree

MoverFactory = Callable[[S3Server], Mover]
BucketFactory = Callable[..., str]


def unpack(mover: Mover, *arguments: str) -> dict[str, object]:
    """The summary of an unpacking that must go well."""
    code, summary, err = mover.copy(*arguments, verb="unpack")
    assert code == 0, f"{summary}\n{err}"
    return summary


def _without_times(folder: Path) -> dict[str, tuple[int, str, int, str | None]]:
    return {name: (one.size, one.sha256, one.mode, one.link) for name, one in tree(folder).items()}


# Archives of all formats and programs are unpacked in ``integration/planning/test_archive_corpus.py``.
@pytest.mark.timeout(300)
def test_an_archive_becomes_the_folder_that_it_was_made_of(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    make_tree(tmp_path / "from", rng)
    make_gnu_tar("gnu", tmp_path / "from", tmp_path / "x.tar")
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    put(versitygw, bucket, "in/x.tar", tmp_path / "x.tar")

    unpack(mover, f"s3://{bucket}/in/x.tar", f"{tmp_path}/to", "--preserve-permissions")

    assert _without_times(tmp_path / "from") == _without_times(tmp_path / "to")
    wanted, got = tree(tmp_path / "from"), tree(tmp_path / "to")
    assert {name: one.mtime_ns for name, one in wanted.items()} == {name: one.mtime_ns for name, one in got.items()}

    again = unpack(mover, f"s3://{bucket}/in/x.tar", f"{tmp_path}/to", "--preserve-permissions")
    assert again["objects_done"] == len([name for name in wanted if name.endswith("/")]) or again["objects_done"] == 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("preserves", [False, True])
def test_files_and_folders_get_times_and_modes_as_tar_gives_them(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path, preserves: bool
) -> None:
    modes = {"run": 0o755, "run/open": 0o777, "run/own": 0o700, "run/open/deep": 0o2775, "run/own/empty": 0o750}
    modes |= {"run/tool": 0o755, "run/set": 0o4755, "run/own/secret": 0o600, "run/open/all": 0o666, "run/ro": 0o444}
    for number, (name, mode) in enumerate(modes.items()):
        path = tmp_path / "from" / name
        path.mkdir(parents=True, exist_ok=True) if number < 5 else path.write_bytes(b"x" * number)
        path.chmod(mode)
    for number, name in enumerate(sorted(modes, reverse=True)):
        os.utime(tmp_path / "from" / name, (MTIME + number, MTIME + number))
    subprocess.run(["tar", "-C", f"{tmp_path}/from", "-cf", f"{tmp_path}/x.tar", "run"], check=True)
    (tmp_path / "gnu").mkdir()
    kept = "--same-permissions" if preserves else "--no-same-permissions"
    by_tar = f"umask 027; exec tar --no-same-owner {kept} -C '{tmp_path}/gnu' -xf '{tmp_path}/x.tar'"
    subprocess.run(["sh", "-c", by_tar], check=True)
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    put(versitygw, bucket, "x.tar", tmp_path / "x.tar")
    mover.within = ("sh", "-c", 'umask 027; exec "$0" "$@"')

    for _ in range(2):
        unpack(mover, f"s3://{bucket}/x.tar", f"{tmp_path}/to", *(["--preserve-permissions"] if preserves else []))

        def facts(folder: str) -> dict[str, tuple[int, int]]:
            found = {name: (tmp_path / folder / name).stat() for name in modes}
            # Setuid, setgid and sticky bits are never taken from an archive.
            return {name: (stat.S_IMODE(one.st_mode) & 0o777, one.st_mtime_ns) for name, one in found.items()}

        assert facts("to") == facts("gnu")
        assert not any((tmp_path / "to" / name).stat().st_mode & 0o7000 for name in modes)


@pytest.mark.timeout(300)
def test_an_archive_becomes_objects_below_a_prefix(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    make_tree(tmp_path / "from", rng)
    make_gnu_tar("pax", tmp_path / "from", tmp_path / "x.tar")
    bucket, mover = make_bucket(s3server), make_mover(s3server)
    put(s3server, bucket, "in/x.tar", tmp_path / "x.tar")

    summary = unpack(mover, f"s3://{bucket}/in/x.tar", f"s3://{bucket}/out")

    wanted = tree(tmp_path / "from")
    client = s3server.client()
    found = {key.removeprefix("out/") for key in keys(s3server, bucket) if key.startswith("out/")}
    assert found == {name for name in wanted if not name.endswith("/")}
    for name, entry in wanted.items():
        if name.endswith("/"):
            continue
        stored = client.get_object(Bucket=bucket, Key=f"out/{name}")
        body = stored["Body"].read()
        if entry.link is None:
            assert body == (tmp_path / "from" / name).read_bytes(), name
            assert int(stored["Metadata"]["mode"], 8) == stat.S_IFREG | entry.mode
        else:
            assert body.decode() == entry.link
    # The only member that is large enough was copied by the storage.
    assert summary["streamed"] == len(found) - 1
    assert open_uploads(s3server, bucket) == []


def test_each_member_is_on_record_and_can_be_compared_again(
    s3server: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    contents = {f"run42/{number}": str(number).encode() for number in range(20)}
    (tmp_path / "from" / "run42").mkdir(parents=True)
    for name, body in contents.items():
        (tmp_path / "from" / name).write_bytes(body)
    make_gnu_tar("gnu", tmp_path / "from", tmp_path / "x.tar")
    bucket, mover = make_bucket(s3server), make_mover(s3server)
    put(s3server, bucket, "x.tar", tmp_path / "x.tar")

    summary = unpack(mover, f"s3://{bucket}/x.tar", f"s3://{bucket}/out/")

    transfer_id = str(summary["id"])
    rows = {
        (row.source_key, row.target_key, row.size, row.state)
        for row in mover.objects(transfer_id)
        if not row.source_key.endswith("/")
    }
    assert rows == {(f"x.tar!/{name}", f"out/{name}", len(body), "done") for name, body in contents.items()}
    assert len(str(summary["receipt_digest"])) == 64
    assert mover.start("verify", transfer_id).wait() == 0
    s3server.client().put_object(Bucket=bucket, Key="out/run42/7", Body=b"8")
    again = mover.start("verify", transfer_id, "--json")
    assert again.wait() == 3, str(again)
    assert "out/run42/7" in again.stdout


def test_a_local_archive_is_unpacked_to_a_folder_and_to_a_prefix(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    make_tree(tmp_path / "from", rng)
    make_gnu_tar("pax", tmp_path / "from", tmp_path / "x.tar")
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)

    unpack(mover, f"{tmp_path}/x.tar", f"{tmp_path}/to", "--preserve-permissions")
    unpack(mover, f"{tmp_path}/x.tar", f"s3://{bucket}/out/")

    assert _without_times(tmp_path / "from") == _without_times(tmp_path / "to")
    body = versitygw.client().get_object(Bucket=bucket, Key="out/run42/lane1/007.fastq")["Body"].read()
    assert body == (tmp_path / "from/run42/lane1/007.fastq").read_bytes()


def test_members_that_state_a_time_of_this_second_are_whole(
    versitygw: S3Server, make_mover: MoverFactory, tmp_path: Path
) -> None:
    # The time of a member says nothing of writes to the archive, which a second look would wait for.
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for second in range(10):
            member = tarfile.TarInfo(f"{second}")
            member.mtime = int(time.time()) + second
            archive.addfile(member)

    summary = unpack(make_mover(versitygw), f"{tmp_path}/x.tar", f"{tmp_path}/to")

    assert summary["objects_done"] == 10


def test_sparse_files_have_their_holes_back(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, rng: random.Random, tmp_path: Path
) -> None:
    (tmp_path / "from/run42").mkdir(parents=True)
    path, archive = tmp_path / "from/run42/disk.img", tmp_path / "x.tar"
    with path.open("wb") as file:
        for number in range(12):
            file.seek(number * MIB)
            file.write(rng.randbytes(4096))
        file.truncate(13 * MIB + 7)
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    subprocess.run(["tar", "-S", "-C", f"{tmp_path}/from", "-cf", str(archive), "run42"], check=True)
    assert archive.stat().st_size < MIB
    put(versitygw, bucket, "x.tar", archive)

    unpack(mover, f"s3://{bucket}/x.tar", f"{tmp_path}/to")
    unpack(mover, f"s3://{bucket}/x.tar", f"s3://{bucket}/out/")

    assert (tmp_path / "to/run42/disk.img").read_bytes() == path.read_bytes()
    body = versitygw.client().get_object(Bucket=bucket, Key="out/run42/disk.img")["Body"].read()
    assert body == path.read_bytes()


def test_a_selection_reads_little_more_than_it_needs(
    versitygw: S3Server, make_proxy: Callable[[S3Server], Proxy], make_bucket: BucketFactory, make_mover: MoverFactory,
    rng: random.Random, tmp_path: Path,
) -> None:  # fmt: skip
    members = {f"s/{number:02d}.bin": rng.randbytes(4 * MIB) for number in range(16)}
    bucket, proxy = make_bucket(versitygw), make_proxy(versitygw)
    put(versitygw, bucket, "x.tar", many(members))
    mover = make_mover(proxy.server)
    (tmp_path / "names").write_text("s/03.bin\n./s/07.bin\n")

    unpack(mover, f"s3://{bucket}/x.tar", f"{tmp_path}/listed", "--files-from", f"{tmp_path}/names")
    read = sum(record.reply_bytes for record in proxy.log() if record.operation == "GetObject")
    rules = ("--exclude", "*", "--include", "s/0?.bin", "--exclude", "*/0[0-8].bin")
    unpack(mover, f"s3://{bucket}/x.tar", f"{tmp_path}/matched", *rules)

    assert names(tmp_path / "listed/s") == ["03.bin", "07.bin"]
    assert names(tmp_path / "matched/s") == ["09.bin"]
    assert (tmp_path / "listed/s/07.bin").read_bytes() == members["s/07.bin"]
    assert read < 2 * 4 * MIB + 17 * 128 * 1024, f"{read} bytes for 8 MiB"


def test_a_name_that_is_no_member_fails_and_the_others_arrive(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    put(versitygw, bucket, "x.tar", many({"a": b"1", "b": b"2"}))
    (tmp_path / "names").write_text("a\nc\n")

    code, summary, _ = mover.copy(
        f"s3://{bucket}/x.tar", f"{tmp_path}/to", "--files-from", f"{tmp_path}/names", verb="unpack"
    )

    assert code == 1
    assert [failure["error_code"] for failure in summary["failures"]] == ["NoSuchMember"]
    assert names(tmp_path / "to") == ["a"]


def test_detached_it_is_recorded_and_a_worker_unpacks(
    versitygw: S3Server, make_bucket: BucketFactory, make_mover: MoverFactory, tmp_path: Path
) -> None:
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    put(versitygw, bucket, "x.tar", many({f"{number}": b"x" for number in range(20)}))
    recorded = mover.start("unpack", f"s3://{bucket}/x.tar", f"{tmp_path}/to", "--detach")
    assert recorded.wait() == 0
    transfer_id = recorded.stdout.strip()

    assert mover.start("resume", transfer_id).wait(120) == 0

    assert len(names(tmp_path / "to")) == 20
    [one] = [record for record in mover.objects(transfer_id) if record.target_key == "7"]
    assert (one.source_key, one.state, one.verified) == ("x.tar!/7", "done", "checksum")


@pytest.mark.parametrize(
    ("if_exists", "to_disk"), [("same", False), ("same", True), ("skip", False), ("fail", True), ("overwrite", True)]
)
def test_a_dry_run_over_members_tells_what_the_unpacking_does(
    versitygw: S3Server,
    make_bucket: BucketFactory,
    make_mover: MoverFactory,
    tmp_path: Path,
    if_exists: str,
    *,
    to_disk: bool,
) -> None:
    bucket, mover = make_bucket(versitygw), make_mover(versitygw)
    put(versitygw, bucket, "x.tar", many({"d/absent": b"1", "d/longer": b"12", "d/same": b"123"}))
    for name, body in (("longer", b"12345"), ("same", b"123")):
        if to_disk:
            (tmp_path / "to/d").mkdir(parents=True, exist_ok=True)
            (tmp_path / "to/d" / name).write_bytes(body)
        else:
            put(versitygw, bucket, f"to/d/{name}", body)
    arguments = (
        f"s3://{bucket}/x.tar",
        f"{tmp_path}/to" if to_disk else f"s3://{bucket}/to/",
        "--if-exists",
        if_exists,
    )

    shown = mover.start("unpack", *arguments, "--dry-run", "--json")
    assert shown.wait() == (1 if if_exists == "fail" else 0), str(shown)
    code, summary, _ = mover.copy(*arguments, verb="unpack")

    assert code == shown.wait()
    events = [json.loads(line) for line in shown.stdout.splitlines()]
    foretold = {
        one["source_key"].rpartition("/")[2]: one.get("action", one["event"]) for one in events if "source_key" in one
    }
    longer, same = {
        "same": ("copy", "compare"),
        "skip": ("skip", "skip"),
        "fail": ("refused", "refused"),
        "overwrite": ("copy", "copy"),
    }[if_exists]
    assert foretold == {"absent": "copy", "longer": longer, "same": same}
    ended = {row.source_key.rpartition("/")[2]: row.state for row in mover.objects(str(summary["id"]))}
    states = {"copy": ("done",), "compare": ("done", "skipped"), "skip": ("skipped",), "refused": ("failed",)}
    assert all(ended[name] in states[action] for name, action in foretold.items()), ended
