"""A worker that drains ends its batches and takes no others; what is left goes on elsewhere."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from control import spec_on, until_ended

from seqferry.model.errors import ConflictError, NotFoundError
from seqferry.service import workers
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from support.processes import RunningProcess, seqferry
from support.proxy import Proxy, hold
from support.servers import S3Server
from support.waiting import eventually

StartWorker = Callable[[str], RunningProcess]


@pytest.fixture
def s3server(versitygw: S3Server) -> S3Server:
    """One kind of server is enough here."""
    return versitygw


@pytest.fixture
def worker(settings: Settings, tmp_path: Path) -> Iterator[StartWorker]:
    """``worker(host)``: starts one that says it is on that host, and waits until it is ready."""
    with ExitStack() as stack:

        def start(host: str) -> RunningProcess:
            folder = settings.state_dir if settings.uses_sqlite else tmp_path / host
            environment = {"SEQFERRY_HOST_NAME": host}
            if settings.database_url is not None:
                environment["SEQFERRY_DATABASE_URL"] = settings.database_url
            command = [seqferry(), "worker", "--state-dir", str(folder)]
            running = stack.enter_context(RunningProcess(command, environment=environment, is_preloaded=True))
            eventually(lambda: "is ready" in running.stderr, what="the worker")
            return running

        yield start


def _name(service: Service, host: str) -> str:
    return next(one.process.name for one in service.workers() if one.process.host == host)


@pytest.mark.postgres
@pytest.mark.parametrize("settings", ["postgres"], indirect=True)
def test_its_batches_end_none_is_taken_and_the_other_worker_goes_on(
    service: Service, worker: StartWorker, proxy: Proxy, s3server: S3Server, make_bucket: Callable[..., str]
) -> None:
    source, target = make_bucket(s3server), make_bucket(s3server)
    for number in range(8):
        s3server.client().put_object(Bucket=source, Key=f"run/{number}", Body=b"x")
    rule = proxy.rule("CopyObject", hold("request"), key="one/3")
    first = worker("first")
    held = service.submit(spec_on(proxy.server, f"s3://{source}/run/", f"s3://{target}/one/"), actor="ada")
    eventually(lambda: proxy.fired(rule), what="the copy that is held", deadline=60)
    worker("second")

    workers.drain(service, _name(service, "first"))
    eventually(lambda: "takes nothing" in first.stderr or "draining" in first.stderr, what="the worker to hear")
    assert [one.process.host for one in service.available_workers()] == ["second"]
    other = service.submit(spec_on(proxy.server, f"s3://{source}/run/", f"s3://{target}/two/"), actor="ada")
    assert until_ended(service, other).totals.done == 8
    assert {event.actor.partition("-")[0] for event in service.events(other)} == {"ada", "worker second"}
    assert first.running
    assert not service.status(held).ended
    proxy.release(rule)

    assert first.wait(60) == 0
    assert until_ended(service, held).totals.done == 8
    copies = [one for one in proxy.log() if one.operation == "CopyObject" and str(one.key).startswith("one/")]
    assert len(copies) == 8, "no object of its batch was copied again"
    assert [one.process.host for one in service.workers()] == ["second"]


def test_an_idle_worker_ends_at_once(service: Service, worker: StartWorker) -> None:
    running = worker("first")
    name = _name(service, "first")

    for wrong in ("nobody", "fi", f"{name}x"):
        with pytest.raises(NotFoundError, match="There is no worker"):
            workers.drain(service, wrong)
    workers.drain(service, "first-")

    assert running.wait(30) == 0
    with pytest.raises((NotFoundError, ConflictError)):
        workers.drain(service, name)


@pytest.mark.every_database
def test_the_name_of_a_host_is_that_of_the_one_worker_alive_there(service: Service, worker: StartWorker) -> None:
    killed = worker("v1")
    killed.signal(signal.SIGKILL)
    killed.wait()
    running = worker("v1")

    workers.drain(service, "v1")

    assert running.wait(30) == 0
