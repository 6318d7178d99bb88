"""Common parts of the bench programs: options, files of results, and messages about missing tools."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from figures import Result
from machine import ROOT, commit, load, machine

if TYPE_CHECKING:
    from support.run import Run
    from support.servers import S3Server

RESULTS: Final = ROOT / "benches" / "results"
LEFT_OUT: Final = 3
"""Exit status of a bench that needs a tool which is not installed; its last line on standard error says which."""


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
    from support.run import Run

    parser = argparse.ArgumentParser(description=document, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(f"--{noun}s", dest="count", metavar="N", type=int, default=defaults[0])
    parser.add_argument("--size", type=int, default=defaults[1], help=f"bytes of each {noun}")
    parser.add_argument("--delay", type=int, default=30, help="milliseconds that each reply is held back")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ours", action="store_true", help="leave the peers out")
    add_arguments(parser)
    options = parser.parse_args(arguments)
    run = Run.create()
    scratch = Path(tempfile.mkdtemp(prefix="seqferry-bench-"))
    try:
        result = measure(options, run, scratch)
    finally:
        run.close()
        shutil.rmtree(scratch, ignore_errors=True)
    return finish(options, result)


def fill(server: S3Server, bucket: str, options: argparse.Namespace) -> dict[str, bytes]:
    """Store random objects below ``in/``; returns their contents by name."""
    chooser = random.Random(1)
    content = {f"f{number:05d}": chooser.randbytes(options.size) for number in range(options.count)}
    client = server.client(server.user)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: client.put_object(Bucket=bucket, Key=f"in/{name}", Body=content[name]), content))
    return content


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
        commit=commit(),
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
    from support.run import MissingToolError

    try:
        status = main()
    except MissingToolError as error:
        print(f"left out: {error}", file=sys.stderr)
        status = LEFT_OUT
    except KeyboardInterrupt:
        status = 130
    sys.exit(status)
