"""The target is looked at again, against the receipt, on real servers."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from control import command, counters_fit_rows, spec_on, until_ended
from ferry import Ferry
from http_client import http_of
from mirror import MULTIPART, SMALL

from seqferry.model.errors import ConflictError
from seqferry.planning.unpacking import build_operation_spec
from seqferry.proof import auditing, pruning, target_verification
from seqferry.service import control
from seqferry.service.service import Service
from support.proxy import Proxy, access_denied
from support.run import Run
from support.servers import S3Server


def _verified(
    service: Service, transfer_id: str, *, content: bool = False
) -> tuple[target_verification.VerificationCounts, dict[str, str]]:
    """The result of a verification by the worker that is there."""
    begun = control.verify(service, transfer_id, actor="ada", content=content)
    ended = until_ended(service, begun.id)
    look = service.verification(ended)
    found = {one.key: one.outcome for one in look.differences}
    assert ended.state == ("done_with_failures" if found else "done")
    counters_fit_rows(service, begun.id)
    return look.counts, found


def _asked_over_http(service: Service, path: str) -> dict[str, Any]:
    with http_of(service) as client:
        begun = client.post(path)
        assert begun.status_code == 202, begun.text
        until_ended(service, begun.json()["id"])
        return client.get(begun.headers["Location"]).json()


@pytest.mark.every_database  # commands are asked on SQLite
def test_what_is_gone_or_changed_today_is_named(service: Service, ferry: Ferry, s3server: S3Server) -> None:
    ferry.fill({f"run/{number}": SMALL for number in range(5)} | {"run/big": MULTIPART})
    ferry.work()
    transfer_id, _ = ferry.carry("run/", "in")

    looked, found = _verified(service, transfer_id)
    assert (looked.objects, looked.same, found) == (6, 6, {})

    s3server.client().delete_object(Bucket=ferry.target, Key="in/1")
    s3server.client().put_object(Bucket=ferry.target, Key="in/2", Body=b"x" * SMALL)
    s3server.client().put_object(Bucket=ferry.target, Key="in/big", Body=b"x")

    looked, found = _verified(service, transfer_id)
    assert found == {"in/1": "missing", "in/2": "changed", "in/big": "changed"}
    assert (looked.same, looked.missing, looked.changed) == (3, 1, 2)

    answer = _asked_over_http(service, f"/api/v1/transfers/{transfer_id}/verify")
    assert (answer["intact"], len(answer["differences"])) == (False, 3)
    noted = service.events(transfer_id)[-1]
    assert (noted.kind, noted.data["missing"], noted.data["changed"]) == ("verified", 1, 2)
    assert noted.actor.startswith("http local")
    assert list(auditing.verify(service.database, auditing.AuditCounts())) == []

    if service.database.is_sqlite:
        ran = command(service, "verify", transfer_id, "--json")
        assert (ran.returncode, json.loads(ran.stdout.splitlines()[-1])["changed"]) == (3, 2)

    before = service.transfers()
    pruned = list(pruning.prune(service.database, service.queue, ended_before=2e9 * 2, now=2e9, actor="ada"))
    assert {one.id for one in pruned} == {one.id for one in before}, "the verifications as well"
    looks = [service.verification(service.status(one.id)) for one in before if one.id != transfer_id]
    assert [look.counts.differ for look in looks if look.counts.differ] == [3] * (len(looks) - 1)
    assert {one.outcome for one in looks[0].differences} == {"missing", "changed"}
    assert _verified(service, transfer_id)[1] == found


def _flip(path: Path, at: int) -> None:
    """Change one byte of a file, which keeps its size and its times."""
    known = path.stat()
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))
    os.utime(path, ns=(known.st_atime_ns, known.st_mtime_ns))


@pytest.mark.every_database  # commands are asked on SQLite
@pytest.mark.parametrize("s3server", ["versitygw"], indirect=True)  # the other server keeps no plain files
def test_a_byte_flipped_behind_the_servers_back_is_found_by_content(
    service: Service, ferry: Ferry, s3server: S3Server, run: Run
) -> None:
    ferry.fill({f"run/{number}": SMALL for number in range(3)} | {"run/big": MULTIPART, "run/empty": 0})
    ferry.work()
    transfer_id, _ = ferry.carry("run/", "in")
    looked, found = _verified(service, transfer_id, content=True)
    assert (looked.objects, looked.same, looked.content, found) == (5, 5, 5, {})

    [folder] = run.folder.glob(f"servers/*/data/{ferry.target}")
    _flip(folder / "in" / "1", 0)
    _flip(folder / "in" / "big", MULTIPART - 1)

    assert _verified(service, transfer_id)[1] == {}, "sizes and ETags are as they were"
    looked, found = _verified(service, transfer_id, content=True)
    assert set(found) == {"in/1", "in/big"}
    assert (looked.same, looked.content, looked.differ) == (3, 3, 2)
    assert set(found.values()) <= {"changed", "unreadable"}

    if service.database.is_sqlite:
        ran = command(service, "verify", transfer_id, "--content", "--json")
        lines = [json.loads(line) for line in ran.stdout.splitlines()]
        assert {one["key"] for one in lines if one["event"] == "difference"} == {"in/1", "in/big"}
        assert (ran.returncode, lines[-1]["content"]) == (3, 3)
        noted = service.events(transfer_id)[-1]
        assert (noted.kind, noted.data["how"], noted.data["content"]) == ("verified", "content", 3)


def test_an_object_that_was_replaced_is_found_by_content(service: Service, ferry: Ferry, s3server: S3Server) -> None:
    ferry.fill({f"run/{number}": SMALL for number in range(3)} | {"run/big": MULTIPART})
    ferry.work()
    transfer_id, _ = ferry.carry("run/", "in")
    looked, found = _verified(service, transfer_id, content=True)
    assert (looked.content, found) == (4, {})
    s3server.client().put_object(Bucket=ferry.target, Key="in/2", Body=b"x" * SMALL)
    s3server.client().delete_object(Bucket=ferry.target, Key="in/0")

    assert _verified(service, transfer_id, content=True)[1] == {"in/0": "missing", "in/2": "changed"}
    answer = _asked_over_http(service, f"/api/v1/transfers/{transfer_id}/verify?content=true")
    assert (answer["intact"], answer["content"], len(answer["differences"])) == (False, 2, 2)


def test_a_file_with_a_flipped_byte_is_found_by_content(
    service: Service, ferry: Ferry, s3server: S3Server, tmp_path: Path
) -> None:
    service.settings = replace(service.settings, folders=(str(tmp_path),))  # type: ignore[misc]
    ferry.fill({"run/a": SMALL, "run/b": MULTIPART})
    out = tmp_path / "out"
    ran = command(service, "cp", f"s3://{ferry.source}/run/", f"{out}/", "--endpoint-url", s3server.endpoint_url)
    assert ran.returncode == 0, ran.stderr
    ferry.work()
    transfer_id = service.transfers()[0].id
    looked, found = _verified(service, transfer_id, content=True)
    assert (looked.content, found) == (2, {})

    _flip(out / "a", SMALL // 2)
    _flip(out / "b", MULTIPART // 2)

    assert _verified(service, transfer_id)[1] == {}
    assert sorted(_verified(service, transfer_id, content=True)[1].values()) == ["changed", "changed"]
    ran = command(service, "verify", transfer_id, "--content")
    assert ran.returncode == 3, ran.stderr
    assert [line.split("\t")[0] for line in ran.stdout.splitlines()] == ["changed", "changed"]


def test_an_archive_is_looked_up_once(service: Service, ferry: Ferry, s3server: S3Server) -> None:
    ferry.fill({f"run/{number}": SMALL for number in range(4)})
    ferry.work()
    spec = build_operation_spec(
        "pack",
        {},
        source=f"s3://{ferry.source}/run/",
        target=f"s3://{ferry.target}/a.tar",
        endpoint_url=s3server.endpoint_url,
    )
    transfer_id = service.submit(spec, actor="ada")
    assert until_ended(service, transfer_id).totals.done == 4
    assert service.receipt_digest(transfer_id) is not None

    assert _verified(service, transfer_id)[0].same == 1
    looked, found = _verified(service, transfer_id, content=True)
    assert (looked.same, found) == (1, {}), "by its own digest, not that of a member"
    s3server.client().delete_object(Bucket=ferry.target, Key="a.tar")
    assert _verified(service, transfer_id)[1] == {"a.tar": "missing"}


def test_files_are_looked_at_too(service: Service, ferry: Ferry, s3server: S3Server, tmp_path: Path) -> None:
    service.settings = replace(service.settings, folders=(str(tmp_path),))  # type: ignore[misc]
    ferry.fill({"run/a": SMALL, "run/b": SMALL})
    out = tmp_path / "out"
    ran = command(service, "cp", f"s3://{ferry.source}/run/", f"{out}/", "--endpoint-url", s3server.endpoint_url)
    assert ran.returncode == 0, ran.stderr
    ferry.work()
    transfer_id = service.transfers()[0].id

    assert _verified(service, transfer_id)[1] == {}
    (out / "a").write_bytes(b"x")
    (out / "b").unlink()
    assert sorted(_verified(service, transfer_id)[1].values()) == ["changed", "missing"]


def test_an_unfinished_transfer_is_not_verified(service: Service) -> None:
    transfer_id = service.submit(spec_on(S3Server("x", "http://127.0.0.1:9"), "s3://a/", "s3://b/"), actor="ada")

    with pytest.raises(ConflictError, match="has not ended"):
        _verified(service, transfer_id)


def test_a_verification_is_retried_for_what_has_failed(service: Service, ferry: Ferry, s3server: S3Server) -> None:
    ferry.fill({f"run/{number}": SMALL for number in range(3)} | {"run/big": MULTIPART})
    ferry.work()
    transfer_id, _ = ferry.carry("run/", "in")
    kept = {key: s3server.client().get_object(Bucket=ferry.target, Key=key)["Body"].read() for key in ("in/0", "in/1")}
    s3server.client().put_object(Bucket=ferry.target, Key="in/0", Body=b"x")
    s3server.client().delete_object(Bucket=ferry.target, Key="in/1")
    begun = control.verify(service, transfer_id, actor="ada", content=True)
    assert until_ended(service, begun.id).totals.failed == 2
    rows = {one.source_key: one for one in service.objects(begun.id)}
    assert {rows[f"run/{number}"].error_code for number in (0, 1)} == {"ChangedAtTarget", "MissingAtTarget"}
    arrived = {one.source_key: one for one in service.objects(transfer_id)}
    compared = ("target_etag", "checksum_algorithm", "checksum", "size", "etag")
    assert all(getattr(rows[key], name) == getattr(one, name) for key, one in arrived.items() for name in compared)

    s3server.client().put_object(Bucket=ferry.target, Key="in/0", Body=kept["in/0"])
    again = control.retry(service, begun.id, actor="ada")

    ended = until_ended(service, again.id)
    assert (ended.totals.objects, ended.totals.done, ended.totals.failed) == (2, 1, 1)
    look = service.verification(ended)
    assert (look.counts.content, [one.key for one in look.differences]) == (1, ["in/1"])
    assert [one.data["objects"] for one in service.events(transfer_id) if one.kind == "verified"] == [4, 2]
    assert control.verify(service, transfer_id, actor="ada").id != begun.id
    with pytest.raises(ConflictError, match="verified what another one brought"):
        control.verify(service, begun.id, actor="ada")
    with pytest.raises(ConflictError, match="is not a verification"):
        service.verification(service.status(transfer_id))


def test_a_verification_waits_for_no_transfer_and_keeps_none_waiting(service: Service, ferry: Ferry) -> None:
    ferry.fill({"run/a": SMALL})
    worker = ferry.start_worker(service)
    transfer_id, _ = ferry.carry("run/", "in")
    worker.stop()

    first = ferry.submit("run/", "in/")
    looked = control.verify(service, transfer_id, actor="ada")
    same = control.verify(service, transfer_id, actor="ada")
    read = control.verify(service, transfer_id, actor="ada", content=True)

    assert (looked.blocked, read.blocked) == (False, False)
    assert (same.id, same.goes_on) == (looked.id, True)
    assert read.id != looked.id
    service.cancel(first, actor="ada")
    assert service.submit_or_resume(ferry.spec("run/", "in/"), actor="ada").blocked is False


def test_an_object_that_is_refused_keeps_no_other_from_the_look(
    service: Service, proxy: Proxy, s3server: S3Server, ferry: Ferry
) -> None:
    ferry.fill({f"run/{number}": SMALL for number in range(3)})
    ferry.work()
    spec = spec_on(proxy.server, f"s3://{ferry.source}/run/", f"s3://{ferry.target}/in/")
    transfer_id = service.submit(spec, actor="ada")
    until_ended(service, transfer_id)
    proxy.rule("HeadObject", access_denied(), key="in/1")
    proxy.rule("GetObject", access_denied(), key="in/2")

    looked, found = _verified(service, transfer_id, content=True)

    assert (found, looked.content) == ({"in/1": "unreadable", "in/2": "unreadable"}, 1)
    begun = service.transfers()[0]
    [refused, unread] = service.verification(begun).differences
    assert refused.recorded.startswith(f"{SMALL} bytes")
    assert "HeadObject" in refused.found
    assert "GetObject" in unread.found
