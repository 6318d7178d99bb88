"""The policy of a server as its clients meet it, and what it does about storage that does not answer."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from control import until_ended
from http_client import http, http_of
from starlette.types import Receive, Scope, Send

from seqferry.api import checks
from seqferry.api.checks import StorageChecks
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.settings.policy import Policy
from seqferry.spec.build import build_spec
from seqferry.workflows.worker import Worker
from support.sim import Simulator
from support.waiting import eventually


@pytest.mark.parametrize(
    "asked",
    [
        {"endpoint_url": "{url}"},
        {"source_endpoint_url": "{url}"},
        {"target_endpoint_url": "{url}"},
        {"endpoint_url": "{url}", "no_sign_request": True},
        {"profile": "boss"},
        {"endpoint_url": "http://169.254.169.254/latest"},
    ],
)
def test_what_the_policy_does_not_allow_is_403_and_nothing_is_contacted(
    own: Service, asked: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as storage:
        url = f"http://127.0.0.1:{storage.getsockname()[1]}"
        (tmp_path / "config").write_text(f"[profile boss]\nregion = eu-west-1\nendpoint_url = {url}\n")
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
        body = {"source": "s3://a/", "target": "s3://b/"}
        body |= {name: value.format(url=url) if isinstance(value, str) else value for name, value in asked.items()}
        with http_of(own) as client:
            response = client.post("/api/v1/transfers", json=body)

        assert (response.status_code, response.json()["code"]) == (403, "not_allowed")
        assert own.transfers() == []
        storage.settimeout(0)
        with pytest.raises(BlockingIOError):
            storage.accept()


def test_the_routes_of_s3mirror_keep_to_the_policy_as_well(own: Service) -> None:
    own.settings = replace(own.settings, policy=Policy(read=("s3://vendor/run/",)))  # type: ignore[misc]
    with http_of(own) as client:
        body = {"src_bucket": "vendor", "src_prefix": "secret/", "dst_bucket": "ours"}
        response = client.post("/start_transfer", json=body)

    assert (response.status_code, response.json()["code"]) == (403, "not_allowed")
    assert "s3://vendor/secret/" in response.json()["detail"]


def test_names_that_are_listed_lead_no_client_out_of_what_may_be_written(
    sqlite_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Simulator() as sim:
        for name, value in sim.environment().items():
            monkeypatch.setenv(name, value)
        storage = sim.client()
        for bucket in ("from", "to"):
            storage.create_bucket(Bucket=bucket)
        for key in ("run/a", "run/../../b", "run/x/./c"):
            storage.put_object(Bucket="from", Key=key, Body=b"a")
        settings = replace(sqlite_settings, policy=Policy(write=("s3://to/in/",)))
        with Service.open(settings) as own, Worker.start(settings, own) as _, http_of(own) as client:
            body = {"source": "s3://from/run/", "target": "s3://to/in/"}
            preview = client.post("/api/v1/previews", json=body).json()
            transfer_id = client.post("/api/v1/transfers", json=body).json()["id"]
            ended = until_ended(own, transfer_id)
            failures = own.failures(transfer_id)
            failed = own.objects(transfer_id, state="failed")
            # A command of the server's own user.
            commanded = own.submit(build_spec("s3://from/run/", "s3://to/own/"), actor="ada")
            until_ended(own, commanded)
        there = [found["Key"] for found in storage.list_objects_v2(Bucket="to")["Contents"]]

    assert (ended.totals.done, ended.totals.failed) == (1, 2)
    assert [(group.error_code, group.count) for group in failures] == [("DotSegment", 2)]
    refused = {one["source_key"]: one["because"] for one in preview["objects"] if one["action"] == "refuse"}
    assert refused == {one.source_key: one.error_message for one in failed}
    assert preview["totals"]["refused"] == 2
    assert sorted(there) == ["in/a", "own/../../b", "own/a", "own/x/./c"]


def test_storage_that_does_not_answer_is_given_up_with_its_name_and_holds_up_nothing_else(
    own: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://storage.example.org:9000")
    monkeypatch.setattr(checks.policy, "check_addresses", lambda _spec: None)
    answers = threading.Event()
    looks = 0

    def check(_spec: object) -> None:
        nonlocal looks
        looks += 1
        answers.wait(60)

    monkeypatch.setattr(own, "check", check)
    with http_of(own, checks=StorageChecks(own, seconds=0.5)) as client, ThreadPoolExecutor(40) as pool:

        def start(_number: int) -> httpx.Response:
            return client.post("/api/v1/transfers", json={"source": "s3://a/", "target": "s3://b/"})

        refused = list(pool.map(start, range(40)))
        assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200
        assert client.get("/api/v1/transfers").json()["transfers"] == []
        # Those that are not waited for any more count on: no client can have more than these made.
        assert looks == checks.MAX_CHECKS
        answers.set()
        eventually(lambda: start(0).status_code == 202, what="looks to be possible again")

    named = [one for one in refused if one.status_code == 504]
    assert len(named) == checks.MAX_CHECKS
    assert all("http://storage.example.org:9000" in one.json()["detail"] for one in named)
    assert {(one.status_code, one.json()["code"]) for one in refused} == {(504, "storage_timeout"), (503, "busy")}


def test_submissions_that_come_together_share_one_check_of_their_buckets(
    own: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks.policy, "check_addresses", lambda _spec: None)
    answers = threading.Event()
    looks = list[None]()

    def check(_spec: object) -> None:
        looks.append(None)
        answers.wait(60)

    monkeypatch.setattr(own, "check", check)
    own_checks = StorageChecks(own)
    with http_of(own, checks=own_checks) as client, ThreadPoolExecutor(4 * checks.MAX_CHECKS) as pool:

        def start(number: int) -> httpx.Response:
            body = {"source": f"s3://a/{number}/", "target": f"s3://b/{number}/"}
            return client.post("/api/v1/transfers", json=body)

        answered = [pool.submit(start, number) for number in range(4 * checks.MAX_CHECKS)]
        eventually(lambda: own_checks.under_way, what="a check")
        answers.set()

        assert {one.result().status_code for one in answered} == {202}
    assert len(looks) < 4  # another is due when they take longer than ``USABLE_SECONDS``


@pytest.mark.parametrize(
    "answer",
    [
        "<html><body>" + "inside-of-another-service " * 5000,
        "<Error><Code>AccessDenied</Code><Message>no " + "inside-of-another-service " * 5000 + "</Message></Error>",
        "<Error><Code>" + "inside-of-another-service" * 500 + "</Code><Message>no</Message></Error>",
    ],
)
def test_answers_of_a_storage_are_not_handed_on_whole(
    own: Service, start_worker: Callable[[Service], Worker], monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    class Storage(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200)
            self.end_headers()

        def do_GET(self) -> None:
            self.send_response(403)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Storage) as storage:
        serving = threading.Thread(target=storage.serve_forever)
        serving.start()
        try:
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{storage.server_address[1]}")
            start_worker(own)
            with http_of(own) as client:
                started = client.post("/start_transfer", json={"src_bucket": "vendor", "dst_bucket": "ours"})
                until_ended(own, started.json())
                response = client.get(f"/api/v1/transfers/{started.json()}")
        finally:
            storage.shutdown()
            serving.join()

    found = response.json()
    assert found["state"] == "failed"
    assert found["error_message"]
    assert len(found["error_message"]) < 2000


@pytest.mark.parametrize(
    ("proxies", "header", "client"),
    [
        ((), "203.0.113.77", "127.0.0.1"),
        (("10.0.0.1",), "203.0.113.77", "127.0.0.1"),
        (("127.0.0.1",), "203.0.113.77", "203.0.113.77"),
        (("127.0.0.0/8",), "198.51.100.1, 203.0.113.77", "203.0.113.77"),
        (("127.0.0.1", "10.0.0.0/8"), "198.51.100.1, 203.0.113.77, 10.1.1.1", "203.0.113.77"),
    ],
)
def test_only_trusted_proxies_say_where_a_client_is(proxies: tuple[str, ...], header: str, client: str) -> None:
    async def echo(scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(scope["client"][0]).encode()})

    with http(echo, trusted_proxies=proxies) as asking:
        assert asking.get("/", headers={"X-Forwarded-For": header}).json() == client
