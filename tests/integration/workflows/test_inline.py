"""Small transfers that a worker does without the queue: as durable as with it."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import sqlalchemy as sa
from control import counters_fit_rows, settings_for, spec_on, until_ended
from mirror import MULTIPART, SMALL, digests, fill, open_uploads

from seqferry.db.tables import object_
from seqferry.model.models import TransferSpec
from seqferry.planning import batching
from seqferry.service.service import Service
from seqferry.spec import stored
from seqferry.workflows import batch_steps, inline, transfer_steps
from seqferry.workflows.lease import Lease
from seqferry.workflows.runtime import Runtime
from seqferry.workflows.suspension import StepSuspension
from seqferry.workflows.worker import Worker
from support.processes import RunningProcess
from support.proxy import Proxy, held
from support.servers import S3Server
from support.waiting import eventually

BucketFactory = Callable[..., str]

_CP = """
import sys, time
from pathlib import Path
from seqferry.spec import stored
from seqferry.settings.config import Settings
from seqferry.workflows.worker import Worker
worker = Worker.start(Settings.load(state_dir=Path(sys.argv[1])), queue=False)
print(worker.submit(stored.read(sys.argv[2]), actor="ada"), flush=True)
time.sleep(600)
"""


@pytest.fixture
def s3server(seaweedfs: S3Server) -> S3Server:
    """The one server where parts can be counted by their numbers (see ``test_kill``)."""
    return seaweedfs


@pytest.fixture
def buckets(s3server: S3Server, make_bucket: BucketFactory) -> tuple[str, str]:
    return make_bucket(s3server), make_bucket(s3server)


def _spec(server: S3Server, buckets: tuple[str, str], *, below: str = "run") -> TransferSpec:
    return spec_on(server, f"s3://{buckets[0]}/{below}/", f"s3://{buckets[1]}/{below}/")


def _queued(service: Service) -> set[str]:
    """Ids of what is, or was, on the queue."""
    with service.database.read() as connection:
        return set(connection.execute(sa.text("select workflow_uuid from workflow_status")).scalars())


def _kinds(service: Service, transfer_id: str) -> list[str]:
    return [event.kind for event in service.events(transfer_id)]


def test_a_small_transfer_needs_no_queue(
    own: Service, s3server: S3Server, buckets: tuple[str, str], rng: random.Random
) -> None:
    fill(s3server, buckets[0], {f"run/{number}": SMALL for number in range(10)} | {"run/big": MULTIPART}, rng)
    ends: list[None] = []

    with Worker.start(own.settings, own, queue=False, on_end=lambda: ends.append(None)) as worker:
        transfer_id = worker.submit(_spec(s3server, buckets), actor="ada")
        status = until_ended(own, transfer_id)

    assert (status.state, status.totals.done) == ("done", 11)
    assert digests(s3server, buckets[1], "run/") == digests(s3server, buckets[0], "run/")
    assert _queued(own) == set()
    assert _kinds(own, transfer_id) == ["submitted", "started", "planned", "done"]
    assert ends == [None]
    counters_fit_rows(own, transfer_id)


def test_what_was_recorded_but_not_begun_is_done_by_the_next_worker(
    own: Service, s3server: S3Server, buckets: tuple[str, str], rng: random.Random
) -> None:
    fill(s3server, buckets[0], {"run/a": SMALL}, rng)
    transfer_id = own.submit(_spec(s3server, buckets), actor="ada", queued=False)

    with Worker.start(own.settings, own):
        status = until_ended(own, transfer_id)

    assert (status.state, status.totals.done) == ("done", 1)
    assert transfer_id in _queued(own)


@pytest.mark.parametrize("queue", [True, False])
def test_a_process_that_is_killed_is_followed_by_one_that_goes_on(
    own: Service, proxy: Proxy, s3server: S3Server, buckets: tuple[str, str], rng: random.Random, queue: bool
) -> None:
    fill(s3server, buckets[0], {f"run/{number}": SMALL for number in range(10)} | {"run/big": MULTIPART}, rng)
    spec = stored.write(_spec(proxy.server, buckets))
    process = RunningProcess([sys.executable, "-c", _CP, str(own.settings.state_dir), spec], is_preloaded=True)
    with held(proxy, "UploadPartCopy", part=3), process:
        transfer_id = process.wait_for_line("-")
        proxy.wait_succeeded("UploadPartCopy", 2)
        proxy.wait_held(count=1)
        eventually(lambda: own.status(transfer_id).totals.done == 10, what="the small objects")
        process.kill()
    proxy.wait_idle()
    assert own.status(transfer_id).state == "running"
    assert _queued(own) == set()

    # Without a queue of its own it finds out by itself that there is something for it.
    with Worker.start(own.settings, own, queue=queue):
        status = until_ended(own, transfer_id)

    assert (status.state, status.totals.done) == ("done", 11)
    assert digests(s3server, buckets[1], "run/") == digests(s3server, buckets[0], "run/")
    assert open_uploads(s3server, buckets[1]) == []
    copies = [one.key for one in proxy.log("CopyObject") if one.took_effect]
    assert len(copies) == len(set(copies)) == 10
    parts = [one.part_number for one in proxy.log("UploadPartCopy") if one.took_effect]
    assert sorted(number for number in parts if number != 3) == [1, 2], "a finished part was copied again"
    assert _kinds(own, transfer_id) == ["submitted", "started", "planned", "resumed", "done"]
    counters_fit_rows(own, transfer_id)


def test_a_worker_that_stops_leaves_uploads_open_and_the_next_one_goes_on_with_them(
    own: Service, proxy: Proxy, s3server: S3Server, buckets: tuple[str, str], rng: random.Random
) -> None:
    fill(s3server, buckets[0], {"run/big": MULTIPART}, rng)
    with held(proxy, "UploadPartCopy", part=3), Worker.start(own.settings, own, queue=False) as worker:
        transfer_id = worker.submit(_spec(proxy.server, buckets), actor="ada")
        proxy.wait_succeeded("UploadPartCopy", 2)
        proxy.wait_held(count=1)
        assert worker.stop(timeout=20)
    proxy.wait_idle()
    assert open_uploads(s3server, buckets[1]) == ["run/big"]

    with Worker.start(own.settings, own):
        status = until_ended(own, transfer_id)

    assert (status.state, status.totals.done) == ("done", 1)
    assert len([one for one in proxy.log("CreateMultipartUpload") if one.took_effect]) == 1


@pytest.fixture
def one_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of one object, of which four are done without the queue."""
    monkeypatch.setattr(batching, "SMALL", batching.Limit(objects=1, bytes=batching.SMALL.bytes))
    monkeypatch.setattr(inline, "MAX_BATCHES", 4)


