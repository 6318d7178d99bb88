"""Suites of others on a folder that programs write to: what they find that differs from a local disk is documented."""

from __future__ import annotations

import os
import random
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from support.buckets import CLAIM, PROBES
from support.mounts import Mounter
from support.processes import run_seqferry
from support.run import MissingToolError
from support.servers import S3Server
from support.suites import differences, fsx, pjdfstest
from support.waiting import eventually

EXPECTED: Final = differences(Path(__file__).parent / "suites" / "pjdfstest.toml")
PAGE: Final = Path(__file__).parents[3] / "docs" / "use" / "mount.md"
MIB: Final = 1024 * 1024

MakeBucket = Callable[..., str]


def _or_skip(suite: Callable[[], str | None]) -> str | None:
    try:
        return suite()
    except MissingToolError as missing:
        if os.environ.get("SEQFERRY_REQUIRE_SERVERS") == "1":
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that all users reach. It is asked for before ``mounter``, which unmounts it."""
    folder = Path(tempfile.mkdtemp(prefix="seqferry-suite"))
    folder.chmod(0o755)
    yield folder
    folder.rmdir()


def test_calls_end_as_on_a_local_disk_but_for_documented_differences(
    open_folder: Path, seaweedfs: S3Server, make_bucket: MakeBucket, mounter: Mounter, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("pjdfstest takes the place of other users, for which it has to be root: it is not run")
    rows = [line.split("|")[1].strip() for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert {difference.row for difference in EXPECTED} <= set(rows), "differences that docs/use/mount.md does not tell"
    options = ("--read-write", "--cache", str(tmp_path / "cache"), "--allow-other")
    mount = mounter(seaweedfs, f"s3://{make_bucket(seaweedfs)}", *options, directory=open_folder)

    said = _or_skip(lambda: pjdfstest(mount.directory, tmp_path, EXPECTED))

    assert said is not None
    assert " 0 failed" in said


def test_a_file_of_random_operations_is_whole_after_a_kill_and_in_the_bucket(
    s3server: S3Server, make_bucket: MakeBucket, mounter: Mounter, tmp_path: Path, rng: random.Random
) -> None:
    bucket = make_bucket(s3server, versioned=True)
    options = ("--read-write", "--cache", str(tmp_path / "cache"))
    seeds = [rng.randrange(2**32) for _ in range(3)]
    print(f"seeds of fsx: {seeds}")
    mount, serving = mounter.foreground(s3server, f"s3://{bucket}", *options)

    _or_skip(lambda: fsx(mount.directory / "file", tmp_path, seed=seeds[0], operations=2000, length=MIB))
    before = (mount.directory / "file").read_bytes()
    os.kill(serving.pid, signal.SIGKILL)
    serving.wait()
    run_seqferry("umount", mount.directory, environment=mount.environment)
    mount, serving = mounter.foreground(s3server, f"s3://{bucket}", *options)

    assert (mount.directory / "file").read_bytes() == before
    fsx(mount.directory / "other", tmp_path, seed=seeds[1], operations=1000, length=3 * MIB)
    _settled(s3server, bucket, {"file": before, "other": (mount.directory / "other").read_bytes()})
    # Over an object, which is another version then.
    os.truncate(mount.directory / "file", MIB)
    fsx(mount.directory / "file", tmp_path, seed=seeds[2], operations=1000, length=MIB, keeps_size=True)
    after = {name: (mount.directory / name).read_bytes() for name in ("file", "other")}
    os.kill(serving.pid, signal.SIGINT)
    assert serving.wait() == 0, serving
    assert _bodies(s3server, bucket) == {"file": [after["file"], before], "other": [after["other"]]}


def _bodies(server: S3Server, bucket: str) -> dict[str, list[bytes]]:
    """Bodies of all versions of the files, newest first."""
    client = server.client()
    found: dict[str, list[bytes]] = {}
    for one in client.list_object_versions(Bucket=bucket).get("Versions", []):
        if one["Key"] not in (*PROBES, CLAIM):
            got = client.get_object(Bucket=bucket, Key=one["Key"], VersionId=one["VersionId"])
            found.setdefault(one["Key"], []).append(got["Body"].read())
    return found


def _settled(server: S3Server, bucket: str, expected: dict[str, bytes]) -> None:
    wanted = {name: [body] for name, body in expected.items()}
    eventually(lambda: _bodies(server, bucket) == wanted, what="each file to be in the bucket once", deadline=60)
