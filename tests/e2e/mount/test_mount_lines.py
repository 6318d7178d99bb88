"""Lines that people have for other mounts, carried out as they are typed."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable

from support.buckets import file_keys
from support.mounts import Mounter
from support.processes import run, seqferry
from support.servers import MOVER, S3Server


def test_the_line_of_mount_s3_mounts(
    s3server: S3Server, make_bucket: Callable[..., str], mounter: Mounter, put: Callable[..., None]
) -> None:
    bucket = make_bucket(s3server)
    put(s3server, bucket, {"run/file": b"x" * 1000})
    mount = mounter.adopt(s3server, mounter.folder / "mnt")
    line = (
        f"mount --endpoint-url {s3server.endpoint_url} --region us-east-1 --force-path-style {bucket} ./mnt "
        "--read-only --cache ./tmp --max-threads 8"
    )

    run([seqferry(), *line.split()], environment=mount.environment, cwd=mounter.folder)

    assert (mount.directory / "run" / "file").read_bytes() == b"x" * 1000
    assert (mounter.folder / "tmp").is_dir()
    found = os.statvfs(mount.directory)
    assert found.f_blocks == found.f_bfree == found.f_bavail
    assert found.f_files == found.f_ffree
    used = subprocess.run(["df", "-P", mount.directory], capture_output=True, text=True, check=True).stdout
    assert used.splitlines()[1].split()[4] == "0%"


def test_the_line_of_s3fs_mounts_with_the_keys_of_its_file(
    s3server: S3Server, make_bucket: Callable[..., str], mounter: Mounter, put: Callable[..., None]
) -> None:
    bucket = make_bucket(s3server)
    put(s3server, bucket, {"run/file": b"x" * 1000})
    mount = mounter.adopt(s3server, mounter.folder / "mnt")
    keys = mounter.folder / ".passwd-s3fs"
    keys.write_text(f"{MOVER.access_key}:{MOVER.secret_key}\n")
    keys.chmod(0o600)
    line = (
        f"mount {bucket} ./mnt -o passwd_file={keys} -o umask=0022 -o url={s3server.endpoint_url} "
        "-o use_path_request_style,ro"
    )
    without = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_ENDPOINT_URL": ""}

    run([seqferry(), *line.split()], environment={**mount.environment, **without}, cwd=mounter.folder)

    assert (mount.directory / "run" / "file").read_bytes() == b"x" * 1000
    assert (mount.directory / "run" / "file").stat().st_mode & 0o777 == 0o644


def test_a_mount_has_the_keys_of_a_share_that_is_written(
    s3server: S3Server, make_bucket: Callable[..., str], mounter: Mounter
) -> None:
    bucket = make_bucket(s3server)
    mount = mounter.adopt(s3server, mounter.folder / "mnt")
    lists = 'settle=86400,markers="End.txt,Last.txt",ignore=*.scratch,free_space=1GiB,max_bandwidth=50MB/s'
    line = [seqferry(), "mount", f"s3://{bucket}", "./mnt", "-o", f"nodiratime,read_write,cache=./tmp,{lists}"]
    run(line, environment=mount.environment, cwd=mounter.folder)
    for name in ("a", "b.scratch", ".DS_Store", "Last.txt"):
        (mount.directory / name).write_text(name)

    def gateway(*arguments: str) -> str:
        command = [seqferry(), "gateway", *arguments, "--cache", mounter.folder / "tmp", "--json"]
        return run(command, environment=mount.environment).stdout

    listed = [json.loads(row) for row in gateway("ls", "/mount").splitlines()]
    assert {row["name"]: row["state"] for row in listed} == {
        "a": "waiting",
        "b.scratch": "ignored",
        ".DS_Store": "waiting",
        "Last.txt": "waiting",
    }
    found = os.statvfs(mount.directory)
    assert 0 < found.f_bavail * found.f_frsize <= 1 << 30
    gateway("flush", "/mount/Last.txt", "--wait")
    # A marker waits for the older files beside it, and a flush of it sends them.
    assert set(file_keys(s3server, bucket)) >= {"a", ".DS_Store", "Last.txt"}
    assert "b.scratch" not in file_keys(s3server, bucket)
