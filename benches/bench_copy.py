"""Bucket-to-bucket copies side by side: Seqferry, aws s3 sync, s5cmd, rclone, and boto3 in S3Mirror's setting.

``make bench-copy`` runs it on versitygw and SeaweedFS with three sets of data: a delivery (a few files above 128 MiB
and several dozen of a few MiB), many small files, and one small file, which shows what each method costs before it
copies anything. Each method runs in a process of its own into a fresh bucket, in rounds whose order rotates, so that a
slow minute of the machine hits all alike. One run of each goes first, unmeasured: files are in the cache then, and
Seqferry's database exists, as on every use but the first. After each run, outside of the measured time, the target is
compared with the source: all keys and sizes, and the bytes of a sample.

The servers move the bytes on the same cores as the clients. Wall time is therefore mostly the server's; what compares
clients is the CPU time and the memory that they need for the same copies.

Prints a table with ratios to Seqferry and writes all measurements to ``benches/results/`` as JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import random
import re
import statistics
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from boto3.s3.transfer import TransferConfig  # noqa: E402

import harness  # noqa: E402
from copy_methods import Job, Method, available, run  # noqa: E402
from figures import Figure, Result  # noqa: E402
from machine import load  # noqa: E402
from support import servers  # noqa: E402
from support.run import MissingToolError, Run  # noqa: E402
from support.servers import S3Server  # noqa: E402

MIB = 1024 * 1024
UPLOAD = TransferConfig(multipart_chunksize=16 * MIB, multipart_threshold=16 * MIB, max_concurrency=4)
BASELINE = "seqferry"
ONE_FILE = "one file"


@dataclass(frozen=True)
class DataSet:
    name: str
    sizes: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.sizes)

    def __str__(self) -> str:
        return f"{self.name}: {len(self.sizes)} objects, {self.total / MIB:,.0f} MiB"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    methods, missing = available()
    methods = [(method, version) for method, version in methods if not options.only or method.name in options.only]
    for line in missing:
        print(line)
    data_sets = [
        DataSet("delivery", (options.big_size,) * options.big + (options.medium_size,) * options.medium),
        DataSet("small files", (options.small_size,) * options.small),
        DataSet(ONE_FILE, (options.small_size,)),
    ]
    data_sets = [data for data in data_sets if data.sizes]
    results: list[dict[str, Any]] = []
    left_out = missing
    bench = Run.create()
    try:
        for kind in options.server:
            try:
                server = servers.start(bench, kind)
            except MissingToolError as error:
                left_out = [*left_out, f"{kind} is left out: {error}"]
                print(left_out[-1])
                continue
            _warm_up(server, methods, bench.folder)
            compared = [_compare(server, data, methods, options, bench.folder) for data in data_sets]
            _print_net(compared, [method.name for method, _ in methods])
            results += compared
    finally:
        bench.close()
    print(
        "\nThe servers run on the same cores and really copy the bytes: wall time is mostly theirs. Client CPU and\n"
        "memory are what compares clients here; against AWS they bound how far one machine reaches."
    )
    return harness.finish(
        options,
        Result(
            "copy",
            [figure for result in results for figure in _figures(result, methods)],
            versions={method.name: version for method, version in methods},
            left_out=left_out,
            errors=[
                f"{result['server']}, {result['data']['name']}, {run['method']}: {run['error']}"
                for result in results
                for run in result["runs"]
                if run["error"]
            ],
            details={"settings": {method.name: method.what for method, _ in methods}, "results": results},
        ),
    )


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Copy bucket to bucket by several clients, side by side.")
    parser.add_argument("--server", choices=servers.KINDS, action="append", help="default: both")
    parser.add_argument("--only", action="append", metavar="METHOD", help="run this method only (may be repeated)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--big", type=int, default=3, metavar="N", help="big files in the delivery")
    parser.add_argument("--big-size", type=_size, default=192 * MIB, metavar="SIZE")
    parser.add_argument("--medium", type=int, default=48, metavar="N", help="files of a few MiB in the delivery")
    parser.add_argument("--medium-size", type=_size, default=4 * MIB, metavar="SIZE")
    parser.add_argument("--small", type=int, default=2000, metavar="N", help="small files; 0 leaves them out")
    parser.add_argument("--small-size", type=_size, default=16 * 1024, metavar="SIZE")
    parser.add_argument("--seed", type=int, default=1)
    harness.add_arguments(parser)
    options = parser.parse_args(arguments)
    options.server = options.server or list(servers.KINDS)
    return options


def _size(text: str) -> int:
    """``192MiB``, ``16KiB``, ``1000``."""
    match = re.fullmatch(r"(\d+)\s*(?:([KMG])(?:iB)?)?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 192MiB")
    return int(match[1]) * 1024 ** (" KMG".index(match[2]) if match[2] else 0)


def _warm_up(server: S3Server, methods: Sequence[tuple[Method, str]], state: Path) -> None:
    source = server.create_bucket()
    server.client(server.user).put_object(Bucket=source, Key="one", Body=b"one")
    for method, _ in methods:
        target = server.create_bucket()
        run(method, Job(server, source, target, state))
        server.delete_bucket(target)
    server.delete_bucket(source)


def _compare(
    server: S3Server, data: DataSet, methods: Sequence[tuple[Method, str]], options: argparse.Namespace, state: Path
) -> dict[str, Any]:
    print(f"\n{server.kind}, {data}; {options.rounds} rounds", flush=True)
    source = server.create_bucket()
    _fill(server, source, data, options.seed)
    runs: list[dict[str, Any]] = []
    for round_ in range(options.turn, options.turn + options.rounds):
        turn = round_ % len(methods)
        for method, _ in [*methods[turn:], *methods[:turn]]:
            load_before = load()
            target = server.create_bucket()
            cost = run(method, Job(server, source, target, state))
            error = cost.error or _verify(server, source, target, random.Random(options.seed + round_))
            server.delete_bucket(target)
            runs.append(
                {"method": method.name, "round": round_, "load_before": load_before, **asdict(cost), "error": error}
            )
            result = error or f"{cost.wall_s:.2f} s wall, {cost.cpu_s:.2f} s CPU, {cost.peak_mib:.0f} MiB, verified"
            print(f"  round {round_ + 1}  {method.name:<12} {result}", flush=True)
    server.delete_bucket(source)
    _print_table(runs, [method.name for method, _ in methods])
    return {
        "server": server.kind,
        "data": {"name": data.name, "objects": len(data.sizes), "bytes": data.total},
        "runs": runs,
    }


def _fill(server: S3Server, bucket: str, data: DataSet, seed: int) -> None:
    client = server.client(server.user)

    def put(item: tuple[int, int]) -> None:
        number, size = item
        rng = random.Random(f"{seed}/{number}/{size}")
        key = f"{data.name.replace(' ', '-')}/lane{number % 4}/sample_{number:05d}_R{1 + number % 2}.fastq.gz"
        client.upload_fileobj(io.BytesIO(rng.randbytes(size)), bucket, key, Config=UPLOAD)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, enumerate(data.sizes)))


def _listing(server: S3Server, bucket: str) -> dict[str, int]:
    pages = server.client().get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return {entry["Key"]: entry["Size"] for page in pages for entry in page.get("Contents", ())}


def _verify(server: S3Server, source: str, target: str, rng: random.Random) -> str | None:
    """What is wrong with the copy, if anything: all keys and sizes; the bytes of the biggest and of 20 others."""
    wanted, got = _listing(server, source), _listing(server, target)
    if wanted != got:
        differing = sorted(key for key in wanted.keys() | got.keys() if wanted.get(key) != got.get(key))
        return f"the copy differs from the source in {len(differing)} keys or sizes, first {differing[0]}"
    client = server.client()

    def digest(bucket: str, key: str) -> str:
        body = client.get_object(Bucket=bucket, Key=key)["Body"]
        total = hashlib.sha256()
        for chunk in body.iter_chunks(MIB):
            total.update(chunk)
        return total.hexdigest()

    biggest = max(wanted, key=lambda key: (wanted[key], key))
    for key in {biggest, *rng.sample(sorted(wanted), min(20, len(wanted)))}:
        if digest(source, key) != digest(target, key):
            return f"the bytes of {key} differ from the source"
    return None


def _print_table(runs: list[dict[str, Any]], names: Sequence[str]) -> None:
    """Medians with their ranges, and ratios of the medians to Seqferry's."""
    good = {name: [run for run in runs if run["method"] == name and not run["error"]] for name in names}
    baseline = good.get(BASELINE) or None
    print(f"\n  {'method':<12} {'wall s':>22} {'x':>6} {'client CPU s':>22} {'x':>6} {'peak MiB':>16} {'x':>6}")
    for name in names:
        if not good[name]:
            print(f"  {name:<12} {'no run succeeded':>22}")
            continue
        cells: list[str] = []
        for field, digits, width in (("wall_s", 2, 22), ("cpu_s", 2, 22), ("peak_mib", 0, 16)):
            values = [run[field] for run in good[name]]
            middle = statistics.median(values)
            text = f"{middle:.{digits}f} [{min(values):.{digits}f}..{max(values):.{digits}f}]"
            ratio = f"{middle / statistics.median([run[field] for run in baseline]):.2f}" if baseline else "-"
            cells.append(f"{text:>{width}} {ratio:>6}")
        print(f"  {name:<12} {' '.join(cells)}")


