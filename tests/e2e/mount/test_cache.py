"""The disk cache of mounts and archives as folders, with the shipped command on real servers."""

from __future__ import annotations

import io
import json
import os
import random
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.mounts import Mounter
from support.processes import run_seqferry
from support.servers import S3Server

ObjectWriter = Callable[..., None]

MIB = 1024 * 1024


def _cache(server: S3Server, folder: Path, *arguments: str | Path, expect: int = 0) -> list[dict[str, Any]]:
    command = ["cache", *arguments, "--cache", folder, "--json"]
    done = run_seqferry(*command, environment=server.environment(), expect=expect)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_warmed_cache_serves_mounts_without_fetching(
    s3server: S3Server,
    make_bucket: Callable[..., str],
    put: ObjectWriter,
    mounter: Mounter,
    tmp_path: Path,
    rng: random.Random,
) -> None:
    bucket = make_bucket(s3server)
    objects = {"ref/a": rng.randbytes(3 * MIB + 5), "ref/b": rng.randbytes(1000), "other": b"x"}
    put(s3server, bucket, objects)
    folder = tmp_path / "cache"

    warmed = _cache(s3server, folder, "warm", f"s3://{bucket}/ref/", "--pin")[0]
    assert (warmed["objects"], warmed["fetched"], warmed["failed"]) == (2, 3 * MIB + 1005, 0)
    again = _cache(s3server, folder, "warm", f"s3://{bucket}/ref/")[0]
    assert (again["fetched"], again["present"]) == (0, 3 * MIB + 1005)

    mount = mounter(s3server, f"s3://{bucket}/ref", "--cache", str(folder))
    assert {name: (mount.directory / name).read_bytes() for name in "ab"} == {
        name: objects[f"ref/{name}"] for name in "ab"
    }
    assert mount.stats()["bytes_fetched"] == 2, "one byte of each: this identity may read them"
    mount.umount()

    listed = _cache(s3server, folder, "ls")
    assert [(each["key"], each["cached"], each["pinned"]) for each in listed] == [
        ("ref/a", 3 * MIB + 5, True),
        ("ref/b", 1000, True),
    ]
    data = max((folder / "objects").rglob("*.data"), key=lambda path: path.stat().st_size)
    with data.open("r+b") as file:
        file.seek(MIB)
        file.write(b"damage")
    verified = _cache(s3server, folder, "verify", expect=3)
    assert sum(each["damaged"] for each in verified) == 1
    assert _cache(s3server, folder, "rm", f"s3://{bucket}/ref/a")[0]["objects"] == 1
    assert _cache(s3server, folder, "rm", "--all")[0]["objects"] == 1
    assert _cache(s3server, folder, "ls", expect=4) == []


def test_what_an_identity_may_not_read_is_not_shown_from_the_cache(
    s3server: S3Server,
    make_bucket: Callable[..., str],
    put: ObjectWriter,
    mounter: Mounter,
    tmp_path: Path,
    rng: random.Random,
) -> None:
    bucket = make_bucket(s3server)
    objects = {"ref/a": rng.randbytes(3 * MIB + 5), "ref/b": rng.randbytes(1000)}
    members = {"run/0": b"zero", "run/1": b"one"}
    put(s3server, bucket, {**objects, "ref/x.tar": _tar(members)})
    folder = tmp_path / "cache"
    mount = mounter(s3server, f"s3://{bucket}/ref", "--cache", str(folder))
    assert {f"ref/{name}": (mount.directory / name).read_bytes() for name in "ab"} == objects
    assert (mount.directory / "x.tar.d" / "run" / "1").read_bytes() == b"one"
    mount.umount()
    _cache(s3server, folder, "warm", f"s3://{bucket}/ref/")

    s3server.deny(bucket, "ref/*", actions=("s3:GetObject",))

    mount = mounter(s3server, f"s3://{bucket}/ref", "--cache", str(folder), "--metadata-ttl", "indefinite")
    assert sorted(path.name for path in mount.directory.iterdir()) == ["a", "b", "x.tar"]
    for name in ("a", "b", "x.tar", "x.tar.d/run/1"):
        with pytest.raises(PermissionError):
            (mount.directory / name).read_bytes()
    with pytest.raises(PermissionError):
        list((mount.directory / "x.tar.d").iterdir())
    mount.umount()
    copy = ["cp", f"s3://{bucket}/ref/", f"{tmp_path / 'copy'}/", "--cache", folder, "--state-dir", tmp_path / "state"]
    denied = run_seqferry(*copy, environment=s3server.environment(), expect=1)
    assert "AccessDenied" in denied.stdout + denied.stderr
    assert [path for path in (tmp_path / "copy").rglob("*") if path.is_file()] == []


