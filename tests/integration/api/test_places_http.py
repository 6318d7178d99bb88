"""Looks at storage over HTTP, and how far they go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from control import ANY_SPEC
from http_client import http_of

from seqferry.db import notice_rows
from seqferry.db.notice_rows import Subject
from seqferry.service.service import Service
from seqferry.settings.channels import Channel, Notices
from seqferry.settings.policy import Policy
from support.servers import S3Server

KEYS = ("run/a", "run/b", "run/sub/c", "run/x y\n<b>", "run2/secret", "secret/d", "top")


@pytest.fixture
def bucket(s3server: S3Server, make_bucket: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3server.endpoint_url)
    made = make_bucket(s3server)
    for key in KEYS:
        s3server.client().put_object(Bucket=made, Key=key, Body=b"12345")
    return made


def _look(client: httpx.Client, place: str | None = None, **query: Any) -> httpx.Response:
    return client.get("/api/v1/places", params=({} if place is None else {"place": place}) | query)


@pytest.mark.every_server
def test_one_level_is_shown_page_by_page(own: Service, bucket: str) -> None:
    with http_of(own) as client:
        whole = _look(client, f"s3://{bucket}/run/").json()
        folders, objects, cursor = list[str](), list[str](), None
        for _ in range(10):
            page = _look(
                client, f"s3://{bucket}/run/", limit=1, **({} if cursor is None else {"cursor": cursor})
            ).json()
            folders += [one["name"] for one in page["folders"]]
            objects += [one["name"] for one in page["objects"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        top = _look(client, f"s3://{bucket}").json()
        buckets = _look(client).json()

    assert whole["folders"] == [{"name": "sub/", "place": f"s3://{bucket}/run/sub/"}]
    assert [(one["name"], one["size"]) for one in whole["objects"]] == [("a", 5), ("b", 5), ("x y\n<b>", 5)]
    assert whole["next_cursor"] is None
    assert (folders, sorted(objects)) == (["sub/"], ["a", "b", "x y\n<b>"])
    assert [one["name"] for one in top["folders"]] == ["run/", "run2/", "secret/"]
    assert f"s3://{bucket}/" in [one["place"] for one in buckets["folders"]]


def test_nothing_outside_of_what_clients_may_read_is_told(own: Service, bucket: str) -> None:
    allowed = f"s3://{bucket}/run/"
    object.__setattr__(own, "settings", replace(own.settings, policy=Policy(read=(allowed,))))
    with http_of(own) as client:
        good = _look(client, allowed)
        cursor = _look(client, allowed, limit=1).json()["next_cursor"]
        refused = [
            _look(client, place, **query)
            for place, query in (
                (f"s3://{bucket}/", {}),
                (f"s3://{bucket}", {}),
                (f"s3://{bucket}/run", {}),
                (f"s3://{bucket}/run2/", {}),
                (f"s3://{bucket}/secret/", {}),
                (f"s3://{bucket}/secret/", {"cursor": cursor}),
                (f"s3://{bucket}/run/../secret/", {}),
                (f"s3://{bucket}/run/./", {}),
                (f"s3://{bucket}//run/", {}),
                (f"s3://{bucket}/RUN/", {}),
                ("s3://no-such-bucket-at-all/", {}),
                (allowed, {"profile": "boss"}),
                (allowed, {"endpoint_url": "http://127.0.0.1:1"}),
                (allowed, {"endpoint_url": "http://169.254.169.254"}),
            )
        ]
        capabilities = client.get("/api/v1/capabilities", params={"place": f"s3://{bucket}/secret/"})
        roots = _look(client).json()
        unread = client.get("/api/v1/places", params={"place": "s3://", "profile": "boss"})

    assert good.status_code == 200
    assert {one.status_code for one in refused} == {403}, [(one.url, one.status_code) for one in refused]
    assert not [one for one in refused if "run2/" in one.text.replace(str(one.url), "") and "run2" not in str(one.url)]
    assert (capabilities.status_code, unread.status_code) == (403, 403)
    assert roots["folders"] == [{"name": f"{bucket}/run", "place": allowed}]


@pytest.mark.every_server
def test_buckets_are_named_only_where_all_of_them_may_be_read(
    own: Service, s3server: S3Server, bucket: str, make_bucket: Callable[..., str]
) -> None:
    other = make_bucket(s3server)
    object.__setattr__(own, "settings", replace(own.settings, policy=Policy(read=(f"s3://{bucket[:-1]}",))))
    with http_of(own) as client:
        named = [one["name"] for one in _look(client).json()["folders"]]

    assert bucket in named
    assert (other in named) == other.startswith(bucket[:-1])


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"place": "/etc/"}, 400),
        ({"place": "file:///etc/"}, 400),
        ({"place": "s3:///x"}, 400),
        ({"place": "s3://UPPER_case!/"}, 400),
        ({"place": "s3://", "cursor": "YQ=="}, 400),
        ({"place": "s3://{bucket}/", "cursor": "/w=="}, 422),
        ({"place": "s3://{bucket}/", "cursor": "_w=="}, 400),
        ({"place": "s3://{bucket}/", "limit": 0}, 422),
        ({"place": "s3://{bucket}/", "limit": 1001}, 422),
        ({"place": "s3://{bucket}-is-not-there/"}, 400),
    ],
)
def test_what_makes_no_sense_is_refused(own: Service, bucket: str, query: dict[str, Any], status: int) -> None:
    asked = {name: value.format(bucket=bucket) if isinstance(value, str) else value for name, value in query.items()}
    with http_of(own) as client:
        answer = client.get("/api/v1/places", params=asked)

    assert answer.status_code == status, answer.text
    assert "Traceback" not in answer.text


@pytest.mark.every_server
def test_capabilities_of_an_endpoint_are_told_and_kept(own: Service, bucket: str) -> None:
    with http_of(own) as client:
        first, again = (client.get("/api/v1/capabilities", params={"place": f"s3://{bucket}/run/"}) for _ in range(2))

    topics = [one["topic"] for one in first.json()["capabilities"]]
    assert {"versions", "ranges", "copies"} <= set(topics)
    assert not any(one["kept"] for one in first.json()["capabilities"])
    assert any(one["kept"] for one in again.json()["capabilities"])


def test_notices_tell_channels_without_secrets_and_what_became_of_each(own: Service) -> None:
    channel = Channel("lab", "https://hooks.example.org/T00/hunter2", b"k" * 24)
    object.__setattr__(own, "settings", replace(own.settings, notices=Notices((channel,))))
    of = own.submit(ANY_SPEC, actor="ada")
    with own.database.write() as connection:
        notice_rows.record(connection, Subject("transfer", of), "finished", ["lab", "mail"], 1_700_000_000.0)
        [lab, mail] = sorted(notice_rows.find_undelivered(connection, 10), key=lambda row: row.channel)
        notice_rows.record_attempt(connection, lab, notice_rows.SENT, next_at=0.0, at=1_700_000_001.0, error=None)
        notice_rows.record_attempt(connection, mail, notice_rows.GIVEN_UP, next_at=0.0, at=None, error="no route")
    with http_of(own) as client:
        found = client.get("/api/v1/notices").json()
        failing = client.get("/api/v1/notices", params={"state": "given_up"})

    assert found["channels"] == [{"name": "lab", "to": "https://hooks.example.org", "events": list(channel.events)}]
    assert {(one["channel"], one["state"], one["error"]) for one in found["notices"]} == {
        ("lab", "sent", None),
        ("mail", "given_up", "no route"),
    }
    assert [one["channel"] for one in failing.json()["notices"]] == ["mail"]
    assert failing.json()["notices"][0]["subject_id"] == of
    assert "hunter2" not in failing.text + str(found)
