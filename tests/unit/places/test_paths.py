"""Folders of this machine: times and permissions that they get after their files."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from seqferry.places.paths import set_folder_attributes


def test_a_folder_gets_its_time_and_no_more_permissions_than_it_has(tmp_path: Path) -> None:
    folder = tmp_path / "a/b"
    folder.mkdir(parents=True)
    folder.chmod(0o750)

    assert set_folder_attributes(str(tmp_path), "a/b/", 0o6577, 1_000_000_000.25, preserve_permissions=False)

    facts = folder.stat()
    assert (stat.S_IMODE(facts.st_mode), facts.st_mtime_ns) == (0o750, 1_000_000_000_250_000_000)
    assert set_folder_attributes(str(tmp_path), "a/b", 0o4555, -1.5, preserve_permissions=True)
    facts = folder.stat()
    assert (stat.S_IMODE(facts.st_mode), facts.st_mtime_ns) == (0o755, -1_500_000_000)


@pytest.mark.parametrize("path", ["link", "link/below", "a/link", "file", "none", "a/../..", "../outside"])
def test_what_is_no_folder_below_the_root_is_left_alone(tmp_path: Path, path: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (outside / "below").mkdir(parents=True)
    (root / "a").mkdir(parents=True)
    (root / "file").touch()
    (root / "link").symlink_to(outside)
    (root / "a/link").symlink_to(outside)
    before = [one.stat() for one in (outside, outside / "below", tmp_path, root / "file")]

    assert not set_folder_attributes(str(root), path, 0o700, 1.0, preserve_permissions=True)

    after = [one.stat() for one in (outside, outside / "below", tmp_path, root / "file")]
    assert [(one.st_mode, one.st_mtime_ns) for one in after] == [(one.st_mode, one.st_mtime_ns) for one in before]
