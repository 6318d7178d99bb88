"""The disk of a gateway's cache: full, failing, and moved to another place."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support import nfs_files
from support.buckets import MIB, bodies
from support.gateways import WrittenShares, need_libnfs, read, written_share
from support.processes import RunningProcess
from support.servers import S3Server, free_ports
from support.waiting import eventually

NEVER = "settle = 86400"
ASK_LATER = "NFS3ERR_JUKEBOX"

Serving = Callable[..., WrittenShares]


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    need_libnfs()
    made: list[WrittenShares] = []

    def serve(server: S3Server, config: str, *options: str, **more: Any) -> WrittenShares:
        made.append(WrittenShares(tmp_path, server, config, *options, **more))
        return made[-1]

    yield serve
    for one in made:
        one.close()


def copy(shares: WrittenShares, name: str, pieces: int = 1) -> str:
    """Writes and commits a file once; what the client says of a refusal."""
    program = Path(nfs_files.__file__)
    command = [sys.executable, "-I", program, shares.url("runs"), name, "1", str(pieces)]
    tried = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert (tried.returncode == 0) == (tried.stderr == ""), tried
    return tried.stderr


def health(port: int) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read())


def test_a_full_cache_makes_writers_wait_until_uploads_have_made_room(
    seaweedfs: S3Server, make_bucket: Callable[..., str], serving: Serving, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    small_disk = f'mount -t tmpfs -o size=24m,mode=700 small "{cache}" && exec "$@"'
    within = ("unshare", "--mount", "--map-root-user", "sh", "-c", small_disk, "small-disk")
    if subprocess.run([*within, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine does not let a process mount a small file system of its own")
    bucket = make_bucket(seaweedfs)
    config = written_share("runs", f"s3://{bucket}/runs/", "settle = 1", 'max_bandwidth = "12MB/s"')
    shares = serving(seaweedfs, config, "--unsafe-cache", cache=cache, within=within)
    sizes = {f"{number}-": 6 * 1024 + number for number in range(8)}

    waits = 0
    for name, pieces in sizes.items():

        def is_written(name: str = name, pieces: int = pieces) -> bool:
            nonlocal waits
            said = copy(shares, name, pieces)
            assert said == "" or ASK_LATER in said, said
            waits += said != ""
            return said == ""

        # libnfs gives up where a hard mount of the kernel asks again.
        eventually(is_written, what=f"room for {name}", deadline=60, every=0.3)

    files = {f"runs/{name}0": nfs_files.BODY * pieces for name, pieces in sizes.items()}
    assert waits > 0, "the disk was never full"
    eventually(lambda: bodies(seaweedfs, bucket) == files, what="all files to be in the bucket", deadline=60, every=0.3)
    assert shares.process.running


def test_a_gateway_starts_and_serves_while_the_disk_of_its_state_is_full(
    seaweedfs: S3Server, make_bucket: Callable[..., str], serving: Serving, tmp_path: Path
) -> None:
    state, saved = tmp_path / "gateway-state", tmp_path / "saved"
    small = f'mount -t tmpfs -o size=2m,mode=700 small "{state}" && cp -a "{saved}/." "{state}"'
    full = f'{small} && {{ cat /dev/zero > "{state}/fill" 2>/dev/null; exec "$@"; }}'
    within = ("unshare", "--mount", "--map-root-user", "sh", "-c", full, "full-disk")
    bucket = make_bucket(seaweedfs)
    config = written_share("runs", f"s3://{bucket}/runs/", NEVER)
    shares = serving(seaweedfs, config)
    shares.write("runs/before", b"acknowledged")
    shares.process.__exit__()
    shutil.copytree(state, saved)
    # A record that the full disk has cut off.
    [table] = (saved / "gateway").glob("*.handles")
    table.write_bytes(table.read_bytes() + b"cut off")
    if subprocess.run([*within, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine does not let a process mount a small file system of its own")

    again = serving(seaweedfs, config, within=within)

    assert read(again, "runs/before") == b"acknowledged"
    again.write("runs/after", b"written")
    again.ask("flush", "--wait")
    assert bodies(seaweedfs, bucket) == {"runs/before": b"acknowledged", "runs/after": b"written"}


def test_a_cache_disk_that_fails_ends_acknowledgements_and_health_and_what_is_in_the_bucket_is_read(
    seaweedfs: S3Server, make_bucket: Callable[..., str], serving: Serving, tmp_path: Path
) -> None:
    bucket = make_bucket(seaweedfs)
    seaweedfs.client().put_object(Bucket=bucket, Key="runs/there", Body=b"in the bucket")
    [port] = free_ports(1)
    config = written_share("runs", f"s3://{bucket}/runs/", NEVER)
    shares = serving(seaweedfs, config, "--metrics", f"127.0.0.1:{port}")
    shares.write("runs/before", b"acknowledged")
    assert health(port) == (200, {"status": "ok"})

    failing = "inject=fsync,fdatasync:error=EIO"
    trace = ["strace", "-f", "-o", tmp_path / "calls", "-e", "trace=fsync,fdatasync", "-e", failing]
    with RunningProcess([*trace, "-p", str(shares.process.pid)]) as disk:
        try:
            disk.wait_for_output("attached")
        except RuntimeError as refused:
            pytest.skip(f"strace may not trace here: {refused}")
        said = copy(shares, "after")
    assert "NFS3ERR_IO" in said
    # The disk works again. What was not synced may be lost, so that nothing is acknowledged all the same.
    assert "NFS3ERR_IO" in copy(shares, "later")

    status, said_of = health(port)
    assert (status, said_of["status"], list(said_of["shares"])) == (503, "failed", ["runs"])
    assert read(shares, "runs/there") == b"in the bucket"
    shares.restart()
    assert health(port) == (200, {"status": "ok"})
    assert read(shares, "runs/before") == b"acknowledged"
    shares.ask("flush", "--wait")
    found = bodies(seaweedfs, bucket)
    assert (found["runs/there"], found["runs/before"]) == (b"in the bucket", b"acknowledged")


def test_a_cache_with_files_that_wait_goes_on_in_another_folder(
    s3server: S3Server, make_bucket: Callable[..., str], serving: Serving, rng: random.Random, tmp_path: Path
) -> None:
    bucket = make_bucket(s3server, versioned=True)
    config = written_share("runs", f"s3://{bucket}/runs/", NEVER)
    shares = serving(s3server, config)
    files = {"runs/large": rng.randbytes(9 * MIB + 7), "runs/deep/small": b"small"}
    s3server.client().put_object(Bucket=bucket, Key="runs/deep/x", Body=b"x")
    for path, body in files.items():
        shares.write(path, body)
    shares.process.__exit__()
    moved = tmp_path / "another disk" / "cache"
    moved.parent.mkdir()
    shutil.move(shares.cache, moved)

    again = serving(s3server, config, cache=moved)

    assert again.writing()["dirty_files"] == 2
    assert read(again, "runs/deep/small") == b"small"
    again.ask("drain")
    assert again.process.wait() == 0
    assert bodies(s3server, bucket) == {**files, "runs/deep/x": b"x"}
    listed = s3server.client().list_object_versions(Bucket=bucket)["Versions"]
    assert sorted(version["Key"] for version in listed if version["Key"] in files) == sorted(files)


def test_a_cache_of_a_newer_program_is_refused_with_one_line_and_left_as_it_is(
    seaweedfs: S3Server, make_bucket: Callable[..., str], serving: Serving
) -> None:
    bucket = make_bucket(seaweedfs)
    config = written_share("runs", f"s3://{bucket}/runs/", NEVER)
    shares = serving(seaweedfs, config)
    shares.write("runs/a", b"a")
    shares.process.__exit__()
    [log] = (shares.cache / "writes").glob("*/journal/*.log")
    bytes_before = log.read_bytes()
    newer = bytes_before[:16] + (2).to_bytes(4, "little") + bytes_before[20:]
    log.write_bytes(newer)

    with pytest.raises(RuntimeError, match="is of format 2, and this program reads format 1") as refused:
        shares.restart()

    assert "Traceback" not in str(refused.value)
    assert log.read_bytes() == newer
    log.write_bytes(bytes_before)
    shares.restart()
    assert read(shares, "runs/a") == b"a"
