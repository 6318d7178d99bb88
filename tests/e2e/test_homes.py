"""Commands of users without a home folder, or with that of another user, as containers have them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.processes import seqferry
from support.servers import S3Server

_UID = 54321
"""A user that no machine knows."""

_OTHER = 12345

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def filled(versitygw: S3Server, make_bucket: Callable[..., str]) -> str:
    bucket = make_bucket(versitygw)
    versitygw.client(versitygw.user).put_object(Bucket=bucket, Key="d/x", Body=b"content")
    return bucket


@pytest.fixture(params=["no home", "HOME of another user", "HOME is no path"])
def foreign(request: pytest.FixtureRequest, versitygw: S3Server, tmp_path: Path) -> Run:
    """``foreign(words, NAME=value)``: the command as a user without an entry in the user database."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare (util-linux) is not there")
    home = {"no home": None, "HOME of another user": str(tmp_path / "home"), "HOME is no path": "home"}[request.param]
    (tmp_path / "home").mkdir(mode=0o700)
    if request.param == "HOME of another user":
        if os.geteuid() != 0:
            pytest.skip("only root makes a folder of another user")
        os.chown(tmp_path / "home", _OTHER, _OTHER)
    environment = {"PATH": os.environ["PATH"], **versitygw.environment()} | ({} if home is None else {"HOME": home})

    def made(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        command = ["unshare", "--user", f"--map-user={_UID}", str(seqferry()), *words]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment | more, capture_output=True, text=True, timeout=120, check=False
        )
        if done.stderr.startswith("unshare:"):
            pytest.skip(f"this machine lets no process be another user: {done.stderr.strip()}")
        return done

    return made


def test_what_needs_no_record_needs_no_home(foreign: Run, filled: str, tmp_path: Path) -> None:
    for words in (
        ["ls", f"s3://{filled}/d/"],
        ["head", f"s3://{filled}/d/x"],
        ["config", "show"],
        ["aws", "s3", "cp", f"s3://{filled}/d/x", "aws"],
        ["s5cmd", "cp", f"s3://{filled}/d/*", "s5cmd"],
    ):
        done = foreign(*words)
        assert done.returncode == 0, (words, done.stderr)
    assert (tmp_path / "aws").read_bytes() == (tmp_path / "s5cmd" / "x").read_bytes() == b"content"


def test_transfers_are_recorded_where_a_folder_is_named(foreign: Run, filled: str, tmp_path: Path) -> None:
    state = {"SEQFERRY_STATE_DIR": str(tmp_path / "state")}

    copied = foreign("cp", f"s3://{filled}/d/", "out", **state)
    listed = foreign("status", "--json", **state)

    assert copied.returncode == 0, copied.stderr
    assert (tmp_path / "out" / "x").read_bytes() == b"content"
    assert [json.loads(line)["state"] for line in listed.stdout.splitlines()] == ["done"]


def test_a_transfer_without_a_folder_names_the_next_step(foreign: Run, filled: str, tmp_path: Path) -> None:
    done = foreign("cp", f"s3://{filled}/d/", "out")

    if done.returncode != 0:  # a HOME that is no path is one below this folder
        assert "with --state-dir or SEQFERRY_STATE_DIR" in done.stderr
        assert len(done.stderr.splitlines()) == 1, done.stderr


def test_verbs_that_read_the_record_name_a_folder_that_they_may_not_enter(
    foreign: Run, filled: str, tmp_path: Path
) -> None:
    (tmp_path / "shut").mkdir(mode=0o000)
    state = {"SEQFERRY_STATE_DIR": str(tmp_path / "shut" / "state")}

    for words in (["status"], ["audit", "verify"], ["cp", "--dry-run", f"s3://{filled}/d/", "out/"]):
        done = foreign(*words, **state)

        assert done.returncode == 1, (words, done.stderr)
        assert done.stderr.startswith("seqferry: Cannot write to the state folder"), (words, done.stderr)
        assert len(done.stderr.splitlines()) == 1, done.stderr


def test_a_tilde_without_a_home_is_named(foreign: Run, filled: str) -> None:
    for name in ("SEQFERRY_STATE_DIR", "SEQFERRY_CONFIG"):
        done = foreign("ls", f"s3://{filled}/d/", **{name: "~/x"})
        if done.returncode != 0:
            assert name in done.stderr or "Cannot read the configuration file" in done.stderr
            assert len(done.stderr.splitlines()) == 1, done.stderr


def test_a_configuration_of_ones_own_that_cannot_be_read_is_an_error(foreign: Run, tmp_path: Path, filled: str) -> None:
    """It may hold a policy."""
    (tmp_path / "own").mkdir(mode=0o000)

    done = foreign("ls", f"s3://{filled}/d/", HOME=str(tmp_path / "own"))

    assert done.returncode == 2
    assert "Cannot read the configuration file" in done.stderr
