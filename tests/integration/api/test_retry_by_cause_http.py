"""Retries of one cause, chains of retries as one thing, places in the queue, and progress over all."""

from __future__ import annotations

import threading
from typing import Any

import httpx
import pytest
from control import spec_number
from ended import AT, add_ended_batch, begin, finish
from http_client import http_of
from test_streams import Stream

from seqferry.db import transfers
from seqferry.model.errors import ConflictError, NotFoundError, UsageError
from seqferry.service import control
from seqferry.service.service import Service
from support.waiting import eventually


@pytest.fixture
def failed(service: Service) -> str:
    """A transfer of which one object has arrived, two were denied and one is archived."""
    found = begin(service)
    add_ended_batch(service, found, ["done"])
    for keys, code in ((["a", "b"], "AccessDenied"), (["c"], "InvalidObjectState")):
        facts = {"error_class": "person", "error_code": code, "error_operation": "GetObject"}
        add_ended_batch(service, found, keys, state="failed", verified=None, **facts)
    finish(service, found)
    return found


def _causes(client: httpx.Client, transfer_id: str) -> dict[str, str]:
    found = client.get(f"/api/v1/transfers/{transfer_id}/failures").json()["causes"]
    return {one["error_code"]: one["id"] for one in found}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"cause": "AccessDenied", "expected": 3}, 409),
        ({"expected": 2}, 409),
        ({"cause": "0" * 12}, 404),
        ({"cause": "all"}, 422),
        ({"cause": "AccessDenied", "expected": -1}, 422),
        ({"why": "AccessDenied"}, 422),
        ({"cause": "AccessDenied", "expected": 2}, 202),
        ({"cause": "AccessDenied"}, 202),
        ({"expected": 3}, 202),
        ({}, 202),
        (None, 202),
    ],
)
def test_a_retry_of_a_cause_with_the_number_that_was_seen(
    service: Service, failed: str, body: dict[str, Any] | None, status: int
) -> None:
    with http_of(service) as client:
        if body is not None and body.get("cause") == "AccessDenied":
            body = body | {"cause": _causes(client, failed)["AccessDenied"]}
        answer = client.post(f"/api/v1/transfers/{failed}/retry", json=body)

    assert answer.status_code == status, answer.text
    assert len(service.transfers()) == (2 if status == 202 else 1)


def test_a_cause_is_not_retried_while_another_retry_is_under_way(service: Service, failed: str) -> None:
    with http_of(service) as client:
        cause = _causes(client, failed)["AccessDenied"]
        first = client.post(f"/api/v1/transfers/{failed}/retry", json={"cause": cause}).json()["id"]
        again = client.post(f"/api/v1/transfers/{failed}/retry", json={"cause": cause})
        whole = client.post(f"/api/v1/transfers/{failed}/retry")

    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    assert first in again.json()["detail"]
    assert whole.json()["id"] == first


