"""A bucket as a folder, side by side: Seqferry, mount-s3, rclone, s3fs and geesefs, each where it is installed.

``make bench-mount`` has ordinary programs read a mounted bucket of versitygw through a proxy, which counts requests and
bytes, and holds back every reply for 0 or 20 ms. Each piece of work runs on a new mount (cold), once more on the same
mount (warm), and on a mount whose disk cache an earlier mount has filled (remounted). What was read is compared with
what was stored, after the measured time. A program that is not done in time is left out of that row, and said to be.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import harness
import mount_work
from figures import Figure, PreferredDirection, Result
from mount_programs import PROGRAMS, Program, ServedFolder, available, mounted
from mount_work import MountTask, Sizes
from seqferry.bench import measure
from seqferry.bench.rounds import rotated
from support import servers
from support.proxy import Proxy, delay

MIB = 1 << 20
FULL = Sizes(big=1 << 30, reads=1_880_000, regions=50, random=500, small=400, folders=200, members=2000, chosen=400)
QUICK = Sizes(big=4 << 20, reads=20_000, regions=2, random=10, small=10, folders=1, members=20, chosen=5)
DIRECT = "no proxy"
COLD, WARM, REMOUNTED = "cold", "warm", "remounted"


@dataclass(frozen=True)
class Cell:
    """One run of one piece of work."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    requests: int | None
    fetched: int | None
    """Bytes of replies; both are None where nothing counts them."""
    p50_ms: float | None


@dataclass(frozen=True)
class TaskResult:
    wall_s: float
    status: int
    output: str
    errors: str


@dataclass
class Bench:
    options: argparse.Namespace
    bucket: str
    scratch: Path
    figures: dict[tuple[str, str], Figure] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def add(self, work: MountTask, where: str, series: str, cell: Cell) -> None:
        group = f"{where}: {work.name}"
        self._add(group, "wall time", "s", "lower", series, cell.wall_s)
        self._add(group, "CPU", "s", "lower", series, cell.cpu_s)
        self._add(group, "peak memory", "MiB", "lower", series, cell.peak_mib)
        if cell.p50_ms is not None:
            self._add(group, "median of a read", "ms", "lower", series, cell.p50_ms)
        if cell.requests is not None and cell.fetched is not None:
            self._add(group, "requests", "", "lower", series, cell.requests)
            self._add(group, "fetched", "MiB", "lower", series, cell.fetched / MIB)
            if work.wanted:
                self._add(group, "fetched per byte wanted", "", "lower", series, cell.fetched / work.wanted)

    def _add(self, group: str, name: str, unit: str, better: PreferredDirection, series: str, value: float) -> None:
        figure = self.figures.setdefault(
            (group, name), Figure(group, name, unit, better, {}, baseline="seqferry, cold")
        )
        figure.series.setdefault(series, []).append(value)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    programs, left_out = available(options.only)
    with harness.workspace() as (run, scratch):
        server = servers.start(run, "versitygw")
        data = mount_work.make(scratch / "data", QUICK if options.quick else FULL, 1 + options.turn)
        bench = Bench(options, server.create_bucket(), scratch, left_out=left_out)
        mount_work.upload(data, server, bench.bucket)
        if data.samtools is None:
            bench.left_out.append("regions of a BAM are left out: samtools is not installed (Debian: samtools)")
        works = [
            work for work in mount_work.works(data) if not options.work or any(w in work.name for w in options.work)
        ]
        for turn in range(options.rounds):
            _round(bench, server, works, rotated(list(programs), turn + options.turn))
    figures = list(bench.figures.values())
    harness.print_table(figures)
    for line in bench.left_out:
        print(f"left out: {line}", file=sys.stderr)
    result = Result("mount", figures, left_out=list(dict.fromkeys(bench.left_out)), errors=bench.errors)
    result.versions = {program.name: version for program, version in programs.items()}
    return harness.finish(options, result)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [program.name for program in PROGRAMS]
    parser.add_argument("--only", action="append", choices=names, help="this program only (may be repeated)")
    parser.add_argument("--work", action="append", metavar="TEXT", help="work with this in its name only (repeatable)")
    parser.add_argument("--delay", action="append", type=int, metavar="MS", help="of each reply; default: 0 and 20")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--within", type=float, default=90.0, help="seconds for one piece of work")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows only that all of it works")
    harness.add_arguments(parser)
    options = parser.parse_args(arguments)
    options.delay = options.delay or [0, 20]
    return options


