"""The dry run over HTTP: objects, totals, an estimate that the transfer bears out, and what is nearest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from control import until_ended
from http_client import http_of

from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.workflows.worker import Worker
from support.proxy import Proxy
from support.servers import S3Server


def test_a_preview_says_what_the_transfer_then_does(
    sqlite_settings: Settings,
    versitygw: S3Server,
    make_bucket: Callable[..., str],
    make_proxy: Callable[[S3Server], Proxy],
    start_worker: Callable[[Service], Worker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, target, store = make_bucket(versitygw), make_bucket(versitygw), versitygw.client()
    for number in range(5):
        store.put_object(Bucket=source, Key=f"run/{number}.bam", Body=b"x" * number)
    store.put_object(Bucket=target, Key="in/1.bam", Body=b"x")
    store.put_object(Bucket=target, Key="in/2.bam", Body=b"other")
    proxy = make_proxy(versitygw)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.server.endpoint_url)
    body = {
        "source": f"s3://{source}/run/",
        "target": f"s3://{target}/in/",
        "endpoint_url": proxy.server.endpoint_url,
        "rules": ["- 4*"],
    }
    with Service.open(sqlite_settings) as own, http_of(own) as client:
        shown = client.post("/api/v1/previews", json=body, params={"limit": 3})
        assert shown.status_code == 200, shown.text
        preview = shown.json()
        assert len(preview["objects"]) == 3
        assert preview["complete"]
        assert {name: preview["totals"][name] for name in ("objects", "skipped", "bytes")} == {
            "objects": 3,
            "skipped": 1,
            "bytes": 5,
        }
        assert preview["totals"]["by_reason"] == {"absent": 2, "size differs": 1, "equal ETags": 1}
        assert own.transfers() == []
        proxy.wait_idle()
        proxy.clear_log()

        start_worker(own)
        answer = client.post("/api/v1/transfers", json=body)
        assert answer.status_code == 202, answer.text
        until_ended(own, answer.json()["id"])

        proxy.wait_idle()
        made = Counter(record.operation for record in proxy.log())
        estimated = preview["estimate"]["requests"]
        assert made["CopyObject"] == estimated["CopyObject"] == 3
        assert made["ListObjectsV2"] <= estimated["ListObjectsV2"] + 1
        assert preview["estimate"]["request_dollars"] is None
        priced = client.post("/api/v1/previews", json=body, params={"limit": 0, "price": "eu-west-1"}).json()[
            "estimate"
        ]
        assert priced["price_region"] == "eu-west-1"
        assert priced["request_dollars"] > 0
        assert priced["datasync_enhanced_dollars"] == pytest.approx(0.55, abs=0.001)
        refused = client.post("/api/v1/previews", json=body, params={"price": "mars-1"})
        assert (refused.status_code, "mars-1" in refused.text) == (400, True)

        nothing = client.post("/api/v1/previews", json={**body, "source": f"s3://{source}/run/*.bai", "rules": None})
        assert nothing.status_code == 200, nothing.text
        assert nothing.json()["nearest"][0].endswith(".bam")
        wrong = client.post("/api/v1/previews", json={**body, "rename": ["s/[0-9]//"]})
        assert wrong.status_code == 400
        assert "would both become" in wrong.json()["detail"]


@pytest.mark.every_server
def test_a_preview_tries_each_object_and_the_target(
    unused_settings: Settings, s3server: S3Server, make_bucket: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target, store = make_bucket(s3server), make_bucket(s3server), s3server.client()
    for name in ("a", "b", "closed/c", "closed/d", "closed/e"):
        store.put_object(Bucket=source, Key=f"run/{name}", Body=b"xy")
    s3server.deny(source, "run/closed/*", actions=["s3:GetObject"])
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3server.endpoint_url)
    body = {"source": f"s3://{source}/run/", "target": f"s3://{target}/in/"}

    with Service.open(unused_settings) as own, http_of(own) as client:
        readable = client.post("/api/v1/previews", json=body).json()
        s3server.deny(target, "in/*", actions=["s3:PutObject"])
        writable = client.post("/api/v1/previews", json=body).json()

    assert (readable["totals"]["objects"], readable["totals"]["refused"]) == (2, 3)
    assert (readable["looked_up"], readable["sampled"]) == (5, False)
    assert [(one["error_code"], one["count"], one["keys"]) for one in readable["causes"]] == [
        ("AccessDenied", 3, ["run/closed/c", "run/closed/d", "run/closed/e"])
    ]
    assert {one["source_key"] for one in readable["objects"] if one["action"] == "refuse"} == {
        "run/closed/c",
        "run/closed/d",
        "run/closed/e",
    }
    assert [(one["operation"], one["count"]) for one in writable["causes"]] == [
        ("CreateMultipartUpload", 5),
        ("GetObject", 3),
    ]


def test_a_preview_of_an_archive_names_its_members(
    unused_settings: Settings, versitygw: S3Server, make_bucket: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket, store = make_bucket(versitygw), versitygw.client()
    for name in ("a.bam", "b/c.bam", "left.txt"):
        store.put_object(Bucket=bucket, Key=f"run/{name}", Body=b"xy")
    monkeypatch.setenv("AWS_ENDPOINT_URL", versitygw.endpoint_url)
    body = {
        "operation": "pack",
        "source": f"s3://{bucket}/run/",
        "target": f"s3://{bucket}/x.tar",
        "rules": ["- *.txt"],
    }

    with Service.open(unused_settings) as own, http_of(own) as client:
        preview = client.post("/api/v1/previews", json=body)

    assert preview.status_code == 200, preview.text
    assert {(one["source_key"], one["target_key"], one["because"]) for one in preview.json()["objects"]} == {
        ("run/a.bam", "x.tar", "packed as a.bam"),
        ("run/b/c.bam", "x.tar", "packed as b/c.bam"),
    }


@pytest.mark.parametrize(
    ("if_exists", "action", "because"),
    [
        ("same", "compare", "it exists; compared when it is done"),
        ("skip", "skip", "it exists"),
        ("fail", "refuse", "{target} exists, and --if-exists is fail."),
        ("overwrite", "copy", "it is overwritten"),
    ],
)
@pytest.mark.parametrize("split", [None, 1024 * 1024])
def test_a_preview_of_an_archive_looks_at_what_is_there(
    unused_settings: Settings,
    versitygw: S3Server,
    make_bucket: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    if_exists: str,
    action: str,
    because: str,
    split: int | None,
) -> None:
    bucket, store = make_bucket(versitygw), versitygw.client()
    for name in ("a", "b", "c"):
        store.put_object(Bucket=bucket, Key=f"run/{name}", Body=b"x" * 600_000)
    archive = "x.tar" if split is None else "x-00001.tar"
    store.put_object(Bucket=bucket, Key=archive, Body=b"other")
    monkeypatch.setenv("AWS_ENDPOINT_URL", versitygw.endpoint_url)
    body = {
        "operation": "pack",
        "source": f"s3://{bucket}/run/",
        "target": f"s3://{bucket}/x.tar",
        "if_exists": if_exists,
        "options": {} if split is None else {"split": split},
    }

    with Service.open(unused_settings) as own, http_of(own) as client:
        preview = client.post("/api/v1/previews", json=body)

    assert preview.status_code == 200, preview.text
    shown = {one["source_key"]: (one["target_key"], one["action"], one["because"]) for one in preview.json()["objects"]}
    there = (archive, action, because.format(target=f"s3://{bucket}/{archive}"))
    if split is None:
        assert shown == dict.fromkeys(("run/a", "run/b", "run/c"), there)
    else:
        assert shown == {
            "run/a": ("x-00000.tar", "copy", "packed as a"),
            "run/b": there,
            "run/c": ("x-00002.tar", "copy", "packed as c"),
        }