@pytest.mark.every_database
def test_of_two_retries_at_the_same_moment_one_is_refused(
    service: Service, failed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    causes = {one.error_code: one.id for one in service.failures(failed)}
    record, made = service.submit_or_resume, list[str]()

    def after_another(spec: Any, **options: Any) -> Any:
        monkeypatch.setattr(service, "submit_or_resume", record)
        made.append(control.retry(service, failed, actor="bea", cause=causes["AccessDenied"]).id)
        return record(spec, **options)

    monkeypatch.setattr(service, "submit_or_resume", after_another)
    with pytest.raises(ConflictError, match=r"retries .* already"):
        control.retry(service, failed, actor="ada", cause=causes["InvalidObjectState"])

    assert [one.id for one in service.retry_chain(failed)] == [failed, *made]
    assert len(service.transfers()) == 2


def test_a_chain_of_retries_is_one_thing(service: Service, failed: str) -> None:
    again = control.retry(service, failed, actor="bea").id
    with service.database.write() as connection:
        assert transfers.begin_plan(connection, again, AT, "worker", "worker-1") is not None
    add_ended_batch(service, again, ["a", "b"])
    facts = {"error_class": "person", "error_code": "InvalidObjectState", "error_operation": "GetObject"}
    add_ended_batch(service, again, ["c"], state="failed", verified=None, **facts)
    finish(service, again)
    with http_of(service) as client:
        chains = [client.get(f"/api/v1/transfers/{one}/chain").json() for one in (failed, again)]
        unknown = client.get("/api/v1/transfers/ffffffff-0000-4000-8000-000000000000/chain")

    assert chains[0] == chains[1]
    assert [one["id"] for one in chains[0]["transfers"]] == [failed, again]
    assert (chains[0]["latest"], chains[0]["state"]) == (again, "done_with_failures")
    totals = chains[0]["totals"]
    assert (totals["objects"], totals["done"], totals["failed"], totals["bytes_done"]) == (4, 3, 1, 30)
    assert unknown.status_code == 404


@pytest.mark.every_database
def test_a_transfer_that_waits_tells_its_place_and_why(service: Service) -> None:
    ids = [service.submit_or_resume(spec_number(number), actor="ada", priority=priority).id
           for number, priority in ((1, 0), (2, 5), (3, 0))]  # fmt: skip
    overlapping = service.submit_or_resume(spec_number(2), actor="bea", new=True).id
    control.pause(service, ids[2], actor="ada")
    last = service.submit_or_resume(spec_number(4), actor="ada").id
    with http_of(service) as client:
        listed = client.get("/api/v1/transfers").json()["transfers"]
    found = {one["id"]: one["queue"] for one in listed}

    def turn(ahead: int) -> dict[str, Any]:
        return {"reason": "turn", "ahead": ahead, "blocked_by": None}

    assert found[ids[1]] == turn(0)
    assert found[ids[0]] == turn(1)
    assert found[ids[2]] is None  # paused
    assert found[last] == turn(2)
    assert found[overlapping] == {"reason": "overlap", "ahead": None, "blocked_by": ids[1]}


def test_the_feed_over_all_tells_progress_where_it_is_asked_for(service: Service) -> None:
    one, other = begin(service, number=1), begin(service, number=2)
    with http_of(service) as client:
        params = {"progress": "true"}
        with client.stream("GET", "/api/v1/events", params=params) as response:
            messages = Stream(response).messages()

            def following(wanted: str, state: str) -> dict[str, Any]:
                for identity, name, data in messages:
                    if name == "progress" and data["id"] == wanted and data["state"] == state:
                        assert identity is None
                        return data
                raise AssertionError(wanted)

            following(one, "planning")
            add_ended_batch(service, one, ["a"])
            finish(service, one)
            assert following(one, "done")["totals"]["done"] == 1
        with client.stream("GET", "/api/v1/events", params=params | {"transfer": other}) as response:
            kinds = {data.get("id") for _, name, data in Stream(response).until("progress") if name == "progress"}

    assert kinds == {other}


def test_a_stream_that_comes_later_tells_nothing_of_what_has_ended_before(service: Service) -> None:
    one = begin(service, number=1)
    with http_of(service) as client:
        params = {"progress": "true"}
        with client.stream("GET", "/api/v1/events", params=params) as response:
            Stream(response).until("progress")
        eventually(lambda: "seqferry-progress" not in {thread.name for thread in threading.enumerate()}, what="its end")
        add_ended_batch(service, one, ["a"])
        finish(service, one)
        other = begin(service, number=2)
        with client.stream("GET", "/api/v1/events", params=params) as response:
            told = [data["id"] for _, name, data in Stream(response).until("progress") if name == "progress"]

    assert told == [other]


def test_a_cause_is_named_by_its_code_where_one_cause_has_it(service: Service, failed: str) -> None:
    add = begin(service, number=2)
    for key, operation in (("a", "GetObject"), ("b", "CopyObject")):
        facts = {"error_class": "person", "error_code": "AccessDenied", "error_operation": operation}
        add_ended_batch(service, add, [key], state="failed", verified=None, **facts)
    finish(service, add)

    retried = control.retry(service, failed, actor="ada", cause="AccessDenied", expected=2)

    assert service.status(retried.id).spec.retry_of == failed
    for ids in service.failures(add, keys=0):
        with pytest.raises(UsageError, match=rf"several causes; name one by its id: .*{ids.id}"):
            control.retry(service, add, actor="ada", cause="AccessDenied")
    with pytest.raises(NotFoundError, match=r"Its causes: .*AccessDenied \(GetObject: "):
        control.retry(service, add, actor="ada", cause="accessdenied")
