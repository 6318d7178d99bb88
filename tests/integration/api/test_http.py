"""``/api/v1``: what clients may rely on."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from typing import Any

import httpx
import pytest
from control import ANY_SPEC, MIB, add_batch, planned, spec_number, until_ended
from http_client import http_of
from mirror import SMALL, digests, fill

from seqferry.model.errors import ConfigError, SeqferryError, StorageError
from seqferry.service.service import Service
from seqferry.workflows.worker import Worker
from support.servers import S3Server

NOBODY = "ffffffff-0000-4000-8000-000000000000"


@pytest.fixture
def client(own: Service) -> Iterator[httpx.Client]:
    with http_of(own) as made:
        yield made


def _problem(response: Any, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert (problem["type"], problem["status"], problem["code"]) == ("about:blank", status, code)
    assert problem["title"]
    assert "Traceback" not in response.text
    return problem


def test_a_transfer_from_post_to_the_fate_of_each_object(
    client: httpx.Client,
    own: Service,
    s3server: S3Server,
    make_bucket: Callable[..., str],
    start_worker: Callable[[Service], Worker],
    rng: random.Random,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3server.endpoint_url)
    source, target = make_bucket(s3server), make_bucket(s3server)
    fill(s3server, source, {f"run/{number}": SMALL for number in range(7)}, rng)
    start_worker(own)
    body = {
        "source": f"s3://{source}/run/",
        "target": f"s3://{target}/in",
        "endpoint_url": s3server.endpoint_url,
        "part_size": 5 * MIB,
    }

    answer = client.post("/api/v1/transfers", json=body, headers={"Idempotency-Key": "once"})

    assert answer.status_code == 202
    transfer_id = answer.json()["id"]
    assert answer.headers["location"] == f"/api/v1/transfers/{transfer_id}"
    assert client.post("/api/v1/transfers", json=body, headers={"Idempotency-Key": "once"}).json()["id"] == transfer_id
    until_ended(own, transfer_id)
    status = client.get(f"/api/v1/transfers/{transfer_id}").json()
    assert (status["state"], status["source"], status["target"]) == (
        "done",
        f"s3://{source}/run/",
        f"s3://{target}/in/",
    )
    assert status["totals"] == {
        "objects": 7,
        "bytes": 7 * SMALL,
        "done": 7,
        "skipped": 0,
        "failed": 0,
        "cancelled": 0,
        "bytes_done": 7 * SMALL,
    }
    assert status["ended_at"].endswith("Z")
    assert status["created_by"] == "http local from 127.0.0.1"
    assert [one["id"] for one in client.get("/api/v1/transfers").json()["transfers"]] == [transfer_id]
    first = client.get(f"/api/v1/transfers/{transfer_id}/objects", params={"limit": 5}).json()
    rest = client.get(
        f"/api/v1/transfers/{transfer_id}/objects", params={"limit": 5, "cursor": first["next_cursor"]}
    ).json()
    found = first["objects"] + rest["objects"]
    assert sorted(one["source_key"] for one in found) == [f"run/{number}" for number in range(7)]
    assert rest["next_cursor"] is None
    assert {one["state"] for one in found} == {"done"}
    done = client.get(f"/api/v1/transfers/{transfer_id}/objects", params={"state": "done"}).json()
    assert len(done["objects"]) == 7
    assert client.get(f"/api/v1/transfers/{transfer_id}/objects", params={"state": "failed"}).json()["objects"] == []
    assert digests(s3server, target, "in/") == digests(s3server, source, "run/")


def test_what_has_the_size_is_left_alone_when_asked_for(
    client: httpx.Client,
    own: Service,
    s3server: S3Server,
    make_bucket: Callable[..., str],
    start_worker: Callable[[Service], Worker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3server.endpoint_url)
    source, target, s3 = make_bucket(s3server), make_bucket(s3server), s3server.client(s3server.user)
    for bucket, key, body in ((source, "run/a", b"one"), (source, "run/b", b"four"), (target, "in/a", b"two")):
        s3.put_object(Bucket=bucket, Key=key, Body=body)
    start_worker(own)
    body = {"source": f"s3://{source}/run/", "target": f"s3://{target}/in", "endpoint_url": s3server.endpoint_url}

    transfer_id = client.post("/api/v1/transfers", json={**body, "if_exists": "size"}).json()["id"]

    until_ended(own, transfer_id)
    objects = client.get(f"/api/v1/transfers/{transfer_id}/objects").json()["objects"]
    assert sorted((one["source_key"], one["state"]) for one in objects) == [("run/a", "skipped"), ("run/b", "done")]
    assert [one["verified"] for one in objects if one["state"] == "skipped"] == ["size"]
    assert s3.get_object(Bucket=target, Key="in/a")["Body"].read() == b"two"


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"source": "b/run/", "target": "s3://b/"}, "b/run/"),
        ({"source": "s3://a/run/", "target": "s3://a/run/"}, "the same"),
        ({"source": "s3://a/", "target": "s3://b/", "part_size": 1}, "--part-size"),
        ({"source": "s3://a/", "target": "s3://b/", "source_endpoint_url": "127.0.0.1:9"}, "is not an endpoint URL"),
    ],
)
def test_what_makes_no_sense_is_400_and_nothing_is_started(
    client: httpx.Client, own: Service, body: dict[str, Any], named: str
) -> None:
    assert named in _problem(client.post("/api/v1/transfers", json=body), 400, "usage")["detail"]
    assert own.transfers() == []


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"source": "s3://a/"}, "body.target"),
        ({"source": "s3://a/", "target": "s3://b/", "if_exists": "maybe"}, "body.if_exists"),
        ({"source": "s3://a/", "target": "s3://b/", "password": "hunter2"}, "body.password"),
        ([], "body"),
    ],
)
def test_a_body_that_is_not_valid_is_422_with_the_place(client: httpx.Client, body: Any, where: str) -> None:
    response = client.post("/api/v1/transfers", json=body)

    assert [one["where"] for one in _problem(response, 422, "invalid_request")["errors"]] == [where]
    assert "hunter2" not in response.text


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/transfers", {"source": "s3://\ud800/", "target": "s3://b/"}),
        ("/api/v1/transfers", {"source": "s3://a/\ud800", "target": "s3://b/"}),
        ("/api/v1/transfers", {"source": "s3://a/", "target": "s3://b/", "profile": "\ud800"}),
        ("/api/v1/transfers", {"source": "s3://a/", "target": "s3://b/", "storage_class": "\ud800"}),
        ("/start_transfer", {"src_bucket": "\ud800", "dst_bucket": "b"}),
        ("/start_transfer", {"src_bucket": "a", "dst_bucket": "b", "src_keys": ["\ud800"]}),
        ("/start_transfer", {"src_bucket": "a", "dst_bucket": "b", "src_prefix": "\ud800"}),
    ],
)
def test_halves_of_characters_are_the_mistake_of_the_client(
    client: httpx.Client, own: Service, path: str, body: dict[str, Any]
) -> None:
    answer = client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})

    assert "ud800" in _problem(answer, 400, "usage")["detail"]
    assert own.transfers() == []


def test_too_many_keys_are_400_with_the_limit(client: httpx.Client, own: Service) -> None:
    body = {"src_bucket": "a", "dst_bucket": "b", "src_keys": [f"{number}" for number in range(100_001)]}

    assert "100,000" in _problem(client.post("/start_transfer", json=body), 400, "usage")["detail"]
    assert own.transfers() == []


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_that_is_too_large_is_refused_before_it_is_held(client: httpx.Client, announced: bool) -> None:
    most = 64 * 1024**2
    connection = HTTPConnection(client.base_url.host, client.base_url.port, timeout=60)
    connection.putrequest("POST", "/start_transfer")
    connection.putheader("Authorization", client.headers["Authorization"])
    connection.putheader("Content-Type", "application/json")
    if announced:
        connection.putheader("Content-Length", str(most + 1))
        connection.endheaders()
    else:
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        piece = b" " * 1024**2
        for _ in range(64):
            connection.send(b"100000\r\n" + piece + b"\r\n")
        connection.send(b"1\r\n \r\n")

    # Without the body's end, so that only its size can be the reason.
    answer = connection.getresponse()

    assert answer.status == 413
    assert "64 MiB" in json.load(answer)["detail"]
    connection.close()


def test_a_bucket_that_does_not_exist_is_400_with_the_bucket(
    client: httpx.Client,
    own: Service,
    s3server: S3Server,
    make_bucket: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3server.endpoint_url)
    body = {
        "source": f"s3://{make_bucket(s3server)}/",
        "target": "s3://no-such-bucket-here/x",
        "endpoint_url": s3server.endpoint_url,
    }

    problem = _problem(client.post("/api/v1/transfers", json=body), 400, "storage")

    assert problem["error_code"] == "NoSuchBucket"
    assert "no-such-bucket-here" in problem["detail"]
    assert own.transfers() == []


def test_storage_that_cannot_be_reached_is_502(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    body = {"source": "s3://a/", "target": "s3://b/", "endpoint_url": "http://127.0.0.1:9"}

    assert "127.0.0.1:9" in _problem(client.post("/api/v1/transfers", json=body), 502, "storage")["detail"]


@pytest.mark.parametrize("path", ["", "/objects"])
def test_an_unknown_transfer_is_404(client: httpx.Client, path: str) -> None:
    _problem(client.get(f"/api/v1/transfers/{NOBODY}{path}"), 404, "not_found")


def test_cancel(client: httpx.Client, own: Service) -> None:
    transfer_id = own.submit(ANY_SPEC, actor="ada")

    answer = client.post(f"/api/v1/transfers/{transfer_id}/cancel")

    assert (answer.status_code, answer.json()["state"]) == (202, "cancelled")
    _problem(client.post(f"/api/v1/transfers/{NOBODY}/cancel"), 404, "not_found")


@pytest.mark.parametrize("path", ["/api/v1/transfers/{}/cancel", "/cancel/{}"])
def test_what_changes_a_transfer_needs_its_whole_id(client: httpx.Client, own: Service, path: str) -> None:
    transfer_id = own.submit(ANY_SPEC, actor="ada")

    assert client.get(f"/api/v1/transfers/{transfer_id[:8]}").json()["id"] == transfer_id
    problem = _problem(client.post(path.format(transfer_id[:8])), 404, "not_found")

    assert "whole id" in problem["detail"]
    assert own.status(transfer_id).state == "queued"
    assert client.post(path.format(transfer_id.upper())).is_success
    assert own.status(transfer_id).state == "cancelled"


@pytest.mark.parametrize("params", [{"cursor": "-1"}, {"cursor": "1 or 1"}, {"cursor": "9" * 30}])
def test_a_cursor_of_another_form_is_422(client: httpx.Client, own: Service, params: dict[str, str]) -> None:
    transfer_id = own.submit(ANY_SPEC, actor="ada")

    _problem(client.get(f"/api/v1/transfers/{transfer_id}/objects", params=params), 422, "invalid_request")
    _problem(client.get("/api/v1/transfers", params=params), 422, "invalid_request")


def test_an_idempotency_key_used_for_another_transfer_is_409(client: httpx.Client, own: Service) -> None:
    own.submit(ANY_SPEC, actor="http local from 127.0.0.1", idempotency_key="k")

    body = {"source": "s3://a/", "target": "s3://b/"}
    _problem(client.post("/api/v1/transfers", json=body, headers={"Idempotency-Key": "k"}), 409, "conflict")


def test_pages_that_are_not_there_are_problems_too(client: httpx.Client) -> None:
    _problem(client.get("/nowhere"), 404, "not_found")
    _problem(client.delete("/api/v1/transfers"), 405, "method_not_allowed")
    _problem(client.post("/crash_application"), 404, "not_found")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConfigError("The database x cannot be used: gone."), 503),
        (StorageError("No.", "retry", "InternalError", "ListObjectsV2"), 502),
        (StorageError("No.", "person", "AccessDenied", "ListObjectsV2"), 400),
        (SeqferryError("No."), 500),
    ],
)
def test_each_kind_of_error_has_its_status(
    client: httpx.Client, own: Service, monkeypatch: pytest.MonkeyPatch, error: SeqferryError, status: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(own, "transfer_page", fail)

    assert _problem(client.get("/api/v1/transfers"), status, error.code)["detail"] == error.message


def test_a_fault_of_ours_says_nothing_of_its_inside(
    client: httpx.Client, own: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("hunter2")

    monkeypatch.setattr(own, "transfer_page", fail)
    response = client.get("/api/v1/transfers")

    _problem(response, 500, "internal")
    assert "hunter2" not in response.text


def test_the_description_of_the_api_names_what_there_is(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]

    assert set(paths) >= {
        "/api/v1/transfers",
        "/api/v1/transfers/{transfer_id}",
        "/api/v1/transfers/{transfer_id}/objects",
        "/api/v1/transfers/{transfer_id}/cancel",
        "/healthz",
        "/readyz",
        "/start_transfer",
        "/transfer_status/{transfer_id}",
        "/cancel/{transfer_id}",
    }
    for path, operations in paths.items():
        for operation in operations.values():
            answers = operation["responses"]
            # With the token of a link or with a ticket: one that is not valid is not found.
            unknown = "404" if path.startswith(("/api/v1/delivery", "/api/v1/tickets")) else "401"
            assert {unknown, "405", "500", "503"} <= set(answers), path
            for status, answer in answers.items():
                if int(status) >= 400:
                    assert list(answer["content"]) == ["application/problem+json"], (path, status)


def test_a_method_that_is_none_of_a_path_is_405_with_all_that_are(client: httpx.Client) -> None:
    answer = client.delete("/api/v1/transfers")

    _problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, POST"


def test_lists_over_http_take_filters_and_cursors(client: httpx.Client, own: Service) -> None:
    ids = [own.submit(spec_number(number), actor=f"person{number}") for number in range(3)]
    with own.database.write() as connection:
        add_batch(connection, ids[0], [planned(f"{number}") for number in range(5)])

    first = client.get("/api/v1/transfers", params={"limit": 2}).json()
    second = client.get("/api/v1/transfers", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    back = client.get("/api/v1/transfers", params={"limit": 2, "cursor": second["previous_cursor"]}).json()
    found = client.get("/api/v1/transfers", params={"text": "number1", "state": ["queued", "done"]}).json()
    nobody = client.get("/api/v1/transfers", params={"created_after": "2100-01-01T00:00:00+02:00"}).json()
    objects = client.get(f"/api/v1/transfers/{ids[0]}/objects", params={"prefix": "run/3"}).json()

    assert [one["id"] for one in first["transfers"] + second["transfers"]] == ids[::-1]
    assert (first["previous_cursor"], second["next_cursor"]) == (None, None)
    assert [one["id"] for one in back["transfers"]] == ids[:0:-1]
    assert [one["id"] for one in found["transfers"]] == [ids[1]]
    assert nobody["transfers"] == []
    assert [one["source_key"] for one in objects["objects"]] == ["run/3"]
    assert client.get(f"/api/v1/transfers/{ids[0]}/failures").json() == {"causes": []}
    assert client.get(f"/api/v1/transfers/{ids[0]}/samples").json() == {"samples": []}


@pytest.mark.parametrize(
    "params",
    [{"created_after": "5"}, {"created_after": "2026-11-24"}, {"created_after": "2026-11-24T00:00:00"}, {"limit": "0"}],
)
def test_a_filter_of_another_form_is_422(client: httpx.Client, params: dict[str, str]) -> None:
    _problem(client.get("/api/v1/transfers", params=params), 422, "invalid_request")
