"""The machine of a measurement, and how busy it was."""

from __future__ import annotations

import os
import platform
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from seqferry.settings.config import cores


def machine() -> dict[str, Any]:
    """Facts that a figure means nothing without."""
    return {
        "cpu": _cpu_model(),
        "cores": cores(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def conditions(load_before: float, load_after: float) -> dict[str, Any]:
    """Time, version, machine and load of a measurement, as each report holds them."""
    return {
        "at": datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds"),
        "seqferry": installed_version(),
        "machine": machine(),
        "load": {"before": load_before, "after": load_after},
    }


def condition_rows(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Those of a report as a page shows them, with their names."""
    machine, load = result["machine"], result["load"]
    return [
        ("when", result["at"]),
        ("machine", f"{machine['cores']} cores of {machine['cpu']}, {machine['memory_gib']} GiB, {machine['system']}"),
        ("load", f"{load['before']} before, {load['after']} after: processes that wanted a core"),
    ]


def installed_version() -> str:
    """The version of Seqferry; a text as well where it is not installed."""
    try:
        return version("seqferry")
    except PackageNotFoundError:
        return "not installed"


def load() -> float:
    """Load average of the last minute: processes that ran or waited, for a core or for the disk."""
    return round(os.getloadavg()[0], 2)


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
