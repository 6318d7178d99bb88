"""What all benches have in common as programs: common options, where results go, how a missing tool is told."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from figures import Result
from machine import ROOT, commit, load, machine

RESULTS: Final = ROOT / "benches" / "results"
LEFT_OUT: Final = 3
"""Exit status of a bench that needs a tool which is not installed; its last line on standard error says which."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the result there (default: benches/results/)")
    parser.add_argument(
        "--turn", type=int, default=0, metavar="N", help="begin with round N: order and seeds follow it"
    )


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
