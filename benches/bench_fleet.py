"""A fleet on PostgreSQL and the simulator: many small transfers on one worker, and one large transfer on 1, 2, 4.

``make bench-fleet`` has three parts. ``small`` submits 300 transfers of a few objects together over HTTP, to a server
that does no work itself, and measures when each of them ends on one ``seqferry worker``. ``submissions`` submits 5,000
to such a server, by many clients together, without a worker. ``scale`` copies one transfer with 1, 2 and 4 workers,
each with few requests in flight, so that latency bounds them and neither the cores of this machine nor the model's
limit of a prefix does. Afterwards every object is compared by the simulator.

The figures are **simulated** in what S3 does, and measured in what the processes cost.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import psycopg

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import harness  # noqa: E402
from figures import Figure, Result  # noqa: E402
from harness import tool  # noqa: E402
from seqferry.bench.measure import usage  # noqa: E402
from seqferry.bench.methods import base_environment  # noqa: E402
from support import postgres  # noqa: E402
from support.processes import RunningProcess  # noqa: E402
from support.run import Run  # noqa: E402
from support.sim import Simulator  # noqa: E402
from support.waiting import eventually  # noqa: E402

SIZE: Final = 4096
TOKEN: Final = "of-this-bench-alone"
CLIENTS: Final = 8
"""Connections that submit side by side, as several people and pipelines would."""
PREFIXES: Final = 16
"""Partitions of the large transfer, so that the model's 3,500 writes/s for one of them bound nothing."""
POLL_SECONDS: Final = 0.1
START_WITHIN: Final = 120.0
PARTS: Final = ("small", "submissions", "scale")
_STATEMENTS: Final = """
    SELECT calls, total_plan_time + total_exec_time, left(regexp_replace(query, '\\s+', ' ', 'g'), 150)
    FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
    ORDER BY 2 DESC
"""
TOOLS: Final = ("SEQFERRY_COMMAND", "SEQFERRY_S3SIM")
_TRANSFERS: Final = """
    SELECT t.id, t.state, y.done::int, t.started_at, t.ended_at
    FROM transfer t JOIN tally y ON y.transfer_id = t.id
"""


@dataclass(frozen=True)
class SmallTransfers:
    """Outcome of the part ``small``. Seconds."""

    wall_s: float
    """From the first submission to the last end."""
    submitted_s: float
    """From the first submission to the answer to the last one."""
    each_s: list[float]
    """From the submission of a transfer to its end, in the order of submission."""
    cpu_s: dict[str, float]
    """By process."""


@dataclass(frozen=True)
class Submissions:
    """Outcome of the part ``submissions``. Seconds."""

    wall_s: float
    """From the first submission to the last answer."""
    each_s: list[float]
    """From each submission to its answer, the shortest first."""
    answers: dict[str, int]
    """Number of answers of each status; of connections that failed, by their error."""
    cpu_s: dict[str, float]
    """By process."""


@dataclass(frozen=True)
class Scaled:
    """Outcome of one transfer of the part ``scale``."""

    workers: int
    wall_s: float
    """From the start of the transfer to its end."""
    objects_per_second: float
    cpu_s: float
    """Of all workers."""
    peak_in_flight: int
    throttled: int


@dataclass
class Report:
    small: SmallTransfers | None = None
    submissions: Submissions | None = None
    scaled: list[Scaled] = field(default_factory=list["Scaled"])
    statements: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    """Calls, milliseconds and text of statements of ``small`` or ``submissions``, the dearest first."""
    model: dict[str, Any] = field(default_factory=dict[str, Any])
    errors: list[str] = field(default_factory=list[str])


