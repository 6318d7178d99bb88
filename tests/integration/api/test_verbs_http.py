"""Moves, removals, checks and cleanups that are asked for over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from control import until_ended
from http_client import http_of
from mirror import keys, open_uploads

from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.settings.policy import Policy
from seqferry.workflows.worker import Worker
from support.servers import S3Server


def test_each_verb_has_a_route_and_is_followed_as_a_transfer(
    sqlite_settings: Settings,
    versitygw: S3Server,
    make_bucket: Callable[..., str],
    start_worker: Callable[[Service], Worker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", versitygw.endpoint_url)
    source, target = make_bucket(versitygw), make_bucket(versitygw)
    client = versitygw.client()
    for name in ("run/a", "run/b"):
        client.put_object(Bucket=source, Key=name, Body=name.encode())
    left = client.create_multipart_upload(Bucket=target, Key="in/left")["UploadId"]
    url = {"endpoint_url": versitygw.endpoint_url}
    places = {"source": f"s3://{source}/run/", "target": f"s3://{target}/in/"}
    with Service.open(sqlite_settings) as own, http_of(own) as http:
        start_worker(own)

        def ended(verb: str, **body: Any) -> dict[str, Any]:
            answer = http.post(f"/api/v1/{verb}", json={**url, **body})
            assert answer.status_code == 202, answer.text
            place = answer.headers["Location"]
            until_ended(own, answer.json()["id"])
            found: dict[str, Any] = http.get(place).json()
            return found

        assert http.post("/api/v1/removals", json={**url, "sources": [f"s3://{source}/run/"]}).status_code == 400
        assert http.post("/api/v1/removals", json={**url, "sources": ["/etc/hosts"]}).status_code == 400
        assert http.post("/api/v1/checks", json={**url, **places, "delete": True}).status_code == 422

        checked = ended("checks", **places)
        assert (checked["operation"], checked["totals"]["failed"]) == ("check", 2)
        moved = ended("moves", **places)
        assert (moved["operation"], moved["state"], moved["totals"]["done"]) == ("move", "done", 2)
        assert (sorted(keys(versitygw, source)), sorted(keys(versitygw, target))) == ([], ["in/a", "in/b"])
        other = ended("cleanups", place=f"s3://{target}/", older_than="0s", expected=2)
        assert (other["state"], len(open_uploads(versitygw, target))) == ("failed", 1)
        other = ended("removals", sources=[f"s3://{target}/in/"], recursive=True, expected=3)
        assert (other["state"], len(list(keys(versitygw, target)))) == ("failed", 2)
        negative = {**url, "sources": [f"s3://{target}/in/"], "expected": -1}
        assert http.post("/api/v1/removals", json=negative).status_code == 422
        aborted = ended("cleanups", place=f"s3://{target}/", older_than="0s", expected=1)
        assert (aborted["totals"]["done"], open_uploads(versitygw, target)) == (1, [])
        [row] = http.get(f"/api/v1/transfers/{aborted['id']}/objects").json()["objects"]
        assert (row["source_key"], row["source_upload_id"], row["version_id"]) == ("in/left", left, None)
        removed = ended("removals", sources=[f"s3://{target}/in/"], recursive=True)
        assert (removed["state"], removed["totals"]["done"]) == ("done", 2)
        assert list(keys(versitygw, target)) == []


def test_a_policy_that_allows_no_writes_allows_no_moves_and_removals(
    sqlite_settings: Settings, versitygw: S3Server, make_bucket: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", versitygw.endpoint_url)
    source, target = make_bucket(versitygw), make_bucket(versitygw)
    versitygw.client().put_object(Bucket=source, Key="run/a", Body=b"a")
    settings = replace(sqlite_settings, policy=Policy(write=(f"s3://{target}/",)))
    url = {"endpoint_url": versitygw.endpoint_url}
    with Service.open(settings) as own, http_of(own) as http:
        move = {**url, "source": f"s3://{source}/run/", "target": f"s3://{target}/in/"}
        remove = {**url, "sources": [f"s3://{source}/run/"], "recursive": True}

        assert http.post("/api/v1/moves", json=move).status_code == 403
        assert http.post("/api/v1/removals", json=remove).status_code == 403
    assert list(keys(versitygw, source)) == ["run/a"]


def test_a_move_has_the_priority_that_was_asked_for(
    sqlite_settings: Settings, versitygw: S3Server, make_bucket: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", versitygw.endpoint_url)
    places = {"source": f"s3://{make_bucket(versitygw)}/run/", "target": f"s3://{make_bucket(versitygw)}/in/"}
    with Service.open(sqlite_settings) as own, http_of(own) as http:
        moved = http.post("/api/v1/moves", json={**places, "priority": 7})
        assert moved.status_code == 202, moved.text
        refused = http.post("/api/v1/moves", json={**places, "all_versions": True})
        named = {"cron": "0 2 * * *", "name": "nightly", "transfer": {**places, "name": "Run 42"}}
        scheduled = http.post("/api/v1/schedules", json=named)

        assert own.status(moved.json()["id"]).adjustment.priority == 7
    assert (refused.status_code, refused.json()["code"]) == (400, "usage")
    assert (scheduled.status_code, scheduled.json()["code"]) == (400, "usage")


def test_checks_and_verifications_take_the_options_of_copies(
    sqlite_settings: Settings,
    s3server: S3Server,
    make_bucket: Callable[..., str],
    start_worker: Callable[[Service], Worker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in s3server.environment().items():
        monkeypatch.setenv(name, value)
    source, target = make_bucket(s3server), make_bucket(s3server)
    client = s3server.client(s3server.user)
    for name in ("a", "b", "c"):
        client.put_object(Bucket=source, Key=f"run/{name}", Body=name.encode())
    places = {"source": f"s3://{source}/run/", "target": f"s3://{target}/in/"}
    with Service.open(sqlite_settings) as own, http_of(own) as http:
        start_worker(own)

        def ended(route: str, **body: Any) -> dict[str, Any]:
            answer = http.post(f"/api/v1/{route}", json=body)
            assert answer.status_code == 202, answer.text
            until_ended(own, answer.json()["id"])
            found: dict[str, Any] = http.get(answer.headers["Location"]).json()
            return found

        named = {"objects": [{"key": "a", "target_key": "one"}, {"key": "b", "target_key": "two"}]}
        copied = ended("transfers", **places, **named)
        client.put_object(Bucket=target, Key="in/two", Body=b"changed")

        compared = ended("checks", **places, **named, tpslimit=1000, priority=2)
        assert (compared["totals"]["skipped"], compared["totals"]["failed"], compared["priority"]) == (1, 1, 2)
        alone = ended("checks", **places, objects=[{"key": "a", "target_key": "one"}], if_exists="same")
        assert (alone["state"], alone["totals"]["objects"]) == ("done", 1)
        renamed = ended("checks", **places, rename=["s/a/one/", "s/b/two/", "s/c/one/"], rules=["- c"], one_way=True)
        assert (renamed["totals"]["skipped"], renamed["totals"]["failed"]) == (1, 1)

        verify = f"transfers/{copied['id']}/verify"
        assert (ended(verify)["changed"], ended(verify, keys=["one"])["intact"]) == (1, True)
        selected = ended(verify, rules=["- two"], content=True, endpoint_url=s3server.endpoint_url)
        assert (selected["objects"], selected["content"], selected["intact"]) == (1, 1, True)
        events = [one for one in own.events(copied["id"]) if one.kind == "verified"]
        assert [one.data.get("selected") for one in events] == [None, {"keys": 1}, {"rules": ["- two"]}]

        elsewhere = http.post(f"/api/v1/{verify}", json={"endpoint_url": "http://127.0.0.1:9"})
        assert (elsewhere.status_code, elsewhere.json()["code"]) == (403, "not_allowed")
        for field, body in {"rename": {"rename": ["s/a/b/"]}, "keys": {"keys": []}}.items():
            refused = http.post(f"/api/v1/{verify}", json=body)
            assert (refused.status_code, refused.json()["errors"][0]["where"]) == (400, f"body.{field}")
        assert http.post(f"/api/v1/{verify}", json={"part_size": 5 << 20}).status_code == 422
