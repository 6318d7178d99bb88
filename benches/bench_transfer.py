"""Files up to S3 and down again, side by side: Seqferry, s5cmd, rclone, the AWS CRT and the AWS CLI.

``make bench-transfer`` runs what ``seqferry bench transfer`` is made of (``seqferry.bench``) on versitygw and on the
simulator: one file of 2 GiB, 20 of 256 MiB, 10,000 of 100 KiB, both ways, in rounds whose order rotates, each run a
process of its own. All that arrives is compared byte for byte with what was sent, after the measured time.

versitygw moves the bytes on the same cores and to the same disk as the clients, so wall time is mostly its own;
``--server versitygw-tls`` is the same behind TLS, as storage outside of a laboratory is. The
simulator answers as its model of S3 says (``docs/develop/simulator.md``); wall time there shows what a client makes of
S3's latency, and CPU and memory what that costs. It keeps no random bytes beyond its memory, so what is sent to it is a
stream of its own making, which it recognises: what comes back is compared byte for byte all the same.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import harness  # noqa: E402
from seqferry.bench import workload  # noqa: E402
from seqferry.bench.methods import InstalledMethod, Job, Method, available  # noqa: E402
from seqferry.bench.transfer import ComparisonParameters, Outcome, make_plan, run  # noqa: E402
from support import servers  # noqa: E402
from support.run import Run, find_tool  # noqa: E402
from transfers import (  # noqa: E402
    BASELINE,
    SIMULATOR,
    Comparison,
    PrintedProgress,
    connect_to,
)

CRT = "crt"
METHODS = (BASELINE, "s5cmd", "rclone", CRT, "aws")
LIKE_US = "crt-crc64nvme"
"""The CRT with the checksum that Seqferry sends, run only when named. Its own choice costs versitygw less."""
FLOOR = "floor"
"""The least that a client can do with whole files, run only when named, and without TLS. Its time is the server's and
the system's, so a tool near it is bounded by them."""
SECURE = "versitygw-tls"
SERVERS = ("versitygw", SECURE, "seaweedfs", SIMULATOR)
WORKLOADS = ("1x2GiB", "20x256MiB", "10000x100KiB")
QUICK = ("1x24MiB", "60x100KiB")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    wanted = options.only or METHODS
    parameters = ComparisonParameters(
        workloads=tuple(workload.parse(each) for each in options.workload or (QUICK if options.quick else WORKLOADS)),
        methods=tuple(dict.fromkeys(CRT if name == LIKE_US else name for name in wanted if name != FLOOR)),
        warm_up=options.warm_up,
        repetitions=options.rounds,
        first_round=options.turn,
        seed=options.seed + options.turn,
    )
    installed, left_out = available(parameters.methods, accelerated=False, tools=harness.tools())
    found = [each for each in installed if each.method.name in wanted]
    if FLOOR in wanted:
        found.append(_floor())
    if LIKE_US in wanted:
        found += [_like_us(each) for each in installed if each.method.name == CRT]
    plan = make_plan(parameters, found)
    comparison = Comparison(plan, left_out, time_scale=options.time_scale)

    def compare(bench: Run, kind: str) -> Outcome:
        server = servers.start_secure(bench) if kind == SECURE else servers.start(bench, kind)
        storage = connect_to(server.environment(), server.create_bucket(), prepared_at=server.plain_url)
        piece = workload.random_pieces(parameters.seed)
        return run(plan, storage, work_folder=bench.folder, keep=False, tell=PrintedProgress(), piece=piece)

    comparison.run(options.server, compare)
    return comparison.finish(options, "transfer")


def _like_us(crt: InstalledMethod) -> InstalledMethod:
    method = replace(
        crt.method,
        name=LIKE_US,
        what=f"{crt.method.what}, checksums CRC64NVME",
        words=lambda job: [*crt.method.words(job), "--checksum", "CRC64NVME"],
    )
    return replace(crt, method=method)


def _floor() -> InstalledMethod:
    path = find_tool(FLOOR, variable="SEQFERRY_FLOOR", hint="run `make tools`")

    def words(job: Job) -> list[str]:
        host = str(job.place.endpoint_url).removeprefix("http://")
        return [job.direction, host, job.place.bucket, job.below, str(job.folder), str(job.files)]

    method = Method(
        name=FLOOR,
        what="one request for each file on 16 connections, and those of a listing; nothing checked, recorded or synced",
        install="run `make tools`",
        find=lambda _: [str(path)],
        words=words,
    )
    return InstalledMethod(method, [str(path)])


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Move files to and from S3 by several clients, side by side.")
    parser.add_argument("--server", choices=SERVERS, action="append", help="default: versitygw and s3sim")
    parser.add_argument(
        "--only",
        action="append",
        metavar="METHOD",
        help=f"run this method only (may be repeated): {', '.join((*METHODS, LIKE_US, FLOOR))}",
    )
    parser.add_argument("--workload", action="append", metavar="NxSIZE", help=f"default: {', '.join(WORKLOADS)}")
    parser.add_argument("--quick", action="store_true", help=f"small sizes: {', '.join(QUICK)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=1, metavar="N")
    parser.add_argument("--time-scale", type=float, default=4, help="of the simulator's seconds pass in one")
    parser.add_argument("--seed", type=int, default=1)
    harness.add_arguments(parser)
    options = parser.parse_args(arguments)
    options.server = options.server or ["versitygw", SIMULATOR]
    if FLOOR in (options.only or ()) and SECURE in options.server:
        parser.error(f"{FLOOR} speaks no TLS: run it with another server than {SECURE}")
    return options


if __name__ == "__main__":
    harness.run(main)
