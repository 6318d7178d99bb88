"""Workers that share a database: one that is cut off stops writing before others go on; the living are not reaped."""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import sqlalchemy as sa
from control import settings_for, spec_on, until_ended
from mirror import MULTIPART, SMALL, digests, fill, open_uploads

from seqferry.model.models import TransferSpec
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.workflows.lease import MARGIN_SECONDS
from seqferry.workflows.liveness import DEAD_AFTER_SECONDS
from support import postgres as postgres_server
from support.postgres import Postgres
from support.processes import RunningProcess
from support.proxy import Proxy, Record, delay, held
from support.relay import Relay
from support.run import Run
from support.servers import S3Server, free_ports
from support.waiting import eventually

BucketFactory = Callable[..., str]

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.parametrize("settings", ["postgres"], indirect=True),  # several workers need it
]

_WRITES: Final = {
    "PutObject", "CopyObject", "CreateMultipartUpload", "UploadPart", "UploadPartCopy", "CompleteMultipartUpload",
    "AbortMultipartUpload", "DeleteObject", "DeleteObjects",
}  # fmt: skip

_WORKER = """
import sys, logging
from pathlib import Path
from seqferry.settings.config import Settings
from seqferry.workflows import liveness
from seqferry.workflows.worker import run
liveness.DEAD_AFTER_SECONDS = float(sys.argv[3])
logging.basicConfig(level=logging.INFO)
run(Settings.load(state_dir=Path(sys.argv[1]), database_url=sys.argv[2], max_requests=int(sys.argv[4])))
"""


def _worker(
    settings: Settings, *, port: int | None = None, dead_after: float = DEAD_AFTER_SECONDS, max_requests: int = 200
) -> RunningProcess:
    url = sa.make_url(settings.database_url or "")
    text = (url if port is None else url.set(port=port)).render_as_string(hide_password=False)
    command = [sys.executable, "-c", _WORKER, str(settings.state_dir), text, str(dead_after), str(max_requests)]
    return RunningProcess(command, is_preloaded=True)


@pytest.fixture
def s3server(seaweedfs: S3Server) -> S3Server:
    return seaweedfs


@contextmanager
def _slow_writes(proxy: Proxy) -> Iterator[None]:
    """So that a worker of few requests is at it for longer than it may be silent."""
    rule = proxy.rule(sorted(_WRITES), delay(request_ms=150))
    yield
    proxy.remove_rule(rule)


def _replace_all(server: S3Server, bucket: str, keys: list[str]) -> None:
    client = server.client()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: client.put_object(Bucket=bucket, Key=key, Body=b"replaced"), keys))


def _contents(server: S3Server, bucket: str, keys: list[str]) -> set[bytes]:
    client = server.client()
    with ThreadPoolExecutor(8) as pool:
        return set(pool.map(lambda key: client.get_object(Bucket=bucket, Key=key)["Body"].read(), keys))


def _writes(proxy: Proxy, *, after: int = 0) -> list[Record]:
    return [one for one in proxy.log(after=after) if one.operation in _WRITES]


def _last(proxy: Proxy) -> int:
    return max((one.number for one in proxy.log()), default=0)


@pytest.mark.parametrize(("how", "dead_after", "way"), [("silent", 10.0, "copy"), ("stopped", 6.0, "stream")])
def test_a_worker_that_is_cut_off_writes_nothing_after_its_lease_and_overwrites_nothing(
    service: Service,
    proxy: Proxy,
    s3server: S3Server,
    make_bucket: BucketFactory,
    make_proxy: Callable[[S3Server], Proxy],
    rng: random.Random,
    how: str,
    dead_after: float,
    way: str,
) -> None:
    """Its link to the database takes bytes and does not answer; or it is stopped by a signal, and goes on later."""
    source, target = make_bucket(s3server), make_bucket(s3server)
    names = [f"s{number:03d}" for number in range(400)]
    fill(s3server, source, {f"run/{name}": SMALL for name in names}, rng)
    options: dict[str, Any] = {}
    if way == "stream":
        # Another way to the same server: the bytes pass through the workers.
        options["source_endpoint_url"] = s3server.endpoint_url
        options["target_endpoint_url"] = proxy.server.endpoint_url
    spec = spec_on(proxy.server, f"s3://{source}/run/", f"s3://{target}/in/", **options)
    database_port = sa.make_url(service.settings.database_url or "").port or 0
    with Relay(database_port) as relay, _slow_writes(proxy):
        first = _worker(service.settings, port=relay.port, dead_after=dead_after, max_requests=2)
        with first, _worker(service.settings, dead_after=dead_after) as second:
            for each in (first, second):
                each.wait_for_output("is ready")
            with _stopped(second):  # so that the first takes the work
                transfer_id = service.submit(spec, actor="ada")
                eventually(lambda: len(_writes(proxy)) > 10, what="the first writes", deadline=60)
            cut_off = time.time()
            assert not service.status(transfer_id).ended
            if how == "silent":
                relay.silence()
            else:
                first.signal(signal.SIGSTOP)
            status = until_ended(service, transfer_id, deadline=60)
            assert (status.state, status.totals.done) == ("done", len(names))
            done = _last(proxy)
            assert _started_between(proxy, cut_off + dead_after - MARGIN_SECONDS + 0.2, cut_off + dead_after - 1) == []
            _replace_all(s3server, target, [f"in/{name}" for name in names])

            relay.resume()
            first.signal(signal.SIGCONT)
            first.wait_for_output("the database did not answer for some time")
            another = service.submit(spec_on(proxy.server, f"s3://{source}/run/", f"s3://{target}/too/"), actor="ada")
            until_ended(service, another)

            assert first.running
            late = [one for one in _writes(proxy, after=done) if (one.key or "").startswith("in/")]
            assert late == []
    assert _contents(s3server, target, [f"in/{name}" for name in names]) == {b"replaced"}


