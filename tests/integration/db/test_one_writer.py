"""The same submission goes on with the unfinished transfer, and no two transfers write to the same keys at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from control import counters_fit_rows, spec_on, until_ended
from ferry import Ferry, FerryFactory
from http_client import http_of
from mirror import MULTIPART, SMALL

from seqferry.db import lanes
from seqferry.db.tables import transfer
from seqferry.model.errors import ConflictError
from seqferry.service.service import Service
from seqferry.spec.build import build_spec
from seqferry.workflows.worker import Worker
from support.proxy import Proxy, held
from support.servers import S3Server
from support.sim import Simulator

BucketFactory = Callable[..., str]
WorkerStarter = Callable[[Service], Worker]


@pytest.fixture
def s3server(seaweedfs: S3Server) -> S3Server:
    """One server is enough: the tests look at which worker sends requests, not at the replies."""
    return seaweedfs


@pytest.fixture
def ferry(service: Service, make_ferry: FerryFactory, proxy: Proxy) -> Ferry:
    """Reaches the storage through ``proxy``."""
    return make_ferry(service, reached=proxy.server)


def _kinds(service: Service, transfer_id: str) -> list[str]:
    return [event.kind for event in service.events(transfer_id)]


def test_the_same_submission_goes_on_until_the_transfer_has_ended(ferry: Ferry) -> None:
    ferry.fill({"run/a": SMALL})
    service, spec = ferry.service, ferry.spec()
    first = service.submit_or_resume(spec, actor="ada")

    assert service.submit_or_resume(spec, actor="bob") == replace(first, goes_on=True)
    assert not service.submit_or_resume(spec.with_options(if_exists="skip"), actor="ada").goes_on
    assert len(service.transfers()) == 2
    assert service.submit_or_resume(spec, actor="bob").id == first.id
    assert _kinds(service, first.id) == ["submitted", "joined"]
    assert service.events(first.id)[1].actor == "bob"

    ferry.work()
    ferry.until_ended(first.id)
    again = service.submit_or_resume(spec, actor="ada")
    assert not again.goes_on
    assert ferry.until_ended(again.id).totals.skipped == 1


def test_a_transfer_that_is_being_given_up_does_not_go_on(ferry: Ferry, proxy: Proxy) -> None:
    ferry.fill({"run/a": SMALL})
    service, spec = ferry.service, ferry.spec()
    with held(proxy, "CopyObject"):
        ferry.work()
        first = service.submit_or_resume(spec, actor="ada")
        proxy.wait_held()
        service.cancel(first.id, actor="ada")
        second = service.submit_or_resume(spec, actor="ada")

    assert (second.goes_on, second.id == first.id, second.blocked) == (False, False, True)
    assert ferry.until_ended(first.id).state == "cancelled"
    assert ferry.until_ended(second.id).state == "done"
    assert ferry.arrived() == ferry.sent()


@pytest.mark.every_database
def test_transfers_with_common_keys_are_done_one_after_the_other(ferry: Ferry, proxy: Proxy) -> None:
    ferry.fill({f"run/{number}": SMALL for number in range(3)} | {"run/big": MULTIPART, "other/x": SMALL})
    service = ferry.service
    with held(proxy, "UploadPartCopy"):
        ferry.work()
        first = ferry.submit("run/", "in/")
        proxy.wait_held()
        inside = ferry.submit("run/big", "in/big")
        above = ferry.submit("other/", "")
        elsewhere = spec_on(ferry.reached, f"s3://{ferry.source}/other/", f"s3://{ferry.source}/apart/")
        apart = service.submit(elsewhere, actor="ada")
        status = ferry.until_ended(apart)

        # A transfer that began at its submission would have ended by then, as this one has.
        assert (status.state, status.totals.done) == ("done", 1)
        found = {one: service.status(one) for one in (inside, above)}
        assert {one.state for one in found.values()} == {"queued"}
        assert found[inside].waits_for == f"transfer {first}, which writes to the same keys"
        assert found[above].blocked_by is not None

    ended = [ferry.until_ended(one) for one in (first, inside, above, apart)]
    assert [one.state for one in ended] == ["done"] * 4
    for earlier, later in ((first, inside), (inside, above), (first, above)):
        assert _end(service, earlier) <= _begin(service, later)
    assert ended[1].totals.skipped == 1
    for one in ended:
        counters_fit_rows(service, one.id)


def _begin(service: Service, transfer_id: str) -> float:
    status = service.status(transfer_id)
    assert status.started_at is not None
    return status.started_at


def _end(service: Service, transfer_id: str) -> float:
    status = service.status(transfer_id)
    assert status.ended_at is not None
    return status.ended_at


@pytest.mark.every_database
def test_one_that_waits_can_be_cancelled_and_lets_others_pass(ferry: Ferry) -> None:
    ferry.fill({"run/a": SMALL})
    service, spec = ferry.service, ferry.spec()
    first, second, third = (service.submit_or_resume(spec, actor="ada", new=True).id for _ in range(3))
    assert service.status(third).blocked_by == first

    assert service.cancel(second, actor="ada").state == "cancelled"
    assert service.cancel(first, actor="ada").state == "cancelled"
    ferry.work()

    assert ferry.until_ended(third).state == "done"


@pytest.mark.every_database
def test_what_waits_is_begun_by_whichever_worker_is_there(ferry: Ferry) -> None:
    ferry.fill({"run/a": SMALL})
    service, spec = ferry.service, ferry.spec()
    first, second = (service.submit_or_resume(spec, actor="ada", new=True).id for _ in range(2))
    worker = ferry.start_worker(service)
    assert until_ended(service, first).state == "done"
    worker.stop()

    ferry.work()

    assert until_ended(service, second).totals.skipped == 1


@pytest.mark.every_database
def test_submissions_at_the_same_moment_are_one_transfer_or_wait_for_one(service: Service) -> None:
    def submit(number: int) -> str:
        target = "s3://ours/in/" if number % 2 else "s3://ours/in/deep/"
        return service.submit(build_spec("s3://vendor/run/", target, endpoint_url="http://127.0.0.1:9"), actor="ada")

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(submit, range(16)))

    assert len({*ids[::2]}) == len({*ids[1::2]}) == 1
    free = [status for status in service.transfers() if status.blocked_by is None]
    assert len(free) == 1
    assert {status.blocked_by for status in service.transfers()} == {None, free[0].id}


def test_http_answers_with_the_unfinished_transfer(ferry: Ferry, monkeypatch: pytest.MonkeyPatch) -> None:
    ferry.fill({"run/a": SMALL})
    monkeypatch.setenv("AWS_ENDPOINT_URL", ferry.reached.endpoint_url)
    body = {"source": f"s3://{ferry.source}/run/", "target": f"s3://{ferry.target}/in/"}
    with http_of(ferry.service) as client:
        first = client.post("/api/v1/transfers", json=body)
        again = client.post("/api/v1/transfers", json=body)
        new = client.post("/api/v1/transfers", json={**body, "new": True})
        waiting = client.get(new.headers["Location"]).json()

    assert [answer.status_code for answer in (first, again, new)] == [202, 200, 202], again.text
    assert again.json() == first.json()
    assert again.headers["Location"] == first.headers["Location"] == f"/api/v1/transfers/{first.json()['id']}"
    assert waiting["waits_for"] == f"transfer {first.json()['id']}, which writes to the same keys"


def test_one_that_waits_says_for_what_the_other_waits(service: Service) -> None:
    spec = build_spec("s3://from/run/", "s3://to/in/", endpoint_url="http://127.0.0.1:9")
    first, second = (service.submit_or_resume(spec, actor="ada", new=True).id for _ in range(2))
    with service.database.write() as connection:
        lanes.record_skipped(connection, [first], "a worker with profile lab")

    reason = f"transfer {first}, which writes to the same keys and waits for a worker with profile lab"
    assert service.status(second).waits_for == reason


def test_one_that_cannot_be_read_holds_up_no_other(service: Service) -> None:
    targets = "s3://to/in/", "s3://to/else/"
    specs = [build_spec("s3://from/run/", target, endpoint_url="http://127.0.0.1:9") for target in targets]
    begun = [service.submit_or_resume(spec, actor="ada").id for spec in specs]
    waiting = [service.submit_or_resume(spec, actor="ada", new=True).id for spec in specs]
    for each in begun:
        service.cancel(each, actor="ada")
    with service.database.write() as connection:
        connection.execute(transfer.update().where(transfer.c.id == waiting[0]).values(spec="{}"))

    service.start_waiting()

    assert service.status(waiting[1]).blocked_by is None


def test_s3mirror_answers_at_once_for_one_that_waits(ferry: Ferry, monkeypatch: pytest.MonkeyPatch) -> None:
    ferry.fill({"run/a": SMALL})
    monkeypatch.setenv("AWS_ENDPOINT_URL", ferry.reached.endpoint_url)
    spec = spec_on(ferry.reached, f"s3://{ferry.source}/", f"s3://{ferry.target}/")
    first = ferry.service.submit(spec, actor="ada")
    body = {"src_bucket": ferry.source, "src_prefix": "run/", "dst_bucket": ferry.target, "dst_prefix": "in/"}
    with http_of(ferry.service) as client:
        started = client.post("/start_transfer", json=body).json()

    assert ferry.service.status(started).blocked_by == first


def test_a_client_over_http_goes_on_only_with_what_it_has_submitted(service: Service) -> None:
    spec = build_spec("s3://from/run/", "s3://to/in/", endpoint_url="http://127.0.0.1:9")
    first = service.submit_or_resume(spec, actor="http lab from 10.0.0.1")

    assert service.submit_or_resume(spec, actor="http lab from 10.0.0.2") == replace(first, goes_on=True)
    other = service.submit_or_resume(spec, actor="http night from 10.0.0.1")
    assert (other.goes_on, other.blocked) == (False, True)
    assert service.status(other.id).blocked_by == first.id
    assert _kinds(service, first.id) == ["submitted"]


def test_an_idempotency_key_of_a_submission_that_goes_on_is_kept(service: Service) -> None:
    spec = build_spec("s3://from/run/", "s3://to/in/", endpoint_url="http://127.0.0.1:9")
    first = service.submit(spec, actor="ada")
    assert service.submit_or_resume(spec, actor="ada", idempotency_key="K").goes_on
    service.cancel(first, actor="ada")

    assert service.submit(spec, actor="ada", idempotency_key="K") == first
    assert service.find_submitted(spec, "K", actor="ada") == first
    with pytest.raises(ConflictError):
        service.submit(spec.with_options(if_exists="skip"), actor="ada", idempotency_key="K")
    assert len(service.transfers()) == 1


def test_each_client_over_http_has_idempotency_keys_of_its_own(service: Service) -> None:
    specs = [
        build_spec("s3://from/run/", target, endpoint_url="http://127.0.0.1:9")
        for target in ("s3://to/1/", "s3://to/2/")
    ]
    lab, night = "http lab from 10.0.0.1", "http night from 10.0.0.2"

    ids = [service.submit(spec, actor=actor, idempotency_key="K") for spec in specs[:1] for actor in (lab, night)]
    ids.append(service.submit(specs[1], actor="ada", idempotency_key="K"))

    assert len(set(ids)) == 3
    assert service.find_submitted(specs[0], "K", actor="http lab from 10.0.0.9") == ids[0]
    assert service.find_submitted(specs[0], "K", actor=night) == ids[1]
    assert service.find_submitted(specs[0], "K", actor="http other from 10.0.0.1") is None
    with pytest.raises(ConflictError, match=ids[0]):
        service.submit(specs[1], actor=lab, idempotency_key="K")


def test_an_idempotency_key_of_an_earlier_version_is_that_of_its_client(service: Service) -> None:
    spec = build_spec("s3://from/run/", "s3://to/in/", endpoint_url="http://127.0.0.1:9")
    first = service.submit(spec, actor="http lab from 10.0.0.1")
    with service.database.write() as connection:
        connection.execute(transfer.update().values(idempotency_key="K"))

    assert service.submit(spec, actor="http lab from 10.0.0.2", idempotency_key="K") == first
    assert service.find_submitted(spec, "K", actor="http night from 10.0.0.1") is None


@pytest.mark.every_database
def test_keys_that_the_database_cannot_hold_fail_by_themselves(
    service: Service, make_simulator: Callable[..., Simulator], start_worker: WorkerStarter
) -> None:
    """PostgreSQL stores no NUL. The simulator holds such keys; the servers of the tests refuse them."""
    simulator = make_simulator("--instant")
    client = simulator.client()
    for bucket in ("from", "to"):
        client.create_bucket(Bucket=bucket)
    for key in ("run/a", "run/b\0c", "run/d"):
        client.put_object(Bucket="from", Key=key, Body=b"body")
    whole = build_spec("s3://from/run/", "s3://to/in/", endpoint_url=simulator.endpoint_url)
    named = replace(whole, keys=("a", "b\0c"), target=replace(whole.target, key="named/"))
    shown = [{one.source_key: one.refusal for one in service.preview(spec)} for spec in (whole, named)]
    start_worker(service)
    ended = [until_ended(service, service.submit(spec, actor="ada")) for spec in (whole, named)]

    can = service.database.is_sqlite
    assert [one.state for one in ended] == ["done" if can else "done_with_failures"] * 2
    assert [one.totals.failed for one in ended] == ([0, 0] if can else [1, 1])
    assert [one.totals.done for one in ended] == ([3, 2] if can else [2, 1])
    assert [sum(why is not None for why in one.values()) for one in shown] == ([0, 0] if can else [1, 1])
    for one, of_dry_run in zip(ended, shown, strict=True) if not can else ():
        [failed] = service.objects(one.id, state="failed")
        assert (failed.source_key, failed.error_code) == ("run/b\\x00c", "NulInKey")
        assert failed.error_message == of_dry_run["run/b\0c"]
        assert "PostgreSQL" in (failed.error_message or "")
        assert "\0" not in (failed.error_message or "")
