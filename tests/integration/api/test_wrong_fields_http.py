"""Refusals of bad input name the field that they are about, so that a form shows each beside its field."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from http_client import http_of

from seqferry.service.service import Service
from seqferry.settings.config import Settings
from support.sim import Simulator

SOURCE, TARGET = "s3://vendor/run42/", "s3://ours/run42/"
WRONG: list[tuple[str, Any]] = [
    ("source", "http://x/y"),
    ("source", "/etc/x"),
    ("source", "s3://"),
    ("source", "s3://no-such/run42/"),
    ("target", "s3://no-such/run42/"),
    ("target", "s3://vendor/run42/"),
    ("target", "s3://vendor/run42/sub/"),
    ("target", "file:///x"),
    ("target", "s3://ours" + "/x" * 600 + "/"),
    ("restore_days", 3),
    ("restore_tier", "Bulk"),
    ("settle", "long"),
    ("newer_than", "x"),
    ("older_than", "yesterday?"),
    ("version_id", "v1"),
    ("rules", ["- *", "nonsense here"]),
    ("rename", ["nonsense here"]),
    ("endpoint_url", "nonsense"),
    ("source_endpoint_url", "http://"),
    ("target_endpoint_url", "http://127.0.0.1:9"),
    ("profile", "nope"),
    ("source_profile", "nope"),
    ("region", "nowhere!"),
    ("sse_kms_key_id", "k"),
    ("sse_c_key", "/etc/shadow"),
    ("sse_c_copy_source_key", "env:HOME"),
    ("acl", "nonsense"),
    ("grants", ["read=x"]),
    ("object_lock_until", "some day"),
    ("metadata", {"a b": "x"}),
    ("tags", {"x" * 200: "y"}),
    ("cache_control", "a\nb"),
    ("name", "a\nb"),
    ("labels", {"Bad Key": "x"}),
    ("labels", {"a": "x" * 300}),
    ("part_size", "1KiB"),
    ("if_exists", "nonsense"),
    ("max_depth", 0),
]


@pytest.fixture
def client(
    sqlite_settings: Settings, make_simulator: Callable[..., Simulator], monkeypatch: pytest.MonkeyPatch
) -> Iterator[httpx.Client]:
    """A client of a server whose storage has both buckets, of which the source has an object."""
    simulator = make_simulator(
        "--instant", "--bucket", "vendor=keys=run42/{i:04}.bam;count=2;total=2MiB", "--bucket", "ours"
    )
    for name, value in simulator.environment().items():
        monkeypatch.setenv(name, value)
    with Service.open(replace(sqlite_settings, public_url="https://ferry.example.org/")) as own, http_of(own) as found:
        yield found


def _places(answer: Any) -> list[str]:
    assert answer.status_code in (400, 403, 409, 422), answer.text
    return [one["where"] for one in answer.json()["errors"]]


@pytest.mark.parametrize(
    ("field", "value"), WRONG, ids=[f"{field}-{number}" for number, (field, _) in enumerate(WRONG)]
)
def test_a_refused_transfer_names_its_field(client: httpx.Client, field: str, value: Any) -> None:
    body = {"source": SOURCE, "target": TARGET, "preflight": False, field: value}
    for route in ("transfers", "previews"):
        assert _places(client.post(f"/api/v1/{route}", json=body)) == [f"body.{field}"], route
    if field not in ("name", "labels"):
        schedule = {"cron": "0 2 * * *", "transfer": body}
        assert _places(client.post("/api/v1/schedules", json=schedule)) == [f"body.transfer.{field}"]


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("cron", {"cron": "x"}),
        ("cron", {"cron": "61 * * * *"}),
        ("cron", {"cron": "0 0 31 2 *"}),
        ("timezone", {"cron": "0 2 * * *", "timezone": "Mars/X"}),
        ("name", {"cron": "0 2 * * *", "name": "a b"}),
        ("name", {"cron": "0 2 * * *", "name": "nightly"}),
    ],
)
def test_a_refused_schedule_names_its_field(client: httpx.Client, field: str, body: dict[str, Any]) -> None:
    right = {"cron": "0 2 * * *", "name": "nightly", "transfer": {"source": SOURCE, "target": TARGET}}
    assert client.post("/api/v1/schedules", json=right).status_code == 201
    answer = client.post("/api/v1/schedules", json={**right, "name": "other", **body})
    assert _places(answer) == [f"body.{field}"]


def test_other_refused_forms_name_their_field(client: httpx.Client) -> None:
    body = {"source": SOURCE, "target": TARGET, "preflight": False, "name": "Run 42"}
    transfer = client.post("/api/v1/transfers", json=body).json()["id"]
    for field, value in {"max_bandwidth": "x", "priority": 11, "tpslimit": 0, "labels": {"B B": "x"}}.items():
        assert _places(client.patch(f"/api/v1/transfers/{transfer}", json={field: value})) == [f"body.{field}"]
    for expires in ("x", "400d"):
        answer = client.post("/api/v1/share-links", json={"transfer": transfer, "expires": expires})
        assert _places(answer) == ["body.expires"]
    assert _places(client.post("/api/v1/share-links", json={"label": "A B=x"})) == ["body.label"]
    for query in ({"place": "x"}, {"place": "file:///x"}):
        assert _places(client.get("/api/v1/places", params=query)) == ["query.place"]
    query = {"place": SOURCE, "endpoint_url": "zzz"}
    assert _places(client.get("/api/v1/places", params=query)) == ["query.endpoint_url"]


def test_a_refusal_that_may_mean_two_fields_or_none_names_none(client: httpx.Client) -> None:
    for body in (
        {"source": SOURCE, "target": TARGET, "source_region": "no!", "target_region": "no!"},
        {"label": None, "transfer": None},
    ):
        route = "transfers" if "source" in body else "share-links"
        answer = client.post(f"/api/v1/{route}", json=body)
        assert (answer.status_code, "errors" in answer.json()) == (400, False)
