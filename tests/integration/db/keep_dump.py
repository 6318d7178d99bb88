"""Writes databases of this version with unfinished transfers, as a killed worker leaves them, into ``kept``.

Run by hand, once for each release; ``test_kept_dump.py`` lets each later version go on from there:

    SEQFERRY_TEST_PAIRS=all .venv/bin/python -m pytest -n0 -s tests/integration/db/keep_dump.py

One is of SQLite, one of PostgreSQL (``pg_dump``). Endpoint, buckets and host get fixed names in the dumps, for which
the test puts its own.
"""

from __future__ import annotations

import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from control import settings_for, spec_on
from mirror import SMALL, fill

from seqferry.db.tables import object_
from seqferry.engine.engine import version
from seqferry.service import control, schedules
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from support.processes import RunningProcess
from support.proxy import Proxy, hold
from support.servers import S3Server
from support.waiting import eventually

KEPT = Path(__file__).with_name("kept")
ENDPOINT, SOURCE, TARGET = "http://127.0.0.1:9", "the-source", "the-target"

_WORKER = """
import sys
from pathlib import Path
from seqferry.settings.config import Settings
from seqferry.workflows.worker import run
run(Settings.load(state_dir=Path(sys.argv[1])))
"""


def contents(server: S3Server, bucket: str) -> None:
    """What the transfers of the dump copy: the same objects each time."""
    rng = random.Random(31)
    fill(server, bucket, {f"run/s{number:03d}": SMALL for number in range(30)}, rng)
    others = {f"{prefix}/{number}": SMALL for prefix in ("paused", "queued", "nightly") for number in range(3)}
    fill(server, bucket, others, rng)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_keep(
    kind: str,
    request: pytest.FixtureRequest,
    seaweedfs: S3Server,
    make_bucket: Callable[..., str],
    make_proxy: Callable[[S3Server], Proxy],
    tmp_path: Path,
) -> None:
    source, target = make_bucket(seaweedfs), make_bucket(seaweedfs)
    contents(seaweedfs, source)
    proxy = make_proxy(seaweedfs)
    key = tmp_path / "audit.key"
    url = request.getfixturevalue("postgres_url") if kind == "postgres" else None
    settings = replace(settings_for(tmp_path, url), audit_key=key)
    settings.prepare_state_dir()
    with Service.open(settings) as service:
        ids = _submitted(service, proxy, source, target, settings)
    name = f"release-{version()}{'-postgres' if url else ''}"
    places = ((proxy.server.endpoint_url, ENDPOINT), (source, SOURCE), (target, TARGET), (socket.gethostname(), "host"))
    text = _of_sqlite(settings) if url is None else _of_postgres(url)
    for real, fixed in places:
        text = text.replace(real, fixed)
    (KEPT / f"{name}.sql").write_text(f"{text}\n")
    shutil.copyfile(key, KEPT / f"{name}.key")
    print(name, ids)


def _of_sqlite(settings: Settings) -> str:
    with sqlite3.connect(settings.state_dir / "seqferry.sqlite") as database:
        return "\n".join(database.iterdump())


def _of_postgres(url: str) -> str:
    # Rows as statements, so that the text can be read and changed.
    options = ("--inserts", "--rows-per-insert=100", "--no-owner", "--no-privileges")
    plain = url.replace("postgresql+psycopg:", "postgresql:")
    done = subprocess.run(["pg_dump", *options, plain], check=True, capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    return "\n".join(line for line in lines if line and not line.startswith(("--", "\\restrict", "\\unrestrict")))


def _submitted(service: Service, proxy: Proxy, source: str, target: str, settings: Settings) -> dict[str, str]:
    def spec(prefix: str):
        return spec_on(proxy.server, f"s3://{source}/{prefix}/", f"s3://{target}/{prefix}/")

    proxy.rule("CopyObject", hold(), key="run/s029")
    killed = service.submit(spec("run"), actor="ada")
    command = [sys.executable, "-c", _WORKER, str(settings.state_dir)]
    environment = {"SEQFERRY_AUDIT_KEY": str(settings.audit_key)}
    if settings.database_url is not None:
        environment["SEQFERRY_DATABASE_URL"] = settings.database_url
    with RunningProcess(command, environment=environment) as worker:
        proxy.wait_held()
        eventually(lambda: _done(service) == 29, what="29 recorded objects")
        paused = service.submit(spec("paused"), actor="ada")
        control.pause(service, paused, actor="ada")
        schedules.add(service, "0 2 * * *", spec("nightly"), actor="ada", name="nightly")
        worker.signal(signal.SIGKILL)
        worker.wait(30)
    queued = service.submit(spec("queued"), actor="ada")
    return {"killed": killed, "paused": paused, "queued": queued}


def _done(service: Service) -> int:
    with service.database.read() as connection:
        return connection.execute(sa.select(sa.func.count()).where(object_.c.state == "done")).scalar_one()