@pytest.mark.usefixtures("one_each")
def test_as_many_batches_as_are_allowed_need_no_queue(
    own: Service, s3server: S3Server, buckets: tuple[str, str], rng: random.Random
) -> None:
    fill(s3server, buckets[0], {f"run/{number}": SMALL for number in range(4)}, rng)

    with Worker.start(own.settings, own, queue=False) as worker:
        transfer_id = worker.submit(_spec(s3server, buckets), actor="ada")
        status = until_ended(own, transfer_id)

    assert (status.state, status.totals.done) == ("done", 4)
    assert _queued(own) == set()


@pytest.mark.usefixtures("one_each")
def test_when_there_are_more_the_queue_takes_over_what_is_under_way(
    own: Service, proxy: Proxy, s3server: S3Server, buckets: tuple[str, str], rng: random.Random
) -> None:
    fill(s3server, buckets[0], {f"run/{number}": SMALL for number in range(7)}, rng)

    with Worker.start(own.settings, own, queue=False) as worker:
        with held(proxy, "CopyObject"):
            transfer_id = worker.submit(_spec(proxy.server, buckets), actor="ada")
            eventually(lambda: len(_queued(own)) == 1 + 7, what="the transfer and all of its batches on the queue")
            proxy.wait_held(count=7)
        status = until_ended(own, transfer_id)

    assert (status.state, status.totals.done) == ("done", 7)
    copies = [one.key for one in proxy.log("CopyObject") if one.took_effect]
    assert len(copies) == len(set(copies)) == 7, "a batch that was under way was begun once more"
    assert _kinds(own, transfer_id) == ["submitted", "started", "planned", "done"]
    with own.database.read() as connection:
        runs = connection.execute(sa.text("select runs from batch")).scalars().all()
    assert list(runs) == [1] * 7
    counters_fit_rows(own, transfer_id)


