"""Workers that are killed: nothing is lost, nothing that is finished is done again."""

from __future__ import annotations

import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable

import psycopg
import pytest
import sqlalchemy as sa
from control import command, counters_fit_rows, spec_on, until_ended
from mirror import MULTIPART, SMALL, digests, fill, open_uploads

from seqferry.dbos import queue
from seqferry.engine import crash_points
from seqferry.model.models import Status, TransferSpec
from seqferry.proof import auditing
from seqferry.service import control
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from support.postgres import Postgres
from support.processes import RunningProcess, seqferry
from support.proxy import Proxy, held
from support.servers import S3Server
from support.waiting import eventually

BucketFactory = Callable[..., str]

_POSTGRES = pytest.mark.parametrize("settings", ["postgres"], indirect=True)

_WORKER = """
import os, sys
from pathlib import Path
from seqferry.engine import crash_points
from seqferry.settings.config import Settings
from seqferry.workflows.worker import run
import logging; logging.basicConfig(level=logging.INFO)
crash_points.arm(os.environ)
run(Settings.load(state_dir=Path(sys.argv[1]), database_url=sys.argv[2] or None))
"""


def _worker(settings: Settings, environment: dict[str, str] | None = None) -> RunningProcess:
    command = [sys.executable, "-c", _WORKER, str(settings.state_dir), settings.database_url or ""]
    return RunningProcess(command, environment=environment, is_preloaded=environment is None)


def _fill(server: S3Server, bucket: str, rng: random.Random) -> None:
    sizes = {f"run/s{number:03d}": SMALL for number in range(30)} | {
        f"run/big{number}": MULTIPART for number in range(2)
    }
    fill(server, bucket, sizes, rng)
    return sizes


def _finished_objects_were_copied_once(proxy: Proxy) -> None:
    copies = [one.key for one in proxy.log("CopyObject") if one.took_effect]
    assert len(copies) == len(set(copies)) == 30
    parts = [(one.key, one.part_number) for one in proxy.log("UploadPartCopy") if one.took_effect]
    assert len([one for one in parts if one[1] != 3]) == 4, "a part that was not in flight was copied again"


@pytest.fixture
def s3server(seaweedfs: S3Server) -> S3Server:
    """The one server where parts can be counted by their numbers.

    versitygw gives wrong checksums to part copies, so that the engine begins a first multipart copy there twice.
    Kills on both servers are in ``tests/e2e/mirror``.
    """
    return seaweedfs


@pytest.fixture
def ready(
    service: Service, proxy: Proxy, s3server: S3Server, make_bucket: BucketFactory, rng: random.Random
) -> tuple[str, str, TransferSpec]:
    source, target = make_bucket(s3server), make_bucket(s3server)
    _fill(s3server, source, rng)
    return source, target, spec_on(proxy.server, f"s3://{source}/run/", f"s3://{target}/in/")


@pytest.mark.every_database
def test_a_killed_worker_is_followed_by_one_that_goes_on(
    service: Service, proxy: Proxy, s3server: S3Server, ready: tuple[str, str, TransferSpec]
) -> None:
    source, target, spec = ready
    transfer_id = service.submit(spec, actor="ada")
    with held(proxy, "UploadPartCopy", part=3), _worker(service.settings) as first:
        proxy.wait_succeeded("UploadPartCopy", 4)
        proxy.wait_held(count=2)
        eventually(lambda: service.status(transfer_id).totals.done == 30, what="the small objects")
        first.kill()
    proxy.wait_idle()
    assert service.status(transfer_id).state == "running"

    with _worker(service.settings):
        status = until_ended(service, transfer_id, deadline=30)

    assert (status.state, status.totals.done) == ("done", 32)
    assert digests(s3server, target, "in/") == digests(s3server, source, "run/")
    assert open_uploads(s3server, target) == []
    _finished_objects_were_copied_once(proxy)
    counters_fit_rows(service, transfer_id)
    assert "resumed" in [event.kind for event in service.events(transfer_id)]


