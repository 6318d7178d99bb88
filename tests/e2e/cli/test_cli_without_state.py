"""Commands that put nothing on record, where no state folder can be made: a home that is read-only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.processes import run, seqferry
from support.sim import Simulator

BUCKETS = ("--bucket", "vendor=keys=run/f{i:05};count=3;size=1KiB", "--bucket", "ours", "--bucket", "empty")


@pytest.fixture
def environment(make_simulator: Callable[..., Simulator], tmp_path: Path) -> dict[str, str]:
    """A home in which nothing can be made, also by root, and a folder for temporary files."""
    (tmp_path / "tmp").mkdir()
    home = {"HOME": "/proc", "XDG_STATE_HOME": "", "SEQFERRY_STATE_DIR": "", "TMPDIR": str(tmp_path / "tmp")}
    return {**make_simulator("--instant", *BUCKETS).environment(), **home}


def test_what_records_nothing_needs_no_state_folder(environment: dict[str, str], subtests: pytest.Subtests) -> None:
    for line in (
        "cat s3://vendor/run/f00000",
        "cat s3://vendor/run/f0000*",
        "cat --range 0-9 s3://vendor/run/f00000",
        "cp s3://vendor/run/f00000 -",
        "cp --dry-run s3://vendor/run/ s3://ours/run/",
        "sync --dry-run --delete s3://vendor/run/ s3://ours/run/",
        "mv --dry-run s3://vendor/run/ s3://ours/run/",
        "rm --dry-run --recursive s3://vendor/run/",
        "pack --dry-run s3://vendor/run/ s3://ours/run.tar",
        "preflight s3://vendor/run/ s3://ours/run/",
        "rb s3://empty",
    ):
        with subtests.test(line):
            run([seqferry(), *line.split()], environment=environment, is_preloaded=True)


def test_standard_input_goes_up_without_a_state_folder(environment: dict[str, str], tmp_path: Path) -> None:
    command = 'printf hello | "$0" cp - s3://ours/greeting && "$0" cat s3://ours/greeting'

    assert run(["sh", "-c", command, seqferry()], environment=environment).stdout == "hello"
    # The folder of the stream is gone with it.
    assert list(tmp_path.glob("tmp/seqferry-*/pipes/*")) == []


def test_what_is_recorded_needs_a_folder_and_says_so(environment: dict[str, str]) -> None:
    refused = run([seqferry(), "cp", "s3://vendor/run/", "s3://ours/run/"], environment=environment, expect=1)

    assert "Cannot write to the state folder /proc/.local/state/seqferry" in refused.stderr
    assert "--state-dir" in refused.stderr
