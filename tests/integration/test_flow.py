"""Transfers from submit to end, with the real engine on real servers."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from control import MIB, counters_fit_rows, settings_for, spec_on, until_ended
from mirror import MULTIPART, SMALL, digests, fill, open_uploads

from seqferry.config import Settings
from seqferry.errors import StorageError, UsageError, WorkerBusyError
from seqferry.models import Location, TransferSpec
from seqferry.service import Service
from seqferry.worker import Worker
from support.proxy import Proxy, access_denied, expired_token, held, hold, internal_error
from support.servers import S3Server
from support.waiting import eventually

StartWorker = Callable[[Service], Worker]
MakeBucket = Callable[..., str]


@pytest.fixture
def own(sqlite_settings: Settings) -> Iterator[Service]:
    """A service on SQLite."""
    with Service.open(sqlite_settings) as opened:
        yield opened


@pytest.fixture
def buckets(s3server: S3Server, make_bucket: MakeBucket) -> tuple[str, str]:
    return make_bucket(s3server), make_bucket(s3server)


def _delivery(small: int = 40, big: int = 3) -> dict[str, int]:
    odd = {"run/empty": 0, "run/with space ü+%20.gz": SMALL, "run/run/nested": 1}
    return (
        {f"run/s{number:03d}.gz": SMALL + number for number in range(small)}
        | {f"run/big{number}.gz": MULTIPART for number in range(big)}
        | odd
    )


def test_a_prefix_arrives_whole_and_is_on_record(
    service: Service,
    s3server: S3Server,
    buckets: tuple[str, str],
    start_worker: StartWorker,
    rng: random.Random,
) -> None:
    source, target = buckets
    sizes = _delivery()
    fill(s3server, source, sizes, rng)
    start_worker(service)

    transfer_id = service.submit(spec_on(s3server, f"s3://{source}/run/", f"s3://{target}/in"), actor="ada")
    status = until_ended(service, transfer_id)

    assert status.state == "done"
    assert digests(s3server, target, "in/") == digests(s3server, source, "run/")
    assert (status.totals.objects, status.totals.done) == (len(sizes), len(sizes))
    assert (status.totals.bytes, status.totals.bytes_done) == (sum(sizes.values()),) * 2
    records = {record.source_key: record for record in service.objects(transfer_id)}
    assert {key: record.size for key, record in records.items()} == sizes
    assert {record.state for record in records.values()} == {"done"}
    assert {record.method for key, record in records.items() if "big" in key} == {"multipart"}
    assert all(record.verified not in (None, "none") for record in records.values())
    assert [event.kind for event in service.events(transfer_id)] == ["submitted", "started", "planned", "done"]
    assert service.first_broken_event(transfer_id) is None
    assert open_uploads(s3server, target) == []
    counters_fit_rows(service, transfer_id)


def test_one_object_and_its_name(
    own: Service, s3server: S3Server, buckets: tuple[str, str], start_worker: StartWorker, rng: random.Random
) -> None:
    source, target = buckets
    fill(s3server, source, {"run/a b.gz": SMALL, "run/a b.gz.md5": 5}, rng)
    start_worker(own)

    transfer_id = own.submit(spec_on(s3server, f"s3://{source}/run/a b.gz", f"s3://{target}/x/"), actor="ada")

    assert until_ended(own, transfer_id).totals.done == 1
    assert list(digests(s3server, target)) == ["x/a b.gz"]


def test_what_may_not_be_read_fails_and_the_rest_arrives(
    own: Service,
    proxy: Proxy,
    s3server: S3Server,
    buckets: tuple[str, str],
    start_worker: StartWorker,
    rng: random.Random,
) -> None:
    source, target = buckets
    fill(s3server, source, {f"run/{number:03d}": SMALL for number in range(200)}, rng)
    for number in (3, 50, 51, 120, 199):
        proxy.rule([], access_denied(), key_is=f"{number:03d}", bucket=target)
        proxy.rule([], access_denied(), key_is=f"in/{number:03d}", bucket=target)
    start_worker(own)

    transfer_id = own.submit(spec_on(proxy.server, f"s3://{source}/run/", f"s3://{target}/in/"), actor="ada")
    status = until_ended(own, transfer_id)

    assert (status.state, status.totals.done, status.totals.failed) == ("done", 195, 5)
    [group] = own.failures(transfer_id)
    assert (group.error_class, group.error_code, group.count) == ("person", "AccessDenied", 5)
    assert group.keys == ("run/003", "run/050", "run/051", "run/120", "run/199")
    assert len(digests(s3server, target)) == 195


@pytest.mark.parametrize("missing", ["source", "target"])
def test_a_bucket_that_is_missing_ends_the_transfer_at_once(
    own: Service, s3server: S3Server, buckets: tuple[str, str], start_worker: StartWorker, missing: str
) -> None:
    places = {"source": buckets[0], "target": buckets[1]} | {missing: "no-such-bucket-here"}
    start_worker(own)

    spec = spec_on(s3server, f"s3://{places['source']}/run/", f"s3://{places['target']}/")
    transfer_id = own.submit(spec, actor="ada")
    status = until_ended(own, transfer_id, deadline=20)

    assert (status.state, status.totals.objects, status.planned) == ("failed", 0, False)
    assert status.error_code == "NoSuchBucket"
    assert "no-such-bucket-here" in (status.error_message or "")
    with pytest.raises(StorageError, match="no-such-bucket-here"):
        own.check(spec)


def test_an_error_of_the_whole_job_stops_it_and_leaves_the_rest_cancelled(
    own: Service,
    proxy: Proxy,
    s3server: S3Server,
    buckets: tuple[str, str],
    start_worker: StartWorker,
    rng: random.Random,
) -> None:
    source, target = buckets
    fill(s3server, source, {f"run/{number:03d}": SMALL for number in range(50)}, rng)
    proxy.rule("CopyObject", expired_token(), after=10)
    start_worker(own)

    transfer_id = own.submit(spec_on(proxy.server, f"s3://{source}/run/", f"s3://{target}/"), actor="ada")
    status = until_ended(own, transfer_id)

    assert status.state == "failed"
    assert status.error_code == "ExpiredToken"
    assert status.totals.ended == 50
    assert status.totals.cancelled > 0
    assert [event.kind for event in own.events(transfer_id)][-2:] == ["stopping", "failed"]


def test_listing_that_fails_for_a_moment_is_tried_again(
    own: Service,
    proxy: Proxy,
    s3server: S3Server,
    buckets: tuple[str, str],
    start_worker: StartWorker,
    rng: random.Random,
) -> None:
    source, target = buckets
    fill(s3server, source, {f"run/{number}": SMALL for number in range(5)}, rng)
    proxy.rule(["ListObjectsV2", "ListObjects"], internal_error(), bucket=source, times=3)
    start_worker(own)

    transfer_id = own.submit(spec_on(proxy.server, f"s3://{source}/run/", f"s3://{target}/"), actor="ada")

    assert until_ended(own, transfer_id).totals.done == 5


def test_cancel_stops_within_seconds_and_leaves_no_upload_open(
    own: Service,
    proxy: Proxy,
    s3server: S3Server,
    buckets: tuple[str, str],
    start_worker: StartWorker,
    rng: random.Random,
) -> None:
    source, target = buckets
    fill(s3server, source, {"run/small": SMALL} | {f"run/big{number}": MULTIPART for number in range(4)}, rng)
    start_worker(own)
    with held(proxy, "UploadPartCopy") as rule:
        transfer_id = own.submit(spec_on(proxy.server, f"s3://{source}/run/", f"s3://{target}/in/"), actor="ada")
        proxy.wait_held(rule, 4)
        eventually(lambda: own.status(transfer_id).totals.done == 1, what="the small object")

        assert own.cancel(transfer_id, actor="bob").state == "cancelling"
        proxy.wait_requested("AbortMultipartUpload", 4, deadline=10)

    status = until_ended(own, transfer_id)
    assert (status.state, status.totals.done, status.totals.cancelled) == ("cancelled", 1, 4)
    assert open_uploads(s3server, target) == []
    assert list(digests(s3server, target)) == ["in/small"]
    counters_fit_rows(own, transfer_id)


@pytest.mark.parametrize("at", ["request", "reply"])
def test_cancel_leaves_no_upload_open_that_is_being_created(
    own: Service,
    proxy: Proxy,
    s3server: S3Server,
    buckets: tuple[str, str],
    start_worker: StartWorker,
    rng: random.Random,
    at: str,
) -> None:
    source, target = buckets
    fill(s3server, source, {f"run/big{number}": MULTIPART for number in range(3)}, rng)
    start_worker(own)
    rule = proxy.rule("CreateMultipartUpload", hold(at), times=3)
    transfer_id = own.submit(spec_on(proxy.server, f"s3://{source}/run/", f"s3://{target}/in/"), actor="ada")
    proxy.wait_held(rule, 3)

    own.cancel(transfer_id, actor="bob")
    eventually(lambda: own.status(transfer_id).state != "running", what="the cancel")
    proxy.remove_rule(rule)

    status = until_ended(own, transfer_id)
    assert (status.state, status.totals.cancelled) == ("cancelled", 3)
    assert open_uploads(s3server, target) == []


def _learn_quirks(service: Service, proxy: Proxy, spec: TransferSpec) -> None:
    """Let the engine find out what the server gets wrong, which can cost the first multipart object a second upload."""
    with Worker.start(service.settings, service):
        one = replace(
            spec, source=replace(spec.source, key="run/big0"), target=replace(spec.target, key="x"), single=True
        )
        assert until_ended(service, service.submit(one, actor="ada")).totals.done == 1
    proxy.server.client().delete_object(Bucket=spec.target.bucket, Key="x")
    proxy.clear_log()


def test_a_stopped_worker_leaves_uploads_open_and_the_next_one_goes_on_with_them(
    own: Service, proxy: Proxy, s3server: S3Server, buckets: tuple[str, str], rng: random.Random
) -> None:
    source, target = buckets
    fill(s3server, source, {"run/small": SMALL} | {f"run/big{number}": MULTIPART for number in range(2)}, rng)
    spec = spec_on(proxy.server, f"s3://{source}/run/", f"s3://{target}/in/")
    _learn_quirks(own, proxy, spec)
    with held(proxy, "UploadPartCopy", part=3), Worker.start(own.settings, own) as worker:
        transfer_id = own.submit(spec, actor="ada")
        proxy.wait_succeeded("UploadPartCopy", 4)
        proxy.wait_held(count=2)
        eventually(lambda: own.status(transfer_id).totals.done == 1, what="the small object")
        assert worker.stop(timeout=20)

    assert own.status(transfer_id).state == "running"
    proxy.wait_idle()
    assert sorted(open_uploads(s3server, target)) == ["in/big0", "in/big1"]
    with Worker.start(own.settings, own):
        status = until_ended(own, transfer_id)

    assert (status.state, status.totals.done) == ("done", 3)
    assert digests(s3server, target, "in/") == digests(s3server, source, "run/")
    first_parts = [one for one in proxy.log("UploadPartCopy") if one.part_number in (1, 2) and one.took_effect]
    assert len(first_parts) == 4, "a part that was copied before the stop was copied again"
    assert len([one for one in proxy.log("CopyObject") if one.took_effect]) == 1
    assert len([one for one in proxy.log("CreateMultipartUpload") if one.took_effect]) == 2
    assert [event.kind for event in own.events(transfer_id)] == ["submitted", "started", "planned", "resumed", "done"]
    assert open_uploads(s3server, target) == []


def test_a_transfer_that_is_cancelled_while_no_worker_is_there_is_cleaned_up_by_the_next(
    own: Service, proxy: Proxy, s3server: S3Server, buckets: tuple[str, str], rng: random.Random
) -> None:
    source, target = buckets
    fill(s3server, source, {f"run/big{number}": MULTIPART for number in range(2)}, rng)
    spec = spec_on(proxy.server, f"s3://{source}/run/", f"s3://{target}/in/")
    _learn_quirks(own, proxy, spec)
    with held(proxy, "UploadPartCopy"):
        with Worker.start(own.settings, own) as worker:
            transfer_id = own.submit(spec, actor="ada")
            proxy.wait_held(count=2)
            assert worker.stop(timeout=20)
        own.cancel(transfer_id, actor="bob")
        assert own.status(transfer_id).state == "cancelling"
    proxy.wait_idle()

    with Worker.start(own.settings, own):
        status = until_ended(own, transfer_id)

    assert (status.state, status.totals.cancelled) == ("cancelled", 2)
    assert open_uploads(s3server, target) == []


def test_a_planned_copy_is_shown_without_being_made(
    own: Service, s3server: S3Server, buckets: tuple[str, str], rng: random.Random
) -> None:
    source, target = buckets
    fill(s3server, source, {"run/a": 1, "run/d/b": 2, "other": 3}, rng)
    spec = spec_on(s3server, f"s3://{source}/run/", f"s3://{target}/in")

    found = sorted((one.source_key, one.target_key, one.size) for one in own.preview(spec))

    assert found == [("run/a", "in/a", 1), ("run/d/b", "in/d/b", 2)]
    assert own.transfers() == []
    assert digests(s3server, target) == {}


def test_a_named_object_that_is_not_there_is_named(
    own: Service, s3server: S3Server, buckets: tuple[str, str], rng: random.Random
) -> None:
    source, target = buckets
    fill(s3server, source, {"run/a": 1, "x/b": 1}, rng)

    with pytest.raises(UsageError, match=f"did you mean s3://{source}/run/ "):
        own.check(spec_on(s3server, f"s3://{source}/run", f"s3://{target}/in"))
    with pytest.raises(UsageError, match=f"no object s3://{source}/nothing"):
        own.check(spec_on(s3server, f"s3://{source}/nothing", f"s3://{target}/in"))
    named = replace(spec_on(s3server, f"s3://{source}/run/", f"s3://{target}/in"), keys=("a", "b", "c"))
    with pytest.raises(UsageError, match=r"Not found under .*: b, c"):
        own.check(named)


def test_ls_lists_what_is_below(own: Service, s3server: S3Server, buckets: tuple[str, str], rng: random.Random) -> None:
    source, _ = buckets
    fill(s3server, source, {"run/a": 1, "run/d/b": 2, "other": 3}, rng)

    pages = own.list(Location(source, "run/", endpoint_url=s3server.endpoint_url))

    assert sorted((one.key, one.size) for page in pages for one in page) == [("run/a", 1), ("run/d/b", 2)]


def test_a_copy_onto_the_source_itself_is_refused_object_by_object(
    own: Service, s3server: S3Server, buckets: tuple[str, str], start_worker: StartWorker, rng: random.Random
) -> None:
    source, _ = buckets
    fill(s3server, source, {"a/b/x": 10, "a/b/b/y": 20, "a/b/y": 30}, rng)
    before = digests(s3server, source)
    start_worker(own)

    transfer_id = own.submit(spec_on(s3server, f"s3://{source}/a/b/", f"s3://{source}/a/"), actor="ada")
    status = until_ended(own, transfer_id)

    # a/b/b/y would go to a/b/y, which is a source object.
    assert (status.totals.done, status.totals.failed) == (2, 1)
    [group] = own.failures(transfer_id)
    assert (group.error_code, group.keys) == ("TargetInsideSource", ("a/b/b/y",))
    after = digests(s3server, source)
    assert {key: after[key] for key in before} == before


def test_a_second_worker_on_the_same_folder_is_refused(own: Service, tmp_path: Path) -> None:
    with Worker.start(own.settings, own), pytest.raises(WorkerBusyError):
        Worker.start(own.settings)
    # The lock is free again.
    Worker.start(own.settings, own).stop()
    assert (own.settings.state_dir / "worker.lock").read_text() == str(os.getpid())
    assert settings_for(tmp_path, None) == own.settings


def test_a_big_source_is_planned_while_the_first_batches_run(
    own: Service,
    proxy: Proxy,
    s3server: S3Server,
    buckets: tuple[str, str],
    start_worker: StartWorker,
    rng: random.Random,
) -> None:
    """More than one page and more than one batch."""
    source, target = buckets
    fill(s3server, source, {f"run/{number:05d}": 1 for number in range(1100)}, rng)
    start_worker(own)

    transfer_id = own.submit(spec_on(s3server, f"s3://{source}/run/", f"s3://{target}/"), actor="ada")
    status = until_ended(own, transfer_id)

    assert (status.state, status.totals.done) == ("done", 1100)
    counters_fit_rows(own, transfer_id)
    assert MIB > status.totals.bytes == 1100
