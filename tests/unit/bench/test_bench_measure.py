"""What the bench does around its runs, so that none pays for another."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from seqferry.bench import measure


def test_folders_are_kept_apart_where_the_file_system_offers_it(tmp_path: Path) -> None:
    kind = subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True, check=True)
    if kind.stdout.strip() != "ext2/ext3" or shutil.which("lsattr") is None:
        pytest.skip("no ext4 here, or no lsattr to look with")

    measure.spread(tmp_path)

    told = subprocess.run(["lsattr", "-d", tmp_path], capture_output=True, text=True, check=True)
    assert "T" in told.stdout.split()[0]


def test_elsewhere_they_are_left_as_they_are(tmp_path: Path) -> None:
    measure.spread(Path("/proc"))
    measure.spread(tmp_path / "missing")


def test_a_sync_takes_time_and_needs_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"bytes")

    assert measure.sync(tmp_path) > 0
    with pytest.raises(FileNotFoundError):
        measure.sync(tmp_path / "missing")
