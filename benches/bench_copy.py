"""Bucket-to-bucket copies side by side: Seqferry, aws s3 sync, s5cmd, rclone, s3sync, and boto3 as S3Mirror calls it.

``make bench-copy`` runs what ``seqferry bench transfer`` is made of (``seqferry.bench``) on versitygw and SeaweedFS
with three sets of data: a delivery (a few files above 128 MiB and several dozen of a few MiB), many small files, and
one small file, which shows what each method costs before it copies anything. Each run is a process of its own into an
empty prefix, in rounds whose order rotates; a copy of one byte goes first. After each run, outside of the measured
time, all that arrived is compared byte for byte with the source.

``--server s3sim`` copies in the simulator, which answers as its model of S3 says (``docs/develop/simulator.md``): wall
time there shows what a client makes of S3's latency.

The other servers move the bytes on the same cores as the clients. Wall time is therefore mostly the server's; what
compares clients is the CPU time and the memory that they need for the same copies.

Prints a table with ratios to Seqferry and writes all measurements to ``benches/results/`` as JSON.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import harness  # noqa: E402
from figures import Figure  # noqa: E402
from seqferry.bench.methods import InstalledMethod, Job, Method, available  # noqa: E402
from seqferry.bench.transfer import ComparisonParameters, MeasuredRun, Outcome, make_plan, run  # noqa: E402
from seqferry.bench.workload import Workload, random_pieces  # noqa: E402
from seqferry.model.frozen import frozen  # noqa: E402
from seqferry.settings.sizes import parse_size  # noqa: E402
from support import servers  # noqa: E402
from support.run import Run  # noqa: E402
from transfers import (  # noqa: E402
    BASELINE,
    SIMULATOR,
    Comparison,
    PrintedProgress,
    connect_to,
)

MIB = 1024 * 1024
METHODS = ("seqferry", "aws", "s5cmd", "rclone", "boto3-copy")


def _s3sync(job: Job) -> list[str]:
    ends = (word for end in ("source", "target") for word in _s3sync_end(job, end))
    # The simulator's ETags of parts that were copied are not those of parts with the same bytes that were sent.
    options = ["--server-side-copy", "--disable-multipart-verify", "--show-no-progress", "-qq"]
    return [*ends, *options, job.local("", "s3://"), job.uri]


def _s3sync_end(job: Job, end: str) -> list[str]:
    url = job.place.endpoint_url
    endpoint = [f"--{end}-endpoint-url", url, f"--{end}-force-path-style"] if url else []
    return [*endpoint, f"--{end}-region", job.place.region]


S3SYNC = Method(
    "s3sync",
    "defaults (16 workers), server-side; ETags and checksums compared, but not of copies in parts",
    "cargo install s3sync --locked --root .tools",
    lambda tools: [tools["s3sync"]] if "s3sync" in tools else None,
    _s3sync,
    directions=("copy",),
)
"""The only other one that verifies. It is no method of ``seqferry bench transfer``: few have it."""
WARM_UP = Workload(1, 1)
"""What each method copies first: its files are in the cache then, and Seqferry's database exists, as on every use but
the first."""


@frozen
class Delivery(Workload):
    """Big files first, ``files`` of ``size`` bytes each, then files of another size."""

    others: Workload

    @property
    def total(self) -> int:
        return self.files * self.size + self.others.total

    @property
    def name(self) -> str:
        return "delivery"

    def __str__(self) -> str:
        return f"{self.files + self.others.files} objects, {self.total / MIB:,.0f} MiB"

    def sizes(self) -> dict[str, int]:
        sizes = [self.size] * self.files + [self.others.size] * self.others.files
        return dict(zip(Workload(len(sizes), 1).sizes(), sizes, strict=True))


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    delivery = Delivery(options.big, options.big_size, Workload(options.medium, options.medium_size))
    workloads = [WARM_UP, delivery, Workload(options.small, options.small_size), Workload(1, options.small_size)]
    parameters = ComparisonParameters(
        workloads=tuple(dict.fromkeys(each for each in workloads if each.sizes())),
        directions=("copy",),
        methods=METHODS,
        warm_up=0,
        repetitions=options.rounds,
        first_round=options.turn,
        seed=options.seed,
    )
    installed, left_out = available(METHODS, accelerated=False, tools=harness.tools(), others=(S3SYNC,))
    found = [
        each for each in map(_as_mirrors_call_it, installed) if each.method.name in (options.only or [each.method.name])
    ]
    plan = make_plan(parameters, found)
    comparison = Comparison(plan, left_out, time_scale=options.time_scale)

    def compare(bench: Run, kind: str) -> Outcome:
        server = servers.start(bench, kind)
        storage, origin = (connect_to(server.environment(), server.create_bucket()) for _ in range(2))
        piece = random_pieces(parameters.seed)
        tell = PrintedProgress()
        return run(plan, storage, work_folder=bench.folder, keep=False, tell=tell, piece=piece, origin=origin)

    comparison.run(options.server, compare)
    for outcome in comparison.outcomes.values():
        outcome.runs = [each for each in outcome.runs if each.workload != WARM_UP or each.error is not None]
    more = [figure for kind, outcome in comparison.outcomes.items() for figure in _net(kind, outcome.runs)]
    status = comparison.finish(options, "copy", more=more)
    print(
        "\nThe servers run on the same cores and really copy the bytes: wall time is mostly theirs. Client CPU and\n"
        "memory are what compares clients here; against AWS they bound how far one machine reaches."
    )
    return status


def _as_mirrors_call_it(found: InstalledMethod) -> InstalledMethod:
    """A method with the settings of a mirror of whole buckets."""

    def sync(job: Job) -> list[str]:
        source, target = job.source_and_target(job.local("", "s3://"), job.uri)
        return ["s3", "sync", source, target, "--only-show-errors", *job.endpoint()]

    def wide(job: Job) -> list[str]:
        return [*found.method.words(job), "--transfers", "64", "--checkers", "64", "--fast-list"]

    changes = {
        "aws": {"name": "aws s3 sync", "what": "defaults (10 requests at a time)", "words": sync},
        "rclone": {"name": "rclone copy", "what": "64 transfers, server-side", "words": wide},
        "boto3-copy": {"name": "boto3"},
    }
    return replace(found, method=replace(found.method, **changes.get(found.method.name, {})))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Copy bucket to bucket by several clients, side by side.")
    parser.add_argument(
        "--server", choices=(*servers.KINDS, SIMULATOR), action="append", help="default: versitygw and SeaweedFS"
    )
    parser.add_argument("--time-scale", type=float, default=1, help="of the simulator's seconds pass in one")
    parser.add_argument("--only", action="append", metavar="METHOD", help="run this method only (may be repeated)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--big", type=int, default=3, metavar="N", help="big files in the delivery")
    parser.add_argument("--big-size", type=parse_size, default=192 * MIB, metavar="SIZE")
    parser.add_argument("--medium", type=int, default=48, metavar="N", help="files of a few MiB in the delivery")
    parser.add_argument("--medium-size", type=parse_size, default=4 * MIB, metavar="SIZE")
    parser.add_argument("--small", type=int, default=2000, metavar="N", help="small files; 0 leaves them out")
    parser.add_argument("--small-size", type=parse_size, default=16 * 1024, metavar="SIZE")
    parser.add_argument("--seed", type=int, default=1)
    harness.add_arguments(parser)
    options = parser.parse_args(arguments)
    options.server = options.server or list(servers.KINDS)
    return options


def _net(kind: str, runs: Sequence[MeasuredRun]) -> list[Figure]:
    """Client CPU per object beyond what one file costs: the part that grows with the work."""
    cpu: dict[Workload, dict[str, list[float]]] = {}
    for each in runs:
        if each.error is None and each.cost is not None:
            cpu.setdefault(each.workload, {}).setdefault(each.variant.label, []).append(each.cost.cpu_s)
    fixed = {
        name: statistics.median(values) for work in cpu if len(work.sizes()) == 1 for name, values in cpu[work].items()
    }
    return [
        Figure(
            f"{kind}, client CPU beyond that of one file",
            f"per object of {work.name}",
            "ms",
            "lower",
            {
                name: [(value - fixed[name]) * 1000 / len(work.sizes()) for value in values]
                for name, values in series.items()
                if name in fixed
            },
            baseline=BASELINE,
        )
        for work, series in cpu.items()
        if len(work.sizes()) > 1
    ]


if __name__ == "__main__":
    harness.run(main)
