"""A scratch folder is its maker's alone, gone in the end, and removed by the next maker when its own was killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from seqferry.settings.scratch import scratch_folder

_HOLDER = """
import sys
from pathlib import Path
from seqferry.settings.scratch import scratch_folder
with scratch_folder(Path(sys.argv[1]), "anchor") as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_it_is_gone_in_the_end_also_after_an_error(tmp_path: Path) -> None:
    with scratch_folder(tmp_path, "anchor") as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "x").write_bytes(b"x")
    assert not folder.exists()

    with pytest.raises(KeyError), scratch_folder(tmp_path, "anchor") as folder:
        raise KeyError
    assert not folder.exists()


def test_folders_of_this_process_do_not_disturb_each_other(tmp_path: Path) -> None:
    with scratch_folder(tmp_path, "anchor") as one, scratch_folder(tmp_path, "inventory") as other:
        assert one != other
        assert one.exists()
        assert other.exists()


def test_that_of_another_process_stays_until_the_process_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        theirs = Path(holder.stdout.readline().strip())
        with scratch_folder(tmp_path, "anchor"):
            assert theirs.exists()
        holder.kill()

    with scratch_folder(tmp_path, "anchor"):
        assert not theirs.exists()
