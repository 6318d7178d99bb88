"""The look at the first objects of a transfer, as the event of the transfer and over HTTP say it."""

from __future__ import annotations

import pytest
from control import MIB
from ferry import Ferry, FerryFactory
from http_client import http_of
from mirror import open_uploads

from seqferry.db import transfers
from seqferry.db.objects import PlannedObject
from seqferry.model.models import Event
from seqferry.planning import batching
from seqferry.service.service import Service
from seqferry.workflows import sample_check
from support.proxy import Proxy, access_denied, held, internal_error
from support.waiting import eventually

NAMES = [f"run/lane{number:02d}.fq" for number in range(14)]


@pytest.fixture
def ferry(service: Service, make_ferry: FerryFactory, proxy: Proxy) -> Ferry:
    """Reaches the storage through ``proxy``."""
    return make_ferry(service, reached=proxy.server)


def _looks(ferry: Ferry, transfer_id: str) -> list[Event]:
    return [one for one in ferry.service.events(transfer_id) if one.kind == "preflight"]


@pytest.mark.every_server
def test_the_report_is_on_record_and_the_status_over_http_shows_it(
    ferry: Ferry, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    ferry.fill(dict.fromkeys(NAMES, 10))
    proxy.rule("GetObject", access_denied(), bucket=ferry.source, key="run/lane0*")
    ferry.work()
    monkeypatch.setenv("AWS_ENDPOINT_URL", ferry.reached.endpoint_url)
    with http_of(ferry.service) as client:
        body = {"source": f"s3://{ferry.source}/run/", "target": f"s3://{ferry.target}/in/"}
        transfer_id = client.post("/api/v1/transfers", json=body).json()["id"]
        # The storage itself copies: this rule refuses reads alone.
        assert ferry.until_ended(transfer_id).state == "done"

        told = client.get(f"/api/v1/transfers/{transfer_id}").json()["preflight"]
        assert client.post("/api/v1/transfers", json={**body, "target": body["target"] + "2/", "preflight": False})

    [event] = _looks(ferry, transfer_id)
    [cause] = told["causes"]
    assert cause["message"].startswith(f"{cause.pop('text')} ")
    assert cause.pop("next_step") == cause["advice"]
    assert told == event.data
    assert (told["objects"], told["looked_up"], told["whole"], told["stopped"]) == (14, 10, True, False)
    assert (cause["error_code"], cause["operation"]) == ("AccessDenied", "GetObject")
    assert cause["keys"] == sorted(cause["keys"])[:5]
    assert len(ferry.arrived()) >= 4
    [other] = [one for one in ferry.service.transfers() if one.id != transfer_id]
    assert _looks(ferry, ferry.until_ended(other.id).id) == []


def test_nothing_is_planned_where_the_target_refuses_writing(ferry: Ferry, proxy: Proxy) -> None:
    ferry.fill(dict.fromkeys(NAMES, 10))
    proxy.rule("CreateMultipartUpload", access_denied(), bucket=ferry.target)
    ferry.work()

    transfer_id, status = ferry.carry()

    assert (status.state, status.error_code, status.totals.objects) == ("failed", "AccessDenied", 0)
    assert status.error_message is not None
    assert "refuses writing" in status.error_message
    assert [one.data["stopped"] for one in _looks(ferry, transfer_id)] == [True]
    assert ferry.arrived() == {}
    assert len(proxy.log("CreateMultipartUpload")) == 3
    assert open_uploads(ferry.server, ferry.target) == []


def test_source_and_target_are_checked_side_by_side(ferry: Ferry, proxy: Proxy) -> None:
    ferry.fill(dict.fromkeys(NAMES, 10))
    ferry.work()

    with held(proxy, "GetObject", bucket=ferry.source):
        transfer_id = ferry.submit()
        proxy.wait_requested("AbortMultipartUpload")

    assert ferry.until_ended(transfer_id).state == "done"
    assert len(proxy.log("CreateMultipartUpload")) == 1
    assert proxy.log("ListParts") == [], "an upload that got no part leaves none"


def test_the_target_is_checked_again_after_an_object_that_cannot_be_read(ferry: Ferry, proxy: Proxy) -> None:
    ferry.fill(dict.fromkeys(NAMES, 10))
    for operation in ("GetObject", "HeadObject"):
        proxy.rule(operation, access_denied(), bucket=ferry.source, key=NAMES[0])
    proxy.rule("CreateMultipartUpload", access_denied(), bucket=ferry.target)
    ferry.work()

    transfer_id, status = ferry.carry()

    assert (status.state, status.totals.objects) == ("failed", 0)
    assert [one.data["stopped"] for one in _looks(ferry, transfer_id)] == [True]


def test_the_upload_of_a_probe_that_was_cut_off_is_aborted_by_the_next_planning(ferry: Ferry) -> None:
    ferry.fill(dict.fromkeys(NAMES, 10))
    transfer_id = ferry.submit()
    # What a process leaves that is killed between the two requests of its probe.
    with ferry.service.database.write() as connection:
        transfers.set_target_absent(connection, transfer_id, True)
    ferry.server.client().create_multipart_upload(Bucket=ferry.target, Key=NAMES[0].replace("run/", "in/"))

    ferry.work()

    assert ferry.until_ended(transfer_id).totals.done == len(NAMES)
    assert ferry.open_uploads() == []


def test_a_storage_that_falters_stops_nothing(ferry: Ferry, proxy: Proxy) -> None:
    ferry.fill(dict.fromkeys(NAMES, 10))
    proxy.rule("CreateMultipartUpload", internal_error(), bucket=ferry.target)
    ferry.work()

    transfer_id, status = ferry.carry()

    assert (status.state, status.totals.done) == ("done", len(NAMES))
    assert _looks(ferry, transfer_id) == []


def test_what_is_there_already_is_passed_over_though_its_source_cannot_be_read(ferry: Ferry, proxy: Proxy) -> None:
    ferry.fill(dict.fromkeys(NAMES, 10))
    ferry.work()
    assert ferry.carry()[1].totals.done == len(NAMES)
    for operation in ("HeadObject", "GetObject"):
        proxy.rule(operation, access_denied(), bucket=ferry.source)

    _, status = ferry.carry(if_exists="skip")

    assert (status.state, status.totals.skipped) == ("done", len(NAMES))


def test_a_listing_that_goes_on_holds_nothing_up(ferry: Ferry, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "SMALL", batching.Limit(objects=500, bytes=batching.SMALL.bytes))
    ferry.fill({f"run/{number:04d}": 1 for number in range(1100)})
    ferry.work()

    with held(proxy, "ListObjectsV2", bucket=ferry.source, after=1):
        transfer_id = ferry.submit()
        eventually(lambda: ferry.service.status(transfer_id).totals.done, what="the first objects", deadline=60)
        assert not ferry.service.status(transfer_id).planned

    assert ferry.until_ended(transfer_id).totals.done == 1100


def test_a_sample_has_both_ends_and_the_largest() -> None:
    found = [
        PlannedObject(f"{number:03d}", "t", 7 * MIB if number == 33 else 1, "e", 0.0, None, None)
        for number in range(100)
    ]

    keys = [one.source_key for one in sample_check.select_sample(found, 10)]

    assert len(keys) == len(set(keys)) == 10
    assert {"000", "033", "099"} <= set(keys)
    assert keys == sorted(keys)
    assert sample_check.select_sample(found[:4], 10) == found[:4]
