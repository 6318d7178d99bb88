"""Folders that are renamed after they were uploaded: copied in the storage, and one transfer on record."""

from __future__ import annotations

from collections.abc import Callable

from seqferry.model.models import ObjectRecord
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from support.buckets import is_file
from support.gateways import WrittenShares, read, written_share
from support.libnfs import Share
from support.servers import S3Server
from support.waiting import eventually

FILES = 200

Serving = Callable[..., WrittenShares]


def _on_record(shares: WrittenShares) -> dict[str | None, list[ObjectRecord]]:
    """Objects of each transfer, by its name."""
    with Service.open(Settings.load(shares.environment)) as service:
        return {one.description.name: service.objects(one.id) for one in service.transfers()}


def test_a_renamed_folder_is_one_transfer_although_the_gateway_is_killed(
    s3server: S3Server, make_bucket: Callable[..., str], serving: Serving
) -> None:
    bucket, client = make_bucket(s3server, versioned=True), s3server.client()
    names = [f"{number % 3}/{number}.bcl" for number in range(FILES)]
    for name in names:
        client.put_object(Bucket=bucket, Key=f"runs/run.tmp/{name}", Body=name.encode())
    shares = serving(s3server, written_share("runs", f"s3://{bucket}/runs/", "settle = 86400"))
    Share(shares.url("runs")).rename("run.tmp", "run")

    assert read(shares, "runs/run/1/1.bcl") == b"1/1.bcl"
    assert "/runs/run.tmp/: renamed to /runs/run/: no file is copied yet" in shares.ask("status").stdout
    shares.ask("flush", "/runs/run")

    def copied() -> int:
        [one] = shares.writing()["renames"]
        return int(one["files"] - one["waiting_files"])

    eventually(lambda: copied() > 0, what="the first copies of the folder", deadline=60)
    shares.restart()
    shares.ask("flush", "/runs/run", "--wait")

    listed = client.list_objects_v2(Bucket=bucket, Prefix="runs/")["Contents"]
    assert {one["Key"] for one in listed if is_file(one["Key"])} == {f"runs/run/{name}" for name in names}
    assert shares.writing()["renames"] == []
    shown = client.list_object_versions(Bucket=bucket, Prefix="runs/run")
    latest = [one["Key"] for one in shown["Versions"] if one["IsLatest"] and is_file(one["Key"])]
    assert sorted(latest) == sorted(f"runs/run/{name}" for name in names)
    gone = {one["Key"] for one in shown["DeleteMarkers"] if one["IsLatest"]}
    assert gone >= {f"runs/run.tmp/{name}" for name in names}
    eventually(lambda: not shares.writing()["unrecorded"], what="the record", deadline=60)
    on_record = _on_record(shares)["runs: run.tmp/ renamed to run/"]
    assert sorted(row.target_key for row in on_record) == sorted(f"runs/run/{name}" for name in names)
    assert {row.state for row in on_record} == {"done"}


def test_a_folder_that_is_renamed_back_costs_no_write(
    s3server: S3Server, make_bucket: Callable[..., str], serving: Serving
) -> None:
    bucket, client = make_bucket(s3server, versioned=True), s3server.client()
    client.put_object(Bucket=bucket, Key="runs/a/file", Body=b"text")
    shares = serving(s3server, written_share("runs", f"s3://{bucket}/runs/", "settle = 86400"))
    share = Share(shares.url("runs"))
    share.rename("a", "b")
    share.rename("b", "a")
    shares.ask("flush", "--wait")

    assert len(client.list_object_versions(Bucket=bucket, Prefix="runs/a/")["Versions"]) == 1
    assert not _on_record(shares)
    assert shares.writing()["renames"] == []