_CP_MANY = """
from seqferry.planning import batching
from seqferry.workflows import inline
batching.SMALL = batching.Limit(objects=1, bytes=batching.SMALL.bytes)
inline.MAX_BATCHES = 4
"""


def test_a_kill_while_the_queue_takes_over_loses_and_repeats_nothing(
    own: Service, proxy: Proxy, s3server: S3Server, buckets: tuple[str, str], rng: random.Random
) -> None:
    fill(s3server, buckets[0], {f"run/{number}": SMALL for number in range(7)}, rng)
    spec = stored.write(_spec(proxy.server, buckets))
    process = RunningProcess(
        [sys.executable, "-c", _CP_MANY + _CP, str(own.settings.state_dir), spec], is_preloaded=True
    )
    # Two end without the queue, two are under way without it, and the rest is on it.
    with held(proxy, "CopyObject", after=2), process:
        transfer_id = process.wait_for_line("-")
        proxy.wait_held(count=5)
        eventually(lambda: own.status(transfer_id).totals.done == 2, what="the objects that were not held")
        process.kill()
    proxy.wait_idle()

    with Worker.start(own.settings, own, queue=False):
        status = until_ended(own, transfer_id)

    assert (status.state, status.totals.done) == ("done", 7)
    assert digests(s3server, buckets[1], "run/") == digests(s3server, buckets[0], "run/")
    # A copy under way when the process was killed may have taken effect without a reply that reached the process.
    copies = [one.key for one in proxy.log("CopyObject") if one.took_effect and one.succeeded]
    unanswered = {one.key for one in proxy.log("CopyObject") if not one.succeeded}
    assert len(copies) == len(set(copies))
    assert set(copies) | unanswered == {f"run/{number}" for number in range(7)}
    assert len(unanswered - set(copies)) <= 5, "those that were held"
    counters_fit_rows(own, transfer_id)


