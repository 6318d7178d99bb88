"""``serve``: the HTTP door and a worker in one process."""

from __future__ import annotations

import os
import random
import signal
import socket
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from control import ANY_SPEC, until_ended
from http_client import bearer
from mirror import SMALL, digests, fill

from seqferry.api.server import check_exposure, serve
from seqferry.model.errors import ConfigError, UsageError, WorkerBusyError
from seqferry.service import tokens
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.settings.tokens import owner_file
from seqferry.spec.build import build_spec
from seqferry.workflows.worker import Worker
from support.processes import RunningProcess
from support.servers import S3Server
from support.waiting import eventually

_SERVE = """
import sys
from pathlib import Path
from seqferry.service import tokens
from seqferry.settings.tokens import owner_file
from seqferry.api.server import serve
from seqferry.settings.config import Settings
settings = Settings.load(state_dir=Path(sys.argv[1]))
ready = lambda url: print(f"listening on {url} .", flush=True)
serve(settings, port=0, allow_crash=True, ready=ready, no_token=sys.argv[2:] == ["--no-token"])
"""
TOKEN = "hunter2-hunter2-hunter2"


@contextmanager
def _serving(settings: Settings, *options: str, **environment: str) -> Iterator[tuple[RunningProcess, str]]:
    command = [sys.executable, "-c", _SERVE, str(settings.state_dir), *options]
    with RunningProcess(command, environment=environment, is_preloaded=True) as process:
        yield process, process.wait_for_line(" .").split()[2]


@contextmanager
def _client(settings: Settings, url: str) -> Iterator[httpx.Client]:
    """With the token that the server has made."""
    headers = bearer(owner_file(settings.state_dir).read_text().strip())
    with httpx.Client(base_url=url, headers=headers, trust_env=False) as client:
        yield client


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
def test_beyond_loopback_it_does_not_start_without_tokens(unused_settings: Settings, host: str) -> None:
    with pytest.raises(ConfigError, match="--no-token"):
        serve(unused_settings, host, 0, no_token=True)

    check_exposure(unused_settings, host, no_token=False)
    assert not unused_settings.state_dir.exists()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_on_loopback_it_may_start_without_tokens(sqlite_settings: Settings, host: str) -> None:
    check_exposure(sqlite_settings, host, no_token=True)


@pytest.mark.parametrize("token", ["hunter2", "0123456789abcde", "0123456789 abcdef", "0123456789\u00e4bcdef"])
def test_a_token_that_is_short_or_cannot_be_sent_is_refused_and_not_shown(
    unused_settings: Settings, token: str
) -> None:
    with pytest.raises(UsageError, match="SEQFERRY_TOKEN") as refused:
        serve(replace(unused_settings, token=token), port=0)

    assert token not in refused.value.message
    assert not unused_settings.state_dir.exists()


def test_a_token_and_no_token_contradict_each_other(sqlite_settings: Settings) -> None:
    with pytest.raises(UsageError, match="contradict"):
        serve(replace(sqlite_settings, token=TOKEN), port=0, no_token=True)


def test_an_address_in_use_is_named(sqlite_settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"127\.0\.0\.1:{port}.*--port"):
            serve(sqlite_settings, "127.0.0.1", port)


def test_a_folder_with_a_worker_is_refused(sqlite_settings: Settings) -> None:
    with Worker.start(sqlite_settings), pytest.raises(WorkerBusyError):
        serve(sqlite_settings, "127.0.0.1", 0)


def test_a_queue_that_cannot_be_used_ends_it_with_the_cause(sqlite_settings: Settings) -> None:
    with Worker.start(sqlite_settings):
        pass  # makes the tables
    with closing(sqlite3.connect(sqlite_settings.state_dir / "seqferry.sqlite")) as database:
        database.execute("ALTER TABLE queues RENAME TO other")

    with _serving(sqlite_settings) as (process, _):
        assert process.wait(60) != 0

        assert "OperationalError" in str(process)
        assert "no such table: main.queues" in str(process)


def test_it_works_and_ends_cleanly_when_asked(
    sqlite_settings: Settings, s3server: S3Server, make_bucket: Callable[..., str], rng: random.Random
) -> None:
    source, target = make_bucket(s3server), make_bucket(s3server)
    fill(s3server, source, {f"run/{number}": SMALL for number in range(5)}, rng)
    storage = s3server.endpoint_url
    with (
        _serving(sqlite_settings, AWS_ENDPOINT_URL=storage) as (process, url),
        _client(sqlite_settings, url) as client,
    ):
        body = {"source": f"s3://{source}/run/", "target": f"s3://{target}", "endpoint_url": storage}
        transfer_id = client.post("/api/v1/transfers", json=body).json()["id"]

        def state() -> bool:
            answer = client.get(f"/api/v1/transfers/{transfer_id}")
            return answer.json()["state"] == "done"

        eventually(state, what="the transfer")
        process.signal(signal.SIGTERM)
        assert process.wait(20) == 0, process
        assert "Traceback" not in process.stderr

    assert digests(s3server, target) == digests(s3server, source, "run/")
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{url}/healthz", trust_env=False)


_SLOW_END = """
import time
from seqferry.workflows.worker import Worker
stop = Worker.stop
def held(self, *options):
    print("suspending", flush=True)
    while not Path(sys.argv[-1]).exists():
        time.sleep(0.01)
    return stop(self, *options)
Worker.stop = held
"""


