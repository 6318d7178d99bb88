"""State folders with all tables in them: a command that has to make them first takes nearly double the time."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from support.processes import seqferry
from support.run import Run


def prepare(run: Run, folder: Path) -> Path:
    """Make ``folder`` the state folder of someone who has used the command before; returns it.

    Raises:
        support.run.MissingToolError: the command is not installed.
    """
    made = run.once("state", lambda: _make(run.folder / "state"))
    shutil.copytree(made["folder"], folder)
    return folder


def _make(folder: Path) -> dict[str, str]:
    environment = {**os.environ, "SEQFERRY_STATE_DIR": str(folder)}
    subprocess.run([seqferry(), "status"], env=environment, check=True, capture_output=True)
    assert not folder.joinpath("seqferry.sqlite-wal").exists()
    return {"folder": str(folder)}