@pytest.mark.every_database
@pytest.mark.parametrize("point", ["after-plan-ended", "after-batch-begun", "before-results-recorded"])
def test_the_only_batch_of_a_small_transfer_is_resumed_with_it(
    service: Service, proxy: Proxy, s3server: S3Server, make_bucket: BucketFactory, rng: random.Random, point: str
) -> None:
    source, target = make_bucket(s3server), make_bucket(s3server)
    # One object: of several, results may be on their way to the record while others are still being copied.
    fill(s3server, source, {"run/0": SMALL}, rng)
    transfer_id = service.submit(spec_on(proxy.server, f"s3://{source}/run/", f"s3://{target}/in/"), actor="ada")
    with _worker(service.settings, {**os.environ, crash_points.VARIABLE: point}) as first:
        assert first.wait(30) == -signal.SIGKILL, first

    with _worker(service.settings):
        status = until_ended(service, transfer_id, deadline=30)

    assert (status.state, status.totals.done) == ("done", 1)
    assert digests(s3server, target, "in/") == digests(s3server, source, "run/")
    assert [one.key for one in proxy.log("CopyObject")] == ["in/0"], "nothing was copied twice"
    counters_fit_rows(service, transfer_id)
    assert "resumed" in [event.kind for event in service.events(transfer_id)]
    with service.database.read() as connection:
        table = sa.text(f"select workflow_uuid from {queue.table_of(connection)}")
        assert list(connection.execute(table).scalars()) == [transfer_id], "its batch has no place of its own"


@_POSTGRES  # several workers need Postgres
def test_work_of_a_killed_worker_goes_to_another_of_this_machine_at_once(
    service: Service, proxy: Proxy, s3server: S3Server, ready: tuple[str, str, TransferSpec]
) -> None:
    source, target, spec = ready
    with held(proxy, "UploadPartCopy", part=3), _worker(service.settings) as first:
        transfer_id = service.submit(spec, actor="ada")
        proxy.wait_succeeded("UploadPartCopy", 4)
        proxy.wait_held(count=2)
        eventually(lambda: service.status(transfer_id).totals.done == 30, what="the small objects")
        second = _worker(service.settings)
        with second:
            second.wait_for_output("is ready")
            first.kill()
            eventually(lambda: _taken_over(service, transfer_id), what="the batch to be taken over", deadline=8)
            proxy.clear_rules()
            status = until_ended(service, transfer_id)

    assert (status.state, status.totals.done) == ("done", 32)
    assert digests(s3server, target, "in/") == digests(s3server, source, "run/")
    assert open_uploads(s3server, target) == []
    _finished_objects_were_copied_once(proxy)
    counters_fit_rows(service, transfer_id)


@_POSTGRES  # several workers need Postgres
def test_a_worker_that_was_frozen_and_taken_for_dead_does_no_harm(
    service: Service, proxy: Proxy, s3server: S3Server, ready: tuple[str, str, TransferSpec]
) -> None:
    source, target, spec = ready
    with held(proxy, "UploadPartCopy", part=3), _worker(service.settings) as first:
        transfer_id = service.submit(spec, actor="ada")
        proxy.wait_held(count=2)
        eventually(lambda: service.status(transfer_id).totals.done == 30, what="the small objects")
        first.signal(signal.SIGSTOP)
        with _worker(service.settings):
            eventually(lambda: _taken_over(service, transfer_id), what="the batch to be taken over", deadline=25)
            proxy.clear_rules()
            until_ended(service, transfer_id)
            before = service.objects(transfer_id)

            first.signal(signal.SIGCONT)
            first.wait_for_output("was taken over")

            assert service.objects(transfer_id) == before
            another = service.submit(spec, actor="ada")
            assert until_ended(service, another).totals.ended == 32
        assert first.running
    assert digests(s3server, target, "in/") == digests(s3server, source, "run/")
    assert open_uploads(s3server, target) == []


@_POSTGRES  # SQLite is never away
def test_a_database_that_is_away_for_a_while_costs_no_object(
    service: Service, proxy: Proxy, postgres: Postgres, s3server: S3Server, ready: tuple[str, str, TransferSpec]
) -> None:
    source, target, spec = ready
    name = service.settings.database_url.rsplit("/", 1)[1]
    with _worker(service.settings) as worker, psycopg.connect(postgres.url(), autocommit=True) as admin:
        with held(proxy, "UploadPartCopy", part=3):
            transfer_id = service.submit(spec, actor="ada")
            proxy.wait_held(count=2)
            admin.execute(f'alter database "{name}" allow_connections false'.encode())
            admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,))
        # What ends now cannot be recorded. Longer than three retries last.
        eventually(lambda: worker.stderr.count("The next attempt is in") >= 4, what="four attempts", deadline=60.0)
        admin.execute(f'alter database "{name}" allow_connections true'.encode())
        status = until_ended(service, transfer_id)

    assert (status.state, status.totals.done) == ("done", 32)
    assert digests(s3server, target, "in/") == digests(s3server, source, "run/")
    assert open_uploads(s3server, target) == []


def _taken_over(service: Service, transfer_id: str) -> bool:
    with service.database.read() as connection:
        runs = connection.execute(
            sa.text("select max(runs) from batch where transfer_id = :id"), {"id": transfer_id}
        ).scalar()
    return bool(runs and runs > 1)