@contextmanager
def _stopped(worker: RunningProcess) -> Iterator[None]:
    worker.signal(signal.SIGSTOP)
    yield
    worker.signal(signal.SIGCONT)


def _started_between(proxy: Proxy, since: float, until: float) -> list[Record]:
    return [one for one in _writes(proxy) if since < one.started < until]


@pytest.fixture
def own_postgres(run: Run) -> Iterator[Postgres]:
    """A server of the test's own, to be frozen."""
    with postgres_server.own(run) as postgres:
        yield postgres


def test_a_database_that_is_frozen_for_a_while_kills_no_worker(
    own_postgres: Postgres,
    settings: Settings,
    proxy: Proxy,
    s3server: S3Server,
    make_bucket: BucketFactory,
    rng: random.Random,
    tmp_path: Path,
) -> None:
    source, target = make_bucket(s3server), make_bucket(s3server)
    sizes = {f"run/big{number}": MULTIPART for number in range(2)}
    fill(s3server, source, sizes, rng)
    own = settings_for(tmp_path / "own", own_postgres.url(own_postgres.create_database()))
    with Service.open(own) as service, _worker(own, dead_after=6.0) as first, _worker(own, dead_after=6.0) as second:
        for each in (first, second):
            each.wait_for_output("is ready")
        with held(proxy, "UploadPartCopy", part=3):
            transfer_id = service.submit(
                spec_on(proxy.server, f"s3://{source}/run/", f"s3://{target}/in/"), actor="ada"
            )
            proxy.wait_held(count=2)
            with own_postgres.frozen():
                time.sleep(10.0)  # no state to wait for: the silence itself
            for each in (first, second):
                each.wait_for_output("the database did not answer for some time")
        status = until_ended(service, transfer_id)

        assert (status.state, status.totals.done) == ("done", 2)
        assert all("a worker is gone" not in each.stderr for each in (first, second))
        with service.database.read() as connection:
            assert set(connection.execute(sa.text("select runs from batch")).scalars()) == {1}
    assert digests(s3server, target, "in/") == digests(s3server, source, "run/")
    assert open_uploads(s3server, target) == []


def test_a_worker_that_starts_while_the_database_is_away_waits_for_it(service: Service) -> None:
    settings = service.settings
    [port] = free_ports(1)
    database_port = sa.make_url(settings.database_url or "").port or 0
    with _worker(settings, port=port) as worker:
        worker.wait_for_output("Waiting until it is there")
        assert worker.running
        with Relay(database_port, listen=port):
            worker.wait_for_output("is ready")
            worker.signal(signal.SIGTERM)
            assert worker.wait(20) == 0, worker
        assert worker.stderr.count("Waiting until it is there") == 1


def test_a_worker_of_a_database_that_is_not_there_ends_at_once(service: Service, postgres: Postgres) -> None:
    with _worker(settings_for(service.settings.state_dir.parent, postgres.url("no_such_database"))) as worker:
        assert worker.wait(30) != 0
        assert "no_such_database" in worker.stderr
        assert "Waiting" not in worker.stderr


def test_a_worker_that_leaves_gives_its_work_back_at_once(
    service: Service, proxy: Proxy, s3server: S3Server, make_bucket: BucketFactory, rng: random.Random
) -> None:
    source, target = make_bucket(s3server), make_bucket(s3server)
    fill(s3server, source, {"run/big": MULTIPART}, rng)
    spec: TransferSpec = spec_on(proxy.server, f"s3://{source}/run/", f"s3://{target}/in/")
    with held(proxy, "UploadPartCopy", part=3), _worker(service.settings) as first:
        service.submit(spec, actor="ada")
        proxy.wait_held()
        first.signal(signal.SIGTERM)
        assert first.wait(20) == 0, first

    with service.database.read() as connection:
        states = set(connection.execute(sa.text("select status from dbos.workflow_status")).scalars())
    assert states == {"ENQUEUED"}


def test_a_client_that_hangs_in_a_transaction_keeps_its_locks_for_seconds_only(service: Service) -> None:
    with service.database.read() as connection:
        assert connection.execute(sa.text("show idle_in_transaction_session_timeout")).scalar() == "8s"
