"""Anchors of the ledger in a bucket with Object Lock: each tampering that only they show, kills, and refusals."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
import sqlalchemy as sa
from control import command
from ended import ended
from http_client import http_of

from seqferry.db.tables import anchor, batch, event, object_, seal, tally, transfer
from seqferry.db.tables import ledger as ledger_table
from seqferry.proof import anchors, auditing
from seqferry.proof.anchors import AnchorWriteError, StoredAnchors
from seqferry.proof.auditing import AuditCounts, Finding
from seqferry.service.service import Service
from seqferry.workflows.anchorer import Anchorer
from seqferry.workflows.worker import Worker
from support.proxy import Proxy, access_denied, hold
from support.servers import S3Server
from support.waiting import eventually

OF_TRANSFER = (object_, seal, batch, tally, event)
TABLES = (transfer, tally, batch, object_, event, seal, ledger_table, anchor)


@pytest.fixture
def locked_bucket(s3server: S3Server) -> str:
    """A bucket with Object Lock. What is locked in it ends with the server."""
    bucket = f"proof-{random.SystemRandom().randrange(10**12)}"
    _owner(s3server).create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    if s3server.kind == "seaweedfs":  # there, retention takes a right that ``mover`` has nowhere else
        allow = {
            "Effect": "Allow",
            "Principal": s3server.policy_principal,
            "Action": "s3:*",
            "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
        }
        policy = {"Version": "2012-10-17", "Statement": [allow]}
        s3server.client().put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))
    return bucket


@pytest.fixture
def anchored(service: Service, s3server: S3Server, locked_bucket: str) -> Service:
    return _to(service, s3server, f"s3://{locked_bucket}/heads", audit_retention="1d")


def _owner(server: S3Server) -> Any:
    """A client of an identity with all rights in buckets of ``mover``."""
    return server.client(server.user) if server.kind == "versitygw" else server.client()


def _to(service: Service, server: S3Server, place: str, **more: Any) -> Service:
    wanted = {"audit_anchor": place, "audit_endpoint_url": server.endpoint_url, "audit_retention": None} | more
    for name, value in wanted.items():
        object.__setattr__(service.settings, name, value)
    return service


def _write(service: Service) -> anchors.WrittenAnchor | None:
    return anchors.write_anchor(service.database, service.engine, service.settings)


def _read(service: Service) -> StoredAnchors:
    found = anchors.read_anchors(service.database, service.engine, service.settings)
    assert found is not None
    return found


def _audit(service: Service) -> list[Finding]:
    """As ``audit verify`` does, without any head from a person."""
    outside = _read(service)
    return [*outside.findings, *auditing.verify(service.database, AuditCounts(), known=outside.known)]


def _bucket_of(service: Service) -> str:
    return str(service.settings.audit_anchor).removeprefix("s3://").partition("/")[0]


@pytest.mark.every_server
def test_an_anchor_is_locked_and_written_once(anchored: Service, s3server: S3Server, locked_bucket: str) -> None:
    assert _write(anchored) is None, "the ledger is empty"
    ended(anchored)
    head = auditing.head(anchored.database)

    written = _write(anchored)

    assert written is not None
    assert written.locked_until is not None
    key = written.uri.removeprefix(f"s3://{locked_bucket}/")
    assert key.startswith("heads/")
    assert key.endswith(f"/{head}")
    seen = _owner(s3server).head_object(Bucket=locked_bucket, Key=key)
    assert seen["ObjectLockMode"] == "COMPLIANCE"
    assert seen["ObjectLockRetainUntilDate"] > datetime.now(UTC) + timedelta(hours=20)
    assert _write(anchored) is None
    assert _audit(anchored) == []


def test_a_writer_that_was_killed_before_it_noted_its_anchor_is_followed_by_the_next(
    anchored: Service, s3server: S3Server, locked_bucket: str
) -> None:
    ended(anchored)
    _write(anchored)
    with anchored.database.write() as connection:
        connection.execute(anchor.delete())  # as after a kill between the storage and the database

    written = _write(anchored)

    assert written is not None
    versions = _owner(s3server).list_object_versions(Bucket=locked_bucket)
    assert len(versions["Versions"]) == 1, "the second write replaced nothing"
    assert _audit(anchored) == []


def test_a_last_transfer_that_was_removed_whole_is_found_by_the_anchor_alone(anchored: Service) -> None:
    _, last = ended(anchored, number=1), ended(anchored, number=2)
    _write(anchored)
    with anchored.database.write() as connection:
        for table in OF_TRANSFER:
            connection.execute(table.delete().where(table.c.transfer_id == last))
        connection.execute(transfer.delete().where(transfer.c.id == last))
        connection.execute(ledger_table.delete().where(ledger_table.c.transfer_id == last))
    [noted] = auditing.verify(anchored.database, AuditCounts())
    assert (noted.kind, noted.row) == ("ledger_behind", "entry 3")
    assert "the note of the anchor at" in noted.message
    with anchored.database.write() as connection:
        connection.execute(anchor.delete())

    assert list(auditing.verify(anchored.database, AuditCounts())) == []
    [found] = _audit(anchored)
    assert (found.kind, found.row) == ("ledger_behind", "entry 3")
    assert f"entry 4: done of transfer {last}" in found.message


def test_an_end_that_was_cut_off_with_its_state_set_back_is_found_by_the_anchor_alone(anchored: Service) -> None:
    of = ended(anchored)
    _write(anchored)
    with anchored.database.write() as connection:
        connection.execute(event.delete().where(event.c.transfer_id == of, event.c.kind == "done"))
        values = {"state": "running", "ended_at": None, "receipt_digest": None}
        connection.execute(transfer.update().where(transfer.c.id == of).values(values))
        connection.execute(ledger_table.delete().where(ledger_table.c.number == 2))
        connection.execute(anchor.delete())

    assert list(auditing.verify(anchored.database, AuditCounts())) == []
    [found] = _audit(anchored)
    assert (found.kind, found.row) == ("ledger_behind", "entry 2")
    assert f"done of transfer {of}" in found.message


@pytest.mark.parametrize("goes_on", [False, True])
def test_an_older_backup_is_found_by_the_anchor_alone(anchored: Service, goes_on: bool) -> None:
    ended(anchored)
    _write(anchored)
    with anchored.database.read() as connection:
        backup = {table: [dict(row._mapping) for row in connection.execute(sa.select(table))] for table in TABLES}
    ended(anchored, number=2)
    _write(anchored)
    with anchored.database.write() as connection:
        for table in reversed(TABLES):
            connection.execute(table.delete())
        for table, rows in backup.items():
            connection.execute(table.insert(), rows)
    if goes_on:
        ended(anchored, number=3)
        assert _write(anchored) is not None

    assert list(auditing.verify(anchored.database, AuditCounts())) == []
    found = _audit(anchored)
    if goes_on:
        assert [(one.kind, one.row) for one in found] == [("ledger_rewritten", "entry 4")]
    else:
        assert [(one.kind, one.row) for one in found] == [("ledger_behind", "entry 3")]
        assert "older backup" in found[0].message


def test_a_ledger_that_was_removed_with_all_transfers_is_found(anchored: Service) -> None:
    ended(anchored)
    _write(anchored)
    with anchored.database.write() as connection:
        for table in reversed(TABLES):
            connection.execute(table.delete())

    assert [one.kind for one in _audit(anchored)] == ["ledger_unknown"]


@pytest.mark.every_server
def test_anchors_that_were_deleted_or_overwritten_still_count_and_are_named(
    anchored: Service, s3server: S3Server, locked_bucket: str
) -> None:
    client = _owner(s3server)
    keys = list[str]()
    for number in (1, 2):
        ended(anchored, number=number)
        written = _write(anchored)
        assert written is not None
        keys.append(written.uri.removeprefix(f"s3://{locked_bucket}/"))
    client.delete_object(Bucket=locked_bucket, Key=keys[0])
    client.put_object(Bucket=locked_bucket, Key=keys[1], Body=b"{}")

    outside = _read(anchored)
    assert {one.kind for one in outside.findings} == {"anchor_deleted", "anchor_overwritten"}
    assert sorted(one.head.count for one in outside.known) == [2, 4]


@pytest.mark.every_server
def test_an_anchor_that_is_gone_is_named(service: Service, s3server: S3Server, make_bucket: Callable[..., str]) -> None:
    _to(service, s3server, f"s3://{make_bucket(s3server)}")
    ended(service)
    written = _write(service)
    assert written is not None
    assert written.locked_until is None, "the bucket has no Object Lock"
    assert _read(service).unlocked == 1
    assert _audit(service) == []
    s3server.client().delete_object(Bucket=_bucket_of(service), Key=written.uri.split("/", 3)[3])

    assert [one.kind for one in _audit(service)] == ["anchor_removed"]


@pytest.mark.every_server
def test_retention_in_a_bucket_without_object_lock_leaves_an_anchor_that_is_said_to_be_unlocked(
    service: Service, s3server: S3Server, make_bucket: Callable[..., str]
) -> None:
    _to(service, s3server, f"s3://{make_bucket(s3server)}/a", audit_retention="1d")
    ended(service)

    written = _write(service)
    assert written is not None
    assert written.locked_until is None
    assert (_audit(service), _read(service).unlocked) == ([], 1)


def test_a_worker_anchors_by_itself_and_not_for_each_entry(anchored: Service) -> None:
    with Worker.start(anchored.settings, anchored):
        for number in range(4):
            ended(anchored, number=number)
        eventually(lambda: _read(anchored).last == 8, what="an anchor of all entries", deadline=60.0)
        assert len(_read(anchored).known) <= 3
    assert anchors.pending_entries(anchored.database, anchored.settings) is None


@pytest.mark.every_database  # commands are asked on SQLite
def test_a_place_that_refuses_is_tried_again_and_shown_and_fails_no_transfer(
    service: Service, s3server: S3Server, proxy: Proxy, locked_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _to(service, proxy.server, f"s3://{locked_bucket}/heads")
    rule = proxy.rule("PutObject", access_denied())
    transfer_id = ended(service)
    with pytest.raises(AnchorWriteError, match="PutObject"):
        _write(service)
    anchorer = Anchorer(service)
    anchorer.write_due()
    anchorer.write_due()

    left = anchors.pending_entries(service.database, service.settings)
    assert left is not None
    assert left.entries == 2
    assert service.status(transfer_id).state == "done"
    if service.database.is_sqlite:
        with service.database.write() as connection:
            first = connection.execute(sa.select(ledger_table.c.at).where(ledger_table.c.number == 1)).scalar()
            connection.execute(ledger_table.update().where(ledger_table.c.number == 1).values(at=1.0))  # long ago
        monkeypatch.setenv("SEQFERRY_AUDIT_ANCHOR", str(service.settings.audit_anchor))
        monkeypatch.setenv("SEQFERRY_AUDIT_ENDPOINT_URL", s3server.endpoint_url)
        assert "not anchored" in command(service, "status").stderr
        assert "entries of the ledger" in command(service, "doctor").stdout
        with service.database.write() as connection:
            connection.execute(ledger_table.update().where(ledger_table.c.number == 1).values(at=first))
    proxy.remove_rule(rule)
    anchorer._next = 0.0
    anchorer.write_due()
    assert anchors.pending_entries(service.database, service.settings) is None
    assert _audit(service) == []


def test_a_place_that_is_away_is_a_finding_of_the_audit(service: Service, s3server: S3Server) -> None:
    _to(service, s3server, "s3://no-such-bucket-of-ours/x")
    ended(service)
    with pytest.raises(AnchorWriteError):
        _write(service)

    assert [one.kind for one in _audit(service)] == ["anchor_unreadable"]


@pytest.mark.every_database  # commands are asked on SQLite
def test_the_commands_and_the_api_use_the_anchors(anchored: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    _, last = ended(anchored, number=1), ended(anchored, number=2)
    for name in ("anchor", "endpoint_url", "retention"):
        monkeypatch.setenv(f"SEQFERRY_AUDIT_{name.upper()}", str(getattr(anchored.settings, f"audit_{name}")))
    if anchored.database.is_sqlite:
        ran = command(anchored, "audit", "anchor")
        assert (ran.returncode, ran.stderr) == (0, "")
        assert ran.stdout.strip().endswith(str(auditing.head(anchored.database)))
        ran = command(anchored, "audit", "verify")
        assert ran.returncode == 0, ran.stderr
        assert "1 anchor at" in ran.stderr + ran.stdout
    else:
        _write(anchored)
    with anchored.database.write() as connection:
        for table in OF_TRANSFER:
            connection.execute(table.delete().where(table.c.transfer_id == last))
        connection.execute(transfer.delete().where(transfer.c.id == last))
        connection.execute(ledger_table.delete().where(ledger_table.c.transfer_id == last))

    with http_of(anchored) as client:
        answer = client.get("/api/v1/audit").json()
    assert (answer["intact"], answer["anchors"]) == (False, 1)
    assert [one["kind"] for one in answer["findings"]] == ["ledger_behind"]
    if anchored.database.is_sqlite:
        ran = command(anchored, "audit", "verify", "--json")
        lines = [json.loads(line) for line in ran.stdout.splitlines()]
        assert (ran.returncode, [one["kind"] for one in lines if one["event"] == "finding"]) == (3, ["ledger_behind"])


def test_a_cp_leaves_an_anchor_and_one_that_cannot_be_written_fails_nothing(
    anchored: Service,
    s3server: S3Server,
    make_bucket: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"a")
    words = ("cp", f"{tmp_path}/in/", f"s3://{make_bucket(s3server)}/", "--endpoint-url", s3server.endpoint_url)
    monkeypatch.setenv("SEQFERRY_AUDIT_ANCHOR", str(anchored.settings.audit_anchor))
    monkeypatch.setenv("SEQFERRY_AUDIT_ENDPOINT_URL", "http://127.0.0.1:9")
    ran = command(anchored, *words)
    assert ran.returncode == 0, ran.stderr
    assert _read(anchored).known == []

    monkeypatch.setenv("SEQFERRY_AUDIT_ENDPOINT_URL", s3server.endpoint_url)
    (tmp_path / "in" / "b").write_bytes(b"b")
    ran = command(anchored, *words)
    assert ran.returncode == 0, ran.stderr

    assert max(one.head.count for one in _read(anchored).known) == auditing.head(anchored.database).count
    assert _audit(anchored) == []


@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)  # the command finds it in the state folder
@pytest.mark.parametrize("at", ["request", "reply"])
def test_a_writer_killed_before_or_after_its_write_took_effect_loses_nothing(
    service: Service, s3server: S3Server, proxy: Proxy, locked_bucket: str, at: Literal["request", "reply"]
) -> None:
    _to(service, s3server, f"s3://{locked_bucket}/heads", audit_retention="1d")
    ended(service)
    rule = proxy.rule("PutObject", hold(at))
    environment = os.environ | {
        "SEQFERRY_AUDIT_ANCHOR": str(service.settings.audit_anchor),
        "SEQFERRY_AUDIT_ENDPOINT_URL": proxy.server.endpoint_url,
        "SEQFERRY_AUDIT_RETENTION": "1d",
    }
    words = [sys.executable, "-m", "seqferry", "audit", "anchor", "--state-dir", str(service.settings.state_dir)]
    with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL) as writer:
        eventually(lambda: proxy.fired(rule), what="the write to be held", deadline=60.0)
        writer.kill()
    proxy.clear_rules()
    proxy.release()
    assert anchors.pending_entries(service.database, service.settings) is not None
    left = [*(service.settings.state_dir / "scratch").iterdir()]
    assert len(left) == 1

    assert _write(service) is not None

    assert [*(service.settings.state_dir / "scratch").iterdir()] == []
    assert anchors.pending_entries(service.database, service.settings) is None
    versions = _owner(s3server).list_object_versions(Bucket=locked_bucket)["Versions"]
    assert len(versions) == 1
    assert _audit(service) == []
