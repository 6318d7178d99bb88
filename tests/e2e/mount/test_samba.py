"""A bucket that clients of Windows write to: Samba over a mount, as docs/use/smb.md says."""

from __future__ import annotations

import getpass
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.mounts import Mounter, gone
from support.processes import run, seqferry
from support.samba import Samba, missing_samba
from support.servers import S3Server
from support.waiting import eventually

MIB = 1024 * 1024


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
    asked = [seqferry(), "gateway", "status", "--cache", cache]
    eventually(
        lambda: "No gateway runs" in run(asked, environment=mount.environment, expect=None).stderr,
        what="everything to be in the bucket",
    )
    client = s3server.client()
    # Of the object that shows whether the service keeps conditions a version is left.
    found = [
        one
        for one in client.list_object_versions(Bucket=bucket)["Versions"]
        if not one["Key"].endswith(("/", ".seqferry-probe"))
    ]
    assert {one["Key"]: client.get_object(Bucket=bucket, Key=one["Key"])["Body"].read() for one in found} == {
        "run42/output/big.bcl": bodies["big"],
        "run42/small": bodies["small"],
        "run42/RTAComplete.txt": bodies["other"],
    }
    assert len(found) == 3, "one version each"
