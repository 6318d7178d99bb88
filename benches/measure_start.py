"""The start of short commands: seconds and CPU seconds of `cp` of 16 KiB, `status`, `ls`, `cat`, and `serve`.

``make bench-start`` runs each command in turn against versitygw, with a state folder that exists, and prints the median
of the wall-clock time and of the CPU time of the process. ``serve`` counts until ``/healthz`` answers.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support import servers  # noqa: E402
from support.processes import seqferry  # noqa: E402
from support.run import Run  # noqa: E402

SIZE: Final = 16 * 1024
AIMS: Final = {"cp": 0.20, "status": 0.15, "ls": 0.08, "serve": 0.40}
"""Seconds."""

Figures = tuple[float, float]
"""Seconds and CPU seconds of one run."""


def _run(command: Sequence[str], environment: Mapping[str, str]) -> Figures:
    began = time.monotonic()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return time.monotonic() - began, used.ru_utime + used.ru_stime


def _serve(command: Sequence[str], environment: Mapping[str, str]) -> Figures:
    began = time.monotonic()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        with urllib.request.urlopen(f"{url}/healthz", timeout=60) as answer:
            assert answer.status == 200
        return time.monotonic() - began, _cpu_seconds(process.pid)
    finally:
        process.terminate()
        process.communicate()


def _cpu_seconds(pid: int) -> float:
    # After the name of the command, which may have spaces.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _commands(source: str, target: str) -> dict[str, tuple[list[str], Callable[..., Figures]]]:
    return {
        "cp": (["cp", f"s3://{source}/a", f"s3://{target}/a", "--new"], _run),
        "status": (["status"], _run),
        "ls": (["ls", f"s3://{source}/"], _run),
        "cat": (["cat", f"s3://{source}/a"], _run),
        "aws s3 ls": (["aws", "s3", "ls", f"s3://{source}/"], _run),
        "serve": (["serve", "--port", "0"], _serve),
    }


def _measure(run: Run, folder: Path, runs: int, wanted: re.Pattern[str]) -> None:
    server = servers.start(run, "versitygw")
    source, target = server.create_bucket(), server.create_bucket()
    server.client().put_object(Bucket=source, Key="a", Body=os.urandom(SIZE))
    environment = {**os.environ, **server.environment(), "SEQFERRY_STATE_DIR": str(folder / "state")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installation has compiled modules
    commands = {name: one for name, one in _commands(source, target).items() if wanted.fullmatch(name)}
    _run([str(seqferry()), "cp", f"s3://{source}/a", f"s3://{target}/a"], environment)  # makes the tables
    found: dict[str, list[Figures]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, (words, measure) in commands.items():
            figures = measure([str(seqferry()), *words], environment)
            if turn:  # the first fills the page cache
                found[name].append(figures)
    print(f"| command | s | CPU s | aim s |\n|---|---|---|---|\n{_rows(found)}")


def _rows(found: Mapping[str, Sequence[Figures]]) -> str:
    return "\n".join(
        f"| `{name}` | {_text([one for one, _ in figures])} | {_text([one for _, one in figures])} "
        f"| {AIMS.get(name, '')} |"
        for name, figures in found.items()
    )


def _text(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.3f} [{min(values):.3f}..{max(values):.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15, help="of each command, after one that is not counted")
    parser.add_argument("--only", type=re.compile, default=re.compile(".*"), help="commands, as a pattern: cp|ls")
    arguments = parser.parse_args()
    run = Run.create()
    try:
        with tempfile.TemporaryDirectory(prefix="seqferry-start-") as folder:
            _measure(run, Path(folder), arguments.runs, arguments.only)
    finally:
        run.close()


if __name__ == "__main__":
    main()
