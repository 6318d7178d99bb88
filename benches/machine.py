"""Where a bench ran: machine, load, and the commit of this checkout."""

from __future__ import annotations

import subprocess
from pathlib import Path

from seqferry.bench.machine import load, machine

__all__ = ["ROOT", "commit", "load", "machine"]

ROOT = Path(__file__).resolve().parents[1]


def commit(folder: Path = ROOT) -> str:
    """The commit that is checked out, with ``, changed`` when files differ from it; ``unknown`` outside of git."""
    try:
        revision = _git(folder, "rev-parse", "--short=12", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{revision}, changed" if changed else revision


def _git(folder: Path, *words: str) -> str:
    ended = subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True, check=True)
    return ended.stdout.strip()
