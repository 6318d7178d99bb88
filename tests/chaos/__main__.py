"""``make chaos``: a run of its own, on this machine alone."""

from __future__ import annotations

import argparse
import os
import random
import sys
from pathlib import Path

from chaos import sometimes
from chaos.trial import WORKERS, Options, run
from support.run import ROOT, MissingToolError, Run
from support.servers import KINDS

_TOOLS = {"SEQFERRY_VERSITYGW", "SEQFERRY_WEED", "SEQFERRY_S3PROXY", "SEQFERRY_S3SIM", "SEQFERRY_COMMAND"}


def hide_own_settings() -> None:
    """Those of the person who runs this, from all that is started here."""
    for name in list(os.environ):
        if (name.startswith(("AWS_", "SEQFERRY_")) and name not in _TOOLS) or name.lower().endswith("_proxy"):
            del os.environ[name]
    os.environ.update(AWS_CONFIG_FILE=os.devnull, AWS_SHARED_CREDENTIALS_FILE=os.devnull, NO_COLOR="1")


def main() -> int:
    options, folder = _options()
    hide_own_settings()
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.json*"):
        old.unlink()
    shared = Run.create()
    try:
        report = run(options, shared, folder, say=lambda text: print(text, flush=True))
    except MissingToolError as missing:
        print(f"chaos: {missing}", file=sys.stderr)
        return 2
    finally:
        shared.close()
    print(report.as_text())
    return 1 if report.violations or report.missed else 0


def _options() -> tuple[Options, Path]:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--faults", type=int, default=120)
    parser.add_argument("--minutes", type=float, help="no fault begins later")
    parser.add_argument("--gap", type=float, default=1.6, help="mean seconds between two faults")
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--server", choices=KINDS, default="seaweedfs")
    parser.add_argument("--at-once", type=int, default=4, help="unfinished transfers at most")
    parser.add_argument("--calm-every", type=float, default=330.0, help="seconds between two calm phases")
    given = vars(parser.parse_args())
    demanded = sometimes.OF_LONG_RUNS if given["faults"] >= sometimes.LONG and given["minutes"] is None else frozenset()
    options = Options(**given, demanded=demanded)
    return options, ROOT / "target" / "chaos" / str(options.seed)


if __name__ == "__main__":
    sys.exit(main())
