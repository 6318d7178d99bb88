"""A state folder that can be read and not written: queries work, and what would be put on record is refused."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from support.processes import run, seqferry
from support.sim import Simulator

BUCKETS = ("--bucket", "vendor=keys=run/f{i:05};count=3;size=1KiB", "--bucket", "ours")
_NOBODY = 65534


def _ordinary() -> list[str]:
    """What runs a command without what the superuser may do beyond others."""
    if os.geteuid() != 0:
        return []
    lost = "-dac_override,-dac_read_search,-fowner,-chown"
    return ["setpriv", f"--inh-caps={lost}", f"--bounding-set={lost}"]


class Place:
    """A state folder with one transfer, and commands on it."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.transfer_id = ""
        self.environment = {**environment, "HOME": str(folder), "TMPDIR": str(folder), "XDG_CONFIG_HOME": ""}

    def run(self, line: str, *, expect: int = 0) -> subprocess.CompletedProcess[str]:
        words = [*_ordinary(), str(seqferry()), *line.split(), "--state-dir", str(self.state)]
        return run(words, environment=self.environment, expect=expect)

    def shut(self) -> None:
        self.state.chmod(0o555)


@pytest.fixture
def place(make_simulator: Callable[..., Simulator], tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path, make_simulator("--instant", *BUCKETS).environment())
    line = f"cp s3://vendor/run/ s3://ours/run/ --json --state-dir {made.state}"
    copied = run([seqferry(), *line.split()], environment=made.environment, is_preloaded=True)
    made.transfer_id = json.loads(copied.stdout.splitlines()[0])["id"]
    yield made
    made.state.chmod(0o755)


def _answers(place: Place) -> None:
    before = {one.name: one.stat().st_size for one in place.state.iterdir()}
    for line in (
        "status",
        f"status {place.transfer_id} --objects",
        f"report {place.transfer_id}",
        "audit verify",
        "audit head",
        "schedule list",
        "prune --older-than 1d --dry-run",
        f"watch {place.transfer_id}",
        "preflight s3://vendor/run/ s3://ours/again/",
        "cp --dry-run s3://vendor/run/ s3://ours/again/",
        "token list",
    ):
        place.run(line)
    assert {one.name: one.stat().st_size for one in place.state.iterdir()} == before


def test_a_folder_that_cannot_be_written_answers_queries(place: Place) -> None:
    place.shut()

    _answers(place)
    for line in ("cp s3://vendor/run/ s3://ours/again/", f"retry {place.transfer_id}", "prune --older-than 1d"):
        refused = place.run(line, expect=1)
        assert f"Cannot write to the state folder {place.state}" in refused.stderr
        assert "--state-dir" in refused.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_folder_of_another_user_answers_queries(place: Place) -> None:
    for one in (*place.state.iterdir(), place.state):
        one.chmod(0o755 if one.is_dir() else 0o644)
        os.chown(one, _NOBODY, _NOBODY)

    _answers(place)


def test_last_changes_beside_the_database_are_read(place: Place) -> None:
    """As beside a worker that is at work, and after one that was killed."""
    with closing(sqlite3.connect(place.state / "seqferry.sqlite")) as writer:
        writer.execute("update transfer set source_uri = 's3://late/'")
        writer.commit()
        place.shut()
        assert "s3://late/" in place.run("audit verify", expect=3).stdout
        place.state.chmod(0o755)
        copied = place.folder / "copied"
        shutil.copytree(place.state, copied)
    shutil.rmtree(place.state)
    copied.rename(place.state)
    place.shut()
    assert "s3://late/" in place.run("audit verify", expect=3).stdout

    place.state.chmod(0o755)
    (place.state / "seqferry.sqlite-shm").unlink()
    place.shut()
    refused = place.run("status", expect=1).stderr
    assert "its last changes are in seqferry.sqlite-wal" in refused
    assert "Copy the folder" in refused


def test_a_database_of_an_earlier_build_is_named(place: Place) -> None:
    with closing(sqlite3.connect(place.state / "seqferry.sqlite")) as writer:
        writer.execute("update seqferry_schema set version_num = '0013'")
        writer.commit()
    place.shut()

    assert "made by a build of seqferry before its first release" in place.run("status", expect=1).stderr


def test_a_link_in_place_of_the_database_is_refused(place: Place) -> None:
    (place.state / "seqferry.sqlite").rename(place.folder / "elsewhere")
    (place.state / "seqferry.sqlite").symlink_to(place.folder / "elsewhere")
    place.shut()

    assert "is a link" in place.run("status", expect=1).stderr
