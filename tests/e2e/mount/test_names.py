"""Names: kept over a remount, fixed by a manifest, checked ahead, and links that reading finds."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from support.mounts import Mounter
from support.processes import run, run_seqferry
from support.proxy import Proxy
from support.servers import S3Server
from support.sim import Simulator

pytestmark = pytest.mark.every_server  # odd keys differ

ObjectWriter = Callable[..., None]


def _walk(folder: Path) -> list[str]:
    return sorted(run(["find", ".", "-printf", "%P %y %s %T@\\n"], cwd=folder).stdout.splitlines())


def test_a_remount_is_warm(
    proxy: Proxy, make_bucket: Callable[..., str], mounter: Mounter, put: ObjectWriter, tmp_path: Path
) -> None:
    bucket = make_bucket(proxy.server)
    put(proxy.server, bucket, {f"d{number % 7}/e/{number}": b"x" * number for number in range(60)})
    options = ("--cache", str(tmp_path / "cache"), "--metadata-ttl", "indefinite")
    mount = mounter(proxy.server, f"s3://{bucket}", *options)
    found = _walk(mount.directory)
    mount.umount()
    names = tmp_path / "cache" / "names"
    proxy.wait_idle()
    proxy.clear_log()

    again = mounter(proxy.server, f"s3://{bucket}", *options)
    # The time of folders is that of the mount.
    files = [line for line in found if " f " in line]
    assert [line for line in _walk(again.directory) if " f " in line] == files
    assert len(proxy.log("ListObjectsV2")) == 1, "the look at whether the bucket is there"
    assert not (again.directory / "absent").exists()
    again.umount()

    # A damaged table is listed anew, and the log says so.
    (table,) = names.iterdir()
    damaged = bytearray(table.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    table.write_bytes(damaged)
    once_more = mounter(proxy.server, f"s3://{bucket}", *options)
    assert [line for line in _walk(once_more.directory) if " f " in line] == files
    assert "is damaged" in (tmp_path / "mount-state" / "mount.log").read_text()
    once_more.umount()
    run_seqferry("cache", "rm", f"s3://{bucket}/d1/", "--cache", tmp_path / "cache", environment=mount.environment)
    assert list(names.iterdir()) == []


def test_a_manifest_fixes_the_view(
    proxy: Proxy, make_bucket: Callable[..., str], mounter: Mounter, put: ObjectWriter, tmp_path: Path
) -> None:
    bucket = make_bucket(proxy.server)
    objects = {"ref/a": b"aa", "ref/sub/b": b"b", "ref/sub/c d": b"", "other": b"o"}
    put(proxy.server, bucket, objects)
    environment = proxy.server.environment()
    listed = run_seqferry("ls", f"s3://{bucket}/", "--recursive", "--json", environment=environment).stdout
    (manifest := tmp_path / "manifest").write_text(listed)
    put(proxy.server, bucket, {"ref/new": b"n", "ref/sub/b": b"another one"})
    proxy.clear_log()

    mount = mounter(proxy.server, f"s3://{bucket}/ref", "--manifest", str(manifest))
    files = run(["find", ".", "-type", "f"], cwd=mount.directory).stdout.splitlines()
    assert sorted(files) == ["./a", "./sub/b", "./sub/c d"]
    assert (mount.directory / "a").read_bytes() == b"aa"
    assert not (mount.directory / "new").exists()
    try:
        replaced = (mount.directory / "sub" / "b").read_bytes()
    except OSError as gone:
        replaced = gone
    assert isinstance(replaced, OSError), "another version is never shown"
    assert proxy.log("ListObjectsV2") == []

    for text, said in [("x\n", "line 1"), ('{"key": "other", "size": 1, "etag": "e"}', "names no object")]:
        manifest.write_text(text)
        (folder := tmp_path / "empty").mkdir(exist_ok=True)
        command = ["mount", f"s3://{bucket}/ref", folder, "--manifest", manifest]
        refused = run_seqferry(*command, environment=mount.environment, expect=1)
        assert said in refused.stderr
        assert len(refused.stderr.strip().splitlines()) == 1, refused.stderr


def test_keys_that_cannot_be_files_are_named_before_anything_is_mounted(
    make_simulator: Callable[..., Simulator], put: ObjectWriter
) -> None:
    simulator = make_simulator("--instant", "--bucket", "odd", "--bucket", "even")
    put(
        simulator, "odd", {"x//y": b"1", "../z": b"2", "shown": b"3", "n" * 256: b"4", "x/shown": b"5", "s/shown": b"6"}
    )
    put(simulator, "even", {"a": b"1", "b/c": b"2"})

    done = run_seqferry("mount", "s3://odd", "--check", environment=simulator.environment(), expect=1)
    lines = done.stdout.splitlines()
    assert "s3://odd/x//: empty segment in the key" in lines
    assert "s3://odd/../: segment . or .. in the key" in lines
    assert len(lines) == 3
    assert "3 files in 3 folders, 3 bytes. 3 keys cannot be files." in done.stderr
    done = run_seqferry("mount", "--check", "s3://even/b", environment=simulator.environment())
    assert "Nothing is hidden." in done.stderr


def test_a_link_of_s3fs_leads_to_its_target(
    proxy: Proxy, make_bucket: Callable[..., str], mounter: Mounter, put: ObjectWriter, rng: random.Random
) -> None:
    bucket = make_bucket(proxy.server)
    body = rng.randbytes(5000)
    put(proxy.server, bucket, {"run/data": body, **{f"run/{number}": b"x" for number in range(50)}})
    put(proxy.server, bucket, {"run/link": b"data", "run/up": b"../run/data"}, Metadata={"mode": "41471"})
    folder = mounter(proxy.server, f"s3://{bucket}").directory / "run"

    listed = run(["ls", "-l", folder]).stdout.splitlines()
    assert (len(listed), sum(" -> " in line for line in listed)) == (54, 2), "links before they are read"
    assert len(proxy.log("HeadObject")) == 53, "one for each version"
    assert (folder / "link").read_bytes() == body
    assert (folder / "link").readlink() == Path("data")
    assert (folder / "up").read_bytes() == body
    assert os.path.islink(folder / "up")  # noqa: PTH114 - as programs ask
    assert run(["ls", "-l", folder]).stdout.splitlines() == listed
    assert len(proxy.log("HeadObject")) == 53, "no version is asked for twice"


def test_a_mount_of_20_000_odd_keys_shows_each(make_simulator: Callable[..., Simulator], mounter: Mounter) -> None:
    simulator = make_simulator(
        "--instant", "--bucket", 'many=keys=a {1,2,3} é/+%20&<"{i:05}*?[x]\\\\;count=20000;size=1'
    )
    client = simulator.client()
    keys: set[str] = set()
    for page in client.get_paginator("list_objects_v2").paginate(Bucket="many"):
        keys |= {entry["Key"] for entry in page.get("Contents", [])}
    folder = mounter(simulator, "s3://many").directory
    found = run(["find", ".", "-type", "f", "-print0"], cwd=folder).stdout.split("\0")
    assert {name.removeprefix("./") for name in found if name} == keys


def test_names_of_255_bytes_are_files_and_longer_ones_are_hidden(
    seaweedfs: S3Server, make_bucket: Callable[..., str], mounter: Mounter, put: ObjectWriter
) -> None:
    bucket = make_bucket(seaweedfs)
    longest = "é" * 127 + "e"
    put(seaweedfs, bucket, {longest: b"1", f"d/{longest}": b"2"})
    folder = mounter(seaweedfs, f"s3://{bucket}").directory
    assert len(longest.encode()) == 255
    assert (folder / longest).read_bytes() == b"1"
    assert (folder / "d" / longest).read_bytes() == b"2"
