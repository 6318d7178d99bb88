"""A million small objects through the whole durable stack: simulator, PostgreSQL and workers on this machine.

``make bench-million`` copies 1,000,000 objects of 1 KiB with ``seqferry worker`` processes and tells how many objects a
second went through, what each process spent on one of them, how memory grew, how long a status call took meanwhile, and
how far listing and copying overlapped. Then the simulator compares source and target, byte for byte by construction.

``--plan`` only plans: every copy is held by the simulator (a CopyObject takes a day) until all keys are in our rows;
the transfer is cancelled then. So the worker holds as many objects as it ever does, and the queue all batches.

The figures are **simulated** in what S3 does, and measured in what the processes cost. The keys lie in as many
partitions as there are prefixes, so that the model's 3,500 writes/s for one partition is not what is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import harness  # noqa: E402
from figures import Figure, PreferredDirection, Result  # noqa: E402
from harness import tool  # noqa: E402
from seqferry.bench.measure import Usage, threads_cpu_s, usage  # noqa: E402
from seqferry.bench.methods import base_environment  # noqa: E402
from support import postgres  # noqa: E402
from support.run import Run  # noqa: E402
from support.sim import Simulator  # noqa: E402

PREFIX: Final = "batch/"
SIZE: Final = 1024
PROBE_SECONDS: Final = 0.5
SAMPLE_SECONDS: Final = 1.0

# Asks as the API does: one process, one Service, a call each half second. Prints what it saw, a line for each.
_PROBE: Final = """
import json, sys, time
from seqferry.settings.config import Settings
from seqferry.service.service import Service
service = Service.open(Settings.load())
ended = None
while ended is None:
    time.sleep({every})
    began = time.perf_counter()
    status = service.status(sys.argv[1])
    took = time.perf_counter() - began
    ended = status.ended_at
    totals = status.totals
    print(json.dumps({{
        "at": time.time(), "ms": 1000 * took, "state": status.state, "planned": status.planned,
        "found": totals.objects, "done": totals.done, "failed": totals.failed,
        "began": status.started_at, "ended": ended,
    }}), flush=True)