def test_a_mistyped_folder_is_no_empty_cache(seaweedfs: S3Server, tmp_path: Path) -> None:
    for command in (["ls"], ["verify"], ["rm", "--all"]):
        refused = run_seqferry(
            "cache", *command, "--cache", tmp_path / "cahce", environment=seaweedfs.environment(), expect=2
        )
        assert f"There is no cache at {tmp_path / 'cahce'}" in refused.stderr
        assert len(refused.stderr.strip().splitlines()) == 1, refused.stderr
    assert list(tmp_path.iterdir()) == []


def _tar(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, body in members.items():
            facts = tarfile.TarInfo(name)
            facts.size, facts.mtime, facts.mode = len(body), 1_700_000_000, 0o640
            tar.addfile(facts, io.BytesIO(body))
        link = tarfile.TarInfo("run/link")
        link.type, link.linkname = tarfile.SYMTYPE, "0"
        tar.addfile(link)
        outside = tarfile.TarInfo("run/outside")
        outside.type, outside.linkname = tarfile.SYMTYPE, "../../../etc/passwd"
        tar.addfile(outside)
    return packed.getvalue()


def test_an_archive_is_also_a_folder(
    s3server: S3Server,
    make_bucket: Callable[..., str],
    put: ObjectWriter,
    mounter: Mounter,
    tmp_path: Path,
    rng: random.Random,
) -> None:
    bucket = make_bucket(s3server)
    members = {f"run/{number}": rng.randbytes(rng.randrange(200_000)) for number in range(40)}
    packed = _tar(members)
    put(s3server, bucket, {"in/x.tar": packed, "in/no.tar": b"no archive" * 100})
    folder = tmp_path / "cache"
    mount = mounter(s3server, f"s3://{bucket}", "--cache", str(folder))
    tar = mount.directory / "in" / "x.tar"

    assert sorted(path.name for path in tar.parent.iterdir()) == ["no.tar", "x.tar"]
    run_folder = tar.with_name("x.tar.d") / "run"
    found = {f"run/{path.name}": path.read_bytes() for path in run_folder.iterdir() if not path.is_symlink()}
    assert found == members
    assert (run_folder / "link").readlink() == Path("0")
    assert (run_folder / "link").read_bytes() == members["run/0"]
    assert not (run_folder / "outside").is_symlink()
    refused = os.getxattr(tar.with_name("x.tar.d"), "user.seqferry.refused").decode().splitlines()
    assert refused[0] == "1"
    assert "the link leads out of the tree" in refused[1]
    facts = (run_folder / "7").stat()
    assert (facts.st_size, facts.st_mtime, facts.st_mode & 0o777) == (len(members["run/7"]), 1_700_000_000, 0o640)
    assert tar.read_bytes() == packed
    assert mount.stats()["bytes_fetched"] <= len(packed) + 128 * 1024
    assert not (tar.parent / "absent.tar.d").exists()
    mount.umount()


def test_an_archive_is_mounted_by_its_name(
    s3server: S3Server, make_bucket: Callable[..., str], put: ObjectWriter, mounter: Mounter, tmp_path: Path
) -> None:
    bucket = make_bucket(s3server)
    members = {"run/0": b"zero", "run/1": b"one", "top": b"t"}
    put(s3server, bucket, {"x.tar": _tar(members), "no.tar": b"no archive" * 100, "dir.tar/file": b"f"})

    mount = mounter(s3server, f"s3://{bucket}/x.tar")
    assert sorted(path.name for path in mount.directory.iterdir()) == ["run", "top"]
    assert (mount.directory / "run" / "1").read_bytes() == b"one"
    mount.umount()

    # A prefix of that name is a prefix.
    mount = mounter(s3server, f"s3://{bucket}/dir.tar")
    assert [path.name for path in mount.directory.iterdir()] == ["file"]
    mount.umount()

    target = tmp_path / "refused"
    target.mkdir()
    environment = {**s3server.environment(), "SEQFERRY_STATE_DIR": str(tmp_path / "state")}
    done = run_seqferry("mount", f"s3://{bucket}/no.tar", target, environment=environment, expect=1)
    assert "not a tar archive" in done.stderr
    assert f"To read it as a file, mount s3://{bucket}/" in done.stderr
