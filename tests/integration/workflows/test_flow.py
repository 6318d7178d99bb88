"""Transfers from submit to end, with the real engine on real servers."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from control import counters_fit_rows, settings_for, until_ended
from ferry import Ferry, FerryFactory
from mirror import MULTIPART, SMALL, keys

from seqferry.db.tables import batch
from seqferry.model.errors import StorageError, UsageError, WorkerBusyError
from seqferry.model.locations import S3Location
from seqferry.model.models import TransferSpec
from seqferry.planning import batching
from seqferry.service.service import Service
from seqferry.workflows import runtime
from seqferry.workflows.worker import Worker
from support.proxy import Proxy, access_denied, expired_token, held, hold, internal_error
from support.waiting import eventually


@pytest.fixture
def ferry(own: Service, make_ferry: FerryFactory) -> Ferry:
    return make_ferry(own)


@pytest.fixture
def proxied(own: Service, make_ferry: FerryFactory, proxy: Proxy) -> Ferry:
    """Reaches the storage through ``proxy``."""
    return make_ferry(own, reached=proxy.server)


def _delivery(small: int = 40, big: int = 3) -> dict[str, int]:
    odd = {"run/empty": 0, "run/with space ü+%20.gz": SMALL, "run/run/nested": 1}
    return (
        {f"run/s{number:03d}.gz": SMALL + number for number in range(small)}
        | {f"run/big{number}.gz": MULTIPART for number in range(big)}
        | odd
    )


@pytest.mark.every_pair
def test_a_prefix_arrives_whole_and_is_on_record(service: Service, make_ferry: FerryFactory) -> None:
    ferry = make_ferry(service)
    sizes = _delivery()
    ferry.fill(sizes)
    ferry.work()

    transfer_id, status = ferry.carry("run/", "in")

    assert status.state == "done"
    assert ferry.arrived() == ferry.sent()
    assert (status.totals.objects, status.totals.done) == (len(sizes), len(sizes))
    assert (status.totals.bytes, status.totals.bytes_done) == (sum(sizes.values()),) * 2
    records = {record.source_key: record for record in service.objects(transfer_id)}
    assert {key: record.size for key, record in records.items()} == sizes
    assert {record.state for record in records.values()} == {"done"}
    assert {record.method for key, record in records.items() if "big" in key} == {"multipart"}
    assert all(record.verified not in (None, "none") for record in records.values())
    assert [event.kind for event in service.events(transfer_id)] == ["submitted", "started", "planned", "done"]
    assert service.record_findings(transfer_id) == []
    assert ferry.open_uploads() == []
    counters_fit_rows(service, transfer_id)


def test_one_object_and_its_name(ferry: Ferry) -> None:
    ferry.fill({"run/a b.gz": SMALL, "run/a b.gz.md5": 5})
    ferry.work()

    _, status = ferry.carry("run/a b.gz", "x/")

    assert status.totals.done == 1
    assert list(ferry.arrived("")) == ["x/a b.gz"]


def test_what_may_not_be_read_fails_and_the_rest_arrives(proxied: Ferry, proxy: Proxy) -> None:
    proxied.fill({f"run/{number:03d}": SMALL for number in range(200)})
    for number in (3, 50, 51, 120, 199):
        proxy.rule([], access_denied(), key_is=f"{number:03d}", bucket=proxied.target)
        proxy.rule([], access_denied(), key_is=f"in/{number:03d}", bucket=proxied.target)
    proxied.work()

    transfer_id, status = proxied.carry()

    assert (status.state, status.totals.done, status.totals.failed) == ("done_with_failures", 195, 5)
    [group] = proxied.service.failures(transfer_id)
    assert (group.error_class, group.error_code, group.count) == ("person", "AccessDenied", 5)
    assert group.keys == ("run/003", "run/050", "run/051", "run/120", "run/199")
    assert len(proxied.arrived("")) == 195


@pytest.mark.parametrize("missing", ["source", "target"])
def test_a_bucket_that_is_missing_ends_the_transfer_at_once(ferry: Ferry, missing: str) -> None:
    places = {"source": ferry.source, "target": ferry.target} | {missing: "no-such-bucket-here"}
    elsewhere = replace(ferry, **places)
    elsewhere.work()

    transfer_id = elsewhere.submit("run/", "")
    status = until_ended(elsewhere.service, transfer_id, deadline=20)

    assert (status.state, status.totals.objects, status.planned) == ("failed", 0, False)
    assert status.error_code == "NoSuchBucket"
    assert "no-such-bucket-here" in (status.error_message or "")
    with pytest.raises(StorageError, match="no-such-bucket-here"):
        elsewhere.service.check(elsewhere.spec("run/", ""))


def test_an_error_of_the_whole_job_stops_it_and_leaves_the_rest_cancelled(proxied: Ferry, proxy: Proxy) -> None:
    proxied.fill({f"run/{number:03d}": SMALL for number in range(50)})
    proxy.rule("CopyObject", expired_token(), after=10)
    proxied.work()

    transfer_id, status = proxied.carry("run/", "")

    assert status.state == "failed"
    assert status.error_code == "ExpiredToken"
    assert status.totals.ended == 50
    assert status.totals.cancelled > 0
    assert [event.kind for event in proxied.service.events(transfer_id)][-2:] == ["stopping", "failed"]


def test_listing_that_fails_for_a_moment_is_tried_again(proxied: Ferry, proxy: Proxy) -> None:
    proxied.fill({f"run/{number}": SMALL for number in range(5)})
    proxy.rule(["ListObjectsV2", "ListObjects"], internal_error(), bucket=proxied.source, times=3)
    proxied.work()

    _, status = proxied.carry("run/", "")

    assert status.totals.done == 5


def test_cancel_stops_within_seconds_and_leaves_no_upload_open(proxied: Ferry, proxy: Proxy) -> None:
    proxied.fill({"run/small": SMALL} | {f"run/big{number}": MULTIPART for number in range(4)})
    _learn_quirks(proxied.service, proxy, proxied.spec())
    proxied.work()
    with held(proxy, "UploadPartCopy") as rule:
        transfer_id = proxied.submit()
        proxy.wait_held(rule, 4)
        eventually(lambda: proxied.service.status(transfer_id).totals.done == 1, what="the small object")

        assert proxied.service.cancel(transfer_id, actor="bob").state == "cancelling"
        proxy.wait_requested("AbortMultipartUpload", 4, deadline=10)

    status = proxied.until_ended(transfer_id)
    assert (status.state, status.totals.done, status.totals.cancelled) == ("cancelled", 1, 4)
    assert proxied.open_uploads() == []
    assert list(proxied.arrived("")) == ["in/small"]
    counters_fit_rows(proxied.service, transfer_id)


@pytest.mark.parametrize("at", ["request", "reply"])
def test_cancel_leaves_no_upload_open_that_is_being_created(proxied: Ferry, proxy: Proxy, at: str) -> None:
    proxied.fill({f"run/big{number}": MULTIPART for number in range(3)})
    _learn_quirks(proxied.service, proxy, proxied.spec())
    proxied.work()
    rule = proxy.rule("CreateMultipartUpload", hold(at), times=3)
    transfer_id = proxied.submit()
    proxy.wait_held(rule, 3)

    # An upload that comes about before the worker has heard of the cancel gets no further.
    with held(proxy, "UploadPartCopy"):
        proxied.service.cancel(transfer_id, actor="bob")
        proxy.remove_rule(rule)
        proxy.wait_requested("AbortMultipartUpload", 3)

    status = proxied.until_ended(transfer_id)
    assert (status.state, status.totals.cancelled) == ("cancelled", 3)
    assert proxied.open_uploads() == []


def _learn_quirks(service: Service, proxy: Proxy, spec: TransferSpec) -> None:
    """Let the engine find out what the server gets wrong, which can cost the first multipart object a second upload."""
    with Worker.start(service.settings, service):
        one = replace(
            spec, source=replace(spec.source, key="run/big0"), target=replace(spec.target, key="x"), single=True
        )
        assert until_ended(service, service.submit(one, actor="ada")).totals.done == 1
    proxy.server.client().delete_object(Bucket=spec.target.bucket, Key="x")
    proxy.clear_log()


def test_a_stopped_worker_leaves_uploads_open_and_the_next_one_goes_on_with_them(proxied: Ferry, proxy: Proxy) -> None:
    proxied.fill({"run/small": SMALL} | {f"run/big{number}": MULTIPART for number in range(2)})
    spec = proxied.spec()
    _learn_quirks(proxied.service, proxy, spec)
    with held(proxy, "UploadPartCopy", part=3), Worker.start(proxied.service.settings, proxied.service) as worker:
        transfer_id = proxied.service.submit(spec, actor="ada")
        proxy.wait_succeeded("UploadPartCopy", 4)
        proxy.wait_held(count=2)
        eventually(lambda: proxied.service.status(transfer_id).totals.done == 1, what="the small object")
        assert worker.stop(timeout=20)

    assert proxied.service.status(transfer_id).state == "running"
    proxy.wait_idle()
    assert sorted(proxied.open_uploads()) == ["in/big0", "in/big1"]
    with Worker.start(proxied.service.settings, proxied.service):
        status = proxied.until_ended(transfer_id)

    assert (status.state, status.totals.done) == ("done", 3)
    assert proxied.arrived() == proxied.sent()
    first_parts = [one for one in proxy.log("UploadPartCopy") if one.part_number in (1, 2) and one.took_effect]
    assert len(first_parts) == 4, "a part that was copied before the stop was copied again"
    assert len([one for one in proxy.log("CopyObject") if one.took_effect]) == 1
    assert len([one for one in proxy.log("CreateMultipartUpload") if one.took_effect]) == 2
    assert [event.kind for event in proxied.service.events(transfer_id)] == [
        "submitted",
        "started",
        "planned",
        "resumed",
        "done",
    ]
    assert proxied.open_uploads() == []


def test_a_transfer_that_is_cancelled_while_no_worker_is_there_is_cleaned_up_by_the_next(
    proxied: Ferry, proxy: Proxy
) -> None:
    proxied.fill({f"run/big{number}": MULTIPART for number in range(2)})
    spec = proxied.spec()
    _learn_quirks(proxied.service, proxy, spec)
    with held(proxy, "UploadPartCopy"):
        with Worker.start(proxied.service.settings, proxied.service) as worker:
            transfer_id = proxied.service.submit(spec, actor="ada")
            proxy.wait_held(count=2)
            assert worker.stop(timeout=20)
        proxied.service.cancel(transfer_id, actor="bob")
        assert proxied.service.status(transfer_id).state == "cancelling"
    proxy.wait_idle()

    with Worker.start(proxied.service.settings, proxied.service):
        status = proxied.until_ended(transfer_id)

    assert (status.state, status.totals.cancelled) == ("cancelled", 2)
    assert proxied.open_uploads() == []


@pytest.mark.parametrize(("before", "counted"), [({}, "done"), ({"in/other": b"x"}, "skipped")])
def test_an_object_that_was_whole_but_not_on_record_is_not_copied_again(
    proxied: Ferry, proxy: Proxy, before: dict[str, bytes], counted: str
) -> None:
    proxied.fill({"run/a": SMALL})
    for key, body in before.items():
        proxied.server.client().put_object(Bucket=proxied.target, Key=key, Body=body)
    with held(proxy, "CopyObject", at="reply"), Worker.start(proxied.service.settings, proxied.service) as worker:
        transfer_id = proxied.submit()
        proxy.wait_held()
        assert worker.stop(timeout=20)
    proxy.wait_idle()

    proxied.work()
    status = proxied.until_ended(transfer_id)

    assert (status.state, getattr(status.totals, counted)) == ("done", 1)
    assert len(proxy.log("CopyObject")) == 1
    assert proxied.arrived()["a"] == proxied.sent()["a"]


def test_a_planned_copy_is_shown_without_being_made(ferry: Ferry) -> None:
    ferry.fill({"run/a": 1, "run/d/b": 2, "other": 3})
    spec = ferry.spec("run/", "in")

    found = sorted((one.source_key, one.target_key, one.size) for one in ferry.service.preview(spec))

    assert found == [("run/a", "in/a", 1), ("run/d/b", "in/d/b", 2)]
    assert ferry.service.transfers() == []
    assert ferry.arrived("") == {}


def test_a_named_object_that_is_not_there_is_named(ferry: Ferry) -> None:
    ferry.fill({"run/a": 1, "x/b": 1})

    with pytest.raises(UsageError, match=f"did you mean s3://{ferry.source}/run/ "):
        ferry.service.check(ferry.spec("run", "in"))
    with pytest.raises(UsageError, match=f"no object s3://{ferry.source}/nothing"):
        ferry.service.check(ferry.spec("nothing", "in"))


def test_ls_lists_what_is_below(ferry: Ferry) -> None:
    ferry.fill({"run/a": 1, "run/d/b": 2, "other": 3})

    pages = ferry.service.list_objects(S3Location(ferry.source, "run/", endpoint_url=ferry.reached.endpoint_url))

    assert sorted((one.key, one.size) for page in pages for one in page) == [("run/a", 1), ("run/d/b", 2)]


def test_a_copy_onto_the_source_itself_is_refused_object_by_object(ferry: Ferry) -> None:
    ferry.fill({"a/b/x": 10, "a/b/b/y": 20, "a/b/y": 30})
    before = ferry.sent("")
    ferry.work()

    transfer_id, status = replace(ferry, target=ferry.source).carry("a/b/", "a/")

    # a/b/b/y would go to a/b/y, which is a source object.
    assert (status.totals.done, status.totals.failed) == (2, 1)
    [group] = ferry.service.failures(transfer_id)
    assert (group.error_code, group.keys) == ("TargetInsideSource", ("a/b/b/y",))
    after = ferry.sent("")
    assert {key: after[key] for key in before} == before


def test_a_second_worker_on_the_same_folder_is_refused(own: Service, tmp_path: Path) -> None:
    with Worker.start(own.settings, own), pytest.raises(WorkerBusyError):
        Worker.start(own.settings)
    # The lock is free again.
    Worker.start(own.settings, own).stop()
    assert (own.settings.state_dir / "worker.lock").read_text() == str(os.getpid())
    assert settings_for(tmp_path, None) == own.settings


def test_a_marker_of_the_source_prefix_is_left_out_at_the_root_of_a_bucket(ferry: Ferry) -> None:
    ferry.fill({"run/": 0, "run/a": 10})
    ferry.work()

    _, status = ferry.carry("run/", "")

    assert (status.state, status.totals.objects, status.totals.done) == ("done", 1, 1)
    assert list(ferry.arrived("")) == ["a"]
    assert [one.source_key for one in ferry.service.preview(ferry.spec("run/", ""))] == ["run/a"]


def test_an_object_for_which_the_target_leaves_no_key_fails_and_the_rest_arrives(ferry: Ferry) -> None:
    ferry.fill({"run/a": 10, "run/" + "x/" * 100 + "b": 10})
    ferry.work()

    transfer_id, status = ferry.carry("run/", "y/" * 450)

    assert (status.state, status.totals.done, status.totals.failed) == ("done_with_failures", 1, 1)
    [group] = ferry.service.failures(transfer_id)
    assert (group.error_code, group.keys) == ("TargetKeyTooLong", ("run/" + "x/" * 100 + "b",))


def test_a_big_source_is_planned_while_the_first_batches_run(proxied: Ferry, proxy: Proxy) -> None:
    """The storage does not tell of the last object before one of the first batch has arrived."""
    names = [f"{number:05d}" for number in range(2 * batching.SMALL.objects + 1)]
    proxied.fill({f"run/{name}": 1 for name in names})
    proxied.work()
    spec = replace(proxied.spec("run/", ""), keys=tuple(names))

    with held(proxy, "HeadObject", bucket=proxied.source, key_is=f"run/{names[-1]}"):
        transfer_id = proxied.service.submit(spec, actor="ada")
        eventually(lambda: proxied.service.status(transfer_id).totals.done, what="the first", deadline=60)
        assert not proxied.service.status(transfer_id).planned

    status = proxied.until_ended(transfer_id)
    assert (status.state, status.totals.done) == ("done", len(names))
    counters_fit_rows(proxied.service, transfer_id)
    assert sorted(keys(proxied.server, proxied.target)) == names


def test_a_worker_takes_another_batch_only_when_the_others_leave_requests_unused_or_take_long(
    proxied: Ferry, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "SMALL", batching.Limit(objects=2, bytes=batching.SMALL.bytes))
    monkeypatch.setattr(runtime, "_ROUNDS_AHEAD", 0)  # one batch has use for all requests
    proxied.fill({f"run/{number}": SMALL for number in range(6)})
    proxied.work()
    active = sa.select(batch.c.started_at).where(batch.c.state == "active").order_by(batch.c.started_at)

    def begun() -> list[float]:
        with proxied.service.database.read() as connection:
            return list(connection.execute(active).scalars())

    with held(proxy, "CopyObject"):
        transfer_id = proxied.submit()
        eventually(lambda: len(begun()) == 3, what="all batches, since none of them moves on", deadline=60)
        first, second, third = begun()

    assert min(second - first, third - second) > 1.5
    assert proxied.until_ended(transfer_id).totals.done == 6
