"""The HTTP API beside a busy worker: lists, searches, samples and streams of events, on a large transfer.

``make bench-api`` fills a database with 10,000 transfers, one of them with 1,000,000 objects (SQLite: 100,000), has a
process record 5,000 results a second into it, and asks a server in a process of its own, one question after the other.
It prints milliseconds of each question at the median and at the 95th percentile. The aim is 50 ms at p95.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx
import sqlalchemy as sa

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from seqferry.db import batches, objects, planned_objects  # noqa: E402
from seqferry.db.objects import PlannedObject  # noqa: E402
from seqferry.db.record import events  # noqa: E402
from seqferry.db.tables import sample, tally, transfer  # noqa: E402
from seqferry.model.models import RESULT_COLUMNS  # noqa: E402
from seqferry.service.service import Service  # noqa: E402
from seqferry.settings.config import Settings  # noqa: E402
from seqferry.spec.build import build_spec  # noqa: E402
from support import postgres  # noqa: E402
from support.run import Run  # noqa: E402

AIM_MS: Final = 50.0
BATCH: Final = 1000
TRANSFERS: Final = 10_000

_SERVER: Final = """
import gc, socket, sys
gc.set_threshold(50_000, 20, 50)  # this and the freeze as `seqferry serve` does
from seqferry.api import create_app
from seqferry.api.connections import server
from seqferry.settings.config import Settings
from seqferry.service.service import Service
settings = Settings.load()
with Service.open(settings) as service:
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    app = create_app(settings, service, None)
    gc.collect()
    gc.freeze()
    server(app).run(sockets=[listener])
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=("postgres", "sqlite"), default="postgres")
    parser.add_argument("--objects", type=int, help="objects of the large transfer")
    parser.add_argument("--rate", type=int, default=5000, help="results that are recorded in a second")
    parser.add_argument("--repetitions", type=int, default=100, help="of each question")
    parser.add_argument("--write", metavar="ID", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write:
        _write(given.write, given.rate)
        return 0
    count = given.objects or (1_000_000 if given.database == "postgres" else 100_000)
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        os.environ["SEQFERRY_STATE_DIR"] = str(folder / "state")
        if given.database == "postgres":
            run = Run.create()
            held.callback(run.close)
            server = postgres.start(run)
            os.environ["SEQFERRY_DATABASE_URL"] = server.url(server.create_database())
        settings = Settings.load()
        service = held.enter_context(Service.open(settings))
        began = time.monotonic()
        transfer_id = _fill(service, count)
        print(f"{count:,} objects in one of {TRANSFERS:,} transfers in {time.monotonic() - began:.0f} s", flush=True)
        url = held.enter_context(_served())
        writer = [sys.executable, __file__, "--write", transfer_id, "--rate", str(given.rate)]
        held.enter_context(_process(writer))
        rows = _measure(service, url, transfer_id, count, given.repetitions)
        written = service.status(transfer_id).totals.done
        print(f"{written:,} results were recorded by the end")
    for name, values in rows.items():
        p50, p95 = statistics.median(values), sorted(values)[int(0.95 * (len(values) - 1))]
        print(f"{name:28} p50 {p50:7.1f} ms   p95 {p95:7.1f} ms{'' if p95 <= AIM_MS else '   above the aim'}")
    print(json.dumps({"database": given.database, "objects": count, "rate": given.rate, "ms": rows}), file=sys.stderr)
    return 0


def _fill(service: Service, count: int) -> str:
    spec = build_spec("s3://vendor/run/", "s3://ours/run/", endpoint_url="http://127.0.0.1:9")
    transfer_id = service.submit(spec, actor="ada@lab", queued=False)
    with service.database.write() as connection:
        row = dict(connection.execute(sa.select(transfer)).mappings().one())
        template = row | {"state": "done", "ended_at": 1.0, "submission": "x", "turn": None}
        many = [
            template | {"id": str(uuid.uuid4()), "created_at": row["created_at"] - number}
            for number in range(1, TRANSFERS)
        ]
        connection.execute(transfer.insert(), many)
        connection.execute(tally.insert(), [{"transfer_id": one["id"]} for one in many])
        connection.execute(
            sample.insert(),
            [
                {"transfer_id": transfer_id, "executor_id": f"w{worker}", "at": row["created_at"] + 2 * second}
                | dict.fromkeys(("bytes", "objects", "requests", "throttled"), second)
                for worker in range(4)
                for second in range(1800)
            ],
        )
    for first in range(0, count, 20 * BATCH):
        groups = [
            [_planned(number) for number in range(start, min(start + BATCH, count))]
            for start in range(first, min(first + 20 * BATCH, count), BATCH)
        ]
        with service.database.write(durable=False) as connection:
            planned_objects.add_batches(connection, transfer_id, groups, 1.0)
    for number in range(count // BATCH // 2):
        _record(service, transfer_id, number)
    if not service.database.is_sqlite:
        with service.database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text("vacuum analyze"))
    return transfer_id


def _planned(number: int) -> PlannedObject:
    key = f"run/{number // 1000:04}/sample{number:07}.fastq.gz"
    return PlannedObject(key, key, 1000, '"0123456789abcdef0123456789abcdef"', 1.0, None, "STANDARD")


def _record(service: Service, transfer_id: str, number: int) -> None:
    """All results of a batch; one in a thousand has failed."""
    with service.database.write(durable=False) as connection:
        run = batches.begin_batch(connection, transfer_id, number, 1.0)
        if run is None:
            return
        opened = objects.open_objects(connection, run)
        now = time.time()
        ends: list[dict[str, Any]] = [
            dict.fromkeys(RESULT_COLUMNS)
            | {"id": one.id, "state": "done", "size": one.size, "etag": one.etag, "attempts": 1, "retries": 0}
            | {"keeps_upload": False, "started_at": now, "ended_at": now, "verified": "etag", "target_etag": one.etag}
            for one in opened
        ]
        for end in ends[:1]:
            end |= {"state": "failed", "error_class": "person", "error_code": "AccessDenied", "verified": None}
        columns = [",".join(json.dumps(end[name]) for end in ends) for name in RESULT_COLUMNS]
        batches.record(connection, [(run, columns)])
        batches.end_batch(connection, run, now)


def _write(transfer_id: str, rate: int) -> None:
    """The other half, at this many a second."""
    with Service.open(Settings.load()) as service:
        began, done = time.monotonic(), 0
        while True:
            with service.database.read() as connection:
                numbers = batches.open_batches(connection, transfer_id, limit=50)
            if not numbers:
                return
            for number in numbers:
                _record(service, transfer_id, number)
                done += BATCH
                time.sleep(max(0.0, done / rate - (time.monotonic() - began)))


@contextmanager
def _process(command: list[str]) -> Iterator[None]:
    process = subprocess.Popen(command)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def _served() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with _process([sys.executable, "-c", _SERVER, str(port)]):
        url = f"http://127.0.0.1:{port}"
        for _ in range(300):
            try:
                httpx.get(f"{url}/healthz", trust_env=False)
                break
            except httpx.TransportError:
                time.sleep(0.1)
        yield url


def _measure(service: Service, url: str, transfer_id: str, count: int, repetitions: int) -> dict[str, list[float]]:
    base = f"/api/v1/transfers/{transfer_id}"
    middle = service.objects(transfer_id, limit=1)[0].row + count // 2
    questions: dict[str, tuple[str, dict[str, Any]]] = {
        "list of transfers": ("/api/v1/transfers", {}),
        "list, filtered by text": ("/api/v1/transfers", {"text": "ours/run", "state": "queued"}),
        "status": (base, {}),
        "failed objects": (f"{base}/objects", {"state": "failed", "limit": 100}),
        "causes of failures": (f"{base}/failures", {}),
        "page in the middle": (f"{base}/objects", {"cursor": f"a{middle}", "limit": 100}),
        "page of 500": (f"{base}/objects", {"cursor": f"a{middle}", "limit": 500}),
        "search by prefix": (f"{base}/objects", {"prefix": f"run/{count // 3000:04}/", "limit": 100}),
        "pending objects": (f"{base}/objects", {"state": "pending", "limit": 100}),
        "skipped objects (none)": (f"{base}/objects", {"state": "skipped", "limit": 100}),
        "search by text (one step)": (f"{base}/objects", {"text": "nowhere", "limit": 100}),
        "samples": (f"{base}/samples", {}),
        "metrics": ("/metrics", {}),
    }
    found: dict[str, list[float]] = {}
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        for name, (path, params) in questions.items():
            client.get(path, params=params).raise_for_status()
            found[name] = [_milliseconds(lambda p=path, q=params: client.get(p, params=q)) for _ in range(repetitions)]
        for name, path in (("event of the transfer", f"{base}/events"), ("event of any transfer", "/api/v1/events")):
            found[f"{name} to a client"] = _events(service, client, path, transfer_id, repetitions)
    return found


def _milliseconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return 1000 * (time.perf_counter() - began)


def _events(service: Service, client: httpx.Client, path: str, transfer_id: str, repetitions: int) -> list[float]:
    """Times from the commit of an event until a client that follows ``path`` has it."""
    arrived: dict[str, float] = {}
    there = threading.Condition()

    def read() -> None:
        with (
            suppress(httpx.TransportError),  # at the end, when the client is closed
            client.stream("GET", path) as response,
        ):
            for line in response.iter_lines():
                if not line.startswith(("id: ", "data: ")):
                    continue
                probe = re.search(r'"probe": ?"(\w+)"', line)
                with there:
                    arrived[probe[1] if probe else ""] = time.perf_counter()
                    there.notify_all()

    threading.Thread(target=read, daemon=True).start()
    taken: list[float] = []
    with there:
        there.wait_for(lambda: arrived, 30)  # both streams begin with an id, of an event or of a position
    for _ in range(repetitions):
        probe = uuid.uuid4().hex
        with service.database.write() as connection:
            events.append(connection, transfer_id, time.time(), "note", "ada@lab", {"probe": probe})
        committed = time.perf_counter()
        with there:
            there.wait_for(lambda one=probe: one in arrived, 30)
        taken.append(max(0.0, 1000 * (arrived[probe] - committed)))
    return taken


if __name__ == "__main__":
    sys.exit(main())
