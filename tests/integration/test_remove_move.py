"""Removals and moves: what is removed, what is left, and what is on record of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from control import counters_fit_rows, until_ended
from ferry import Ferry
from mirror import keys

from seqferry.models import OPERATION_MOVE
from seqferry.removals import build_remove_spec
from seqferry.service import Service
from seqferry.spec import build_spec, checked
from seqferry.worker import Worker
from support.proxy import Proxy
from support.servers import S3Server

SIZES = {"run/a": 10, "run/b/c": 20, "run/empty": 0, "run42/other": 30}


@pytest.fixture
def ferry(
    service: Service,
    s3server: S3Server,
    make_bucket: Callable[..., str],
    start_worker: Callable[[Service], Worker],
    rng: random.Random,
) -> Ferry:
    made = (make_bucket(s3server), make_bucket(s3server))
    return Ferry(service, s3server, s3server, *made, rng, start_worker)


def _left(ferry: Ferry, prefix: str = "") -> list[str]:
    return sorted(keys(ferry.server, ferry.source, prefix))


def test_what_lies_below_a_prefix_is_removed_and_each_object_is_on_record(ferry: Ferry) -> None:
    ferry.fill(SIZES)
    spec = build_remove_spec([f"s3://{ferry.source}/run"], recursive=True, endpoint_url=ferry.server.endpoint_url)
    transfer_id = ferry.service.submit(spec, actor="ada")
    ferry.work()

    status = ferry.until_ended(transfer_id)

    assert (status.state, status.totals.done, status.totals.failed) == ("done", 3, 0)
    assert _left(ferry) == ["run42/other"]
    rows = ferry.service.objects(transfer_id)
    assert {(row.source_key, row.method, row.state) for row in rows} == {
        (name, "remove", "done") for name in ("run/a", "run/b/c", "run/empty")
    }
    counters_fit_rows(ferry.service, transfer_id)


def test_more_than_is_allowed_removes_nothing(ferry: Ferry) -> None:
    ferry.fill({f"run/{number}": 1 for number in range(5)})
    uri = f"s3://{ferry.source}/run/"
    spec = build_remove_spec([uri], recursive=True, most=4, endpoint_url=ferry.server.endpoint_url)
    transfer_id = ferry.service.submit(spec, actor="ada")
    ferry.work()

    status = ferry.until_ended(transfer_id)

    assert (status.state, status.error_code) == ("failed", "TooManyToDelete")
    assert len(_left(ferry)) == 5


def test_all_versions_are_removed_for_good(
    service: Service, versitygw: S3Server, make_bucket: Callable[..., str], start_worker: Callable[[Service], Worker]
) -> None:
    bucket = make_bucket(versitygw, versioned=True)
    client = versitygw.client()
    for body in (b"1", b"22", b"333"):
        client.put_object(Bucket=bucket, Key="run/a", Body=body)
    client.put_object(Bucket=bucket, Key="run/ab", Body=b"other")
    client.delete_object(Bucket=bucket, Key="run/a")
    spec = build_remove_spec([f"s3://{bucket}/run/a"], versions=True, endpoint_url=versitygw.endpoint_url)
    transfer_id = service.submit(spec, actor="ada")
    start_worker(service)

    status = until_ended(service, transfer_id)

    assert (status.state, status.totals.done, status.totals.failed) == ("done", 4, 0)
    found = client.list_object_versions(Bucket=bucket)
    assert [one["Key"] for one in found.get("Versions", [])] == ["run/ab"]
    assert "DeleteMarkers" not in found


def _move(ferry: Ferry, source: str, target: str) -> str:
    spec = build_spec(source, target, endpoint_url=ferry.server.endpoint_url, allow_local=True)
    return ferry.service.submit(checked(replace(spec, operation=OPERATION_MOVE)), actor="ada")


def test_what_has_arrived_is_removed_at_the_source(ferry: Ferry) -> None:
    ferry.fill(SIZES)
    sent = ferry.sent()
    transfer_id = _move(ferry, f"s3://{ferry.source}/run/", f"s3://{ferry.target}/in/")
    ferry.work()

    status = ferry.until_ended(transfer_id)

    assert (status.state, status.totals.done, status.totals.failed) == ("done", 3, 0)
    assert ferry.arrived() == sent
    assert _left(ferry) == ["run42/other"]
    assert ferry.service.moved(transfer_id) == 3
    [event] = [one for one in ferry.service.events(transfer_id) if one.kind == "removing_sources"]
    assert sorted(event.data["keys"]) == ["run/a", "run/b/c", "run/empty"]


def test_what_was_written_after_it_was_copied_stays_at_the_source(
    ferry: Ferry, monkeypatch: pytest.MonkeyPatch
) -> None:
    from seqferry.workflows.operations.move import sources

    ferry.fill({"run/a": 10, "run/b": 10})
    whole = sources._remove_page

    def write_first(*arguments: object) -> dict[str, str]:
        ferry.server.client().put_object(Bucket=ferry.source, Key="run/a", Body=b"newer")
        return whole(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(sources, "_remove_page", write_first)
    transfer_id = _move(ferry, f"s3://{ferry.source}/run/", f"s3://{ferry.target}/in/")
    ferry.work()

    status = ferry.until_ended(transfer_id)

    assert (status.state, status.error_code) == ("failed", "SourcesLeft")
    assert "run/a: it was written to after it was copied" in (status.error_message or "")
    assert _left(ferry) == ["run/a"]
    assert ferry.service.moved(transfer_id) == 1


def test_an_object_under_two_addresses_is_not_moved_onto_itself(ferry: Ferry, proxy: Proxy) -> None:
    ferry.fill({"run/a": 10})
    here, other = ferry.server.endpoint_url, proxy.server.endpoint_url
    uri = f"s3://{ferry.source}/run/"
    spec = build_spec(uri, uri, source_endpoint_url=here, target_endpoint_url=other)
    transfer_id = ferry.service.submit(checked(replace(spec, operation=OPERATION_MOVE)), actor="ada")
    ferry.work()

    status = ferry.until_ended(transfer_id)

    assert (status.state, status.error_code) == ("failed", "SourcesLeft")
    assert _left(ferry) == ["run/a"]


@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)  # local files need it
def test_files_move_to_a_bucket_and_back(ferry: Ferry, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (folder / "d").mkdir(parents=True)
    (folder / "a").write_bytes(b"first")
    (folder / "d/b").write_bytes(b"second")
    ferry.work()

    up = ferry.until_ended(_move(ferry, str(folder), f"s3://{ferry.target}/in/"))

    assert up.state == "done", up
    assert sorted(ferry.arrived()) == ["a", "d/b"]
    assert [one.name for one in folder.rglob("*") if one.is_file()] == []

    back = ferry.until_ended(_move(ferry, f"s3://{ferry.target}/in/", str(tmp_path / "back")))

    assert back.state == "done", back
    assert (tmp_path / "back/d/b").read_bytes() == b"second"
    assert ferry.arrived() == {}