class Stage:
    """A database of its own, the simulator, and processes of Seqferry beside them."""

    def __init__(
        self, server: postgres.Postgres, held: ExitStack, buckets: Sequence[str], options: argparse.Namespace
    ) -> None:
        self.folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="seqferry-bench-")))
        words = [word for bucket in buckets for word in ("--bucket", bucket)]
        words += [word for setting in (f"seed={options.turn + 1}", *options.set) for word in ("--set", setting)]
        self.simulator = held.enter_context(Simulator(*words))
        database = server.create_database()
        held.callback(server.drop_database, database)
        self.database_url = server.url(database)
        self.database_pid = server.pid()
        self._held = held
        self._environment = {
            **base_environment(),
            **self.simulator.environment(),
            "HOME": str(self.folder),
            "SEQFERRY_DATABASE_URL": self.database_url,
            "SEQFERRY_AUDIT_KEY": str(self.folder / "audit.key"),
            "SEQFERRY_TOKEN": TOKEN,
        }

    def start(self, name: str, *words: str) -> RunningProcess:
        command = [tool("seqferry"), *words, "--state-dir", str(self.folder / name)]
        return self._held.enter_context(RunningProcess(command, environment=self._environment, cwd=self.folder))

    def workers(self, count: int, *options: str) -> list[RunningProcess]:
        """So many, ready for work."""
        workers = [self.start(f"worker{number}", "worker", *options) for number in range(count)]
        for worker in workers:
            worker.wait_for_output("is ready", deadline=START_WITHIN)
        return workers

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def wait_for_end(self, processes: Sequence[RunningProcess], within: float) -> None:
        """Return when every transfer has ended.

        Raises:
            RuntimeError: a process has ended before. TimeoutError: they have not ended ``within`` seconds.
        """

        def ended() -> bool:
            for process in processes:
                if not process.running:
                    raise RuntimeError(f"a process has ended: {process}")
            return self.rows("SELECT count(*) FROM transfer WHERE ended_at IS NULL") == [(0,)]

        eventually(ended, what="the end of all transfers", deadline=within, every=POLL_SECONDS)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    hidden = [name for name in os.environ if name.startswith(("AWS_", "SEQFERRY_")) and name not in TOOLS]
    for name in hidden:  # processes inherit what is there
        del os.environ[name]
    report = Report()
    run = Run.create()
    try:
        more = {"shared_preload_libraries": "pg_stat_statements"} if options.statements else None
        server = postgres.start(run, durable=not options.lax, more=more)
        if "small" in options.only:
            _small(server, options, report)
        if "submissions" in options.only:
            _submissions(server, options, report)
        if "scale" in options.only:
            for count in options.workers:
                _scale(server, count, options, report)
    finally:
        run.close()
    print(_table(options, report))
    figures = _figures(options, report)
    result = Result("fleet", figures, simulated=True, model=report.model, errors=report.errors, details=asdict(report))
    return harness.finish(options, result)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=PARTS, help="this part; may be repeated")
    parser.add_argument("--transfers", type=int, default=300, help="small ones")
    parser.add_argument("--each", type=int, default=3, help="objects of a small transfer")
    parser.add_argument("--submissions", type=int, default=5000, help="of the part of this name")
    parser.add_argument("--clients", type=int, default=128, help="that submit them, each one after another")
    parser.add_argument("--objects", type=int, default=60_000, help="of the large transfer")
    parser.add_argument("--workers", type=int, action="append", help="of the large transfer (default: 1, 2 and 4)")
    parser.add_argument("--max-requests", type=int, default=96, help="in flight for each worker of the large transfer")
    parser.add_argument("--statements", type=int, default=0, help="show so many of PostgreSQL, the dearest first")
    parser.add_argument("--lax", action="store_true", help="PostgreSQL without fsync, as in the tests")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="an option of the simulator")
    parser.add_argument("--within", type=float, default=900.0, metavar="SECONDS", help="give up after so long")
    harness.add_arguments(parser)
    options = parser.parse_args(arguments)
    options.only = options.only or list(PARTS)
    options.workers = options.workers or [1, 2, 4]
    if (
        min(
            options.transfers,
            options.each,
            options.submissions,
            options.clients,
            options.objects,
            options.max_requests,
            *options.workers,
        )
        < 1
    ):
        parser.error("numbers begin at 1")
    return options


# --- small transfers --------------------------------------------------------------------------------------------------


def _small(server: postgres.Postgres, options: argparse.Namespace, report: Report) -> None:
    names = [f"t{number:04}/" for number in range(options.transfers)]
    keys = "t{i:04}/" + ("s0" if options.each == 1 else "s{" + ",".join(map(str, range(options.each))) + "}")
    source = {"keys": keys, "count": options.transfers * options.each, "size": SIZE, "true_etags": False}
    with ExitStack() as held:
        stage = Stage(server, held, ["vendor=" + json.dumps({"objects": [source]}), "ours"], options)
        api = stage.start("server", "serve", "--no-worker", "--port", "0")
        address = api.wait_for_line("http://", deadline=START_WITHIN).strip()
        [worker] = stage.workers(1)
        watched = {"worker": worker.pid, "server": api.pid, "PostgreSQL": stage.database_pid}
        watched["simulator"] = stage.simulator.pid
        if options.statements:
            stage.rows("CREATE EXTENSION pg_stat_statements")
        before = {name: usage(pid).cpu_s for name, pid in watched.items()}
        began = time.time()
        submitted = _submit(address, names)
        answered = time.time()
        stage.wait_for_end([api, worker], options.within)
        rows = stage.rows(_TRANSFERS)
        report.small = SmallTransfers(
            wall_s=max(row[4] for row in rows) - began,
            submitted_s=answered - began,
            each_s=sorted(row[4] - submitted[row[0]] for row in rows),
            cpu_s={name: usage(pid).cpu_s - before[name] for name, pid in watched.items()},
        )
        if options.statements:
            report.statements = stage.rows(f"{_STATEMENTS} LIMIT {options.statements}")
        whole = sum(row[1] == "done" and row[2] == options.each for row in rows)
        if whole != options.transfers:
            report.errors.append(f"{whole} of {options.transfers} small transfers have copied all: {worker}")
        _compare(stage, options.transfers * options.each, report)


