"""The state of a transfer whose objects have all ended, some of them with a failure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from control import spec_number
from ended import add_ended_batch, begin, finish
from http_client import http_of

from seqferry import Client, ClientError
from seqferry.db import gauges
from seqferry.db.notice_rows import Subject
from seqferry.db.paging import TransferFilter
from seqferry.db.record.audit import AuditCounts
from seqferry.model.models import Status
from seqferry.proof import auditing
from seqferry.service import control, notices
from seqferry.service.service import Service
from seqferry.settings.config import Settings

WITH_FAILURES = "done_with_failures"


def _ended(service: Service, *, number: int, failed: int) -> str:
    transfer_id = begin(service, number=number)
    add_ended_batch(service, transfer_id, ["a", "b"])
    if failed:
        facts: dict[str, Any] = {"state": "failed", "error_class": "person", "error_code": "AccessDenied"}
        facts |= {"error_operation": "GetObject", "error_message": "Denied.", "verified": None, "checksum": None}
        add_ended_batch(service, transfer_id, [f"f{number}" for number in range(failed)], **facts)
    finish(service, transfer_id)
    return transfer_id


@pytest.fixture
def both(service: Service) -> tuple[str, str]:
    """Transfers that ended without and with failures."""
    return _ended(service, number=1, failed=0), _ended(service, number=2, failed=3)


@pytest.mark.every_database
def test_every_status_and_filter_tells_it_from_done(service: Service, both: tuple[str, str]) -> None:
    whole, partly = both

    def states(*wanted: str) -> list[str]:
        return [one.id for one in service.transfer_page(TransferFilter(states=wanted)).entries]

    assert [service.status(one).state for one in both] == ["done", WITH_FAILURES]
    assert [one.state for one in service.transfers()] == [WITH_FAILURES, "done"]
    assert [service.status(one).next_step for one in both] == [None, "retry"]
    assert (states("done"), states(WITH_FAILURES)) == ([whole], [partly])
    assert states("done", WITH_FAILURES) == [partly, whole]
    assert service.status(partly).ended
    with service.database.read() as connection:
        counted = gauges.read(connection, service.database).transfers
    assert counted == {"done": 1, WITH_FAILURES: 1}


def test_the_record_stays_whole(service: Service, both: tuple[str, str]) -> None:
    assert list(auditing.verify(service.database, AuditCounts())) == []
    assert service.status(both[1]).receipt_digest is not None


def test_a_retry_copies_what_has_failed_and_is_the_one_next_step(service: Service, both: tuple[str, str]) -> None:
    whole, partly = both
    assert control.select_transfers(service, "retry", TransferFilter(states=(WITH_FAILURES,))) == [partly]
    assert control.select_transfers(service, "retry", TransferFilter(states=("done",))) == []

    again = control.retry(service, partly, actor="ada")

    status: Status = service.status(partly)
    assert (status.retried_by, status.next_step) == (again.id, None)
    assert service.status(again.id).spec.retry_of == partly
    assert asdict(service.status(whole).adjustment) == asdict(status.adjustment)


def test_notices_events_and_http_say_it(service: Service, both: tuple[str, str]) -> None:
    _, partly = both
    notice = notices.build_notice(service, Subject("transfer", partly), "finished", "n")
    assert notice.payload["data"]["state"] == WITH_FAILURES
    assert notice.payload["data"]["next"] == f"seqferry retry {partly}"
    assert "3 of 5 objects failed" in notice.title
    assert service.events(partly)[-1].kind == WITH_FAILURES

    with http_of(service) as http:
        shown = http.get(f"/api/v1/transfers/{partly}").json()
        assert (shown["state"], shown["next_step"]) == (WITH_FAILURES, "retry")
        listed = http.get("/api/v1/transfers", params={"state": WITH_FAILURES}).json()["transfers"]
        assert [one["id"] for one in listed] == [partly]
        assert f'seqferry_transfers{{state="{WITH_FAILURES}"}} 1' in http.get("/metrics").text
        token = http.headers["Authorization"].partition(" ")[2]
        with Client(str(http.base_url), token) as client:
            with pytest.raises(ClientError, match=r"3 of 5 objects failed.*retry"):
                client.wait(partly, timeout=5)
            assert client.wait(partly, timeout=5, check=False)["state"] == WITH_FAILURES
            assert client.transfer(client.retry(partly))["retry_of"] == partly


def test_a_transfer_that_was_cancelled_or_stopped_keeps_its_state(sqlite_settings: Settings) -> None:
    with Service.open(sqlite_settings) as service:
        transfer_id = begin(service, number=3)
        add_ended_batch(service, transfer_id, ["f"], state="failed", error_class="person", error_code="AccessDenied")
        service.cancel(transfer_id, actor="ada")
        finish(service, transfer_id)
        assert service.status(transfer_id).state == "cancelled"
        assert service.submit_or_resume(spec_number(3), actor="ada").goes_on is False
