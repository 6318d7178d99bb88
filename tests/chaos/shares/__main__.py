"""``make chaos-shares``: each scenario on both servers, with and without checksums, on this machine alone."""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from pathlib import Path

from chaos.__main__ import hide_own_settings
from chaos.shares.tree import SCENARIOS
from chaos.shares.trial import Options, Report, run
from support.file_systems import NoFileSystemError
from support.run import ROOT, MissingToolError, Run
from support.servers import KINDS

_BOTH = ("with", "without")


def main() -> int:
    given = _arguments()
    hide_own_settings()
    folder = ROOT / "target" / "chaos-shares" / str(given.seed)
    print(f"chaos-shares: seeds from {given.seed}; {folder} has schedules, operations, and what gateways printed")
    shared, reports = Run.create(), list[Report]()
    try:
        for number, one in enumerate(itertools.product(given.scenario, given.server, given.checksums)):
            scenario, server, checksums = one
            options = Options(given.seed + number, scenario, given.minutes, server, checksums == "with", given.gap)
            reports.append(_run(options, shared, folder / options.name))
    finally:
        shared.close()
        print("\n".join([Report.HEAD, *(one.as_row() for one in reports)]), flush=True)
    return 1 if any(one.findings for one in reports) else 0


def _run(options: Options, shared: Run, folder: Path) -> Report:
    try:
        report = run(options, shared, folder)
    except (NoFileSystemError, MissingToolError) as why:
        report = Report(options, skipped=str(why))
    print(report.as_row(), flush=True)
    if report.findings:
        print(report.as_text(), flush=True)
    return report


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos-shares", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32), help="of the first run")
    parser.add_argument("--minutes", type=float, default=2.0, help="of each run")
    parser.add_argument("--scenario", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument("--server", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--checksums", nargs="+", choices=_BOTH, default=list(_BOTH), help="that the server keeps")
    parser.add_argument("--gap", type=float, default=2.0, help="mean seconds between two faults")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
