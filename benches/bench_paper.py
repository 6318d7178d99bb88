"""The table of the S3Mirror paper, replayed on the simulator: 448 objects, 11.88 TiB, and two clinical sets.

``make bench-paper`` runs Seqferry to the end, as one process on SQLite and as several workers on PostgreSQL. boto3 in
S3Mirror's setting and the AWS CLI would take hours: they run for a sample after a warm-up, and the rate of the sample
gives their time. Everything runs on this machine, the simulator included; nothing of it touches AWS. All figures are
**simulated**: they follow from the model whose parameters are printed with them (``docs/develop/simulator.md``). Rates
and wall times are in the model's seconds. With ``--set time_scale=0.1`` the model runs ten times slower than the
clock, so that this machine's cores do not bound a client that has more of them in the paper.

Costs of requests are computed from what the simulator counted, at the prices below. The paper leaves them out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import harness  # noqa: E402
from figures import Figure, PreferredDirection, Result  # noqa: E402
from harness import tool  # noqa: E402
from seqferry.bench.measure import Watch  # noqa: E402
from seqferry.bench.methods import base_environment  # noqa: E402
from seqferry.bench.rounds import rotated  # noqa: E402
from support import postgres  # noqa: E402
from support.run import SCRIPTS, MissingToolError, Run  # noqa: E402
from support.sim import Simulator  # noqa: E402

GIB: Final = 1024**3
WRITES: Final = ("PutObject", "CopyObject", "UploadPart", "UploadPartCopy", "CreateMultipartUpload")
WRITES_TOO: Final = ("CompleteMultipartUpload", "ListObjectsV2", "ListObjects", "ListParts", "ListMultipartUploads")
FREE: Final = ("DeleteObject", "DeleteObjects", "AbortMultipartUpload")
WRITE_PRICE: Final = 0.005 / 1000
"""US$ per PUT, COPY, POST or LIST request, S3 Standard, us-east-1, 2024-07."""
READ_PRICE: Final = 0.0004 / 1000
"""US$ per GET or any other request, likewise."""
PREFIX: Final = "batch/"
BASELINE: Final = "seqferry"
NARROW: Final = ("--max-requests", "2450", "--part-size", "160MiB")
"""One process that stays small: each request in flight costs memory, and larger parts make more of each."""
STARTED_WITHIN: Final = 120.0

QUANTITIES: Final[tuple[tuple[str, str, PreferredDirection, str], ...]] = (
    ("rate", "GiB/s", "higher", "gib_per_s"),
    ("wall time", "s", "lower", "wall_s"),
    ("requests", "", "lower", "requests"),
    ("cost of requests", "US$", "lower", "dollars"),
    ("client CPU time", "s", "lower", "cpu_s"),
    ("peak memory", "MiB", "lower", "peak_mib"),
    ("requests refused", "%", "lower", "throttled_percent"),
    ("requests in flight, most", "", "", "peak_in_flight"),
    ("cores kept busy", "", "", "cores_busy"),
)
"""Name, unit, preferred direction and field of each row."""


@dataclass(frozen=True)
class DataSet:
    name: str
    objects: int
    total: int
    paper: str
    """What the paper reports."""

    def scaled(self, scale: float) -> DataSet:
        """A share of the objects, as big as before."""
        objects = max(1, round(self.objects * scale))
        return replace(self, objects=objects, total=self.total * objects // self.objects)

    @property
    def bucket(self) -> str:
        # Sizes spread as those of sequencing runs do; the sum is what the paper names.
        return "vendor=" + json.dumps(
            {
                "objects": [
                    {
                        "keys": PREFIX + "sample_{i:05}_R{1,2}.fastq.gz",
                        "count": self.objects,
                        "size": {"lognormal": {"median": self.total // self.objects, "sigma": 0.5}},
                        "total": self.total,
                    }
                ],
            }
        )


DATA_SETS: Final = (
    DataSet(
        "table 1", 448, int(11.88 * 1024**4), "S3Mirror 24.9 GiB/s on 10+ VMs, 4.1 on one; aws s3 sync at most 0.2"
    ),
    DataSet("glioblastoma", 989, 8785 * 10**9, "S3Mirror 3.8 GB/s, 39 min"),
    DataSet("colorectal", 1056, 13289 * 10**9, "S3Mirror slightly above 4 GB/s, under 54 min"),
)


@dataclass(frozen=True)
class Method:
    name: str
    setting: str
    start: Callable[[Stage], list[subprocess.Popen[bytes]]]
    sampled: bool
    """Runs for a sample only; else to its end."""


@dataclass
class Stage:
    """One run: a fresh simulator, a fresh state folder."""

    simulator: Simulator
    folder: Path
    workers: int
    database: str | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def launch(self, *command: str) -> subprocess.Popen[bytes]:
        environment = {**base_environment(), **self.simulator.environment(), **self.environment}
        return harness.launch(command, self.folder, environment)


def _seqferry(stage: Stage) -> list[subprocess.Popen[bytes]]:
    return [stage.launch(tool("seqferry"), "cp", f"s3://vendor/{PREFIX}", f"s3://ours/{PREFIX}")]


def _seqferry_narrow(stage: Stage) -> list[subprocess.Popen[bytes]]:
    return [stage.launch(tool("seqferry"), "cp", *NARROW, f"s3://vendor/{PREFIX}", f"s3://ours/{PREFIX}")]


def _seqferry_workers(stage: Stage) -> list[subprocess.Popen[bytes]]:
    stage.environment["SEQFERRY_DATABASE_URL"] = stage.database or ""
    ferry = stage.launch(tool("seqferry"), "cp", f"s3://vendor/{PREFIX}", f"s3://ours/{PREFIX}")
    # On PostgreSQL `cp` works as well: it is one of them.
    return [ferry, *(stage.launch(tool("seqferry"), "worker") for _ in range(stage.workers - 1))]


def _boto3(files: int, processes: int) -> Callable[[Stage], list[subprocess.Popen[bytes]]]:
    def start(stage: Stage) -> list[subprocess.Popen[bytes]]:
        words = (
            *("-m", "seqferry.bench.client", "--method", "mirror", "--direction", "copy", "--folder", os.curdir),
            *("--endpoint-url", stage.simulator.endpoint_url, "--region", "us-east-1", "--source-bucket", "vendor"),
            *("--source-prefix", "", "--bucket", "ours", "--prefix", "", "--files", str(files)),
        )
        shares = (f"{number}/{processes}" for number in range(processes))
        return [stage.launch(str(SCRIPTS / "python"), *words, "--share", share) for share in shares]

    return start


def _aws(stage: Stage) -> list[subprocess.Popen[bytes]]:
    return [stage.launch(tool("aws"), "s3", "sync", "s3://vendor/", "s3://ours/", "--only-show-errors")]


def _methods(workers: int) -> list[Method]:
    return [
        Method("seqferry", "one process, SQLite, defaults", _seqferry, sampled=False),
        Method("seqferry, narrow", f"one process, {' '.join(NARROW)}", _seqferry_narrow, sampled=False),
        Method(f"seqferry x{workers}", f"{workers} workers, PostgreSQL, defaults", _seqferry_workers, sampled=False),
        Method("S3Mirror, one", "boto3: 3 files x 100 requests, 16 MiB parts", _boto3(3, 1), sampled=True),
        Method("S3Mirror, five", "boto3: 5 processes of 3 files x 100 requests", _boto3(3, 5), sampled=True),
        Method("aws s3 sync", "defaults: 10 requests, 8 MiB parts", _aws, sampled=True),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    found: list[tuple[DataSet, list[dict[str, Any]]]] = []
    left_out: list[str] = []
    bench = Run.create()
    try:
        for number, data in enumerate(DATA_SETS):
            if options.set_of_data and data.name not in options.set_of_data:
                continue
            data = data.scaled(options.scale)
            print(
                f"\n{data.name}: {data.objects} objects, {data.total / GIB:,.0f} GiB. Reported: {data.paper}",
                flush=True,
            )
            rows: list[dict[str, Any]] = []
            for method in rotated(_methods(options.workers), options.turn):
                wanted = method.name in options.only if options.only else options.all or not (number and method.sampled)
                if not wanted:
                    continue
                try:
                    row = _run(bench, data, method, options)
                except MissingToolError as error:
                    left_out.append(f"{method.name} is left out: {error}")
                    print(f"  {left_out[-1]}")
                    continue
                rows.append(row)
                print(_line(row), flush=True)
            found.append((data, rows))
    finally:
        bench.close()
    model = next((row["model"] for _, rows in found for row in rows), None)
    if model:
        print(f"\nSimulated, on one machine of {os.cpu_count()} cores, with this model:\n{json.dumps(model)}")
    return harness.finish(
        options,
        Result(
            "paper",
            [figure for data, rows in found for figure in _figures(data, rows, options.workers)],
            simulated=True,
            model=model,
            left_out=left_out,
            errors=[
                f"{data.name}, {row['method']}: {row['error']}" for data, rows in found for row in rows if row["error"]
            ],
            details=[{"data": asdict(data), "rows": rows} for data, rows in found],
        ),
    )


def _figures(data: DataSet, rows: list[dict[str, Any]], workers: int) -> list[Figure]:
    group = f"{data.name}: {data.objects} objects, {data.total / GIB:,.0f} GiB"
    good = {row["method"]: row for row in rows if not row["error"]}
    # The series have one order, whichever method began.
    names = [method.name for method in _methods(workers) if method.name in good]
    labels = {name: f"{name} (sample)" if good[name]["sampled_s"] else name for name in names}
    return [
        Figure(group, name, unit, better, {labels[one]: [good[one][field]] for one in names}, baseline=BASELINE)
        for name, unit, better, field in QUANTITIES
    ]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Replay the S3Mirror paper's transfers on the simulator.")
    parser.add_argument("--only", action="append", metavar="METHOD", help="run this method only (may be repeated)")
    parser.add_argument("--workers", type=int, default=3, help="workers of the run on PostgreSQL")
    parser.add_argument("--warm-up", type=float, default=15.0, metavar="SECONDS", help="before a sample")
    parser.add_argument("--sample", type=float, default=30.0, metavar="SECONDS", help="length of a sample")
    parser.add_argument("--all", action="store_true", help="peers on the clinical sets, too")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="an option of the simulator")
    parser.add_argument("--scale", type=float, default=1.0, metavar="SHARE", help="of the objects of each set of data")
    parser.add_argument(
        "--set-of-data",
        action="append",
        choices=[data.name for data in DATA_SETS],
        help="default: all (may be repeated)",
    )
    harness.add_arguments(parser)
    return parser.parse_args(arguments)


def _run(bench: Run, data: DataSet, method: Method, options: argparse.Namespace) -> dict[str, Any]:
    # Another round is another draw from the model.
    settings = [word for setting in (f"seed={options.turn + 1}", *options.set) for word in ("--set", setting)]
    with (
        tempfile.TemporaryDirectory(prefix="seqferry-bench-") as scratch,
        Simulator("--bucket", data.bucket, "--bucket", "ours", *settings) as simulator,
    ):
        stage = Stage(simulator, Path(scratch), options.workers, environment={"HOME": scratch})
        database = None
        if method.name.startswith("seqferry x"):
            server = postgres.start(bench)
            database = server.create_database()
            stage.database = server.url(database)
        load = os.getloadavg()[0]
        began = time.monotonic()
        processes = method.start(stage)
        try:
            with Watch([process.pid for process in processes]) as watch:
                if method.sampled:
                    measured = _sample(simulator, watch, processes, options)
                else:
                    status = processes[0].wait()
                    seconds = time.monotonic() - began
                    measured = {
                        "seconds": seconds,
                        "cpu_s": watch.cpu_s(),
                        "stats": simulator.stats(),
                        "status": status,
                    }
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()
        row = _row(data, method, measured, simulator, stage.folder)
        row |= {"peak_mib": watch.peak_mib, "load_before": load}
        if database is not None:
            server.drop_database(database)
        return row


def _sample(
    simulator: Simulator, watch: Watch, processes: list[subprocess.Popen[bytes]], options: argparse.Namespace
) -> dict[str, Any]:
    # From the first copy on: how long processes take to start is not what is sampled.
    deadline = time.monotonic() + STARTED_WITHIN
    while not simulator.stats()["bytes_copied"] and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(options.warm_up)
    simulator.reset()
    cpu, began = watch.cpu_s(), time.monotonic()
    time.sleep(options.sample)
    stats = simulator.stats()
    ends = [process.poll() for process in processes]
    # The rate of a sample is that of a client at work: a status of 0 is none of those.
    status = next((end for end in ends if end), "0, before the end of the sample" if None not in ends else 0)
    return {"seconds": time.monotonic() - began, "cpu_s": watch.cpu_s() - cpu, "stats": stats, "status": status}


def _row(data: DataSet, method: Method, measured: dict[str, Any], simulator: Simulator, folder: Path) -> dict[str, Any]:
    stats, model = measured["stats"], simulator.model()
    copied = stats["bytes_copied"]
    seconds = measured["seconds"] * model["time_scale"]
    error = None
    if not copied:
        error = "nothing was copied"
    if measured["status"] != 0:
        error = f"status {measured['status']}: {_last_line(folder)}"
    elif not method.sampled:
        found = simulator.check(f"vendor/{PREFIX}", f"ours/{PREFIX}")
        if found["same"] != data.objects:
            error = f"only {found['same']} of {data.objects} objects are the same at the target"
    scale = data.total / copied if method.sampled and copied else 1.0
    counts = {name: _all(of_one) * scale for name, of_one in stats["operations"].items()}
    dollars = sum(count * _price(name) for name, count in counts.items())
    return {
        "method": method.name,
        "setting": method.setting,
        "sampled_s": seconds if method.sampled else None,
        "wall_s": seconds * scale,
        "gib_per_s": (copied if method.sampled else data.total) / GIB / seconds,
        "requests": sum(counts.values()),
        "throttled_percent": 100 * stats["throttled"] / max(1, stats["requests"]),
        "peak_in_flight": stats["peak_in_flight"],
        "dollars": dollars,
        "cpu_s": measured["cpu_s"] * scale,
        "cores_busy": measured["cpu_s"] / measured["seconds"],
        "model": model,
        "error": error,
    }


def _last_line(folder: Path) -> str:
    """Last line that the processes have logged."""
    said = [line for log in sorted(folder.glob("log-*")) for line in log.read_text(errors="replace").splitlines()]
    return next((line.strip() for line in reversed(said) if line.strip()), "it said nothing")


def _all(counts: dict[str, int]) -> int:
    """Requests of one operation, however they ended: all are paid for but those that were refused with 503."""
    return counts["requests"] - counts["throttled"]


def _price(operation: str) -> float:
    if operation in FREE:
        return 0.0
    return WRITE_PRICE if operation in WRITES or operation in WRITES_TOO else READ_PRICE


def _line(row: dict[str, Any]) -> str:
    if row["error"]:
        return f"  {row['method']:<16} FAILED: {row['error']}"
    wall = row["wall_s"]
    took = f"{wall:7.0f} s" if wall < 6000 else f"{wall / 3600:7.1f} h"
    sampled = f" (sample of {row['sampled_s']:.0f} s)" if row["sampled_s"] else ""
    return (
        f"  {row['method']:<16} {row['gib_per_s']:7.2f} GiB/s {took} {row['requests']:>11,.0f} requests "
        f"US$ {row['dollars']:6.2f}  {row['cpu_s']:8.1f} s CPU  {row['peak_mib']:5.0f} MiB  "
        f"throttled {row['throttled_percent']:.2f} %  in flight {row['peak_in_flight']:,}  "
        f"{row['cores_busy']:.1f} cores busy{sampled}"
    )


if __name__ == "__main__":
    harness.run(main)
