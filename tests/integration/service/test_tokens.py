"""Tokens and roles of the HTTP API: no request without a token, and none beyond the role of its token."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from control import ANY_SPEC
from http_client import bearer, http_of

from seqferry.db import token_rows
from seqferry.model.errors import ConfigError, ConflictError
from seqferry.service import tokens
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.settings.tokens import NamedToken, owner_file, owner_token
from support.waiting import eventually

NOBODY = "ffffffff-0000-4000-8000-000000000000"
EVERYTHING = [
    ("GET", "/api/v1/transfers"),
    ("POST", "/api/v1/transfers"),
    ("GET", f"/api/v1/transfers/{NOBODY}"),
    ("GET", f"/api/v1/transfers/{NOBODY}/objects"),
    ("POST", f"/api/v1/transfers/{NOBODY}/cancel"),
    ("POST", "/start_transfer"),
    ("GET", f"/transfer_status/{NOBODY}"),
    ("POST", f"/cancel/{NOBODY}"),
    ("POST", "/crash_application"),
    ("GET", "/openapi.json"),
    ("GET", "/nowhere"),
    ("POST", "/nowhere"),
]


@pytest.fixture
def client(own: Service) -> Iterator[httpx.Client]:
    with http_of(own, allow_crash=True) as made:
        yield made


def _refused(response: httpx.Response, status: int, code: str) -> str:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["code"] == code
    return response.json()["detail"]


def test_nothing_is_answered_without_a_token(client: httpx.Client) -> None:
    token = client.headers.pop("Authorization").removeprefix("Bearer ")
    for header in (None, "Bearer wrong", "Bearer", f"Basic {token}", token):
        given = {} if header is None else {"Authorization": header}
        for method, path in EVERYTHING:
            response = client.request(method, path, headers=given, json={} if method == "POST" else None)

            assert "token" in _refused(response, 401, "unauthorized")
            assert (response.headers["www-authenticate"], response.headers["connection"]) == ("Bearer", "close")


def test_two_tokens_in_one_request_are_none(client: httpx.Client) -> None:
    right = client.headers.pop("Authorization")

    response = client.get("/api/v1/transfers", headers=[("Authorization", right), ("Authorization", right)])

    _refused(response, 401, "unauthorized")


@pytest.mark.parametrize("request_line", ["POST /start_transfer", "POST /healthz", "GET /readyz"])
@pytest.mark.parametrize("length", ["Content-Length: 1000000", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("expect", [True, False])
def test_the_token_is_looked_at_before_the_body(
    client: httpx.Client, request_line: str, length: str, expect: bool
) -> None:
    lines = [f"{request_line} HTTP/1.1", "Host: localhost", "Content-Type: application/json", length]
    lines += ["Expect: 100-continue"] if expect else []
    with socket.create_connection((client.base_url.host, client.base_url.port), timeout=30) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())

        # No byte of the body is sent, so an answer cannot have waited for it; and the connection ends.
        answer = b"".join(iter(lambda: connection.recv(65536), b""))

    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"100 Continue" not in answer


def test_health_needs_no_token_and_says_nothing_without_one(
    client: httpx.Client, own: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with httpx.Client(base_url=client.base_url, trust_env=False) as stranger:
        assert stranger.get("/healthz").json() == {"status": "ok"}
        assert stranger.get("/readyz").json() == {"status": "ready"}
        assert client.get("/readyz").json() == {"status": "ready", "database": own.settings.database_label}

        def fail(*_: object, **__: object) -> None:
            raise ConfigError("The database at db.example.org cannot be used: gone.")

        monkeypatch.setattr(own, "transfers", fail)
        response = eventually(
            lambda: (found := stranger.get("/readyz")).status_code == 503 and found, what="a new look at the database"
        )
        assert "db.example.org" not in _refused(response, 503, "config")
        assert "db.example.org" in _refused(client.get("/readyz"), 503, "config")
        assert stranger.get("/healthz").status_code == 200


def test_the_token_of_the_state_folder_is_made_once_and_is_for_its_owner_alone(own: Service) -> None:
    folder = own.settings.state_dir

    made = owner_token(folder)

    assert made.startswith("sfy_")
    assert len(made) > 40
    assert owner_token(folder) == made
    assert owner_file(folder).read_text() == f"{made}\n"
    assert owner_file(folder).stat().st_mode & 0o777 == 0o600


def test_the_token_of_the_environment_counts_beside_the_one_of_the_folder(own: Service) -> None:
    own.settings = replace(own.settings, token="0123456789abcdef")  # type: ignore[misc]
    with http_of(own) as client:
        assert client.get("/api/v1/transfers").status_code == 200
        assert client.get("/api/v1/transfers", headers=bearer("0123456789abcdef")).status_code == 200


def test_each_role_reaches_its_own_routes_and_no_others(client: httpx.Client, own: Service) -> None:
    read = bearer(tokens.add(own, "viewer", "read"))
    submit = bearer(tokens.add(own, "robot", "submit"))
    admin = bearer(tokens.add(own, "boss", "admin"))
    by_person, by_other, by_namesake, by_robot = (
        own.submit_or_resume(ANY_SPEC, actor=actor, new=True).id
        for actor in (
            "ada@host",
            "http viewer from 127.0.0.1",
            "http robot2 from 127.0.0.1",
            "http robot from 127.0.0.1",
        )
    )
    _eventually_known(client, read)

    for headers in (read, submit, admin):
        for path in ("/api/v1/transfers", f"/api/v1/transfers/{by_person}", "/openapi.json"):
            assert client.get(path, headers=headers).status_code == 200
    for path in ("/api/v1/transfers", "/start_transfer", f"/cancel/{by_person}", "/crash_application", "/nowhere"):
        assert "'viewer'" in _refused(client.post(path, headers=read, json={}), 403, "forbidden")
    assert client.post("/api/v1/transfers", headers=submit, json={}).status_code == 422
    for path in (
        f"/api/v1/transfers/{by_person}/cancel",
        f"/cancel/{by_person}",
        f"/cancel/{by_other}",
        f"/cancel/{by_namesake}",
    ):
        assert "its own" in _refused(client.post(path, headers=submit), 403, "not_allowed")
    _refused(client.post("/crash_application", headers=submit), 403, "forbidden")
    assert own.status(by_person).state == "queued"
    assert client.post(f"/cancel/{by_robot}", headers=submit).status_code == 200
    assert client.post(f"/cancel/{by_person}", headers=admin).status_code == 200
    assert {one.id: one.state for one in own.transfers()} == {
        by_person: "cancelled",
        by_other: "queued",
        by_namesake: "queued",
        by_robot: "cancelled",
    }


def test_the_name_of_the_token_is_the_actor(client: httpx.Client, own: Service) -> None:
    headers = bearer(tokens.add(own, "lab-7", "admin"))
    transfer_id = own.submit(ANY_SPEC, actor="ada@host")
    _eventually_known(client, headers)

    client.post(f"/cancel/{transfer_id}", headers={**headers, "X-Forwarded-For": "203.0.113.77"})

    cancelled = own.events(transfer_id)[-1]
    assert (cancelled.kind, cancelled.actor) == ("cancelled", "http lab-7 from 127.0.0.1")


def test_a_running_server_learns_of_tokens_that_come_and_go(client: httpx.Client, own: Service) -> None:
    headers = bearer(tokens.add(own, "guest", "read"))
    _eventually_known(client, headers)

    tokens.remove(own, "guest")

    eventually(lambda: _status(client, headers) == 401, what="the removed token to be refused")
    assert _status(client, {}) == 200


def test_an_expired_token_is_refused(client: httpx.Client, own: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    headers = bearer(tokens.add(own, "guest", "read", now + 3600))
    _eventually_known(client, headers)

    monkeypatch.setattr(time, "time", lambda: now + 3601)

    assert _status(client, headers) == 401


def test_all_servers_at_a_database_know_a_token_and_its_removal(settings: Settings, tmp_path: Path) -> None:
    """Two replicas, each with a state folder of its own where the database is not a file in it."""
    other = settings if settings.uses_sqlite else replace(settings, state_dir=tmp_path / "other")
    with Service.open(settings) as one, Service.open(other) as two, http_of(one) as here, http_of(two) as there:
        headers = bearer(tokens.add(one, "guest", "read"))
        for client in (here, there):
            _eventually_known(client, headers)
        assert [(named.name, named.role) for named in tokens.list_tokens(two)] == [("guest", "read")]

        tokens.remove(two, "guest")

        removed = time.monotonic()
        for client in (here, there):
            eventually(lambda client=client: _status(client, headers) == 401, what="the removed token to be refused")
        assert time.monotonic() - removed < 3
        assert [_status(client, {}) for client in (here, there)] == [200, 200]


@pytest.mark.every_database
def test_a_name_is_given_once_by_processes_that_add_at_the_same_time(settings: Settings) -> None:
    with Service.open(settings) as service:

        def added(_: int) -> str | None:
            try:
                return tokens.add(service, "lab", "read")
            except ConflictError:
                return None

        with ThreadPoolExecutor(4) as pool:
            made = [one for one in pool.map(added, range(4)) if one is not None]

        assert len(made) == len(tokens.list_tokens(service)) == 1


def test_a_database_that_is_away_is_no_wrong_token(
    client: httpx.Client, own: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = bearer(tokens.add(own, "guest", "read"))
    _eventually_known(client, guest)

    def away(_connection: object) -> list[NamedToken]:
        raise ConfigError("The database at db.example.org cannot be used: gone.")

    with monkeypatch.context() as patched:
        patched.setattr(token_rows, "read_all", away)
        eventually(lambda: _status(client, guest) == 503, what="the tokens to be looked up in vain")
        refused = client.get("/api/v1/transfers", headers=bearer("sfy_wrong"))
        assert "db.example.org" not in _refused(refused, 503, "config")
        assert client.get("/healthz", headers=guest).status_code == 200
        assert _status(client, {}) == 200, "the owner's token is in the state folder"

    _eventually_known(client, guest)


def test_at_most_20_mistakes_are_told_and_none_is_repeated_at_length(client: httpx.Client) -> None:
    unknown = {f"{'x' * 500}{number}": 1 for number in range(300)}
    for path, body in (("/api/v1/transfers", unknown), ("/start_transfer", {"src_keys": [1] * 90_000})):
        response = client.post(path, json=body)

        assert 1 <= len(response.json()["errors"]) <= 20
        _refused(response, 422, "invalid_request")
        assert len(response.content) < 20_000


def test_what_a_client_sent_is_not_repeated_at_length(client: httpx.Client) -> None:
    body = {"source": "s3:/" + "a" * 100_000, "target": "s3://b/"}

    response = client.post("/api/v1/transfers", json=body)

    assert response.status_code in (400, 422)
    assert len(response.content) < 2000
    assert len(client.get("/transfer_status/" + "a" * 20_000).content) < 2000


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"source": "s3://a/", "target": "s3://b/", "profile": "x" * 1024**2}),
        "[" * 20_000,
        "[" + "{}," * 20_000 + "{}]",
        "[" + '"a",' * 20_000 + '"a"]',
    ],
)
def test_bodies_are_bounded_in_bytes_and_in_values(client: httpx.Client, text: str) -> None:
    def pieces() -> Iterator[bytes]:
        yield text.encode()

    for body in (text, pieces()):
        response = client.post("/api/v1/transfers", content=body, headers={"Content-Type": "application/json"})

        _refused(response, 413, "too_large")


def _eventually_known(client: httpx.Client, headers: dict[str, str]) -> None:
    eventually(lambda: _status(client, headers) == 200, what="the new token to be known")


def _status(client: httpx.Client, headers: dict[str, Any]) -> int:
    return client.get("/api/v1/transfers", headers=headers).status_code