"""


class Books:
    """What PostgreSQL itself counts."""

    def __init__(self, url: str, statements: bool) -> None:
        self._url = url
        self._statements = statements
        self._began = 0
        if statements:
            self._read("create extension pg_stat_statements")

    def open(self) -> None:
        self._began = self._log_position()
        if self._statements:
            self._read("select pg_stat_statements_reset()")

    def close(self) -> dict[str, Any]:
        """Bytes of write-ahead log since ``open``; row versions, and those that touched no index, since ever."""
        tables = self._read("select relname, n_tup_ins, n_tup_upd, n_tup_hot_upd from pg_stat_user_tables")
        kept = ("object", "batch", "tally", "workflow_status", "operation_outputs")
        report: dict[str, Any] = {
            "log_bytes": self._log_position() - self._began,
            "rows": {name: {"inserted": i, "updated": u, "hot": h} for name, i, u, h in tables if name in kept},
        }
        if self._statements:
            found = self._read(
                "select left(regexp_replace(query, '\\s+', ' ', 'g'), 150), calls, total_plan_time + total_exec_time "
                "from pg_stat_statements order by 3 desc limit 25"
            )
            report["statements"] = [{"query": query, "calls": calls, "ms": ms} for query, calls, ms in found]
        return report

    def _log_position(self) -> int:
        return int(self._read("select pg_current_wal_lsn() - '0/0'::pg_lsn")[0][0])

    def _read(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


@dataclass(frozen=True)
class Stage:
    simulator: Simulator
    folder: Path
    environment: dict[str, str]
    books: Books | None

    def launch(self, *command: str, output: int | None = None) -> subprocess.Popen[bytes]:
        return harness.launch(command, self.folder, self.environment, output)

    def said(self) -> str:
        return "\n".join(log.read_text(errors="replace")[-500:] for log in sorted(self.folder.glob("log-*")))


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    report = _run(options)
    print(_table(report))
    return harness.finish(
        options,
        Result(
            "million",
            _figures(report),
            simulated=True,
            model=report["model"],
            errors=[report["error"]] if report["error"] else [],
            details=report,
        ),
    )


def _figures(report: dict[str, Any]) -> list[Figure]:
    options, processes = report["options"], report["processes"]
    what = "planned" if options["plan"] else "copied"
    workers = f"{options['workers']} worker(s), {options['database']}"
    group = f"{options['objects']:,} objects of {SIZE} bytes {what}, {workers}"

    def figure(
        name: str, unit: str, better: PreferredDirection, series: dict[str, list[float]], dot: str = "round"
    ) -> Figure:
        return Figure(group, name, unit, better, series, dot=dot)

    def of_processes(field: str) -> dict[str, list[float]]:
        return {name: [one[field]] for name, one in processes.items()}

    def of_all(value: float | None) -> dict[str, list[float]]:
        return {"whole stack": [value]} if value else {}

    status = [one["ms"] for one in report["seen"]]
    found = [
        figure("CPU time of an object", "us", "lower", of_processes("cpu_us_per_object")),
        figure("peak memory of the biggest process", "MiB", "lower", of_processes("mib_peak")),
        figure("objects through the stack", "/s", "higher", of_all(report["objects_per_second"])),
        figure("along the run", "/s", "higher", {"whole stack": report["rates_by_tenth"]}, "tenth of a run"),
        figure("objects planned", "/s", "higher", of_all(report["planned_per_second"])),
        figure("status call, 95th percentile", "ms", "lower", {"status": [report["status_ms"]["p95"]]}),
        figure("status call, all of them", "ms", "lower", {"status": status}, "status call"),
    ]
    return [one for one in found if all(one.series.values()) and one.series]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Copy a million small objects on the simulator.")
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--prefixes", type=int, default=16, help="as many partitions on both sides")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="postgres")
    parser.add_argument("--lax", action="store_true", help="PostgreSQL without fsync, as in the tests")
    parser.add_argument("--statements", action="store_true", help="tell the dearest statements of PostgreSQL")
    parser.add_argument("--plan", action="store_true", help="plan only: copies are held, then cancelled")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="an option of the simulator")
    parser.add_argument("--within", type=float, default=1800.0, metavar="SECONDS", help="give up after so long")
    harness.add_arguments(parser)
    options = parser.parse_args(arguments)
    if options.workers > 1 and options.database == "sqlite":
        parser.error("on SQLite one worker is at work at a time")
    if options.objects < options.prefixes or options.prefixes < 1:
        parser.error("each prefix needs an object")
    return options


def _buckets(options: argparse.Namespace) -> list[str]:
    lanes = [f"{PREFIX}lane{number:02}/" for number in range(options.prefixes)]
    share, more = divmod(options.objects, options.prefixes)
    objects = [
        # No true ETags: the listing would spend its time on digests that are never read.
        {"keys": lane + "read_{i:07}.txt", "count": share + (number < more), "size": SIZE, "true_etags": False}
        for number, lane in enumerate(lanes)
    ]
    return [
        "vendor=" + json.dumps({"partitions": lanes[1:], "objects": objects}),
        "ours=" + json.dumps({"partitions": lanes[1:]}),
    ]


def _run(options: argparse.Namespace) -> dict[str, Any]:
    settings = [f"seed={options.turn + 1}", *options.set, *(["model.copy.base_seconds=86400"] if options.plan else [])]
    words = [word for bucket in _buckets(options) for word in ("--bucket", bucket)]
    words += [word for setting in settings for word in ("--set", setting)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="seqferry-bench-")))
        simulator = stack.enter_context(Simulator(*words))
        environment = {**base_environment(), **simulator.environment(), "HOME": str(folder)}
        watched = {"simulator": simulator.pid}
        books = None
        if options.database == "postgres":
            bench = Run.create()
            stack.callback(bench.close)
            more = {"shared_preload_libraries": "pg_stat_statements"} if options.statements else None
            server = postgres.start(bench, durable=not options.lax, more=more)
            database = server.create_database()
            books = Books(server.url(database), options.statements)
            stack.callback(server.drop_database, database)
            environment["SEQFERRY_DATABASE_URL"] = server.url(database)
            watched["postgres"] = server.pid()
        stage = Stage(simulator, folder, environment, books)
        workers = [
            stack.enter_context(_ended(stage.launch(tool("seqferry"), "worker"))) for _ in range(options.workers)
        ]
        for number, worker in enumerate(workers, start=1):
            watched[f"worker {number}" if options.workers > 1 else "worker"] = worker.pid
        return _measure(options, stage, watched, workers)


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _measure(
    options: argparse.Namespace, stage: Stage, watched: dict[str, int], workers: list[subprocess.Popen[bytes]]
) -> dict[str, Any]:
    load_before = os.getloadavg()[0]
    _wait_until_idle(list(watched.values()))
    before = {name: usage(pid) for name, pid in watched.items()}
    if stage.books is not None:
        stage.books.open()
    command = [tool("seqferry"), "cp", "--detach", f"s3://vendor/{PREFIX}", f"s3://ours/{PREFIX}"]
    submitted = subprocess.run(command, capture_output=True, text=True, env=stage.environment, cwd=stage.folder)
    if submitted.returncode != 0:
        raise RuntimeError(f"seqferry cp: {submitted.stderr}")
    transfer_id = next(word for word in submitted.stdout.split() if len(word) == 36)
    # By the Python that the command runs on: the service has to be of the same build.
    probe = stage.launch(
        str(Path(tool("seqferry")).with_name("python")),
        "-c",
        _PROBE.format(every=PROBE_SECONDS),
        transfer_id,
        output=subprocess.PIPE,
    )
    seen: list[dict[str, Any]] = []
    reader = threading.Thread(target=_read, args=(probe, seen), daemon=True)
    samples: list[dict[str, Any]] = []
    error = None
    with _ended(probe):
        reader.start()
        began = time.monotonic()
        cancelled = False
        while probe.poll() is None:
            time.sleep(SAMPLE_SECONDS)
            samples.append(_sample(watched, seen[-1] if seen else None))
            if options.plan and not cancelled and seen and seen[-1]["planned"]:
                cancelled = True
                subprocess.run([tool("seqferry"), "cancel", transfer_id, "--quiet"], env=stage.environment)
            if any(worker.poll() is not None for worker in workers):
                error = f"a worker has ended: {stage.said()}"
            elif time.monotonic() - began > options.within:
                error = f"not done after {options.within:.0f} s: {stage.said()}"
            if error:
                break
    reader.join()
    after = {name: usage(pid) for name, pid in watched.items()}
    books = stage.books.close() if stage.books is not None else None
    threads = [threads_cpu_s(worker.pid) for worker in workers if worker.poll() is None]
    if error is None and not options.plan:
        error = _difference(options, stage, seen[-1])
    return {
        "options": {name: value for name, value in vars(options).items() if name != "json"},
        "model": stage.simulator.model(),
        "cores": os.cpu_count(),
        "load": {"before": load_before, "after": os.getloadavg()[0]},
        "processes": _processes(options, before, after, samples),
        "worker_threads": threads,
        "postgres": books,
        **_progress(options, seen),
        "stats": stage.simulator.stats(),
        "samples": samples,
        "seen": seen,
        "error": error,
    }


def _wait_until_idle(pids: list[int]) -> None:
    """Wait until all have started, so that the cost of the start is not counted as one of the objects."""
    before, deadline = sum(usage(pid).cpu_s for pid in pids), time.monotonic() + 30
    while time.monotonic() < deadline:
        time.sleep(1.5)
        now = sum(usage(pid).cpu_s for pid in pids)
        if now - before < 0.3:
            return
        before = now


def _read(probe: subprocess.Popen[bytes], seen: list[dict[str, Any]]) -> None:
    assert probe.stdout is not None
    for line in probe.stdout:
        seen += [json.loads(line)]  # line by line: other threads read the list


def _sample(watched: dict[str, int], last: dict[str, Any] | None) -> dict[str, Any]:
    used = {name: usage(pid) for name, pid in watched.items()}
    return {
        "at": time.time(),
        "load": os.getloadavg()[0],
        "done": last["done"] if last else 0,
        "found": last["found"] if last else 0,
        "mib": {name: one.biggest_mib for name, one in used.items()},
        "cpu_s": {name: one.cpu_s for name, one in used.items()},
    }


def _difference(options: argparse.Namespace, stage: Stage, last: dict[str, Any]) -> str | None:
    if last["state"] != "done" or last["done"] != options.objects:
        return f"the transfer is {last['state']} with {last['done']} objects done: {stage.said()}"
    found = stage.simulator.check(f"vendor/{PREFIX}", f"ours/{PREFIX}")
    if found["same"] != options.objects:
        return f"only {found['same']} of {options.objects} objects are the same at the target"
    return None


def _processes(
    options: argparse.Namespace, before: dict[str, Usage], after: dict[str, Usage], samples: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        name: {
            "cpu_s": after[name].cpu_s - before[name].cpu_s,
            "cpu_us_per_object": 1e6 * (after[name].cpu_s - before[name].cpu_s) / options.objects,
            "mib_start": before[name].biggest_mib,
            "mib_middle": samples[len(samples) // 2]["mib"][name],
            "mib_end": samples[-1]["mib"][name],
            "mib_peak": max(sample["mib"][name] for sample in samples),
        }
        for name in before
    }


def _progress(options: argparse.Namespace, seen: list[dict[str, Any]]) -> dict[str, Any]:
    began, last = next(one["began"] for one in seen if one["began"]), seen[-1]
    planned = next((one for one in seen if one["planned"]), None)
    first_done = next((one for one in seen if one["done"]), None)
    times = sorted(one["ms"] for one in seen)
    seconds = (last["ended"] or last["at"]) - began
    decile = max(1, len(seen) // 10)
    rates = [
        (later["done"] - earlier["done"]) / (later["at"] - earlier["at"])
        for earlier, later in zip(seen[::decile], seen[decile::decile], strict=False)
    ]
    planning = planned["at"] - began if planned else None
    return {
        "seconds": seconds,
        "objects_per_second": None if options.plan else last["done"] / seconds,
        "rates_by_tenth": rates,
        "planning_seconds": planning,
        "planned_per_second": planned["found"] / planning if planned and planning else None,
        "first_done_seconds": first_done["at"] - began if first_done else None,
        "done_when_planned": planned["done"] if planned else None,
        "status_ms": {
            "calls": len(times),
            "p50": times[len(times) // 2],
            "p95": times[int(len(times) * 0.95)],
            "max": times[-1],
        },
    }


def _table(report: dict[str, Any]) -> str:
    options, status, stats, load = (report[name] for name in ("options", "status_ms", "stats", "load"))
    what = "planned only, copies held, then cancelled" if options["plan"] else "copied"
    database = options["database"] + (" without fsync" if options["lax"] else "")
    rows: list[str] = []

    def say(*words: str) -> None:
        rows.append("".join(words))

    say(f"{options['objects']:,} objects of {SIZE} bytes {what}; {options['workers']} worker(s), {database}")
    say(f"  {report['cores']} cores for all of it, load {load['before']:.1f} before, {load['after']:.1f} after")
    say(
        f"  {options['prefixes']} prefixes, each a partition of its own, so that the model's limit of",
        f" {report['model']['writes_per_second']:,.0f} writes/s for one is not what bounds",
    )
    if report["objects_per_second"] is not None:
        by_tenth = " ".join(f"{rate:,.0f}" for rate in report["rates_by_tenth"])
        say(f"  {report['seconds']:.1f} s, {report['objects_per_second']:,.0f} objects/s; by tenths: {by_tenth}")
    if report["planning_seconds"]:
        say(
            f"  planned after {report['planning_seconds']:.1f} s, {report['planned_per_second']:,.0f}/s;",
            f" done by then: {report['done_when_planned']:,}",
        )
    if report["first_done_seconds"] is not None:
        say(f"  first recorded as done after {report['first_done_seconds']:.1f} s")
    say(
        f"  status call: p50 {status['p50']:.1f} ms, p95 {status['p95']:.1f}, worst {status['max']:.1f}",
        f" ({status['calls']} calls)",
    )
    say(f"  {'':<12} {'CPU s':>8} {'us/object':>10} {'MiB start':>10} {'middle':>8} {'end':>8} {'peak':>8}")
    for name, one in report["processes"].items():
        say(
            f"  {name:<12} {one['cpu_s']:8.1f} {one['cpu_us_per_object']:10.1f} {one['mib_start']:10.0f}",
            f" {one['mib_middle']:8.0f} {one['mib_end']:8.0f} {one['mib_peak']:8.0f}",
        )
    whole = sum(one["cpu_us_per_object"] for one in report["processes"].values())
    say(f"  {'together':<12} {'':>8} {whole:10.1f}   (two cores at 3,000/s: 667)")
    say("  (MiB: the biggest process of each, shared memory included)")
    for threads in report["worker_threads"]:
        shares = (f"{name} {1e6 * cpu / options['objects']:.0f}" for name, cpu in sorted(threads.items()))
        say(f"  us/object of a worker by its threads, its start included: {', '.join(shares)}")
    if report["postgres"] is not None:
        rows_of = report["postgres"]["rows"]["object"]
        say(
            f"  PostgreSQL: {report['postgres']['log_bytes'] / options['objects']:,.0f} bytes of log per object;",
            f" of {rows_of['updated']:,} updates of objects {rows_of['hot']:,} touched no index",
        )
        for one in report["postgres"].get("statements", []):
            say(f"    {1e3 * one['ms'] / options['objects']:7.2f} us/object {one['calls']:7,} x {one['query']}")
    say(
        f"  requests {stats['requests']:,}, at most {stats['peak_in_flight']} in flight,",
        f" throttled {stats['throttled']}",
    )
    say(f"  model: {json.dumps(report['model'])}")
    return "\n".join(rows)


if __name__ == "__main__":
    harness.run(main)
