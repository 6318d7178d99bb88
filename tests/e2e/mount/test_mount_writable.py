"""A bucket as a folder that programs write to, through the kernel, looked at in the bucket by another client."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import random
import signal
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.buckets import CLAIM, PROBES
from support.mounts import Mount, Mounter, gone
from support.processes import run, run_seqferry
from support.servers import S3Server
from support.waiting import eventually

MIB = 1024 * 1024

MakeBucket = Callable[..., str]


@pytest.fixture
def mount(mounter: Mounter, tmp_path: Path) -> Callable[..., Mount]:
    """``mount(server, uri)``: to read and write, always with the same cache."""

    def start(server: S3Server, uri: str, *options: str) -> Mount:
        return mounter(server, uri, "--read-write", "--cache", str(tmp_path / "cache"), *options)

    return start


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def versions(server: S3Server, bucket: str) -> dict[str, list[bytes]]:
    """Bodies of all versions of the objects of a bucket, newest first."""
    client = server.client()
    found: dict[str, list[bytes]] = {}
    for one in client.list_object_versions(Bucket=bucket).get("Versions", []):
        if one["Key"].endswith((*PROBES, CLAIM)):
            continue
        got = client.get_object(Bucket=bucket, Key=one["Key"], VersionId=one["VersionId"])
        found.setdefault(one["Key"], []).append(got["Body"].read())
    return found


def uploaded(server: S3Server, bucket: str, mount: Mount, cache: Path) -> dict[str, list[bytes]]:
    """Unmount, wait until all is uploaded, and look."""
    mount.umount()
    gone(mount)
    eventually(lambda: _is_drained(mount, cache), what="the process of the mount to have uploaded everything")
    return versions(server, bucket)


def _is_drained(mount: Mount, cache: Path) -> bool:
    command = ["gateway", "status", "--cache", cache]
    done = run_seqferry(*command, environment=mount.environment, expect=None)
    return "No gateway runs" in done.stderr


def test_what_programs_write_is_in_the_bucket_once(
    s3server: S3Server, make_bucket: MakeBucket, mount: Callable[..., Mount], rng: random.Random, tmp_path: Path
) -> None:
    bucket = make_bucket(s3server, versioned=True)
    s3server.client().put_object(Bucket=bucket, Key="runs/old/reads", Body=b"A" * 1000)
    mounted = mount(s3server, f"s3://{bucket}/runs")
    folder = mounted.directory
    big = rng.randbytes(9 * MIB + 7)

    (folder / "deep" / "er").mkdir(parents=True)
    (source := tmp_path / "big").write_bytes(big)
    run(["cp", source, folder / "deep" / "er" / "big.bam.tmp"])
    (folder / "deep" / "er" / "big.bam.tmp").rename(folder / "deep" / "big.bam")
    with (folder / "log").open("ab") as log:
        for line in range(100):
            log.write(b"%d\n" % line)
            log.flush()
    with (folder / "old" / "reads").open("r+b") as reads:
        reads.seek(500)
        reads.write(b"B" * 10)
    (folder / "empty").touch()
    os.truncate(folder / "log", 20)
    (folder / "gone").write_bytes(b"x")
    (folder / "gone").unlink()
    (folder / "deep" / "er").rmdir()

    assert (folder / "deep" / "big.bam").read_bytes() == big
    assert names(folder) == ["deep", "empty", "log", "old"]
    with pytest.raises(OSError, match=os.strerror(errno.ENOTEMPTY)):
        (folder / "deep").rmdir()
    found = uploaded(s3server, bucket, mounted, tmp_path / "cache")
    assert found.pop("runs/old/reads") == [b"A" * 500 + b"B" * 10 + b"A" * 490, b"A" * 1000]
    kept = {key: bodies for key, bodies in found.items() if not key.endswith("/")}
    log_body = b"".join(b"%d\n" % number for number in range(100))[:20]
    assert kept == {"runs/deep/big.bam": [big], "runs/log": [log_body], "runs/empty": [b""]}


def test_an_open_file_is_read_and_written_on_after_its_name_is_gone(
    seaweedfs: S3Server, make_bucket: MakeBucket, mount: Callable[..., Mount], tmp_path: Path
) -> None:
    bucket = make_bucket(seaweedfs, versioned=True)
    mounted = mount(seaweedfs, f"s3://{bucket}")
    folder = mounted.directory

    with (folder / "scratch").open("w+b") as scratch, (folder / "replaced").open("w+b") as replaced:
        scratch.write(b"kept")
        scratch.flush()
        replaced.write(b"old")
        replaced.flush()
        (folder / "scratch").unlink()
        assert os.fstat(scratch.fileno()).st_nlink == 0
        (folder / "new").write_bytes(b"new")
        (folder / "new").rename(folder / "replaced")
        scratch.write(b" on")
        scratch.flush()
        scratch.seek(0)
        assert scratch.read() == b"kept on"
        replaced.seek(0)
        assert replaced.read() == b"old"
        assert (folder / "replaced").read_bytes() == b"new"
    eventually(lambda: names(folder) == ["replaced"], what="the names of the removed files to be gone")
    assert uploaded(seaweedfs, bucket, mounted, tmp_path / "cache") == {"replaced": [b"new"]}


def test_a_folder_is_removed_while_a_file_that_was_in_it_is_open(
    seaweedfs: S3Server, make_bucket: MakeBucket, mount: Callable[..., Mount], tmp_path: Path
) -> None:
    bucket = make_bucket(seaweedfs, versioned=True)
    seaweedfs.client().put_object(Bucket=bucket, Key="old/deep/file", Body=b"of the bucket")
    mounted = mount(seaweedfs, f"s3://{bucket}")
    folder = mounted.directory
    (folder / "new" / "deep").mkdir(parents=True)

    with (folder / "new/deep/file").open("w+b") as new, (folder / "old/deep/file").open("rb") as old:
        new.write(b"kept")
        new.flush()
        for tree in ("new", "old"):
            run(["rm", "-r", folder / tree])
        assert names(folder) == []
        new.write(b" on")
        new.seek(0)
        assert (new.read(), old.read()) == (b"kept on", b"of the bucket")
        assert os.fstat(new.fileno()).st_nlink == 0
    assert uploaded(seaweedfs, bucket, mounted, tmp_path / "cache").get("new/deep/file") is None
    assert seaweedfs.client().list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_a_rename_that_must_not_replace_takes_free_names_alone(
    seaweedfs: S3Server, make_bucket: MakeBucket, mount: Callable[..., Mount]
) -> None:
    bucket = make_bucket(seaweedfs)
    seaweedfs.client().put_object(Bucket=bucket, Key="in the bucket", Body=b"kept")
    folder = mount(seaweedfs, f"s3://{bucket}").directory
    (folder / "a").write_bytes(b"a")
    (folder / "there").write_bytes(b"kept")
    (folder / "folder").mkdir()

    _rename_exclusively(folder / "a", folder / "b")
    _rename_exclusively(folder / "b", folder / "folder" / "c")
    _rename_exclusively(folder / "folder", folder / "moved")
    for taken in ("there", "in the bucket", "moved"):
        with pytest.raises(OSError, match=os.strerror(errno.EEXIST)):
            _rename_exclusively(folder / "moved" / "c", folder / taken)
    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
        _renameat2(folder / "there", folder / "in the bucket", _RENAME_EXCHANGE)
    assert (folder / "moved" / "c").read_bytes() == b"a"
    assert (folder / "there").read_bytes() == (folder / "in the bucket").read_bytes() == b"kept"


_AT_FDCWD, _RENAME_NOREPLACE, _RENAME_EXCHANGE = -100, 1, 2


def _renameat2(source: Path, target: Path, flags: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.renameat2(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), flags) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _rename_exclusively(source: Path, target: Path) -> None:
    _renameat2(source, target, _RENAME_NOREPLACE)


PROGRAM = {"mode": "0100755", "mtime": "1600000000.123456789"}


def test_what_an_object_states_shows_before_it_is_read_and_stays_when_one_fact_is_changed(
    s3server: S3Server, make_bucket: MakeBucket, mount: Callable[..., Mount], mounter: Mounter, tmp_path: Path
) -> None:
    bucket = make_bucket(s3server)
    client = s3server.client()
    for key in ("program", "renamed", "read"):
        client.put_object(Bucket=bucket, Key=key, Body=b"#!/bin/sh", Metadata=PROGRAM)
    client.put_object(Bucket=bucket, Key="link", Body=b"program", Metadata={"mode": "41471"})
    client.put_object(Bucket=bucket, Key="plain", Body=b"x")
    for mounted in (mounter(s3server, f"s3://{bucket}"), mount(s3server, f"s3://{bucket}")):
        folder = mounted.directory
        assert {entry.name for entry in os.scandir(folder) if entry.is_symlink()} == {"link"}
        assert (folder / "link").readlink() == Path("program")
        for _ in range(2):
            found = (folder / "read").stat()
            assert (stat.S_IMODE(found.st_mode), found.st_mtime_ns) == (0o755, 1_600_000_000_123_456_789)
            assert (folder / "read").read_bytes() == b"#!/bin/sh"

    (folder / "program").chmod(0o775)
    (folder / "renamed").rename(folder / "moved")
    (folder / "plain").rename(folder / "still plain")
    uploaded(s3server, bucket, mounted, tmp_path / "cache")
    stated = {
        key: client.head_object(Bucket=bucket, Key=key)["Metadata"] for key in ("program", "moved", "still plain")
    }
    assert (stated["program"]["mode"], stated["program"]["mtime"]) == ("0100775", PROGRAM["mtime"])
    assert {name: stated["moved"][name] for name in PROGRAM} == PROGRAM
    assert "mode" not in stated["still plain"]


def test_attributes_are_those_that_programs_set_and_permissions_are_obeyed(
    seaweedfs: S3Server, make_bucket: MakeBucket, mount: Callable[..., Mount], tmp_path: Path
) -> None:
    bucket = make_bucket(seaweedfs)
    mounted = mount(seaweedfs, f"s3://{bucket}")
    folder = mounted.directory
    (folder / "f").write_bytes(b"12345")
    (folder / "f").chmod(0o640)
    os.utime(folder / "f", ns=(1_600_000_000_000_000_000, 1_500_000_000_123_456_789))
    (folder / "link").symlink_to("f")

    found = (folder / "f").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_size, found.st_uid) == (0o640, 5, os.geteuid())
    assert found.st_mtime_ns == 1_500_000_000_123_456_789
    assert ((folder / "link").readlink(), (folder / "link").read_bytes()) == (Path("f"), b"12345")
    assert os.statvfs(folder).f_bavail > 0
    with pytest.raises(OSError, match=os.strerror(errno.EOPNOTSUPP)):
        os.link(folder / "f", folder / "hard")
    with pytest.raises(OSError, match=os.strerror(errno.EOPNOTSUPP)):
        os.mkfifo(folder / "pipe")
    for make in (Path.touch, Path.mkdir, Path.stat, Path.unlink):
        with pytest.raises(OSError, match=os.strerror(errno.ENAMETOOLONG)):
            make(folder / ("x" * 256))
    mounted.umount()
    gone(mounted)
    eventually(lambda: _is_drained(mounted, tmp_path / "cache"), what="the upload of everything")
    head = seaweedfs.client().head_object(Bucket=bucket, Key="f")
    assert head["Metadata"]["mode"].endswith("640")


def test_what_was_closed_survives_the_process_and_is_uploaded_by_the_next_mount(
    s3server: S3Server, make_bucket: MakeBucket, mounter: Mounter, tmp_path: Path, rng: random.Random
) -> None:
    bucket = make_bucket(s3server, versioned=True)
    options = ("--read-write", "--cache", str(tmp_path / "cache"))
    mounted, serving = mounter.foreground(s3server, f"s3://{bucket}", *options)
    files = {f"{number:03}": rng.randbytes(1000 + number) for number in range(50)}
    for name, body in files.items():
        (mounted.directory / name).write_bytes(body)
    os.kill(serving.pid, signal.SIGKILL)
    serving.wait()
    run_seqferry("umount", mounted.directory, environment=mounted.environment)

    again, serving = mounter.foreground(s3server, f"s3://{bucket}", *options)
    assert {name: (again.directory / name).read_bytes() for name in names(again.directory)} == files
    os.kill(serving.pid, signal.SIGINT)
    assert serving.wait() == 0, serving
    assert versions(s3server, bucket) == {name: [body] for name, body in files.items()}


def test_a_mount_that_is_drained_is_unmounted_and_has_uploaded_everything(
    versitygw: S3Server, make_bucket: MakeBucket, mount: Callable[..., Mount], tmp_path: Path
) -> None:
    bucket = make_bucket(versitygw)
    mounted = mount(versitygw, f"s3://{bucket}")
    (mounted.directory / "a").write_bytes(b"written")

    run_seqferry("gateway", "drain", "--cache", tmp_path / "cache", environment=mounted.environment)

    gone(mounted)
    assert versions(versitygw, bucket) == {"a": [b"written"]}
    # Another mount has the cache.
    again = mount(versitygw, f"s3://{bucket}")
    assert names(again.directory) == ["a"]


def test_extended_attributes_stay_with_their_file_on_this_machine(
    s3server: S3Server, make_bucket: MakeBucket, mounter: Mounter, tmp_path: Path
) -> None:
    bucket = make_bucket(s3server, versioned=True)
    s3server.client().put_object(Bucket=bucket, Key="old", Body=b"old")
    options = ("--read-write", "--cache", str(tmp_path / "cache"))
    mounted, serving = mounter.foreground(s3server, f"s3://{bucket}", *options)
    folder = mounted.directory
    (folder / "new").write_bytes(b"new")
    (folder / "empty").mkdir()

    for name in ("new", "old", "empty"):
        os.setxattr(folder / name, "user.DOSATTRIB", name.encode() + b"\0\xff")
    os.setxattr(folder / "new", "user.other", b"", os.XATTR_CREATE)
    for name, flags, code in [
        ("user.other", os.XATTR_CREATE, errno.EEXIST),
        ("user.absent", os.XATTR_REPLACE, errno.ENODATA),
        ("user.large", 0, errno.ENOSPC),
        ("trusted.x", 0, errno.EOPNOTSUPP),
        ("user.seqferry.x", 0, errno.EPERM),
    ]:
        with pytest.raises(OSError, match=os.strerror(code)):
            os.setxattr(folder / "new", name, b"x" * 65500, flags)
    with pytest.raises(OSError, match=os.strerror(errno.ENODATA)):
        os.removexattr(folder / "new", "user.absent")
    assert sorted(os.listxattr(folder / "new")) == ["user.DOSATTRIB", "user.other"]
    os.removexattr(folder / "new", "user.other")
    (folder / "new").rename(folder / "empty" / "renamed")
    (folder / "old").rename(folder / "older")
    os.kill(serving.pid, signal.SIGKILL)
    serving.wait()
    run_seqferry("umount", mounted.directory, environment=mounted.environment)

    again, serving = mounter.foreground(s3server, f"s3://{bucket}", *options)
    folder = again.directory
    for path, value in [("empty/renamed", b"new"), ("older", b"old"), ("empty", b"empty")]:
        assert os.listxattr(folder / path) == ["user.DOSATTRIB"]
        assert os.getxattr(folder / path, "user.DOSATTRIB") == value + b"\0\xff"
    os.kill(serving.pid, signal.SIGINT)
    assert serving.wait() == 0, serving
    found = versions(s3server, bucket)
    assert {key: bodies for key, bodies in found.items() if not key.endswith("/")} == {
        "empty/renamed": [b"new"],
        "older": [b"old"],
        "old": [b"old"],
    }


def test_samba_is_told_names_that_differ_in_case_only(
    seaweedfs: S3Server, make_bucket: MakeBucket, mount: Callable[..., Mount]
) -> None:
    bucket = make_bucket(seaweedfs)
    for name in ("RunInfo.xml", "É", "é"):
        seaweedfs.client().put_object(Bucket=bucket, Key=f"runs/{name}", Body=b"x")
    folder = mount(seaweedfs, f"s3://{bucket}").directory
    (folder / "runs" / "Made.BCL").touch()

    def real_name(name: str) -> str:
        return os.getxattr(folder / "runs", f"glusterfs.get_real_filename:{name}").removesuffix(b"\0").decode()

    for asked, found in [("RUNINFO.XML", "RunInfo.xml"), ("made.bcl", "Made.BCL"), ("é", "é"), ("É", "É")]:
        assert real_name(asked) == found
    with pytest.raises(OSError, match=os.strerror(errno.ENOENT)):
        real_name("absent")


# What else such a mount cannot obey is in ``unit/cli/test_refused_options.py``.
def test_what_a_written_mount_cannot_obey_is_refused_in_one_line(
    seaweedfs: S3Server, make_bucket: MakeBucket, tmp_path: Path
) -> None:
    bucket = make_bucket(seaweedfs)
    (folder := tmp_path / "mnt").mkdir()
    environment = {**seaweedfs.environment(), "SEQFERRY_STATE_DIR": str(tmp_path / "state")}
    options = ("--read-write", "--cache", "/dev/shm/seqferry-no-cache")
    done = run_seqferry("mount", f"s3://{bucket}", folder, *options, environment=environment, expect=None)
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if "preview" not in line]
    assert len(lines) == 1, done.stderr
    assert "is on tmpfs" in lines[0]
    assert not os.path.ismount(folder)
    assert not Path("/dev/shm/seqferry-no-cache").exists()


def test_the_mount_is_listed_and_commands_of_gateways_tell_of_it(
    seaweedfs: S3Server, make_bucket: MakeBucket, mount: Callable[..., Mount], tmp_path: Path
) -> None:
    bucket = make_bucket(seaweedfs)
    mounted = mount(seaweedfs, f"s3://{bucket}")
    (mounted.directory / "f").write_bytes(b"12345")
    assert mounted.stats()["open_files"] >= 0
    asked = ["gateway", "ls", "/mount", "--cache", tmp_path / "cache", "--json"]
    printed: dict[str, Any] = json.loads(run_seqferry(*asked, environment=mounted.environment).stdout.splitlines()[0])
    assert printed["name"] == "f"
    second = tmp_path / "second"
    second.mkdir()
    command = ["mount", f"s3://{bucket}", second, "--read-write", "--cache", tmp_path / "cache"]
    done = run_seqferry(*command, environment=mounted.environment, expect=None)
    assert "another gateway uses" in done.stderr
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run(["fusermount3", "-u", second], check=True, capture_output=True)


def test_what_a_mount_has_uploaded_is_a_transfer_on_record(
    s3server: S3Server, make_bucket: MakeBucket, mount: Callable[..., Mount], tmp_path: Path
) -> None:
    bucket = make_bucket(s3server)
    mounted = mount(s3server, f"s3://{bucket}/runs")
    (mounted.directory / "reads").write_bytes(b"ACGT")
    uploaded(s3server, bucket, mounted, tmp_path / "cache")

    # The process puts it on record when all is uploaded, and ends then.
    eventually(lambda: _json_lines(mounted, "status"), what="the upload on record")
    [status] = _json_lines(mounted, "status")
    events = _json_lines(mounted, "status", status["id"], "--objects")
    _json_lines(mounted, "verify", status["id"])

    assert (status["state"], status["target"]) == ("done", f"s3://{bucket}/runs/")
    [row] = [one for one in events if one["event"] == "object"]
    etag = s3server.client().head_object(Bucket=bucket, Key="runs/reads")["ETag"].strip('"')
    assert (row["target_key"], row["target_etag"]) == ("runs/reads", etag)
    assert row["written_by"] == f"uid {os.getuid()} at 127.0.0.1"


def _json_lines(mounted: Mount, *arguments: str) -> list[dict[str, Any]]:
    done = run_seqferry(*arguments, "--json", environment=mounted.environment)
    return [json.loads(line) for line in done.stdout.splitlines()]
