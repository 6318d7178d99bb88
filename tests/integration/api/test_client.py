"""``from seqferry import Client``, against the real server."""

from __future__ import annotations

import ast
import io
import random
import runpy
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from control import add_batch, planned, spec_number
from http_client import http_of
from mirror import SMALL, digests, fill

from seqferry import Client, ClientError
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.workflows.worker import Worker
from support.servers import S3Server

EXAMPLES = Path(__file__).parents[3] / "examples" / "python"


def test_submit_wait_and_iterate(
    sqlite_settings: Settings,
    s3server: S3Server,
    make_bucket: Callable[..., str],
    start_worker: Callable[[Service], Worker],
    rng: random.Random,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3server.endpoint_url)
    source, target = make_bucket(s3server), make_bucket(s3server)
    fill(s3server, source, {f"run/{number}": SMALL for number in range(5)}, rng)
    with Service.open(sqlite_settings) as service, http_of(service) as http:
        start_worker(service)
        token = http.headers["Authorization"].partition(" ")[2]
        with Client(str(http.base_url), token) as client:
            one = client.submit(f"s3://{source}/run/", f"s3://{target}/in/", idempotency_key="k")
            again = client.submit(f"s3://{source}/run/", f"s3://{target}/in/", idempotency_key="k")
            ended = client.wait(one, timeout=60)
            keys = sorted(each["source_key"] for each in client.objects(one, limit=2))
            listed = [each["id"] for each in client.transfers(state="done", limit=1)]
        monkeypatch.setenv("SEQFERRY_URL", str(http.base_url))
        monkeypatch.setenv("SEQFERRY_TOKEN", token)
        monkeypatch.setattr(sys, "argv", ["notebook", f"s3://{source}/run/", f"s3://{target}/again/"])
        with redirect_stdout(io.StringIO()) as shown:
            made = runpy.run_path(str(EXAMPLES / "notebook.py"))
        made["client"].close()

    assert one == again
    assert (ended["state"], ended["totals"]["done"]) == ("done", 5)
    assert keys == [f"run/{number}" for number in range(5)]
    assert listed == [one]
    assert digests(s3server, target, "again/") == digests(s3server, source, "run/")
    assert "run/3" in shown.getvalue()


def test_what_the_server_refuses_and_what_does_not_end_well(sqlite_settings: Settings) -> None:
    with Service.open(sqlite_settings) as service, http_of(service) as http:
        transfer_id = service.submit(spec_number(0), actor="http local from 127.0.0.1")
        with service.database.write() as connection:
            add_batch(connection, transfer_id, [planned("a")])
        token = http.headers["Authorization"].partition(" ")[2]
        with Client(str(http.base_url), token) as client:
            with pytest.raises(TimeoutError, match="goes on"):
                client.wait(transfer_id, timeout=0.1)
            client.cancel(transfer_id)
            with pytest.raises(ClientError, match="cancelled") as ended:
                client.wait(transfer_id, timeout=60)
            with pytest.raises(ClientError) as unknown:
                client.transfer("ffffffff-0000-4000-8000-000000000000")
            with pytest.raises(ClientError) as wrong:
                client.submit("nonsense", "s3://b/")
        with Client(str(http.base_url), "no") as stranger, pytest.raises(ClientError) as refused:
            stranger.transfer(transfer_id)

    assert ended.value.code == "transfer_failed"
    assert (unknown.value.status, unknown.value.code) == (404, "not_found")
    assert (wrong.value.status, wrong.value.code) == (400, "usage")
    assert (refused.value.status, refused.value.code) == (401, "unauthorized")


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_examples_call_what_the_client_has(file: Path) -> None:
    calls = {
        node.func.attr
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "client"
    }

    assert calls >= {"submit", "wait"}
    assert all(hasattr(Client, name) for name in calls)
