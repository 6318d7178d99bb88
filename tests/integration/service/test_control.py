"""Pause, resume, retry and adjust, of one transfer and of many, on both databases."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from control import ANY_SPEC, command, counters_fit_rows, spec_number
from ferry import Ferry, FerryFactory
from http_client import bearer, http_of
from mirror import MULTIPART, SMALL

from seqferry.db.paging import TransferFilter
from seqferry.db.tables import transfer
from seqferry.model.errors import ConflictError, NotFoundError, UsageError
from seqferry.model.models import Adjustment
from seqferry.service import control, tokens
from seqferry.service.service import Service
from seqferry.settings.config import Settings
from seqferry.settings.tokens import owner_token
from seqferry.workflows.limits import BudgetLimits, limits_of
from seqferry.workflows.worker import Worker
from support.proxy import Proxy, access_denied, archived, held
from support.servers import S3Server
from support.waiting import eventually

DELIVERY = {f"run/s{number:02d}": SMALL for number in range(20)} | {"run/big0": MULTIPART, "run/big1": MULTIPART}


@pytest.fixture
def ferry(service: Service, make_ferry: FerryFactory, proxy: Proxy) -> Ferry:
    """Reaches the storage through ``proxy``."""
    return make_ferry(service, reached=proxy.server)


def left(worker: Worker) -> None:
    """Wait until the worker is at nothing."""
    eventually(
        lambda: not worker._runtime.active_transfers() and not worker._runtime.running(), what="the worker to leave"
    )


def first_parts(proxy: Proxy) -> list[tuple[str | None, int | None]]:
    """Key and number of the parts before the last one of each upload, once for each copy that took effect."""
    copies = [one for one in proxy.log("UploadPartCopy") if one.part_number in (1, 2) and one.took_effect]
    return [(one.key, one.part_number) for one in copies]


def queues(service: Service, transfer_id: str) -> set[tuple[str, str]]:
    """Queue and state of the work of a transfer that is on the queue."""
    table = "workflow_status" if service.database.is_sqlite else "dbos.workflow_status"
    query = sa.text(f"select queue_name, status from {table} where workflow_uuid like :id and status <> 'SUCCESS'")
    with service.database.read() as connection:
        return {(row.queue_name, row.status) for row in connection.execute(query, {"id": f"{transfer_id}%"})}


def test_a_paused_transfer_is_left_with_its_uploads_and_goes_on_with_their_parts(ferry: Ferry, proxy: Proxy) -> None:
    ferry.fill(DELIVERY)
    worker = ferry.start_worker(ferry.service)
    # What the engine learns of a service from its first uploads may cost that service's uploads a second beginning.
    ferry.carry(target="before/")
    proxy.clear_log()
    with held(proxy, "UploadPartCopy", part=3):
        transfer_id = ferry.submit()
        proxy.wait_held()
        eventually(lambda: first_parts(proxy), what="a part that was copied")

        status = control.pause(ferry.service, transfer_id, actor="ada")

        assert status.state == "paused"
        left(worker)
    assert ferry.open_uploads()
    before = first_parts(proxy)
    assert before
    assert all(queue.endswith(".paused") and state == "ENQUEUED" for queue, state in queues(ferry.service, transfer_id))

    assert control.resume(ferry.service, transfer_id, actor="bob").state == "running"

    end = ferry.until_ended(transfer_id)
    assert (end.state, end.totals.done, end.totals.failed) == ("done", len(DELIVERY), 0)
    assert ferry.arrived() == ferry.sent()
    copied = first_parts(proxy)
    assert all(copied.count(one) == 1 for one in before), "a part that was copied before the pause was copied again"
    counters_fit_rows(ferry.service, transfer_id)
    kinds = [(event.kind, event.actor) for event in ferry.service.events(transfer_id)]
    assert ("paused", "ada") in kinds
    assert ("resume_requested", "bob") in kinds


def test_a_transfer_that_is_paused_before_it_begins_begins_when_it_is_resumed(ferry: Ferry) -> None:
    ferry.fill({"run/a": 1})
    paused = ferry.submit(target="first/")
    control.pause(ferry.service, paused, actor="ada")
    control.pause(ferry.service, paused, actor="ada")
    ferry.work()
    _, other = ferry.carry(target="second/")

    assert other.state == "done"
    status = ferry.service.status(paused)
    assert (status.state, status.started_at) == ("paused", None)

    assert control.resume(ferry.service, paused, actor="ada").state == "queued"

    assert ferry.until_ended(paused).state == "done"


def test_a_pause_outlives_its_worker(ferry: Ferry, proxy: Proxy) -> None:
    ferry.fill(DELIVERY)
    with held(proxy, "UploadPartCopy"):
        first = Worker.start(ferry.service.settings, ferry.service)
        transfer_id = ferry.submit()
        proxy.wait_held()
        # The worker is gone before it could see the pause.
        assert first.stop(timeout=30.0)
    control.pause(ferry.service, transfer_id, actor="ada")
    second = ferry.start_worker(ferry.service)
    _, other = ferry.carry(source="run/s00", target="other/")

    assert other.state == "done"
    left(second)
    assert ferry.service.status(transfer_id).state == "paused"

    control.resume(ferry.service, transfer_id, actor="ada")

    assert ferry.until_ended(transfer_id).state == "done"
    assert ferry.arrived() == ferry.sent()


def test_a_paused_transfer_can_be_cancelled_and_leaves_no_upload(ferry: Ferry, proxy: Proxy) -> None:
    ferry.fill(DELIVERY)
    worker = ferry.start_worker(ferry.service)
    with held(proxy, "UploadPartCopy"):
        transfer_id = ferry.submit()
        proxy.wait_held()
        control.pause(ferry.service, transfer_id, actor="ada")
        left(worker)

    ferry.service.cancel(transfer_id, actor="ada")

    assert ferry.until_ended(transfer_id).state == "cancelled"
    assert ferry.open_uploads() == []
    counters_fit_rows(ferry.service, transfer_id)


def test_what_is_done_without_the_queue_is_paused_and_goes_on_with_it(
    sqlite_settings: Settings, s3server: S3Server, proxy: Proxy, make_bucket: Callable[..., str], rng: random.Random
) -> None:
    with Service.open(sqlite_settings) as service:
        ferry = Ferry(
            service, s3server, proxy.server, make_bucket(s3server), make_bucket(s3server), rng, lambda _: None
        )  # type: ignore[arg-type, return-value]
        ferry.fill(DELIVERY)
        worker = Worker.start(sqlite_settings, service, queue=False)
        try:
            with held(proxy, "UploadPartCopy"):
                transfer_id = worker.submit(ferry.spec(), actor="ada")
                proxy.wait_held()
                control.pause(service, transfer_id, actor="ada")
                left(worker)
            control.resume(service, transfer_id, actor="ada")

            assert ferry.until_ended(transfer_id).state == "done"
            assert ferry.arrived() == ferry.sent()
        finally:
            assert worker.stop(timeout=30.0)


def test_a_retry_copies_what_has_failed_and_nothing_else(ferry: Ferry, proxy: Proxy) -> None:
    ferry.fill(DELIVERY)
    ferry.work()
    rule = proxy.rule("CopyObject", access_denied(), key="in/s03")
    first, status = ferry.carry()
    assert (status.totals.done, status.totals.failed) == (len(DELIVERY) - 1, 1)
    proxy.clear_log()

    second = control.retry(ferry.service, first, actor="bob").id

    failed_again = ferry.until_ended(second)
    assert (failed_again.totals.objects, failed_again.totals.failed) == (1, 1)
    assert failed_again.spec.retry_of == first
    proxy.remove_rule(rule)

    third = control.retry(ferry.service, first, actor="bob").id

    end = ferry.until_ended(third)
    assert (end.state, end.totals.objects, end.totals.done) == ("done", 1, 1)
    assert {one.key for one in proxy.log("CopyObject")} == {"in/s03"}
    assert ferry.source not in {one.bucket for one in proxy.log("ListObjectsV2")}
    assert ferry.arrived() == ferry.sent()
    assert ferry.service.status(first).retried_by == second
    with pytest.raises(ConflictError, match=third):
        control.retry(ferry.service, first, actor="bob")


def test_a_retry_of_one_cause_leaves_the_others_as_they_have_failed(ferry: Ferry, proxy: Proxy) -> None:
    ferry.fill(DELIVERY)
    ferry.work()
    denied = proxy.rule("CopyObject", access_denied(), key="in/s03")
    frozen = proxy.rule("CopyObject", archived(), key="in/s05")
    first, status = ferry.carry()
    assert status.totals.failed == 2
    proxy.remove_rule(denied)
    proxy.clear_log()
    causes = {one.error_code: one.id for one in ferry.service.failures(first)}
    with pytest.raises(ConflictError, match="1 objects are selected"):
        control.retry(ferry.service, first, actor="bob", cause=causes["AccessDenied"], expected=2)
    with pytest.raises(NotFoundError):
        control.retry(ferry.service, first, actor="bob", cause="0" * 12)

    second = control.retry(ferry.service, first, actor="bob", cause=causes["AccessDenied"], expected=1).id

    end = ferry.until_ended(second)
    assert (end.state, end.totals.objects, end.totals.done, end.totals.failed) == ("done_with_failures", 2, 1, 1)
    assert {one.key for one in proxy.log("CopyObject")} == {"in/s03"}
    [left] = ferry.service.failures(second)
    assert (left.id, left.error_code, left.keys) == (causes["InvalidObjectState"], "InvalidObjectState", ("run/s05",))
    assert [one.id for one in ferry.service.retry_chain(second)] == [first, second]
    proxy.remove_rule(frozen)

    third = control.retry(ferry.service, first, actor="bob").id

    end = ferry.until_ended(third)
    assert (end.state, end.totals.objects, end.totals.done) == ("done", 1, 1)
    assert ferry.arrived() == ferry.sent()
    assert [one.id for one in ferry.service.retry_chain(first)] == [first, second, third]


def test_a_cancelled_transfer_is_retried_with_what_was_given_up(ferry: Ferry, proxy: Proxy) -> None:
    ferry.fill(DELIVERY)
    with held(proxy, "UploadPartCopy"):
        first = Worker.start(ferry.service.settings, ferry.service)
        transfer_id = ferry.submit()
        proxy.wait_held()
        eventually(lambda: ferry.service.status(transfer_id).totals.done == 20, what="the small objects")
        # Stopped first: a worker that carries out a cancel waits for parts that are under way, and these are held.
        assert first.stop(timeout=30.0)
        ferry.service.cancel(transfer_id, actor="ada")
    ferry.start_worker(ferry.service)
    assert ferry.until_ended(transfer_id).totals.cancelled == 2

    again = control.retry(ferry.service, transfer_id, actor="ada").id

    assert ferry.until_ended(again).totals.done == 2
    assert ferry.arrived() == ferry.sent()


def test_what_cannot_be_done_is_said(service: Service) -> None:
    transfer_id = service.submit(ANY_SPEC, actor="ada")
    with pytest.raises(ConflictError, match="has not ended"):
        control.retry(service, transfer_id, actor="ada")
    for change in ({"priority": 11}, {"max_requests": 0}, {"max_bandwidth": "fast"}, {"tpslimit": 0}):
        with pytest.raises(UsageError):
            control.adjust(service, transfer_id, actor="ada", **change)  # type: ignore[arg-type]
    assert service.status(transfer_id).adjustment == Adjustment()

    service.cancel(transfer_id, actor="ada")

    for act in (control.pause, control.resume, control.adjust):
        with pytest.raises(ConflictError):
            act(service, transfer_id, actor="ada")


def test_limits_hold_while_a_worker_is_at_the_transfer(ferry: Ferry, proxy: Proxy) -> None:
    ferry.fill({"run/a": 1, "run/b": 1})
    ferry.work()
    engine = ferry.service.engine
    before = engine.stats().max_requests
    with held(proxy, "CopyObject"):
        transfer_id = ferry.submit()
        proxy.wait_held()
        control.adjust(ferry.service, transfer_id, actor="ada", max_requests=7, max_bandwidth="1MB")

        eventually(lambda: (engine.bandwidth, engine.stats().max_requests) == (1_000_000, 7), what="the limits")

        control.adjust(ferry.service, transfer_id, actor="ada", max_bandwidth=None)

        eventually(lambda: engine.bandwidth is None, what="the end of a limit")
    assert ferry.until_ended(transfer_id).adjustment == Adjustment(max_requests=7)
    eventually(lambda: engine.stats().max_requests == before, what="the limit of the process")


def test_a_limit_of_starts_holds_from_the_first_request_and_changes_under_way(ferry: Ferry, proxy: Proxy) -> None:
    ferry.fill({"run/a": 1, "run/b": 1})
    ferry.work()
    engine = ferry.service.engine
    with held(proxy, "ListObjectsV2") as listing, held(proxy, "CopyObject"):
        transfer_id = ferry.submit(tpslimit=70)
        proxy.wait_held()
        assert engine.tpslimit == 70
        proxy.release(listing)
        proxy.remove_rule(listing)
        proxy.wait_held()
        assert engine.tpslimit == 70
        assert ferry.service.status(transfer_id).adjustment == Adjustment(tpslimit=70)

        control.adjust(ferry.service, transfer_id, actor="ada", tpslimit=90)
        eventually(lambda: engine.tpslimit == 90, what="the limit of starts")
        assert ferry.submit(tpslimit=60) == transfer_id
        eventually(lambda: engine.tpslimit == 60, what="the limit of the same submission")
        control.adjust(ferry.service, transfer_id, actor="ada", tpslimit=None)
        eventually(lambda: engine.tpslimit is None, what="the end of the limit")
        control.adjust(ferry.service, transfer_id, actor="ada", tpslimit=80)
    assert ferry.until_ended(transfer_id).adjustment == Adjustment(tpslimit=80)
    eventually(lambda: engine.tpslimit is None, what="the end of the limit with its transfer")


def test_a_limit_of_starts_is_recorded_by_submissions(sqlite_settings: Settings) -> None:
    with Service.open(replace(sqlite_settings, tpslimit=40)) as service:
        first = service.submit(spec_number(0), actor="ada")
        second = service.submit(spec_number(1).with_options(tpslimit=7), actor="ada")
        assert [service.status(one).spec.speed.tpslimit for one in (first, second)] == [40, 7]
        assert [service.status(one).adjustment.tpslimit for one in (first, second)] == [40, 7]
        with pytest.raises(UsageError, match="--tpslimit 0"):
            service.submit(spec_number(2).with_options(tpslimit=0), actor="ada")


def test_limits_of_an_operator_are_lowered_and_those_of_ones_own_replaced() -> None:
    settings = Settings.load({}, state_dir="/nowhere", max_requests=100, max_bandwidth="10MB")
    more = [Adjustment(max_requests=500, max_bandwidth="50MB")]

    assert limits_of(settings, more, own_work=False) == BudgetLimits(100, 10_000_000)
    assert limits_of(settings, more, own_work=True) == BudgetLimits(500, 50_000_000)
    assert limits_of(settings, [*more, Adjustment()], own_work=True) == BudgetLimits(100, 10_000_000)
    assert limits_of(settings, [Adjustment(max_bandwidth="off")], own_work=True) == BudgetLimits(100, None)
    assert limits_of(settings, [Adjustment(max_requests=5)], own_work=False) == BudgetLimits(5, 10_000_000)
    starts = replace(settings, tpslimit=20)
    work = [Adjustment(tpslimit=30), Adjustment(tpslimit=50)]
    assert limits_of(starts, work, own_work=False).starts == 20
    assert limits_of(starts, work, own_work=True).starts == 30
    assert limits_of(starts, [*work, Adjustment()], own_work=True).starts == 20
    assert limits_of(starts, [], own_work=True).starts == 20
    assert limits_of(settings, [Adjustment()], own_work=False).starts is None


@pytest.mark.every_database
def test_a_transfer_of_a_higher_priority_goes_first(service: Service) -> None:
    low, high = (service.submit(spec_number(number), actor="ada") for number in range(2))

    control.adjust(service, high, actor="ada", priority=5)
    control.adjust(service, low, actor="ada", priority=-1)

    table = "workflow_status" if service.database.is_sqlite else "dbos.workflow_status"
    with service.database.read() as connection:
        order = connection.execute(sa.text(f"select workflow_uuid from {table} order by priority")).scalars().all()
    assert order == [high, low]
    unset = {"max_requests": None, "max_bandwidth": None, "tpslimit": None}
    assert service.events(low)[-1].data == {"priority": -1, **unset}
    first = service.submit_or_resume(spec_number(2), actor="ada", priority=10).id
    with service.database.read() as connection:
        order = connection.execute(sa.text(f"select workflow_uuid from {table} order by priority")).scalars().all()
    assert order == [first, high, low]
    assert service.status(first).adjustment.priority == 10
    with pytest.raises(UsageError, match="-10 to 10"):
        service.submit_or_resume(spec_number(3), actor="ada", priority=11)


@pytest.mark.every_database
def test_many_are_selected_by_state_place_and_person(service: Service) -> None:
    ids = [service.submit(spec_number(number), actor=actor) for number, actor in enumerate(["ada@a", "bob@b", "ada@a"])]
    control.pause(service, ids[2], actor="ada")

    def of(verb: control.Verb, **which: object) -> list[str]:
        return control.select_transfers(service, verb, TransferFilter(**which))  # type: ignore[arg-type]

    assert of("cancel") == ids
    assert of("pause") == ids[:2]
    assert of("resume") == ids[2:]
    assert of("cancel", created_by="ada") == [ids[0], ids[2]]
    assert of("cancel", prefix="s3://ours/number1") == [ids[1]]
    assert of("cancel", prefix="s3://vendor/") == ids
    assert of("cancel", states=("paused",)) == [ids[2]]
    with pytest.raises(UsageError, match="asleep"):
        of("cancel", states=("asleep",))

    results = control.apply_to_each(service, "cancel", [*ids, "00000000"], actor="ada")

    assert [one.error is None for one in results] == [True, True, True, False]
    assert {service.status(one).state for one in ids} == {"cancelled"}


@pytest.mark.parametrize(
    "wanted",
    [
        TransferFilter(),
        TransferFilter(states=("paused", "queued")),
        TransferFilter(states=("done",)),
        TransferFilter(text="NUMBER1"),
        TransferFilter(text="%"),
        TransferFilter(prefix="s3://ours/number2"),
        TransferFilter(prefix="s3://OURS/"),
        TransferFilter(person="LAB"),
        TransferFilter(created_by="http lab"),
        TransferFilter(created_by="HTTP"),
        TransferFilter(created_by="%"),
        TransferFilter(created_by="a\0"),
        TransferFilter(since=1001.0, until=1002.0),
        TransferFilter(states=("queued",), person="ada", prefix="s3://vendor/", since=0.0),
    ],
    ids=str,
)
def test_an_act_is_for_what_a_list_with_the_same_filter_shows(service: Service, wanted: TransferFilter) -> None:
    actors = ("ada@a", "http lab from 10.0.0.1", "ada%@b")
    ids = [service.submit(spec_number(number), actor=actor) for number, actor in enumerate(actors)]
    control.pause(service, ids[2], actor="ada")
    with service.database.write() as connection:
        for number, each in enumerate(ids):
            connection.execute(transfer.update().where(transfer.c.id == each).values(created_at=1000.0 + number))

    listed = [one.id for one in service.transfer_page(wanted).entries]

    assert control.select_transfers(service, "cancel", wanted) == listed[::-1]


def test_an_act_is_refused_where_another_number_is_selected_by_now(service: Service) -> None:
    owner_token(service.settings.state_dir)
    lab = bearer(tokens.add(service, "lab", "submit"))
    own = service.submit(spec_number(0), actor="http lab from 10.0.0.1")
    others = [service.submit(spec_number(number), actor="ada@a") for number in (1, 2)]
    asked: dict[str, Any] = {"action": "cancel", "prefix": "s3://ours/"}
    with http_of(service) as client:

        def act(headers: dict[str, str] | None = None, **body: Any) -> tuple[int, Any]:
            answer = client.post("/api/v1/actions", json=asked | body, headers=headers)
            return answer.status_code, answer.json()

        status, shown = act(dry_run=True)
        assert (status, shown["count"], len(shown["results"])) == (200, 3, 3)
        assert act(lab, dry_run=True)[1]["count"] == 1, "others' transfers are neither selected nor counted"
        more = service.submit(spec_number(3), actor="ada@a")
        for body in ({"expected": 3}, {"expected": 3, "dry_run": True}, {"expected": 0}):
            status, refused = act(**body)
            assert (status, refused["code"]) == (409, "conflict")
            assert "4 transfers are selected now" in refused["detail"]
        ids = {"prefix": None, "ids": [own, more]}
        assert act(expected=1, **ids)[0] == 409
        assert {one.state for one in service.transfers()} == {"queued"}
        assert act(prefix="")[0] == 400, "an empty text selects nothing in particular"
        assert act(created_after=5)[0] == 422
        status, done = act(lab, expected=1)
        assert (status, done["count"], [one["id"] for one in done["results"]]) == (200, 1, [own])
        status, done = act(expected=3, created_after="2020-01-01T00:00:00Z", person="ADA")
        assert (status, done["count"]) == (200, 3)
    assert {service.status(one).state for one in (own, more, *others)} == {"cancelled"}


@pytest.mark.parametrize("name", ["text", "prefix", "person", "created_by", "name"])
def test_no_act_takes_an_empty_condition_for_none(service: Service, name: str) -> None:
    transfer_id = service.submit(spec_number(0), actor="ada@a")
    wanted = TransferFilter(states=("queued",), **{name: ""})

    with pytest.raises(UsageError, match=f"The filter '{name}' is empty"):
        control.select_transfers(service, "cancel", wanted)
    with pytest.raises(UsageError, match=f"The filter '{name}' is empty"):
        service.prune(older_than=0, actor="ada", wanted=wanted)
    with http_of(service) as client:
        answer = client.post("/api/v1/actions", json={"action": "cancel", "states": ["queued"], name: ""})
    assert (answer.status_code, answer.json()["code"]) == (400, "usage")
    assert [one.id for one in service.transfer_page(wanted).entries] == [transfer_id], "a list may be of all"
    assert service.status(transfer_id).state == "queued"


@pytest.mark.parametrize("settings", ["sqlite"], indirect=True)  # the command finds it in the state folder
def test_commands_take_the_filters_of_lists_and_the_number_that_was_seen(service: Service) -> None:
    ids = [service.submit(spec_number(number), actor="ada@a") for number in range(3)]

    def ran(*words: str) -> tuple[int, list[str], str]:
        done = command(service, *words)
        return done.returncode, [line.split()[0] for line in done.stdout.splitlines()], done.stderr

    assert ran("status", "--text", "number1")[1] == ["ID", ids[1]]
    assert ran("status", "--created-before", "1d")[1:] == ([], "No transfer matched.\n")
    assert ran("status", "--state", "asleep")[0] == 2
    assert ran("status", ids[0], "--created-by", "ada")[0] == 2
    code, shown, said = ran("cancel", "--created-by", "ada", "--dry-run")
    assert (code, shown) == (0, ids)
    assert "--expect 3" in said
    code, _, said = ran("pause", "--created-by", "ada", "--expect", "2")
    assert (code, service.status(ids[0]).state) == (1, "queued")
    assert "3 transfers are selected now, and 2 were expected" in said
    assert [ran(verb, ids[0], "--created-by", "bob")[0] for verb in ("pause", "cancel", "resume")] == [2, 2, 2]
    assert ran("pause", "--text", "")[0] == 2
    assert ran("pause", "--state", "queued", "--name", "")[0] == 2, "a variable that is not set selects nothing"
    assert ran("pause", "--created-by", "ada", "--expect", "3")[0] == 0
    assert {service.status(one).state for one in ids} == {"paused"}
    assert ran("cancel", ids[0], "--expect", "1", "--detach")[0] == 0
    assert ran("prune", "--older-than", "1m", "--expect", "1")[0] == 1, "it has ended just now"
    assert ran("prune", "--older-than", "1m", "--expect", "0", "--text", ids[0])[0] == 0


def test_all_of_it_over_http(ferry: Ferry, proxy: Proxy) -> None:
    ferry.fill(DELIVERY)
    worker = ferry.start_worker(ferry.service)
    rule = proxy.rule("CopyObject", access_denied(), key="in/s03")
    with http_of(ferry.service) as client, held(proxy, "UploadPartCopy") as hold:
        transfer_id = ferry.submit()
        at = f"/api/v1/transfers/{transfer_id}"
        proxy.wait_held()

        changed = client.patch(at, json={"priority": 3, "max_bandwidth": "1GB"})
        assert (changed.status_code, changed.json()["priority"]) == (200, 3)
        assert client.patch(at, json={"tpslimit": 5000}).json()["tpslimit"] == 5000
        assert client.patch(at, json={"tpslimit": 0}).status_code == 422
        assert client.patch(at, json={"priority": 30}).status_code == 422
        assert client.patch(at, json={"max_bandwidth": "fast"}).status_code == 400
        assert client.post(f"{at}/pause").json()["state"] == "paused"
        left(worker)
        proxy.release(hold)
        assert client.post(f"{at}/resume").json()["state"] == "running"
        proxy.remove_rule(hold)
        assert client.post(f"{at}/retry").status_code in (202, 409)
        ferry.until_ended(transfer_id)
        proxy.remove_rule(rule)
        retried = client.post(f"{at}/retry")
        assert retried.status_code == 202
        assert ferry.until_ended(retried.json()["id"]).totals.done == 1
        assert client.post(f"{at}/pause").status_code == 409

        for nothing in (
            {"action": "cancel"},
            {"action": "set", "all": True},
            {"action": "cancel", "all": True, "change": {}},
        ):
            assert client.post("/api/v1/actions", json=nothing).status_code == 400
        ids = [ferry.service.submit(spec_number(number), actor="ada") for number in range(2)]
        control.pause(ferry.service, ids[0], actor="ada")
        answer = client.post("/api/v1/actions", json={"action": "cancel", "ids": [*ids, transfer_id, "0000"]})
        results = {one["id"]: one for one in answer.json()["results"]}
        # A worker that has begun to list it gives it up first.
        assert results[ids[0]]["transfer"]["state"] in ("cancelled", "cancelling")
        assert results[transfer_id]["code"] == "conflict"
        assert results["0000"]["code"] == "not_found"