def _submit(address: str, names: Sequence[str]) -> dict[str, float]:
    """When each transfer was submitted, by its id; seconds since the epoch."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=address, headers=headers, trust_env=False, timeout=120) as client:

        def post(name: str) -> tuple[str, float]:
            at = time.time()
            body = {"source": f"s3://vendor/{name}", "target": f"s3://ours/{name}"}
            answer = client.post("/api/v1/transfers", json=body)
            if answer.status_code != 202:
                raise RuntimeError(f"POST /api/v1/transfers: {answer.status_code}: {answer.text}")
            return answer.json()["id"], at

        with ThreadPoolExecutor(CLIENTS) as pool:
            return dict(pool.map(post, names))


# --- submissions ------------------------------------------------------------------------------------------------------


def _submissions(server: postgres.Postgres, options: argparse.Namespace, report: Report) -> None:
    with ExitStack() as held:
        stage = Stage(server, held, ["vendor", "ours"], options)
        api = stage.start("server", "serve", "--no-worker", "--port", "0")
        address = api.wait_for_line("http://", deadline=START_WITHIN).strip()
        watched = {"server": api.pid, "PostgreSQL": stage.database_pid}
        if options.statements:
            stage.rows("CREATE EXTENSION pg_stat_statements")
        before = {name: usage(pid).cpu_s for name, pid in watched.items()}
        headers = {"Authorization": f"Bearer {TOKEN}"}
        limits = httpx.Limits(max_connections=None)
        with httpx.Client(
            base_url=address, headers=headers, trust_env=False, timeout=options.within, limits=limits
        ) as client:

            def post(number: int) -> tuple[str, float]:
                began = time.perf_counter()
                body = {"source": f"s3://vendor/t{number:05}/", "target": f"s3://ours/t{number:05}/"}
                try:
                    answer = str(client.post("/api/v1/transfers", json=body).status_code)
                except httpx.HTTPError as why:
                    answer = type(why).__name__
                return answer, time.perf_counter() - began

            began = time.perf_counter()
            with ThreadPoolExecutor(options.clients) as pool:
                answered = list(pool.map(post, range(options.submissions)))
            wall_s = time.perf_counter() - began
        answers = Counter(answer for answer, _ in answered)
        report.model = stage.simulator.model()
        report.submissions = Submissions(
            wall_s=wall_s,
            each_s=sorted(seconds for _, seconds in answered),
            answers=dict(answers),
            cpu_s={name: usage(pid).cpu_s - before[name] for name, pid in watched.items()},
        )
        if options.statements:
            report.statements = stage.rows(f"{_STATEMENTS} LIMIT {options.statements}")
        recorded = stage.rows("SELECT count(*)::int FROM transfer")
        if (answers, recorded) != ({"202": options.submissions}, [(options.submissions,)]):
            report.errors.append(f"of {options.submissions} submissions {recorded} are on record: {dict(answers)}")


# --- one transfer, more workers ---------------------------------------------------------------------------------------


def _scale(server: postgres.Postgres, count: int, options: argparse.Namespace, report: Report) -> None:
    lanes = [f"run/lane{number:02}/" for number in range(min(PREFIXES, options.objects))]
    share, more = divmod(options.objects, len(lanes))
    objects = [
        {"keys": lane + "read_{i:07}.txt", "count": share + (number < more), "size": SIZE, "true_etags": False}
        for number, lane in enumerate(lanes)
    ]
    buckets = [
        "vendor=" + json.dumps({"partitions": lanes[1:], "objects": objects}),
        "ours=" + json.dumps({"partitions": lanes[1:]}),
    ]
    with ExitStack() as held:
        stage = Stage(server, held, buckets, options)
        workers = stage.workers(count, "--max-requests", str(options.max_requests))
        before = sum(usage(worker.pid).cpu_s for worker in workers)
        submitted = stage.start("person", "cp", "--detach", "s3://vendor/run/", "s3://ours/run/")
        if submitted.wait() != 0:
            raise RuntimeError(f"seqferry cp: {submitted}")
        stage.wait_for_end(workers, options.within)
        [(_, state, done, started, ended)] = stage.rows(_TRANSFERS)
        stats = stage.simulator.stats()
        report.scaled.append(
            Scaled(
                workers=count,
                wall_s=ended - started,
                objects_per_second=done / (ended - started),
                cpu_s=sum(usage(worker.pid).cpu_s for worker in workers) - before,
                peak_in_flight=stats["peak_in_flight"],
                throttled=stats["throttled"],
            )
        )
        if (state, done) != ("done", options.objects):
            report.errors.append(f"{count} workers: the transfer is {state} with {done} objects: {workers[0]}")
        _compare(stage, options.objects, report)


def _compare(stage: Stage, objects: int, report: Report) -> None:
    report.model = stage.simulator.model()
    found = stage.simulator.check("vendor/", "ours/")
    if (found["objects"], found["same"]) != (objects, objects):
        report.errors.append(f"the simulator compares {found} of {objects} objects")


# --- what came of it --------------------------------------------------------------------------------------------------


def _figures(options: argparse.Namespace, report: Report) -> list[Figure]:
    found: list[Figure] = []
    if (small := report.small) is not None:
        group = f"{options.transfers} transfers of {options.each} objects submitted together, 1 worker"
        found += [
            Figure(group, "all have ended", "s", "lower", {"seqferry": [small.wall_s]}),
            Figure(group, "from submission to end, median", "s", "lower", {"seqferry": [_share(small.each_s, 0.5)]}),
            Figure(group, "from submission to end, p95", "s", "lower", {"seqferry": [_share(small.each_s, 0.95)]}),
            Figure(group, "CPU time", "s", "lower", {name: [value] for name, value in small.cpu_s.items()}),
        ]
    if (submissions := report.submissions) is not None:
        group = f"{options.submissions:,} submissions by {options.clients} clients together"
        rate = options.submissions / submissions.wall_s
        found += [
            Figure(group, "submissions accepted", "/s", "higher", {"seqferry": [rate]}),
            Figure(
                group, "from submission to answer, p95", "s", "lower", {"seqferry": [_share(submissions.each_s, 0.95)]}
            ),
        ]
    if report.scaled:
        group = f"{options.objects:,} objects, {options.max_requests} requests in flight for each worker"
        rates = {_workers(one.workers): [one.objects_per_second] for one in report.scaled}
        cpu = {_workers(one.workers): [one.cpu_s] for one in report.scaled}
        first = next(iter(rates))
        found += [
            Figure(group, "objects through the stack", "/s", "higher", rates, baseline=first),
            Figure(group, "CPU time of all workers", "s", "lower", cpu, baseline=first),
        ]
    return found


def _workers(count: int) -> str:
    return f"{count} worker{'s' if count > 1 else ''}"


def _share(values: Sequence[float], share: float) -> float:
    return statistics.median(values) if share == 0.5 else sorted(values)[int(share * (len(values) - 1))]


def _table(options: argparse.Namespace, report: Report) -> str:
    rows = [f"{os.cpu_count()} cores for all of it, load {os.getloadavg()[0]:.1f} at the end"]
    if (small := report.small) is not None:
        p50, p95 = _share(small.each_s, 0.5), _share(small.each_s, 0.95)
        cpu = ", ".join(f"{name} {value:.1f}" for name, value in small.cpu_s.items())
        rows.append(
            f"{options.transfers} transfers of {options.each} objects, submitted in {small.submitted_s:.1f} s:"
            f" all ended after {small.wall_s:.1f} s"
        )
        rows.append(f"  from submission to end: p50 {p50:.2f} s, p95 {p95:.2f} s, max {max(small.each_s):.2f} s")
        rows.append(f"  CPU s: {cpu}")
    if (submissions := report.submissions) is not None:
        p50, p95 = _share(submissions.each_s, 0.5), _share(submissions.each_s, 0.95)
        cpu = ", ".join(f"{name} {value:.1f}" for name, value in submissions.cpu_s.items())
        rows += [
            f"{options.submissions:,} submissions by {options.clients} clients: {submissions.answers}",
            f"  in {submissions.wall_s:.1f} s, {options.submissions / submissions.wall_s:.0f}/s",
            f"  from submission to answer: p50 {p50:.2f} s, p95 {p95:.2f} s, max {max(submissions.each_s):.2f} s",
            f"  CPU s: {cpu}",
        ]
    rows += [f"  {calls:7,} calls {ms:9,.0f} ms  {text}" for calls, ms, text in report.statements]
    for one in report.scaled:
        ratio = one.objects_per_second / report.scaled[0].objects_per_second
        rows.append(
            f"{_workers(one.workers)}: {options.objects:,} objects in {one.wall_s:.1f} s,"
            f" {one.objects_per_second:,.0f}/s, {ratio:.2f}x; CPU {one.cpu_s:.1f} s;"
            f" at most {one.peak_in_flight} in flight, {one.throttled} throttled"
        )
    return "\n".join([*rows, f"model: {json.dumps(report.model)}"])


if __name__ == "__main__":
    harness.run(main)
