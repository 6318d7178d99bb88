"""Worker, server and gateway as services of systemd: ready, watched, not restarted when the database hangs."""

from __future__ import annotations

import re
import signal
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from support import postgres as postgres_server
from support.gateways import ServedShares
from support.notify_socket import NotifySocket
from support.postgres import Postgres
from support.processes import RunningProcess, seqferry
from support.run import Run
from support.servers import S3Server

LIMIT = 3.0
"""Seconds without a ping after which the service would be killed."""


@pytest.fixture
def heard(tmp_path: Path) -> Iterator[NotifySocket]:
    with NotifySocket(tmp_path / "notify") as socket:
        yield socket


def started(heard: NotifySocket, folder: Path, *words: str, database: str | None = None) -> RunningProcess:
    variables = {"SEQFERRY_STATE_DIR": str(folder / "state"), **heard.environment(watchdog=LIMIT)}
    if database is not None:
        variables["SEQFERRY_DATABASE_URL"] = database
    return RunningProcess([seqferry(), *words], environment=variables, is_preloaded=True)


@pytest.mark.parametrize("words", [("worker",), ("serve", "--port", "0")], ids=["worker", "serve"])
def test_a_process_says_when_it_is_ready_works_and_stops(
    words: tuple[str, ...], heard: NotifySocket, tmp_path: Path
) -> None:
    with started(heard, tmp_path, *words) as process:
        assert "STOPPING=1" not in heard.wait_for("READY=1")
        heard.wait_for("WATCHDOG=1")
        heard.wait_for("WATCHDOG=1")
        process.signal(signal.SIGTERM)

        assert "READY=1" not in heard.wait_for("STOPPING=1")
        assert process.wait(30) == 0


def test_a_gateway_says_when_it_is_ready_works_and_stops(
    seaweedfs: S3Server, make_bucket: Callable[..., str], heard: NotifySocket, tmp_path: Path, monkeypatch
) -> None:
    for name, value in heard.environment(watchdog=LIMIT).items():
        monkeypatch.setenv(name, value)
    share = f'[[share]]\nname = "run"\nsource = "s3://{make_bucket(seaweedfs)}/"\n'
    with closing(ServedShares(tmp_path, seaweedfs, share)) as shares:
        heard.wait_for("READY=1")
        heard.wait_for("WATCHDOG=1")
        shares.process.signal(signal.SIGTERM)

        heard.wait_for("STOPPING=1")
        assert shares.process.wait(30) == 0


@pytest.fixture
def own_postgres(run: Run) -> Iterator[Postgres]:
    """A server of the test's own, to be frozen."""
    with postgres_server.own(run) as postgres:
        yield postgres


@pytest.mark.postgres
@pytest.mark.parametrize("words", [("worker",), ("serve", "--port", "0")], ids=["worker", "serve"])
def test_a_process_pings_while_its_database_hangs(
    words: tuple[str, ...], own_postgres: Postgres, heard: NotifySocket, tmp_path: Path
) -> None:
    with started(heard, tmp_path, *words, database=own_postgres.url(own_postgres.create_database())) as process:
        heard.wait_for("READY=1")
        with own_postgres.frozen():
            if words[0] == "serve":
                ask_in_vain(process, tmp_path)
            heard.drain()
            for _ in range(8):  # over twice the limit
                heard.wait_for("WATCHDOG=1", deadline=LIMIT)
        heard.wait_for("WATCHDOG=1", deadline=LIMIT)
        assert process.running


def ask_in_vain(server: RunningProcess, folder: Path) -> None:
    """Requests of all kinds that wait for the database, more than there are threads that answer them."""
    url = re.search(r"http://\S+", server.wait_for_line("http://"))[0]  # type: ignore[index]
    token = (folder / "state/token").read_text().strip()
    paths = ("/readyz", "/metrics", "/api/v1/transfers", "/api/v1/workers", "/api/v1/events")

    def ask(path: str) -> None:
        request = urllib.request.Request(f"{url}{path}", headers={"Authorization": f"Bearer {token}"})
        try:
            with urllib.request.urlopen(request, timeout=LIMIT):
                pass
        except OSError:
            pass

    asked = [threading.Thread(target=ask, args=(paths[number % len(paths)],)) for number in range(60)]
    for thread in asked:
        thread.start()
    for thread in asked:
        thread.join()


@pytest.mark.postgres
def test_a_process_says_that_it_waits_for_its_database(
    own_postgres: Postgres, heard: NotifySocket, tmp_path: Path
) -> None:
    url = own_postgres.url(own_postgres.create_database())
    with own_postgres.frozen(), started(heard, tmp_path, "worker", database=url) as process:
        lines = heard.wait_for("STATUS=Waiting for the database")
        assert "READY=1" not in lines
        process.signal(signal.SIGTERM)
