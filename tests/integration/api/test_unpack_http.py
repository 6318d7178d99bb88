"""Unpacking that is asked for over HTTP."""

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


def _archive() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for name in ("a.bam", "b.txt"):
            info = tarfile.TarInfo(name)
            info.size = len(name)
            made.addfile(info, io.BytesIO(name.encode()))
    return buffer.getvalue()


def test_an_archive_is_unpacked_over_http(
    sqlite_settings: Settings,
    versitygw: S3Server,
    make_bucket: Callable[..., str],
    start_worker: Callable[[Service], Worker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", versitygw.endpoint_url)
    bucket = make_bucket(versitygw)
    versitygw.client().put_object(Bucket=bucket, Key="x.tar", Body=_archive())
    body = {
        "source": f"s3://{bucket}/x.tar",
        "target": f"s3://{bucket}/out",
        "endpoint_url": versitygw.endpoint_url,
        "operation": "unpack",
    }
    with Service.open(sqlite_settings) as own, http_of(own) as client:
        start_worker(own)
        wrong = client.post("/api/v1/transfers", json={**body, "options": {"includes": ["*.bam"]}})
        assert wrong.status_code == 400, wrong.text
        assert "'includes' is not an option of unpack" in wrong.json()["detail"]
        wrong = client.post("/api/v1/transfers", json={**body, "options": {"include": ["*.bam"]}})
        assert (wrong.status_code, "write 'rules'" in wrong.json()["detail"]) == (400, True)
        wrong = client.post("/api/v1/transfers", json={**body, "source": "/etc/hosts"})
        assert wrong.status_code == 400, wrong.text
        wrong = client.post("/api/v1/transfers", json={**body, "operation": "transfer", "options": {"links": "all"}})
        assert wrong.status_code == 400, wrong.text

        answer = client.post("/api/v1/transfers", json={**body, "rules": ["- *", "+ *.bam"]})

        assert answer.status_code == 202, answer.text
        transfer_id = answer.json()["id"]
        until_ended(own, transfer_id)
        status = client.get(f"/api/v1/transfers/{transfer_id}").json()
        assert (status["state"], status["operation"], status["totals"]["done"]) == ("done", "unpack", 1)
        [found] = client.get(f"/api/v1/transfers/{transfer_id}/objects").json()["objects"]
        assert (found["source_key"], found["target_key"]) == ("x.tar!/a.bam", "out/a.bam")
    stored = versitygw.client().get_object(Bucket=bucket, Key="out/a.bam")["Body"].read()
    assert stored == b"a.bam"