def _print_net(results: list[dict[str, Any]], names: Sequence[str]) -> None:
    """Client CPU per object beyond what one file costs: the part that grows with the work."""
    cpu = {
        (result["data"]["name"], name): statistics.median(values)
        for result in results
        for name in names
        if (values := [run["cpu_s"] for run in result["runs"] if run["method"] == name and not run["error"]])
    }
    several = [result["data"] for result in results if result["data"]["objects"] > 1]
    print(f"\n  client CPU beyond that of one file, ms per object\n  {'method':<12}", end="")
    print("".join(f" {data['name']:>14}" for data in several))
    for name in names:
        print(f"  {name:<12}", end="")
        for data in several:
            whole, fixed = cpu.get((data["name"], name)), cpu.get((ONE_FILE, name))
            known = whole is not None and fixed is not None
            print(f" {(whole - fixed) * 1000 / data['objects']:>14.2f}" if known else f" {'-':>14}", end="")
        print()


def _figures(result: dict[str, Any], methods: Sequence[tuple[Method, str]]) -> list[Figure]:
    data = result["data"]
    group = f"{result['server']}, {data['name']}: {data['objects']} objects, {data['bytes'] / MIB:,.0f} MiB"
    if data["objects"] == 1:
        group = f"{result['server']}, {data['name']} of {data['bytes'] / 1024:,.0f} KiB"

    def values(field: str) -> dict[str, list[float]]:
        runs = [run for run in result["runs"] if not run["error"]]
        return {
            method.name: found
            for method, _ in methods
            if (found := [r[field] for r in runs if r["method"] == method.name])
        }

    return [
        Figure(group, name, unit, "lower", values(field), baseline=BASELINE)
        for name, unit, field in (
            ("wall time", "s", "wall_s"),
            ("client CPU time", "s", "cpu_s"),
            ("peak memory", "MiB", "peak_mib"),
        )
    ]


if __name__ == "__main__":
    harness.run(main)