def test_it_goes_on_answering_while_its_worker_suspends_its_work(
    sqlite_settings: Settings, s3server: S3Server, make_bucket: Callable[..., str], tmp_path: Path
) -> None:
    source, target, done = make_bucket(s3server), make_bucket(s3server), tmp_path / "done"
    s3server.client().put_object(Bucket=source, Key="run/a", Body=b"a")
    start, _, rest = _SERVE.partition("settings = ")
    command = [sys.executable, "-c", f"{start}{_SLOW_END}settings = {rest}", str(sqlite_settings.state_dir), str(done)]
    storage = {"AWS_ENDPOINT_URL": s3server.endpoint_url}
    with RunningProcess(command, environment=storage, is_preloaded=True) as process:
        url = process.wait_for_line(" .").split()[2]
        with _client(sqlite_settings, url) as before:
            assert before.get("/readyz").status_code == 200
            process.signal(signal.SIGTERM)
            process.wait_for_output("suspending")

            assert before.get("/healthz").status_code == 200
        with _client(sqlite_settings, url) as client:
            assert client.get("/healthz").status_code == 200
            ready = client.get("/readyz")
            assert (ready.status_code, "ending" in ready.json()["detail"]) == (503, True)
            body = {"source": f"s3://{source}/run/", "target": f"s3://{target}"}
            submitted = client.post("/api/v1/transfers", json=body)
            assert submitted.status_code == 202

            def is_last_of_its_connection() -> bool:
                return client.get("/healthz").headers.get("connection") == "close"

            eventually(is_last_of_its_connection, what="clients to be sent to other servers")
        done.touch()
        assert process.wait(20) == 0, process
        assert "Traceback" not in process.stderr
    with Service.open(sqlite_settings) as service:
        assert service.status(submitted.json()["id"]).state in ("queued", "running", "done")


def test_a_crash_loses_nothing(sqlite_settings: Settings, s3server: S3Server, make_bucket: Callable[..., str]) -> None:
    source, target = make_bucket(s3server), make_bucket(s3server)
    s3server.client().put_object(Bucket=source, Key="run/a", Body=b"a")
    with _serving(sqlite_settings) as (process, url), Service.open(sqlite_settings) as service:
        spec = build_spec(f"s3://{source}/run/", f"s3://{target}", endpoint_url=s3server.endpoint_url)
        transfer_id = service.submit(spec, actor="ada")
        with _client(sqlite_settings, url) as client, pytest.raises(httpx.TransportError):
            client.post("/crash_application")
        assert process.wait(20) == 1

    with _serving(sqlite_settings), Service.open(sqlite_settings) as service:
        assert until_ended(service, transfer_id).totals.done == 1


def test_without_a_token_only_local_names_are_answered(sqlite_settings: Settings) -> None:
    with _serving(sqlite_settings, "--no-token") as (_, url):
        port = url.rsplit(":", 1)[1]
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", "LOCALHOST", "[::1]:80", f"0.0.0.0:{port}", "[::]:80"):
            assert httpx.get(f"{url}/healthz", headers={"Host": host}, trust_env=False).status_code == 200
        for host in ("evil.example.org", f"evil.example.org:{port}", "127.0.0.1.evil.example.org"):
            answer = httpx.get(f"{url}/healthz", headers={"Host": host}, trust_env=False)
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


def test_without_a_token_no_page_of_another_site_can_change_anything(sqlite_settings: Settings) -> None:
    with _serving(sqlite_settings, "--no-token") as (_, url), Service.open(sqlite_settings) as service:
        transfer_id = service.submit(ANY_SPEC, actor="ada")
        paths = (f"/api/v1/transfers/{transfer_id}/cancel", f"/cancel/{transfer_id}", "/start_transfer")
        port = url.rsplit(":", 1)[1]
        for origin in (
            "https://evil.example",
            "null",
            f"http://localhost:{port}",
            "http://127.0.0.1",
            "http://127.0.0.1:9",
        ):
            for path in paths:
                answer = httpx.post(f"{url}{path}", headers={"Origin": origin}, trust_env=False)
                assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
        assert not [event for event in service.events(transfer_id) if event.actor.startswith("http")]
        answer = httpx.get(f"{url}/api/v1/transfers", headers={"Origin": "https://evil.example"}, trust_env=False)
        assert answer.status_code == 200
        assert "access-control-allow-origin" not in answer.headers

        assert httpx.post(f"{url}{paths[0]}", headers={"Origin": url}, trust_env=False).status_code != 403


def test_without_a_token_it_says_what_that_means(sqlite_settings: Settings) -> None:
    with _serving(sqlite_settings, "--no-token") as (process, url):
        assert httpx.get(f"{url}/api/v1/transfers", trust_env=False).status_code == 200
        assert "every user and program of this machine" in process.stderr
        assert not owner_file(sqlite_settings.state_dir).exists()


def test_tokens_are_seen_nowhere(sqlite_settings: Settings) -> None:
    with _serving(sqlite_settings, SEQFERRY_TOKEN=TOKEN) as (process, url):
        made = owner_file(sqlite_settings.state_dir).read_text().strip()
        with Service.open(sqlite_settings) as service:
            named = tokens.add(service, "guest", "read")
        assert httpx.get(f"{url}/api/v1/transfers", trust_env=False).status_code == 401
        for token in (TOKEN, made):
            answer = httpx.get(f"{url}/api/v1/transfers", headers=bearer(token), trust_env=False)
            assert answer.status_code == 200
        process.signal(signal.SIGTERM)
        process.wait(20)
        assert not [token for token in (TOKEN, made, named) if token in process.stdout + process.stderr]
    for file in sqlite_settings.state_dir.rglob("*"):
        held = file.read_bytes()
        assert TOKEN.encode() not in held, file
        assert named.encode() not in held, file
        assert made.encode() not in held or file == owner_file(sqlite_settings.state_dir), file
    assert os.environ.get("SEQFERRY_TOKEN") is None
