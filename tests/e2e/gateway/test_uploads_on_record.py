"""Uploads of shares on record: each version of the bucket has one row, whatever is killed and whatever is away."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from seqferry.engine import crash_points, gateway_control
from seqferry.model.models import ObjectRecord, Status
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from support import nfs_files
from support.buckets import CLAIM, PROBES
from support.gateways import WrittenShares, written_share
from support.postgres import Cluster
from support.processes import run as run_command
from support.processes import seqferry
from support.run import Run
from support.servers import S3Server
from support.waiting import eventually

NEVER = "settle = 86400"
FILES = {"a": b"first", "b": b"second", "c": b""}
_AT_ONCE = 4

Serving = Callable[..., WrittenShares]


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> dict[str, str]:
    """Variables that name a database; without any it is a file of the state folder."""
    return {} if request.param == "sqlite" else {"SEQFERRY_DATABASE_URL": request.getfixturevalue("postgres_url")}


def runs(bucket: str) -> str:
    return written_share("runs", f"s3://{bucket}/runs/", NEVER)


def on_record(shares: WrittenShares) -> list[tuple[Status, list[ObjectRecord]]]:
    """All transfers, each with its objects."""
    with Service.open(Settings.load(shares.environment)) as service:
        return [(one, service.objects(one.id)) for one in service.transfers()]


def rows(shares: WrittenShares, bucket: str) -> list[tuple[str, str, str]]:
    """Key, version and ETag of all objects on record that were uploaded to a bucket."""
    of_bucket = [objects for one, objects in on_record(shares) if one.spec.target.container == bucket]
    found = [row for objects in of_bucket for row in objects if row.state == "done"]
    return sorted((row.target_key, row.target_version_id or "null", row.target_etag or "") for row in found)


def versions(server: S3Server, bucket: str) -> list[tuple[str, str, str]]:
    """The same of all versions that the bucket has of files, by its own account."""
    listed: list[Any] = server.client().list_object_versions(Bucket=bucket).get("Versions", [])
    files = (one for one in listed if not one["Key"].endswith(tuple(f"/{name}" for name in (*PROBES, CLAIM))))
    return sorted((one["Key"], one["VersionId"], one["ETag"].strip('"')) for one in files)


def wait_for_record(shares: WrittenShares) -> None:
    eventually(lambda: shares.writing()["unrecorded"] == 0, what="all outcomes on record", every=0.2)


def test_a_flush_is_an_ended_transfer_for_all_who_ask(
    s3server: S3Server, make_bucket: Callable[..., str], serving: Serving, database: dict[str, str]
) -> None:
    bucket = make_bucket(s3server)
    shares = serving(s3server, runs(bucket), more=database)
    shares.write("runs/a", b"first")

    shares.ask("flush", "--wait")
    assert [row.target_key for _, objects in on_record(shares) for row in objects] == ["runs/a"]
    shares.write("runs/b", b"again")
    [flushed] = shares.events("flush", "--wait")
    assert flushed["is_recorded"]

    def command(*arguments: str) -> str:
        return run_command([seqferry(), *arguments], environment=shares.environment).stdout

    listed = [json.loads(line) for line in command("status", "--json").splitlines()]
    assert [(one["name"], one["state"], one["target"]) for one in listed] == [
        ("runs", "done", f"s3://{bucket}/runs/")
    ] * 2
    transfer_id = listed[0]["id"]
    shown = command("status", transfer_id)
    assert "uploaded" in shown
    events = [json.loads(line) for line in command("status", transfer_id, "--objects", "--json").splitlines()]
    [event] = [one for one in events if one["event"] == "object"]
    assert (event["target_key"], event["written_by"]) == ("runs/b", "uid 65534 at 127.0.0.1")
    receipt = json.loads(command("report", transfer_id, "--format", "json"))
    assert receipt["objects"][0]["target_key"] == "runs/b"
    assert "upload of a share" in command("report", transfer_id, "--format", "html")
    command("audit", "verify", transfer_id)
    client = s3server.client()
    assert client.head_object(Bucket=bucket, Key="runs/b")["ETag"].strip('"') == event["target_etag"]


def test_a_gateway_that_ends_at_a_point_has_each_version_on_record_once(
    seaweedfs: S3Server, make_bucket: Callable[..., str], serving: Serving, database: dict[str, str]
) -> None:
    points = sorted(crash_points.EPOCHS | crash_points.EPOCH_ROWS)
    places = {point: (make_bucket(seaweedfs, versioned=True), database) for point in points}

    def stage(point: str) -> tuple[WrittenShares, int]:
        bucket, more = places[point]
        shares = serving(seaweedfs, runs(bucket), name=point, more={**more, crash_points.VARIABLE: point})
        shares.environment = {name: text for name, text in shares.environment.items() if name != crash_points.VARIABLE}
        for name, body in FILES.items():
            shares.write(f"runs/{name}", body)
        shares.ask("flush", "--wait", expect=None)
        status = shares.process.wait(60)
        shares.restart()
        shares.write("runs/later", b"later")
        shares.ask("flush", "--wait")
        wait_for_record(shares)
        return shares, status

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        ended = dict(zip(points, pool.map(stage, points), strict=True))

    for point, (shares, status) in ended.items():
        assert status in {-signal.SIGABRT, -signal.SIGKILL}, f"{point} was never reached: {shares.process}"
        found = versions(seaweedfs, places[point][0])
        assert len(found) == len(FILES) + 1, point
        # A database of PostgreSQL has the uploads of all of them.
        assert rows(shares, places[point][0]) == found, point


def test_a_database_that_is_away_gets_all_when_it_is_back(
    seaweedfs: S3Server, make_bucket: Callable[..., str], serving: Serving, run: Run
) -> None:
    bucket = make_bucket(seaweedfs, versioned=True)
    with Cluster(run) as server:
        server.start()
        url = {"SEQFERRY_DATABASE_URL": server.server.url(server.server.create_database())}
        shares = serving(seaweedfs, runs(bucket), more=url)
        shares.write("runs/a", b"while it is there")
        shares.ask("flush", "--wait")
        wait_for_record(shares)

        server.stop(signal.SIGQUIT)
        for number in range(3):
            shares.write(f"runs/{number}", os.urandom(100))
        said = shares.ask("flush", "--wait").stderr
        assert "Everything of all shares is in S3." in said
        assert "not all on record in seqferry status yet" in said
        waiting = shares.writing()["unrecorded"]
        shares.restart()
        shares.write("runs/last", b"while it is away")
        [flushed] = shares.events("flush", "--wait")
        assert (flushed["is_done"], flushed["is_recorded"]) == (True, False)
        assert "4 outcomes not recorded yet" in shares.ask("status").stdout
        server.start()
        wait_for_record(shares)

        assert waiting == 3
        found = versions(seaweedfs, bucket)
        assert len(found) == 5
        assert rows(shares, bucket) == found


def test_an_ordinary_end_puts_what_was_uploaded_on_record(
    seaweedfs: S3Server, make_bucket: Callable[..., str], serving: Serving, database: dict[str, str]
) -> None:
    bucket = make_bucket(seaweedfs, versioned=True)
    shares = serving(seaweedfs, runs(bucket), more=database)
    shares.write("runs/a", b"first")

    assert shares.cache in gateway_control.find_running()
    [drained] = shares.events("drain")

    assert drained["is_recorded"]
    assert rows(shares, bucket) == versions(seaweedfs, bucket)
    assert shares.process.wait(1) == 0
    assert shares.cache not in gateway_control.find_running()


@pytest.mark.parametrize("command", ["flush", "drain"])
def test_outcomes_that_the_disk_does_not_take_are_not_called_recorded(
    command: str, seaweedfs: S3Server, make_bucket: Callable[..., str], serving: Serving, database: dict[str, str]
) -> None:
    bucket = make_bucket(seaweedfs, versioned=True)
    shares = serving(seaweedfs, runs(bucket), more=database)
    shares.write("runs/a", b"first")
    [journal] = shares.cache.glob("writes/*/journal")
    in_the_way = [journal / f"{number:020}.epoch.new" for number in range(2)]
    for one in in_the_way:
        one.mkdir()

    arguments = ["flush", "--wait"] if command == "flush" else ["drain"]
    [ended] = shares.events(*arguments)

    assert (ended["is_done"], ended["is_recorded"]) == (True, False)
    for one in in_the_way:
        one.rmdir()
    if command == "drain":
        shares.restart()
    shares.ask("flush", "--wait")
    wait_for_record(shares)
    assert rows(shares, bucket) == versions(seaweedfs, bucket)


def test_a_file_that_is_uploaded_twice_in_an_epoch_is_verified_as_it_was_uploaded_last(
    seaweedfs: S3Server, make_bucket: Callable[..., str], serving: Serving
) -> None:
    bucket = make_bucket(seaweedfs)
    shares = serving(seaweedfs, runs(bucket))
    for pieces in range(1, 12):
        program = Path(nfs_files.__file__)
        run_command([sys.executable, "-I", program, shares.url("runs"), "a", "1", str(pieces)])
        shares.ask("flush")
        eventually(lambda: shares.writing()["dirty_files"] == 0, what="the file to be uploaded")
    shares.write("runs/b", b"once")
    shares.ask("flush", "--wait")
    wait_for_record(shares)
    [(epoch, objects)] = on_record(shares)
    assert sorted(row.target_key for row in objects) == ["runs/a0"] * 11 + ["runs/b"]

    run_command([seqferry(), "verify", epoch.id], environment=shares.environment)

    seaweedfs.client().put_object(Bucket=bucket, Key="runs/a0", Body=nfs_files.BODY * 10)
    run_command([seqferry(), "verify", epoch.id], environment=shares.environment, expect=3)
