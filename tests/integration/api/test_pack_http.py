"""Packing that is asked for over HTTP."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable

import pytest
from control import until_ended
from http_client import http_of

from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.workflows.worker import Worker
from support.servers import S3Server


def test_a_prefix_is_packed_over_http(
    sqlite_settings: Settings,
    versitygw: S3Server,
    make_bucket: Callable[..., str],
    start_worker: Callable[[Service], Worker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", versitygw.endpoint_url)
    bucket, store = make_bucket(versitygw), versitygw.client()
    for name in ("a.bam", "b.txt"):
        store.put_object(Bucket=bucket, Key=f"run/{name}", Body=name.encode())
    body = {
        "source": f"s3://{bucket}/run/",
        "target": f"s3://{bucket}/x.tar",
        "endpoint_url": versitygw.endpoint_url,
        "operation": "pack",
    }
    with Service.open(sqlite_settings) as own, http_of(own) as client:
        start_worker(own)
        for wrong, said in (
            ({"options": {"shards": 3}}, "pack has no options shards"),
            ({"options": {"split": "1GiB"}}, "of these types"),
            ({"target": f"s3://{bucket}/out/"}, "names no archive"),
            ({"target": "/tmp/x.tar"}, "on the command line only"),
            ({"source": "/etc"}, "on the command line only"),
        ):
            answer = client.post("/api/v1/transfers", json={**body, **wrong})
            assert answer.status_code == 400, answer.text
            assert said in answer.json()["detail"]

        answer = client.post("/api/v1/transfers", json={**body, "options": {"no_index": True}})

        assert answer.status_code == 202, answer.text
        transfer_id = answer.json()["id"]
        until_ended(own, transfer_id)
        status = client.get(f"/api/v1/transfers/{transfer_id}").json()
        assert (status["state"], status["operation"], status["totals"]["done"]) == ("done", "pack", 2)
        objects = client.get(f"/api/v1/transfers/{transfer_id}/objects").json()["objects"]
        assert {(one["source_key"], one["target_key"]) for one in objects} == {
            ("run/a.bam", "x.tar"),
            ("run/b.txt", "x.tar"),
        }
    archive = store.get_object(Bucket=bucket, Key="x.tar")["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(archive)) as found:
        assert found.getnames() == ["a.bam", "b.txt"]
    assert [one["Key"] for one in store.list_objects_v2(Bucket=bucket, Prefix="x.")["Contents"]] == ["x.tar"]
