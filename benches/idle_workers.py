"""What workers without work cost PostgreSQL: statements, transactions and connections of a fleet of processes.

``make bench-idle`` starts ``seqferry worker`` processes on a PostgreSQL of its own, waits until all are there, and has
PostgreSQL count while nothing happens: statements by pg_stat_statements (BEGIN, COMMIT and the like apart, which carry
no work of their own), transactions by pg_stat_database, connections by pg_stat_activity. Then it submits a transfer
that no storage answers, and tells how long it took until a worker began it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import psycopg

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from seqferry.service.service import Service  # noqa: E402
from seqferry.settings.config import Settings  # noqa: E402
from seqferry.spec.build import build_spec  # noqa: E402
from support import postgres  # noqa: E402
from support.processes import RunningProcess, seqferry  # noqa: E402
from support.run import Run  # noqa: E402
from support.waiting import eventually  # noqa: E402

CALM_SECONDS: Final = 10.0
"""After the last start: what a worker does once is over."""

SUBMISSIONS: Final = 9

_IDENTITY: Final = {"AWS_ACCESS_KEY_ID": "idle", "AWS_SECRET_ACCESS_KEY": "idle", "AWS_REGION": "us-east-1"}

_FRAME: Final = "^(begin|commit|rollback|set |discard|select [$]1$)"
"""Statements of the driver and the pool: of a transaction, and the question whether a connection is alive."""

_STATEMENTS: Final = """
    select coalesce(sum(calls) filter (where query !~* %(frame)s), 0)::bigint, coalesce(sum(calls), 0)::bigint
    from pg_stat_statements where dbid = (select oid from pg_database where datname = 'fleet')
"""
_MOST: Final = """
    select calls, regexp_replace(query, '\\s+', ' ', 'g') from pg_stat_statements
    where dbid = (select oid from pg_database where datname = 'fleet') order by calls desc limit %(most)s
"""
_TRANSACTIONS: Final = "select xact_commit + xact_rollback from pg_stat_database where datname = 'fleet'"
_CONNECTIONS: Final = "select count(*) from pg_stat_activity where datname = 'fleet'"


def main() -> None:
    options = _options()
    run = Run.create()
    try:
        server = postgres.start(run, more={"shared_preload_libraries": "pg_stat_statements", "track_counts": "on"})
        with psycopg.connect(server.url(), autocommit=True) as admin, ExitStack() as stack:
            admin.execute("create extension pg_stat_statements")
            admin.execute("create database fleet")
            _measure(admin, server.url("fleet"), options, stack)
    finally:
        run.close()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=30.0, help="of counting")
    parser.add_argument("--statements", type=int, default=0, help="show so many statements, the most frequent first")
    return parser.parse_args()


def _measure(admin: psycopg.Connection[Any], url: str, options: argparse.Namespace, stack: ExitStack) -> None:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="seqferry-idle-")))
    settings = Settings.load({"XDG_CONFIG_HOME": str(folder)}, state_dir=folder / "state", database_url=url)
    service = stack.enter_context(Service.open(settings))
    os.environ.update(_IDENTITY)  # of who submits and of the workers
    environment = {"SEQFERRY_DATABASE_URL": url, "XDG_CONFIG_HOME": str(folder)}
    for number in range(options.workers):
        line = [seqferry(), "worker", "--state-dir", str(folder / f"worker{number}")]
        stack.enter_context(RunningProcess(line, environment=environment))
    eventually(
        lambda: sum(one.alive for one in service.workers()) == options.workers, what="the workers", deadline=240.0
    )
    service.close()
    time.sleep(CALM_SECONDS)
    admin.execute("select pg_stat_statements_reset()")
    before, began = _count(admin, _TRANSACTIONS), time.monotonic()
    connections: list[int] = []
    while time.monotonic() - began < options.seconds:
        time.sleep(1.0)
        connections.append(_count(admin, _CONNECTIONS))
    took = time.monotonic() - began
    row = admin.execute(_STATEMENTS, {"frame": _FRAME}).fetchone()
    assert row is not None
    transactions = _count(admin, _TRANSACTIONS) - before
    print(f"workers: {options.workers}, counted for {took:.0f} s")
    print(f"statements a second: {row[0] / took:.1f}; with those of transactions and of the pool: {row[1] / took:.1f}")
    print(f"transactions a second: {transactions / took:.1f}")
    print(f"connections: at most {max(connections)}, {max(connections) / options.workers:.1f} a worker")
    if options.statements:
        for calls, text in admin.execute(_MOST, {"most": options.statements}).fetchall():
            print(f"{calls / took:8.2f}/s  {str(text)[:150]}")
    _starts(settings)


def _count(admin: psycopg.Connection[Any], query: str) -> int:
    row = admin.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])


def _starts(settings: Settings) -> None:
    """How long submissions wait for a worker. Each goes to a port that nothing listens on, and is given up then."""
    waits: list[float] = []
    with Service.open(settings) as service:
        for number in range(SUBMISSIONS):
            spec = build_spec("s3://a/b/", f"s3://c/{number}/", endpoint_url="http://127.0.0.1:9")
            at = time.monotonic()
            transfer_id = service.submit(spec, actor="bench")
            while service.status(transfer_id).started_at is None and time.monotonic() - at < 30.0:
                time.sleep(0.01)
            waits.append(time.monotonic() - at)
            service.cancel(transfer_id, actor="bench")
            time.sleep(3.0)
    print(
        f"from submission to start: median {statistics.median(waits):.2f} s, at most {max(waits):.2f} s of {len(waits)}"
    )


if __name__ == "__main__":
    main()