@pytest.mark.every_database
def test_a_worker_that_is_asked_to_stop_leaves_soon_and_gives_its_work_back(
    service: Service, proxy: Proxy, s3server: S3Server, ready: tuple[str, str, TransferSpec]
) -> None:
    _source, target, spec = ready
    transfer_id = service.submit(spec, actor="ada")
    with held(proxy, "UploadPartCopy", part=3), _worker(service.settings) as first:
        proxy.wait_held(count=2)
        first.signal(signal.SIGTERM)
        assert first.wait(20) == 0, first
        assert "Traceback" not in first.stderr
    assert sorted(open_uploads(s3server, target)) == ["in/big0", "in/big1"]

    with _worker(service.settings):
        status = until_ended(service, transfer_id, deadline=30)

    assert (status.state, status.totals.done) == ("done", 32)
    assert open_uploads(s3server, target) == []


@pytest.fixture
def arrived(service: Service, proxy: Proxy, s3server: S3Server, make_bucket: BucketFactory, rng: random.Random) -> str:
    """The id of a transfer of 150 objects; the log of the proxy is empty."""
    source, target = make_bucket(s3server), make_bucket(s3server)
    fill(s3server, source, {f"run/{number:03d}": SMALL for number in range(150)}, rng)
    with _worker(service.settings):
        spec = spec_on(proxy.server, f"s3://{source}/run/", f"s3://{target}/in/")
        transfer_id = service.submit(spec, actor="ada")
        assert until_ended(service, transfer_id, deadline=60).totals.done == 150
    proxy.clear_log()
    return transfer_id


def _each_was_read_once(service: Service, proxy: Proxy, verification: str, *, but: str) -> None:
    """Each object was compared, and none but the one whose read was cut off was read again."""
    status = until_ended(service, verification, deadline=60)
    assert (status.state, status.totals.done) == ("done", 150)
    reads = Counter(one.key for one in proxy.log("GetObject") if one.took_effect)
    assert len(reads) == 150
    assert max(reads.values()) <= 2
    assert {key for key, count in reads.items() if count > 1} <= {but}
    assert {one.verified for one in service.objects(verification)} == {"content"}
    counters_fit_rows(service, verification)
    noted = [one.data["verification"] for one in service.events(_of(status)) if one.kind == "verified"]
    assert noted == [verification]
    assert status.receipt_digest is not None
    assert list(auditing.verify(service.database, auditing.AuditCounts())) == []


def _of(status: Status) -> str:
    return str(status.spec.options["of"])


def test_a_killed_verification_reads_no_finished_object_again(service: Service, proxy: Proxy, arrived: str) -> None:
    verification = control.verify(service, arrived, actor="ada", content=True).id
    with held(proxy, "GetObject", key="in/100"), _worker(service.settings) as first:
        eventually(lambda: service.status(verification).totals.done == 149, what="all objects but that one")
        proxy.wait_held()
        first.kill()
    proxy.wait_idle()
    assert service.status(verification).state == "running"

    with _worker(service.settings):
        _each_was_read_once(service, proxy, verification, but="in/100")

    assert "resumed" in [event.kind for event in service.events(verification)]


@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)  # the command finds it in the state folder
def test_a_killed_verify_command_is_resumed(service: Service, proxy: Proxy, arrived: str) -> None:
    line = [str(seqferry()), "verify", arrived, "--content", "--state-dir", str(service.settings.state_dir)]
    with held(proxy, "GetObject", key="in/040"), RunningProcess(line, is_preloaded=True) as first:
        proxy.wait_held()
        verification = service.transfers()[0].id
        eventually(lambda: service.status(verification).totals.done == 149, what="all objects but that one")
        first.kill()
    proxy.wait_idle()

    ran = command(service, "resume", verification)

    assert ran.returncode == 0, ran.stderr
    _each_was_read_once(service, proxy, verification, but="in/040")
    ran = command(service, "verify", arrived)
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr
    assert "Checked 150 objects" in ran.stderr
    assert "150 as received, 0 changed, 0 missing." in ran.stderr


def test_a_cancelled_verification_stops_reading_and_notes_no_result(
    service: Service, proxy: Proxy, arrived: str
) -> None:
    verification = control.verify(service, arrived, actor="ada", content=True).id
    with held(proxy, "GetObject", key="in/010"), _worker(service.settings):
        eventually(lambda: service.status(verification).totals.done == 149, what="all objects but that one")
        service.cancel(verification, actor="ada")
        status = until_ended(service, verification, deadline=30)

    assert (status.state, status.totals.done, status.totals.cancelled) == ("cancelled", 149, 1)
    assert "verified" not in [event.kind for event in service.events(arrived)]
    counters_fit_rows(service, verification)