def test_copying_begins_while_the_source_is_still_listed(
    own: Service,
    proxy: Proxy,
    s3server: S3Server,
    buckets: tuple[str, str],
    rng: random.Random,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(s3server, buckets[0], {f"run/{number:04}": 0 for number in range(1100)}, rng)
    monkeypatch.setattr(batching, "SMALL", batching.Limit(objects=500, bytes=batching.SMALL.bytes))

    with Worker.start(own.settings, own, queue=False) as worker:
        with held(proxy, "ListObjectsV2", bucket=buckets[0], after=1):
            transfer_id = worker.submit(_spec(proxy.server, buckets), actor="ada")
            proxy.wait_held(count=1)
            eventually(lambda: own.status(transfer_id).totals.done == 500, what="the first batch")
        status = until_ended(own, transfer_id)

    assert (status.state, status.totals.done) == ("done", 1100)
    assert _queued(own) == set()


@pytest.mark.parametrize(
    ("module", "name", "queued"), [(transfer_steps, "plan_with_retries", 1), (batch_steps, "run_once", 2)]
)
def test_what_fails_as_a_whole_is_tried_again_by_the_queue(
    own: Service,
    s3server: S3Server,
    buckets: tuple[str, str],
    rng: random.Random,
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    name: str,
    queued: int,
) -> None:
    fill(s3server, buckets[0], {"run/a": SMALL}, rng)
    act, calls = getattr(module, name), list[int]()

    def fails_first(*arguments: object, **named: object) -> object:
        calls.append(len(calls))
        if len(calls) == 1:
            raise RuntimeError("out of memory")
        return act(*arguments, **named)

    monkeypatch.setattr(module, name, fails_first)
    with Worker.start(own.settings, own, queue=False) as worker:
        transfer_id = worker.submit(_spec(s3server, buckets), actor="ada")
        status = until_ended(own, transfer_id)

    assert (status.state, status.totals.done, len(calls)) == ("done", 1, 2)
    assert len(_queued(own)) == queued, "a batch that the workflow of the transfer finds needs no place of its own"


@pytest.mark.usefixtures("one_each")
def test_batches_of_big_objects_go_first(
    own: Service,
    proxy: Proxy,
    s3server: S3Server,
    buckets: tuple[str, str],
    rng: random.Random,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inline, "MAX_RUNNING_BATCHES", 1)
    fill(s3server, buckets[0], {"run/a": 1, "run/b": 100_000, "run/c": 100, "run/d": 10_000}, rng)

    with Worker.start(own.settings, own, queue=False) as worker:
        until_ended(own, worker.submit(_spec(proxy.server, buckets), actor="ada"))

    assert [one.key for one in proxy.log("CopyObject")] == ["run/b", "run/d", "run/c", "run/a"]


def test_what_others_submit_meanwhile_does_not_wait(
    own: Service, proxy: Proxy, s3server: S3Server, buckets: tuple[str, str], rng: random.Random
) -> None:
    fill(s3server, buckets[0], {"run/big": MULTIPART, "next/a": SMALL}, rng)
    with (
        held(proxy, "UploadPartCopy"),
        Worker.start(own.settings, own, queue=False) as worker,
    ):
        first = worker.submit(_spec(proxy.server, buckets), actor="ada")
        proxy.wait_held(count=1)

        second = own.submit(_spec(s3server, buckets, below="next"), actor="bob")

        assert until_ended(own, second).totals.done == 1
        assert own.status(first).state == "running"
        proxy.clear_rules()
        assert until_ended(own, first).totals.done == 1
    assert first not in _queued(own)


def test_a_cancel_stops_it_and_leaves_no_upload(
    own: Service, proxy: Proxy, s3server: S3Server, buckets: tuple[str, str], rng: random.Random
) -> None:
    fill(s3server, buckets[0], {"run/big": MULTIPART}, rng)
    with held(proxy, "UploadPartCopy", part=3), Worker.start(own.settings, own, queue=False) as worker:
        transfer_id = worker.submit(_spec(proxy.server, buckets), actor="ada")
        proxy.wait_held(count=1)

        own.cancel(transfer_id, actor="bob")
        status = until_ended(own, transfer_id, deadline=30.0)

    assert (status.state, status.totals.cancelled) == ("cancelled", 1)
    assert open_uploads(s3server, buckets[1]) == []
    assert _queued(own) == set()


def test_uploads_that_an_outage_has_left_are_aborted_once_the_storage_is_back(
    own: Service, proxy: Proxy, s3server: S3Server, buckets: tuple[str, str], rng: random.Random
) -> None:
    fill(s3server, buckets[0], {"run/big": MULTIPART}, rng)
    with held(proxy, "UploadPartCopy", part=3), Worker.start(own.settings, own, queue=False) as worker:
        transfer_id = worker.submit(_spec(proxy.server, buckets), actor="ada")
        proxy.wait_held(count=1)
        worker.stop(timeout=2)
    assert open_uploads(s3server, buckets[1]) == ["run/big"]
    # As it stands when neither the part nor the abort came through.
    with own.database.write() as connection:
        connection.execute(object_.update().values(state="failed", error_class="retry", error_code="ConnectionFailed"))
    runtime = Runtime(own.database, own.queue, own.engine, own.settings.state_dir, "executor", "session")

    batch_steps.abort_failed_uploads(runtime, transfer_id)

    assert open_uploads(s3server, buckets[1]) == []


def test_uploads_that_an_outage_has_left_are_left_to_the_worker_that_took_the_transfer_over(
    migrated_url: str, tmp_path: Path, s3server: S3Server, buckets: tuple[str, str]
) -> None:
    with Service.open(settings_for(tmp_path, migrated_url)) as shared:
        transfer_id = shared.submit(_spec(s3server, buckets), actor="ada")
        lease = Lease(shared.engine, 60)
        runtime = Runtime(
            shared.database, shared.queue, shared.engine, tmp_path / "state", "other", "session", lease=lease
        )

        with pytest.raises(StepSuspension):
            batch_steps.abort_failed_uploads(runtime, transfer_id)


def test_a_transfer_that_cannot_be_planned_fails_as_with_the_queue(own: Service, s3server: S3Server) -> None:
    with Worker.start(own.settings, own, queue=False) as worker:
        transfer_id = worker.submit(_spec(s3server, ("seqferry-no-such", "seqferry-no-such-either")), actor="ada")
        status = until_ended(own, transfer_id)

    assert (status.state, status.error_code) == ("failed", "NoSuchBucket")
    assert _kinds(own, transfer_id) == ["submitted", "started", "stopping", "failed"]
