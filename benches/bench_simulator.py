"""How many requests one core of the S3 simulator serves, by its own CPU time: the loads of the example ``sim_load``.

``make bench-simulator``. The client writes prepared bytes over plain sockets, so that it takes little of the machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import harness
from figures import Figure, Result
from support.run import find_tool


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    hint = "run `make tools`"
    load = find_tool("sim_load", variable="SEQFERRY_SIM_LOAD", hint=hint)
    simulator = find_tool("s3sim", variable="SEQFERRY_S3SIM", hint=hint)
    command = [str(load), str(simulator), str(options.seconds), str(options.copies)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    loads = [json.loads(line) for line in ended.stdout.splitlines()]
    for one in loads:
        print(
            f"  {one['load']:<44} {one['per_core_second']:>9,.0f} requests/s of CPU time,"
            f" {one['cpu_us_per_request']:7.1f} us each, {one['gib_per_core_second']:6.2f} GiB/s,"
            f" {one['resident_mib']:.0f} MiB"
        )
    errors = [f"sim_load ended with status {ended.returncode}"] if ended.returncode else []
    figures = [
        Figure(
            "one thread of the simulator",
            "requests per second of CPU time",
            "/s",
            "higher",
            {one["load"]: [one["per_core_second"]] for one in loads},
        )
    ]
    return harness.finish(options, Result("simulator", figures, errors=errors, details=loads))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Load the S3 simulator as far as one core of it goes.")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each load")
    parser.add_argument("--copies", type=int, default=0, help="go on with small copies until there are so many")
    harness.add_arguments(parser)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    harness.run(main)
