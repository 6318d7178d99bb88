"""Where a bench ran: machine, load, and the commit of this checkout."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def machine() -> dict[str, Any]:
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def load() -> float:
    """How many processes wanted a core, on average of the last minute."""
    return round(os.getloadavg()[0], 2)


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


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
