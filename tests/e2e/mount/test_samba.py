"""A bucket that clients of Windows write to: Samba over a mount, as docs/use/smb.md says."""

from __future__ import annotations

import getpass
import os
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from support.buckets import PROBES, is_file
from support.mounts import Mounter, gone
from support.processes import run_seqferry
from support.samba import PAGE, Samba, missing_samba, missing_smbtorture
from support.servers import S3Server
from support.suites import differences
from support.waiting import eventually

MIB = 1024 * 1024
# Without smb2.maxfid, which opens 16,000 files: minutes.
SUITES: Final = (
    *("smb2.create", "smb2.timestamps", "smb2.deny", "smb2.rw", "smb2.read", "smb2.connect", "smb2.mkdir"),
    *("smb2.rename", "smb2.lock", "smb2.sharemode", "smb2.maximum_allowed", "smb2.winattr", "smb2.openattr"),
    *("smb2.durable-open-disconnect", "smb2.notify-inotify", "smb2.mangle", "smb2.charset"),
)
EXPECTED: Final = differences(Path(__file__).parent / "suites" / "smbtorture.toml")


@pytest.fixture(autouse=True)
def _samba() -> None:
    """Skips where there is no Samba, and says so; where everything must be there, fails."""
    missing = missing_samba() or (None if os.geteuid() == 0 else "smbd is started by root: Samba is not tested")
    if missing is not None:
        if os.environ.get("SEQFERRY_REQUIRE_SERVERS") == "1":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)


@pytest.fixture
def serve() -> Iterator[Callable[[Path], Samba]]:
    made: list[Samba] = []

    def start(shared: Path) -> Samba:
        made.append(Samba(shared, getpass.getuser()))
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_what_clients_of_windows_write_is_in_the_bucket_once(
    s3server: S3Server,
    make_bucket: Callable[..., str],
    mounter: Mounter,
    serve: Callable[[Path], Samba],
    tmp_path: Path,
    rng: random.Random,
) -> None:
    bucket = make_bucket(s3server, versioned=True)
    cache = tmp_path / "cache"
    mount = mounter(s3server, f"s3://{bucket}", "--read-write", "--cache", str(cache), "--allow-other")
    samba = serve(mount.directory)
    bodies = {name: rng.randbytes(size) for name, size in {"big": 9 * MIB + 5, "small": 4097, "other": 100}.items()}
    for name, body in bodies.items():
        (tmp_path / name).write_bytes(body)

    said = samba.client(
        "mkdir novaseq",
        "mkdir novaseq\\output",
        f"put {tmp_path / 'big'} novaseq\\output\\big.bcl.tmp",
        "rename novaseq\\output\\big.bcl.tmp novaseq\\output\\big.bcl",
        f"put {tmp_path / 'other'} novaseq\\small",
        f"put {tmp_path / 'small'} novaseq\\small",
        f"put {tmp_path / 'other'} novaseq\\gone",
        "del novaseq\\gone",
        f"put {tmp_path / 'other'} novaseq\\RTAComplete.txt",
        f"get novaseq\\output\\big.bcl {tmp_path / 'back'}",
        "rename novaseq run42",
        "ls run42\\*",
    )
    assert said.returncode == 0, said.stdout + said.stderr
    assert "NT_STATUS" not in said.stdout + said.stderr
    assert (tmp_path / "back").read_bytes() == bodies["big"]

    mount.umount("--force")
    gone(mount)
    asked = ["gateway", "status", "--cache", cache]
    eventually(
        lambda: "No gateway runs" in run_seqferry(*asked, environment=mount.environment, expect=None).stderr,
        what="everything to be in the bucket",
    )
    client = s3server.client()
    # Of the object that shows whether the service keeps conditions a version is left.
    found = [
        one
        for one in client.list_object_versions(Bucket=bucket)["Versions"]
        if is_file(one["Key"]) and not one["Key"].endswith(PROBES)
    ]
    assert {one["Key"]: client.get_object(Bucket=bucket, Key=one["Key"])["Body"].read() for one in found} == {
        "run42/output/big.bcl": bodies["big"],
        "run42/small": bodies["small"],
        "run42/RTAComplete.txt": bodies["other"],
    }
    assert len(found) == 3, "one version each"


def test_the_share_passes_what_samba_passes_on_a_local_disk_but_for_documented_differences(
    seaweedfs: S3Server,
    make_bucket: Callable[..., str],
    mounter: Mounter,
    serve: Callable[[Path], Samba],
    tmp_path: Path,
) -> None:
    if (missing := missing_smbtorture()) is not None:
        if os.environ.get("SEQFERRY_REQUIRE_SERVERS") == "1":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    rows = [line.split("|")[1].strip() for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert {difference.row for difference in EXPECTED} <= set(rows), "differences that docs/use/smb.md does not tell"
    (local := tmp_path / "local").mkdir()
    options = ("--read-write", "--cache", str(tmp_path / "cache"), "--allow-other")
    mount = mounter(seaweedfs, f"s3://{make_bucket(seaweedfs)}", *options)
    shares = (serve(mount.directory), serve(local))

    with ThreadPoolExecutor(4) as threads:
        running = [[threads.submit(share.torture, suite) for share in shares] for suite in SUITES]
        found = [(on_mount.result(), on_disk.result()) for on_mount, on_disk in running]

    worse = {case for on_mount, on_disk in found for case in on_mount - on_disk}
    assert worse == {case for difference in EXPECTED for case in difference.cases}