def _round(bench: Bench, server: servers.S3Server, works: list[MountTask], programs: list[Program]) -> None:
    for work in works:
        if work.name.startswith("sequential") and 0 in bench.options.delay:
            for program in programs:
                _cold_and_warm(bench, work, program, server, None, DIRECT)
    with Proxy(server) as proxy:
        for reply_ms in bench.options.delay:
            proxy.clear_rules()
            if reply_ms:
                proxy.rule((), delay(reply_ms=reply_ms))
            for work in works:
                for program in programs:
                    _cold_and_warm(bench, work, program, proxy.server, proxy, f"{reply_ms} ms")
                    if reply_ms == max(bench.options.delay):
                        _remounted(bench, work, program, proxy, f"{reply_ms} ms")


def _cold_and_warm(
    bench: Bench, work: MountTask, program: Program, server: servers.S3Server, proxy: Proxy | None, where: str
) -> None:
    if proxy:
        proxy.clear_log()
    try:
        with mounted(program, server, bench.bucket, bench.scratch) as mount:
            for state in (COLD, WARM):
                if not _measure(bench, work, mount, proxy, where, state):
                    return
    except RuntimeError as why:
        bench.errors.append(str(why))


def _remounted(bench: Bench, work: MountTask, program: Program, proxy: Proxy, where: str) -> None:
    with tempfile.TemporaryDirectory(prefix="cache-", dir=bench.scratch) as name:
        cache = Path(name)
        try:
            with mounted(program, proxy.server, bench.bucket, bench.scratch, cache) as mount:
                if _run(bench, work, mount) is None:
                    return
            proxy.clear_log()
            with mounted(program, proxy.server, bench.bucket, bench.scratch, cache) as mount:
                _measure(bench, work, mount, proxy, where, REMOUNTED)
        except RuntimeError as why:
            bench.errors.append(str(why))


def _measure(bench: Bench, work: MountTask, mount: ServedFolder, proxy: Proxy | None, where: str, state: str) -> bool:
    """One measured run. False when there is no point in another one."""
    series = f"{mount.program.name}, {state}"
    print(f"{where}: {work.name}: {series} ...", end="", flush=True)
    before = mount.cpu_s()
    with tempfile.TemporaryDirectory(prefix="target-", dir=bench.scratch) as name:
        target = Path(name)
        with measure.Watch([mount.pid]) as watch:
            done = _run(bench, work, mount, target)
        if done is None:
            print(f" not done after {bench.options.within:g} s", flush=True)
            bench.left_out.append(f"{where}: {work.name}, {series}: not done after {bench.options.within:g} s")
            return False
        requests, fetched = _counted(proxy) if proxy else (None, None)
        cpu_s = mount.cpu_s() - before
        wrong = f"it ended with {done.status}: {done.errors[-300:]}" if done.status else work.check(done.output, target)
    if wrong:
        print(f" {wrong}", flush=True)
        bench.errors.append(f"{where}: {work.name}, {series}: {wrong}")
        return False
    said = json.loads(done.output) if '"p50_ms"' in done.output else {}
    cell = Cell(done.wall_s, cpu_s, watch.peak_mib, requests, fetched, said.get("p50_ms"))
    bench.add(work, where, series, cell)
    if proxy:
        # What the check reads is not measured.
        proxy.clear_log()
    print(f" {done.wall_s:.2f} s", flush=True)
    return True


def _run(bench: Bench, work: MountTask, mount: ServedFolder, target: Path | None = None) -> TaskResult | None:
    """Result of one run; None when it was not done in time."""
    if target is None:
        with tempfile.TemporaryDirectory(prefix="target-", dir=bench.scratch) as name:
            return _run(bench, work, mount, Path(name))
    command = work.command(mount.folder, mount.program.archives, target)
    began = time.perf_counter()
    # A group of its own, so that all that a shell has started can be ended.
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=bench.options.within)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None
    return TaskResult(time.perf_counter() - began, process.returncode, output, errors)


def _counted(proxy: Proxy) -> tuple[int, int]:
    """Requests and bytes of their replies since the log was cleared. Read-ahead still under way counts as well."""
    with suppress(TimeoutError):
        proxy.wait_idle(deadline=10)
    log = proxy.log()
    return len(log), sum(record.reply_bytes for record in log)


if __name__ == "__main__":
    harness.run(main)
