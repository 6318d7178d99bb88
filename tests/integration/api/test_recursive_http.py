"""``recursive`` over HTTP: a name that no object has is a prefix, as on the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest
from control import until_ended
from http_client import http_of
from mirror import keys

from seqferry import Client
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.settings.policy import Policy
from seqferry.spec import job_defaults
from seqferry.workflows.worker import Worker
from support.servers import S3Server


@dataclass(frozen=True, slots=True)
class Places:
    server: S3Server
    source: str
    target: str
    service: Service
    http: httpx.Client

    def body(self, *sources: str, **options: Any) -> dict[str, Any]:
        named: list[str] = [f"s3://{self.source}/{name}" for name in sources]
        source: str | list[str] = named if len(named) > 1 else named[0]
        given = {"source": source, "target": f"s3://{self.target}/in/", "recursive": True}
        return {**given, "endpoint_url": self.server.endpoint_url, **options}

    def ended(self, path: str, body: dict[str, Any], **headers: str) -> dict[str, Any]:
        answer = self.http.post(f"/api/v1/{path}", json=body, headers=headers)
        assert answer.status_code in (200, 202), answer.text
        until_ended(self.service, answer.json()["id"])
        found: dict[str, Any] = self.http.get(answer.headers["Location"]).json()
        return found

    def arrived(self) -> list[str]:
        return sorted(keys(self.server, self.target))


@pytest.fixture
def places(
    sqlite_settings: Settings,
    versitygw: S3Server,
    make_bucket: Callable[..., str],
    start_worker: Callable[[Service], Worker],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Places]:
    monkeypatch.setenv("AWS_ENDPOINT_URL", versitygw.endpoint_url)
    source, target = make_bucket(versitygw), make_bucket(versitygw)
    for key in ("tarball/a", "tarball/sub/b", "tarball2/c", "file", "both/d"):
        versitygw.client().put_object(Bucket=source, Key=key, Body=key.encode())
    with Service.open(sqlite_settings) as service, http_of(service) as http:
        start_worker(service)
        yield Places(versitygw, source, target, service, http)


@pytest.mark.parametrize(
    ("sources", "arrived"),
    [
        (["tarball"], ["in/a", "in/sub/b"]),
        (["tarball/"], ["in/a", "in/sub/b"]),
        (["tarball", "file"], ["in/a", "in/file", "in/sub/b"]),
        (["tarball", "tarball2"], ["in/a", "in/c", "in/sub/b"]),
        # An object counts before a prefix, and a wildcard selects by itself.
        (["file"], ["in/file"]),
        (["tarball*"], ["in/tarball/a", "in/tarball/sub/b", "in/tarball2/c"]),
    ],
    ids=",".join,
)
def test_a_name_without_an_object_is_a_prefix(places: Places, sources: list[str], arrived: list[str]) -> None:
    assert places.ended("transfers", places.body(*sources))["state"] == "done"
    assert places.arrived() == arrived


def test_a_name_means_the_same_in_previews_checks_moves_and_schedules(places: Places) -> None:
    body = places.body("tarball")
    preview = places.http.post("/api/v1/previews", json=body).json()
    compared = {name: body[name] for name in ("source", "target", "recursive", "endpoint_url")}
    checked = places.ended("checks", compared)
    added = places.http.post("/api/v1/schedules", json={"cron": "0 2 * * *", "transfer": body}).json()
    packed = places.ended("transfers", {**body, "operation": "pack", "target": f"s3://{places.target}/in.tar"})
    moved = places.ended("moves", body, **{"Idempotency-Key": "one"})
    again = places.ended("moves", body, **{"Idempotency-Key": "one"})

    assert sorted(one["source_key"] for one in preview["objects"]) == ["tarball/a", "tarball/sub/b"]
    assert (checked["source"], checked["totals"]["failed"]) == (f"{body['source']}/", 2)
    assert added["source"] == f"{body['source']}/"
    assert packed["state"] == "done"
    assert (moved["state"], moved["totals"]["done"]) == ("done", 2)
    # The sources are gone, and the key still means the transfer of then.
    assert again["id"] == moved["id"]
    assert places.arrived() == ["in.tar", "in.tar.sfidx", "in/a", "in/sub/b"]


def test_the_python_client_and_the_environment_of_the_server_ask_for_it(places: Places) -> None:
    body = places.body("tarball", recursive=True)
    with Client(str(places.http.base_url), places.http.headers["Authorization"].partition(" ")[2]) as client:
        ended = client.wait(client.submit(**body), timeout=60)
    del body["recursive"]
    with http_of(places.service, defaults=job_defaults.read({"SEQFERRY_RECURSIVE": "1"})) as http:
        by_default = http.post("/api/v1/transfers", json={**body, "target": f"s3://{places.target}/two/"})
        refused = http.post("/api/v1/transfers", json={**body, "recursive": False})
        mirrored = {"src_bucket": places.source, "src_prefix": "both/", "dst_bucket": places.target}
        plain = http.post("/start_transfer", json=mirrored)
        for answer in (by_default.json()["id"], plain.json()):
            until_ended(places.service, answer)

    assert ended["totals"]["done"] == 2
    assert (by_default.status_code, refused.status_code) == (202, 400)
    assert plain.status_code == 200, plain.text
    assert places.arrived() == ["d", "in/a", "in/sub/b", "two/a", "two/sub/b"]


def test_a_name_that_is_neither_and_a_name_without_it_are_told(places: Places) -> None:
    neither = places.http.post("/api/v1/transfers", json=places.body("tarbal"))
    without = places.http.post("/api/v1/transfers", json=places.body("tarball", recursive=False))

    assert (neither.status_code, without.status_code) == (400, 400)
    assert f"There is no object s3://{places.source}/tarbal" in neither.json()["detail"]
    assert f"did you mean s3://{places.source}/tarball/" in without.json()["detail"]


def test_what_may_not_be_read_is_not_looked_up(places: Places) -> None:
    settings = replace(places.service.settings, policy=Policy(read=(f"s3://{places.source}/tarball2/",)))
    with Service.open(settings) as own, http_of(own) as http:
        refused = http.post("/api/v1/transfers", json=places.body("tarball"))

    assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed")
