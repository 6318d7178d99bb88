"""Tickets for one download of a report: good at every server of the database, once, for a minute."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import sqlalchemy as sa
from control import spec_number
from ended import AT, add_ended_batch, finish
from http_client import http_of

from seqferry.db import transfers
from seqferry.db.tables import report_ticket
from seqferry.model.errors import NotFoundError, OverloadError
from seqferry.service import report_tickets, share_links
from seqferry.service.report_tickets import LIFETIME_SECONDS, MAX_PER_LINK, MAX_TICKETS, ReportTicket
from seqferry.service.service import Service

AT_ONCE = 8


@pytest.fixture
def other(service: Service) -> Generator[Service]:
    """What another process at the same database has open."""
    with Service.open(service.settings) as opened:
        yield opened


def ended(service: Service) -> str:
    found = service.submit_or_resume(spec_number(1), actor="ada@lab7", queued=False).id
    with service.database.write() as connection:
        assert transfers.begin_plan(connection, found, AT, "worker", "worker-1") is not None
    add_ended_batch(service, found, ["a", "b"])
    finish(service, found)
    return found


def wanted(transfer_id: str = "1") -> ReportTicket:
    return ReportTicket(transfer_id, "csv", "eu-central-1", 2**31)


def rows(service: Service) -> list[sa.Row[tuple[object, ...]]]:
    with service.database.read() as connection:
        return list(connection.execute(sa.select(report_ticket)))


def age(service: Service, seconds: float) -> None:
    """Let the tickets be older by so much."""
    with service.database.write() as connection:
        connection.execute(report_ticket.update().values(ends_at=report_ticket.c.ends_at - seconds))


def at_once(act: Callable[[Service], object], *services: Service) -> Counter[str]:
    """How often each outcome came, of calls at the same time with each service in turn."""

    def outcome(service: Service) -> str:
        try:
            act(service)
        except (NotFoundError, OverloadError) as why:
            return type(why).__name__
        return "done"

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return Counter(pool.map(outcome, services))


def test_a_ticket_of_one_server_is_redeemed_once_at_another(service: Service, other: Service) -> None:
    of = ended(service)
    with http_of(service) as first, http_of(other) as second:
        made = first.post(f"/api/v1/transfers/{of}/report-ticket", params={"format": "csv"})
        path = made.json()["path"]
        answers = [httpx.get(f"{one.base_url}/{path}", trust_env=False) for one in (second, second, first)]
        report = first.get(f"/api/v1/transfers/{of}/report", params={"format": "csv"})

    assert made.status_code == 201
    assert [one.status_code for one in answers] == [200, 404, 404]
    assert answers[0].text == report.text
    assert answers[1].json()["detail"].startswith("This download link was used")
    assert rows(service) == []


def test_a_report_can_load_run_and_reach_nothing_however_it_is_asked_for(service: Service) -> None:
    of = ended(service)
    with http_of(service) as client:

        def by_ticket(form: str) -> httpx.Response:
            made = client.post(f"/api/v1/transfers/{of}/report-ticket", params={"format": form})
            return client.get(made.json()["path"])

        def by_token(form: str) -> httpx.Response:
            return client.get(f"/api/v1/transfers/{of}/report", params={"format": form})

        for ask in (by_token, by_ticket):
            document = ask("html")
            policy = dict(part.partition(" ")[::2] for part in document.headers["content-security-policy"].split("; "))
            style = document.text.partition("<style>")[2].partition("</style>")[0]
            own = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
            assert policy == {
                "default-src": "'none'", "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'",
                "sandbox": "", "style-src": f"'sha256-{own}'",
            }  # fmt: skip
            for form in ("html", "csv", "json"):
                answer = ask(form)
                assert (answer.status_code, answer.headers["x-content-type-options"]) == (200, "nosniff")
                assert ("attachment" in answer.headers.get("content-disposition", "")) == (form != "html")


def test_all_that_a_ticket_is_for_is_kept_and_of_the_ticket_a_digest(service: Service, other: Service) -> None:
    text, ends = report_tickets.issue(service, wanted(), link="0123456789ab")

    [row] = rows(service)
    assert row.digest == hashlib.sha256(text.encode()).hexdigest()
    assert row.ends_at == ends
    assert not [value for value in row if value == text]
    assert report_tickets.redeem(other, text) == wanted()


@pytest.mark.every_database
def test_of_requests_at_the_same_time_one_redeems_a_ticket(service: Service, other: Service) -> None:
    for _ in range(5):
        text, _ends = report_tickets.issue(service, wanted())

        def redeem(one: Service, text: str = text) -> None:
            report_tickets.redeem(one, text)

        assert at_once(redeem, *[service, other] * AT_ONCE) == {"done": 1, "NotFoundError": 2 * AT_ONCE - 1}


@pytest.mark.every_database
def test_the_bound_of_a_link_holds_for_servers_that_are_asked_at_the_same_time(
    service: Service, other: Service
) -> None:
    def add(one: Service) -> None:
        report_tickets.issue(one, wanted(), link="0123456789ab")

    asked = [service, other] * MAX_PER_LINK

    assert at_once(add, *asked) == {"done": MAX_PER_LINK, "OverloadError": MAX_PER_LINK}


def test_clients_and_holders_of_links_take_no_room_from_each_other(service: Service) -> None:
    with service.database.write() as connection:
        columns = {"ends_at": 2.0**40, "transfer_id": "1", "format": "csv", "page": 1}
        links = [{"share_link_id": f"link-{number // MAX_PER_LINK}", **columns} for number in range(MAX_TICKETS)]
        filled = [{"digest": f"digest-{number}", **one} for number, one in enumerate(links)]
        connection.execute(report_ticket.insert(), filled)

    with pytest.raises(OverloadError):
        report_tickets.issue(service, wanted(), link="another")
    text, _ = report_tickets.issue(service, wanted())
    with service.database.write() as connection:
        connection.execute(report_ticket.update().values(share_link_id=None))
    with pytest.raises(OverloadError):
        report_tickets.issue(service, wanted())
    report_tickets.issue(service, wanted(), link="another")
    assert report_tickets.redeem(service, text) == wanted()


def test_a_ticket_is_good_for_a_minute_and_removed_by_the_next_one(service: Service) -> None:
    old, _ = report_tickets.issue(service, wanted())
    age(service, LIFETIME_SECONDS)
    with pytest.raises(NotFoundError):
        report_tickets.redeem(service, old)
    young, ends = report_tickets.issue(service, wanted())

    assert [row.ends_at for row in rows(service)] == [ends]
    age(service, LIFETIME_SECONDS / 2)
    assert report_tickets.redeem(service, young) == wanted()


@pytest.mark.parametrize("text", ["", "x" * 31, "x" * 32, "x" * 33, "ß" * 32, "a b" * 10 + "ab", "%00" * 10 + "ab"])
def test_a_made_up_ticket_is_not_found(service: Service, text: str) -> None:
    report_tickets.issue(service, wanted())

    with pytest.raises(NotFoundError):
        report_tickets.redeem(service, text)
    assert len(rows(service)) == 1


def test_downloads_of_a_link_end_when_it_is_revoked(service: Service) -> None:
    of = ended(service)
    mine, theirs = (share_links.create(service, actor="ada", transfer_id=of)[0].id for _ in range(2))
    tickets = [report_tickets.issue(service, wanted(of), link=link)[0] for link in (mine, theirs, None)]

    share_links.revoke(service, mine, actor="ada")

    with pytest.raises(NotFoundError):
        report_tickets.redeem(service, tickets[0])
    assert [report_tickets.redeem(service, one) for one in tickets[1:]] == [wanted(of)] * 2
