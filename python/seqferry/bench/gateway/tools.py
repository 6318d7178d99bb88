"""One run of ``dd`` or ``fio`` in a folder, and its figures."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

from seqferry.bench import measure
from seqferry.bench.gateway.experiments import FILES, JOBS, Experiment
from seqferry.model.errors import ConfigError
from seqferry.model.frozen import frozen

FIO_MISSING: Final = (
    "fio is not installed: asynchronous work is not measured. Install it with `apt-get install fio` or "
    "`yum install fio`."
)
_NO_DIRECT: Final = "its file system takes no O_DIRECT"
_COPIED: Final = re.compile(r"(?m)^(\d+) bytes .*copied, ([\d.,e+-]+) s")
_SLOWEST: Final = 50 * 1024
"""Bytes per second below which a run is given up."""
_AT_LEAST: Final = 120.0
"""Seconds that each run may take."""
_ENVIRONMENT: Final = {"LC_ALL": "C", "PATH": os.defpath + ":/usr/local/bin:/usr/sbin:/sbin"}


@frozen
class Programs:
    """Programs that are installed, with their versions."""

    dd: str
    fio: str | None
    versions: dict[str, str]


@frozen
class Figures:
    """Figures of one run."""

    seconds: float
    bytes: int
    operations_per_second: float | None = None


class RunError(Exception):
    """A run has failed; its text says why."""


class UnsupportedRunError(RunError):
    """The folder cannot do what the run asks."""


def find() -> Programs:
    """The programs.

    Raises:
        ConfigError: there is no ``dd`` that writes synchronously.
    """
    dd, fio = shutil.which("dd"), shutil.which("fio")
    version = "" if dd is None else _version(dd)
    if dd is None or "coreutils" not in version:
        raise ConfigError("There is no dd of GNU coreutils here, which writes with oflag=dsync. Install coreutils.")
    versions = {"dd": version}
    if fio is not None:
        versions["fio"] = _version(fio)
    return Programs(dd, fio, versions)


def _version(program: str) -> str:
    try:
        ran = subprocess.run(  # noqa: S603 - a program found in PATH
            [program, "--version"], capture_output=True, text=True, timeout=30, check=False, env=_ENVIRONMENT
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return ran.stdout.partition("\n")[0].strip()


def command(
    programs: Programs,
    experiment: Experiment,
    folder: Path,
    *,
    job_bytes: int,
    seconds: int,
    direct: bool,
    report: Path,
) -> list[str]:
    """The command line of an experiment in a folder."""
    if experiment.pattern is None:
        return [
            programs.dd,
            "if=/dev/zero",
            f"of={folder / 'test'}",
            f"bs={experiment.block}",
            f"count={experiment.blocks}",
            f"oflag={experiment.flags}",
        ]
    line = [
        programs.fio or "fio",
        "--ioengine=libaio",
        "--name=sgw-test",
        # fio takes a colon for the end of a folder's name.
        f"--directory={str(folder).replace(':', chr(92) + ':')}",
        "--bs=4k",
        "--iodepth=4",
        f"--numjobs={JOBS}",
        f"--size={job_bytes}",
        f"--readwrite={experiment.pattern}",
        f"--nrfiles={FILES}",
        f"--direct={int(direct)}",
        "--end_fsync=1",
        "--group_reporting",
        "--output-format=json",
        f"--output={report}",
    ]
    line += ["--rwmixread=25"] if experiment.pattern == "randrw" else []
    return [*line, f"--runtime={seconds}"] if seconds else line


def run(
    programs: Programs,
    experiment: Experiment,
    folder: Path,
    scratch: Path,
    *,
    job_bytes: int,
    seconds: int,
    direct: bool,
    takes_direct: bool,
) -> Figures:
    """Run an experiment once.

    Args:
        scratch: a folder elsewhere, for what the program prints.
        direct: fio passes the page cache.

    Raises:
        RunError: it has failed.
    """
    if experiment.direct and not takes_direct:
        raise UnsupportedRunError(_NO_DIRECT)
    report = scratch / "fio.json"
    line = command(programs, experiment, folder, job_bytes=job_bytes, seconds=seconds, direct=direct, report=report)
    timeout = _AT_LEAST + seconds + experiment.bytes / _SLOWEST
    try:
        cost = measure.run(line, environment=_ENVIRONMENT, folder=scratch, timeout=timeout)
        if cost.failure is not None:
            raise RunError(cost.failure)
        return _of_dd(cost.output) if experiment.pattern is None else of_fio(report)
    except OSError as why:
        raise RunError(f"it cannot be run: {why.strerror or why}") from None
    finally:
        report.unlink(missing_ok=True)


def _of_dd(printed: str) -> Figures:
    found = _COPIED.search(printed)
    seconds = float(found[2].replace(",", ".")) if found else 0.0
    if found is None or seconds <= 0:
        raise RunError("dd did not say how long it took")
    return Figures(seconds, int(found[1]))


def of_fio(report: Path) -> Figures:
    """Both directions of the group together: bytes over the longest time that a thread of it took."""
    try:
        text = report.read_text()
        # fio puts its warnings before the document.
        job: dict[str, Any] = json.loads(text[text.index("{") :])["jobs"][0]
        ways = [job["read"], job["write"]]
        moved = sum(int(way["io_bytes"]) for way in ways)
        seconds = max(float(way["runtime"]) for way in ways) / 1000
        operations = sum(int(way["total_ios"]) for way in ways)
    except (ValueError, KeyError, IndexError, TypeError) as why:
        raise RunError(f"fio's report cannot be read: {why}") from None
    if moved <= 0 or seconds <= 0:
        raise RunError("fio moved nothing within the time that it measures")
    return Figures(seconds, moved, operations / seconds)
