"""A system that gives no more room, memory or threads: one line that says so, and never a traceback."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.processes import seqferry
from support.servers import S3Server


@pytest.mark.parametrize(
    "options", ["size=4k", "size=16k", "size=40k", "size=200k", "size=400k", "nr_inodes=2", "nr_inodes=4", "ro"]
)
def test_a_full_disk_of_the_state_folder_is_named(options: str, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    mount = f"mount -t tmpfs -o {options} tmpfs {state}"

    done = _sh(f"{mount} && exec {seqferry()} status", ["unshare", "--user", "--map-root-user", "--mount"], tmp_path)

    if done.stderr.startswith(("unshare:", "mount:")):
        pytest.skip(f"this machine lets no process mount: {done.stderr.strip()}")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert str(state) in done.stderr
    assert "--state-dir" in done.stderr
    assert "schemas" not in done.stderr
    assert "Standard output" not in done.stderr


@pytest.mark.parametrize("kib", [600_000, 800_000, 1_000_000])
def test_a_limit_of_memory_gives_one_line(
    kib: int, versitygw: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(60):
        (source / str(number)).write_bytes(os.urandom(1000))
    copy = f"exec {seqferry()} cp {source}/ s3://{make_bucket(versitygw)}/"

    done = _sh(f"ulimit -v {kib}; {copy}", [], tmp_path, **versitygw.environment())

    assert "Traceback" not in done.stderr
    assert "unexpected" not in done.stderr
    if done.returncode != 0:
        # Where even the C library finds none, its own line is the last one.
        assert "memory" in done.stderr.splitlines()[-1], done.stderr


def _sh(script: str, before: list[str], folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "SEQFERRY_STATE_DIR": str(folder / "state"), **more}
    command = [*before, "sh", "-c", script]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
