"""Runs the tests and prints where the time goes, as the tables of tests/README.md.

    python tools/time_tests.py [make target ...]

The targets (``test`` if none is named) are run one after the other. What the tests measure of themselves comes from
tests/support/times.py, what Rust tests take from the output of cargo. The status is that of make.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

BUILDS = ("build", "compiled-tests", "test-tools", "test-page")
"""What ``make test`` needs: timed one by one, so that the time of ``test`` is that of the tests."""

MOST = 15
"""Rows of a table."""

_BINARY = re.compile(r"^\s+Running (?:unittests )?\S+ \(\S*/deps/(\w+)-[0-9a-f]+\)|^\s+Doc-tests (\w+)")
_FINISHED = re.compile(r"^test result: .* finished in ([0-9.]+)s")


def rust_times(lines: Iterable[str]) -> Counter[str]:
    """Seconds of each test binary, of the output of ``cargo test``."""
    seconds = Counter[str]()
    name = "doctests"
    for line in lines:
        if found := _BINARY.match(line):
            name = found[1] or "doctests"
        elif found := _FINISHED.match(line):
            seconds[name] += float(found[1])
    return seconds


def folder_of(file: str) -> str:
    """The row that a test file counts for: its folder, at most three names deep."""
    parts = Path(file).parent.parts
    return "/".join(parts[1:3]) or "tests"


def rows(seconds: dict[str, float], counts: dict[str, int], *, most: int = MOST) -> list[str]:
    """Rows of a Markdown table, largest first; what is left out is summed up in a last row."""
    ordered = sorted(seconds, key=lambda name: -seconds[name])
    text = [f"| {name} | {counts[name]:,} | {seconds[name]:,.0f} |" for name in ordered[:most]]
    if rest := ordered[most:]:
        text.append(f"| {len(rest)} others | {sum(counts[n] for n in rest):,} | {sum(seconds[n] for n in rest):,.0f} |")
    return text


def table(title: str, seconds: dict[str, float], counts: dict[str, int], *, most: int = MOST) -> list[str]:
    return [f"| {title} | number | seconds |", "|---|---:|---:|", *rows(seconds, counts, most=most), ""]


def pytest_tables(figures: dict[str, dict[str, float]]) -> list[str]:
    """Tables of what tests/support/times.py wrote."""
    seconds: dict[str, Counter[str]] = {"folder": Counter(), "fixture": Counter(), "part": Counter()}
    counts: dict[str, Counter[str]] = {"folder": Counter(), "fixture": Counter(), "part": Counter()}
    for name, value in figures["seconds"].items():
        word, _, rest = name.partition(" ")
        kind, key = "part", name
        if word in ("setup", "call", "teardown"):
            kind, key = "folder", folder_of(rest)
        elif word == "fixture":
            kind, key = "fixture", rest
        seconds[kind][key] += value
        counts[kind][key] += int(figures["counts"][name]) if word in ("call", "fixture") or kind == "part" else 0
    titles = {"folder": "Python tests by folder", "fixture": "fixture, without those it uses", "part": "part of tests"}
    return [
        line
        for kind, title in titles.items()
        for line in table(title, dict(seconds[kind]), dict(counts[kind]), most=40 if kind == "folder" else MOST)
    ]


def _run(target: str, environment: dict[str, str]) -> tuple[int, float, list[str]]:
    """Runs a target of make and prints its output as it comes: status, seconds, lines."""
    started = time.monotonic()
    lines: list[str] = []
    with subprocess.Popen(
        ["make", target], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    return running.returncode, time.monotonic() - started, lines


def main() -> int:
    targets = [*BUILDS, *(sys.argv[1:] or ["test"])]
    phases: dict[str, float] = {}
    rust = Counter[str]()
    status = 0
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "times.json")
        environment = {**os.environ, "SEQFERRY_TEST_TIMES": str(file)}
        for target in targets:
            ended, phases[f"make {target}"], lines = _run(target, environment)
            status = status or ended
            rust.update(rust_times(lines))
        empty: dict[str, dict[str, float]] = {"seconds": {}, "counts": {}}
        figures = json.loads(file.read_text()) if file.exists() else empty
    print(f"\n{dt.datetime.now(dt.UTC).date()}, {os.cpu_count()} cores, {platform.machine()}\n")
    print("\n".join(table("phase, by the clock", phases, dict.fromkeys(phases, 1))))
    print("\n".join(table("Rust tests by binary", dict(rust), dict.fromkeys(rust, 1))))
    print("\n".join(pytest_tables(figures)))
    return status


if __name__ == "__main__":
    sys.exit(main())
