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
import json
import os
import platform
import random
import re
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from boto3.s3.transfer import TransferConfig  # noqa: E402

from copy_methods import Job, Method, available, run  # noqa: E402
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
    bench = Run.create()
    try:
        for kind in options.server:
            try:
                server = servers.start(bench, kind)
            except MissingToolError as error:
                print(f"{kind} is left out: {error}")
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
    _write(results, methods, options)
    return 1 if any(run["error"] for result in results for run in result["runs"]) else 0


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
    for round_ in range(options.rounds):
        turn = round_ % len(methods)
        for method, _ in [*methods[turn:], *methods[:turn]]:
            load = os.getloadavg()[0]
            target = server.create_bucket()
            cost = run(method, Job(server, source, target, state))
            error = cost.error or _verify(server, source, target, random.Random(options.seed + round_))
            server.delete_bucket(target)
            runs.append({"method": method.name, "round": round_, "load_before": load, **asdict(cost), "error": error})
            told = error or f"{cost.wall_s:.2f} s wall, {cost.cpu_s:.2f} s CPU, {cost.peak_mib:.0f} MiB, verified"
            print(f"  round {round_ + 1}  {method.name:<12} {told}", flush=True)
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


def _write(results: list[dict[str, Any]], methods: Sequence[tuple[Method, str]], options: argparse.Namespace) -> None:
    folder = ROOT / "benches" / "results"
    folder.mkdir(exist_ok=True)
    now = datetime.now(UTC)
    path = folder / f"copy-{now:%Y%m%dT%H%M%SZ}.json"
    report = {
        "bench": "copy",
        "at": now.isoformat(timespec="seconds"),
        "machine": {
            "cpu": _cpu_model(),
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "methods": {method.name: {"version": version, "setting": method.what} for method, version in methods},
        "rounds": options.rounds,
        "seed": options.seed,
        "results": results,
    }
    path.write_text(json.dumps(report, indent=2) + "\n")
    print(f"\nAll measurements: {path.relative_to(ROOT)}")


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    started = time.monotonic()
    status = main()
    print(f"Took {time.monotonic() - started:.0f} s.")
    sys.exit(status)
