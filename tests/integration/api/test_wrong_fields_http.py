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
    ("min_size", {"min_size": 9, "max_size": 1}),
    ("max_delete", {"max_delete": 1}),
    ("delete", {"source": f"{SOURCE}0000.bam", "delete": True}),
    ("delete", {"rename": ["s/a/b/"], "delete": True}),
    ("rename", {"source": f"{SOURCE}0000.bam", "rename": ["s/a/b/"]}),
    ("rename", {"rename": ["s/(/b/"]}),
    ("rename", {"rename": ["s/a/\\2/"]}),
    ("rename", {"rename": ["s//b/"]}),
    ("keys", {"keys": []}),
    ("keys", {"keys": ["x" * 1600]}),
    ("objects", {"objects": [{"key": "a", "target_key": "x"}, {"key": "b", "target_key": "x"}]}),
    ("objects", {"keys": ["a"], "objects": [{"key": "a"}]}),
    ("source", {"source": [SOURCE, "s3://ours/x/"]}),
    ("source", {"source": [SOURCE, "s3://vendor/"]}),
    ("source", {"source": "s3://vendor/*.bam", "keys": ["a"]}),
    ("source", {"source": f"{SOURCE}nothing.bam"}),
    ("version_id", {"source": [SOURCE, f"{SOURCE}0000.bam"], "version_id": "v"}),
    ("all_versions", {"all_versions": True, "keys": ["a"]}),
    ("all_versions", {"all_versions": True, "min_size": 1}),
    ("inventory", {"inventory": "s3://vendor/x.csv"}),
    ("inventory", {"inventory": "s3://vendor/x/manifest.json", "source": f"{SOURCE}0000.bam"}),
    ("restore", {"objects": [{"key": "a", "version_id": "v"}], "restore": True}),
    ("sse_kms_key_id", {"sse": "AES256", "sse_kms_key_id": "k"}),
    ("sse", {"sse": "AES256", "sse_c_key": "env:SEQFERRY_SSE_C_LAB", "target_endpoint_url": "https://x.example.org"}),
    ("sse_c_key", {"sse_c_key": "env:SEQFERRY_SSE_C_LAB"}),
    ("acl", {"acl": "private", "grants": ["read=id=1"]}),
    ("grants", {"grants": ["read=id=\n"]}),
    ("metadata", {"metadata": {"a": "x" * 3000}}),
    ("metadata", {"metadata": {"a": "\n"}}),
    ("tags", {"tags": {f"t{one}": "x" for one in range(11)}}),
    ("object_lock_mode", {"object_lock_mode": "GOVERNANCE"}),
    ("object_lock_until", {"object_lock_until": "30d"}),
    ("object_lock_until", {"object_lock_mode": "GOVERNANCE", "object_lock_until": "2001-01-01"}),
    ("object_lock", {"object_lock": "copy", "object_lock_legal_hold": True}),
    ("source_region", {"source_region": "no!", "target_region": "no!"}),
    ("target_region", {"source_region": "eu-central-1", "target_region": "no!"}),
    ("target_endpoint_url", {"target_endpoint_url": "http://me:secret@host"}),
    ("target_endpoint_url", {"target_endpoint_url": "http://169.254.169.254"}),
    ("target_profile", {"target_profile": "nope"}),
    ("options", {"operation": "pack", "target": "s3://ours/x.tar", "options": {"split": 1}}),
    ("options", {"operation": "pack", "target": "s3://ours/x.tar", "options": {"nonsense": 1}}),
    ("target", {"operation": "pack"}),
    ("source", {"operation": "unpack"}),
    ("options", {"operation": "unpack", "source": "s3://vendor/a.tar", "options": {"links": "x"}}),
    ("options", {"operation": "unpack", "source": "s3://vendor/a.tar", "options": {"tolerate": ["x"]}}),
    ("options", {"operation": "unpack", "source": "s3://vendor/a.tar", "options": {"exclude": ["x"]}}),
    ("rename", {"operation": "unpack", "source": "s3://vendor/a.tar", "rename": ["s/a/b/"]}),
    ("options", {"options": {"links": "skip"}}),
]
"""Fields, each with a wrong value, or with the fields of a request that is wrong because of it."""

_PARTS = 6
"""Tests that share the list: each starts a server."""


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


@pytest.mark.parametrize("part", range(_PARTS))
def test_a_refused_transfer_names_its_field(client: httpx.Client, part: int) -> None:
    for field, value in WRONG[part::_PARTS]:
        fields = value if isinstance(value, dict) and field in {*value, "source", "target"} else {field: value}
        body = {"source": SOURCE, "target": TARGET, "preflight": False, **fields}
        for route in ("transfers", "previews"):
            assert _places(client.post(f"/api/v1/{route}", json=body)) == [f"body.{field}"], (route, fields)
        if field not in ("name", "labels"):
            schedule = {"cron": "0 2 * * *", "transfer": body}
            answer = client.post("/api/v1/schedules", json=schedule)
            assert _places(answer) == [f"body.transfer.{field}"], ("schedules", fields)


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


def test_a_refusal_of_what_was_not_given_names_no_field(client: httpx.Client) -> None:
    answer = client.post("/api/v1/share-links", json={"label": None, "transfer": None})
    assert (answer.status_code, "errors" in answer.json()) == (400, False)


def test_other_verbs_and_lists_name_the_field_of_their_request(client: httpx.Client) -> None:
    """The same option has other names in some requests: ``sources``, ``place``, ``src_bucket``, ``states``."""
    for route, body, field in (
        ("api/v1/removals", {"sources": ["s3://"]}, "sources"),
        ("api/v1/removals", {"sources": ["s3://ours/x/"]}, "sources"),
        ("api/v1/removals", {"sources": ["s3://ours/a", "s3://ours/b"], "versions": True}, "versions"),
        ("api/v1/cleanups", {"place": "/tmp/x"}, "place"),
        ("api/v1/cleanups", {"place": "s3://ours/", "older_than": "x"}, "older_than"),
        ("api/v1/checks", {"source": SOURCE, "target": "x"}, "target"),
        ("api/v1/moves", {"source": SOURCE, "target": TARGET, "no_sign_request": True}, "no_sign_request"),
        ("api/v1/moves", {"source": SOURCE, "target": TARGET, "options": {"a": 1}}, "options"),
        ("api/v1/actions", {"action": "pause", "text": ""}, "text"),
        ("api/v1/actions", {"action": "pause", "all": True, "change": {}}, "change"),
        (
            "start_transfer",
            {"src_bucket": "a b", "src_prefix": "", "dst_bucket": "ours", "dst_prefix": ""},
            "src_bucket",
        ),
        (
            "start_transfer",
            {"src_bucket": "vendor", "src_prefix": "", "dst_bucket": "a/b", "dst_prefix": ""},
            "dst_bucket",
        ),
    ):
        assert _places(client.post(f"/{route}", json=body)) == [f"body.{field}"], (route, body)
    assert _places(client.get("/api/v1/places", params={"place": "s3://", "cursor": "AAAA"})) == ["query.cursor"]
    preview = {"source": SOURCE, "target": TARGET}
    assert _places(client.post("/api/v1/previews", params={"price": "mars-1"}, json=preview)) == ["query.price"]
