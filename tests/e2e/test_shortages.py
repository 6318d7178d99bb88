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
    assert "standard output" not in done.stderr


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


@pytest.mark.parametrize("files", [10, 16, 20])
@pytest.mark.parametrize("line", ["status", "ls s3://{bucket}/", "cp source/ s3://{bucket}/", "serve --port 0"])
def test_a_limit_of_open_files_is_named(
    files: int, line: str, versitygw: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source/a").write_bytes(b"a")
    script = f"cd {tmp_path}; ulimit -n {files}; exec {seqferry()} {line.format(bucket=make_bucket(versitygw))}"

    done = _sh(script, [], tmp_path, **versitygw.environment())

    assert "Traceback" not in done.stderr
    assert "unexpected" not in done.stderr
    if done.returncode != 0 or line != "status":
        assert done.returncode == 1
        assert "ulimit -n 65536" in done.stderr.splitlines()[-1], done.stderr


def test_64_open_files_are_enough_to_copy(versitygw: S3Server, make_bucket: Callable[..., str], tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(20):
        (source / str(number)).write_bytes(os.urandom(1000))

    done = _sh(
        f"ulimit -n 64; exec {seqferry()} cp {source}/ s3://{make_bucket(versitygw)}/",
        [],
        tmp_path,
        **versitygw.environment(),
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("how", ["option", "variable", "home", "relative"])
def test_a_state_folder_that_is_no_text_is_named(how: str, tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/st\xffte"
    os.mkdir(folder)  # noqa: PTH102 - bytes
    environment = {b"PATH": os.environb[b"PATH"], b"HOME": os.fsencode(tmp_path)}
    command, cwd = [os.fsencode(seqferry()), b"status"], os.fsencode(tmp_path)
    if how == "option":
        command += [b"--state-dir", folder]
    elif how == "variable":
        environment[b"SEQFERRY_STATE_DIR"] = folder
    elif how == "home":
        environment[b"HOME"] = folder
    else:
        command, cwd = [*command, b"--state-dir", b"x"], folder

    done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 1
    assert "st\\xffte" in done.stderr
    assert "is not UTF-8" in done.stderr
    assert "--state-dir" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_cache_that_is_no_text_is_named(tmp_path: Path) -> None:
    environment = {b"PATH": os.environb[b"PATH"], b"HOME": os.fsencode(tmp_path), b"SEQFERRY_CACHE": b"/tmp/c\xff"}

    done = subprocess.run(
        [seqferry(), "ls", "s3://bucket/"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )

    assert "The folder of the cache /tmp/c\\xff has a name that is not UTF-8" in done.stderr


def _sh(script: str, before: list[str], folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "SEQFERRY_STATE_DIR": str(folder / "state"), **more}
    command = [*before, "sh", "-c", script]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
