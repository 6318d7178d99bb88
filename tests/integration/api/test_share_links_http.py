"""Share links: what their holders see, what they cannot see, and when they see nothing any more."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from control import spec_number
from ended import AT, add_ended_batch, begin, finish
from http_client import bearer, http_of

from seqferry.db import transfers
from seqferry.db.tables import share_link, share_link_event
from seqferry.model.labels import Description
from seqferry.service import control, deliveries, share_links, tokens
from seqferry.service.report_tickets import MAX_PER_LINK
from seqferry.service.service import Service
from support.run import ROOT

DENIED = {"state": "failed", "verified": None, "error_class": "person", "error_code": "AccessDenied"}
SECRETS = ("vendor", "ours", "127.0.0.1", "endpoint", "s3://")
"""Texts of the specs of these tests that no holder of a link is shown."""


@pytest.fixture(autouse=True)
def _public(service: Service) -> None:  # pyright: ignore[reportUnusedFunction]
    object.__setattr__(service, "settings", replace(service.settings, public_url="https://ferry.example.org/lab"))


@contextmanager
def holder(client: httpx.Client, token: str | None) -> Generator[httpx.Client]:
    headers = {} if token is None else bearer(token)
    with httpx.Client(base_url=client.base_url, headers=headers, timeout=60, trust_env=False) as made:
        yield made


def named(service: Service, number: int, name: str, actor: str = "ada@lab7", **labels: str) -> str:
    """A transfer that a worker has taken up."""
    description = Description(name, labels)
    found = service.submit_or_resume(spec_number(number), actor=actor, queued=False, description=description).id
    with service.database.write() as connection:
        assert transfers.begin_plan(connection, found, AT, "worker", "worker-1") is not None
    return found


def with_failures(service: Service, number: int, name: str, **labels: str) -> str:
    """A transfer that has ended: 3 objects have arrived, 2 were denied, of 10 bytes each."""
    found = named(service, number, name, **labels)
    add_ended_batch(service, found, ["a", "b", "c"])
    add_ended_batch(service, found, ["d", "e"], error_operation="GetObject", **DENIED)
    finish(service, found)
    return found


def shared(client: httpx.Client, **body: Any) -> dict[str, Any]:
    made = client.post("/api/v1/share-links", json=body)
    assert made.status_code == 201, made.text
    return made.json()


def test_a_link_shows_a_transfer_in_plain_words(service: Service) -> None:
    of = with_failures(service, 1, "Run 42", project="X")
    with http_of(service) as client:
        made = shared(client, transfer=of)
        with holder(client, made["token"]) as guest:
            page = guest.get("/api/v1/delivery").json()

    assert made["url"] == f"https://ferry.example.org/lab/#/d/{made['token']}"
    [found] = page["deliveries"]
    assert (page["title"], page["label"], page["more"]) == ("Run 42", None, False)
    assert page["expires_at"] == made["expires_at"]
    assert (found["state"], found["planned"], found["objects"], found["bytes"]) == ("incomplete", True, 5, 50)
    assert (found["arrived"], found["verified"], found["missing"], found["bytes_arrived"]) == (3, 3, 2, 30)
    assert (found["share"], found["started_by"]) == (0.6, "ada")
    why = "access to them was denied"
    assert found["causes"] == [
        {"needs": "sender", "words": why, "text": why, "count": 2, "bytes": 20},
    ]
    assert [one["name"] for one in found["files"]] == ["d", "e"]
    assert len(found["receipts"]) == 1
    text = json.dumps(page)
    assert of not in text
    assert not [one for one in SECRETS if one in text]


def test_no_share_is_promised_while_the_source_is_listed(service: Service) -> None:
    of = named(service, 1, "Run 42")
    add_ended_batch(service, of, ["a", "b"])
    with http_of(service) as client, holder(client, shared(client, transfer=of)["token"]) as guest:
        [found] = guest.get("/api/v1/delivery").json()["deliveries"]

    assert (found["planned"], found["objects"], found["bytes_arrived"], found["share"]) == (False, 2, 20, None)


def test_a_transfer_is_shown_with_its_retries_whichever_of_them_is_shared(service: Service) -> None:
    of = with_failures(service, 1, "Run 42")
    again = control.retry(service, of, actor="bea").id
    with http_of(service) as client:
        tokens_ = [shared(client, transfer=one)["token"] for one in (of, again)]

        def page(token: str) -> dict[str, Any]:
            with holder(client, token) as guest:
                return guest.get("/api/v1/delivery").json()["deliveries"][0]

        waiting = page(tokens_[0])
        with service.database.write() as connection:
            assert transfers.begin_plan(connection, again, AT, "worker", "worker-1") is not None
        add_ended_batch(service, again, ["d"])
        add_ended_batch(service, again, ["e"], error_operation="GetObject", **DENIED)
        finish(service, again)
        ended = [page(token) for token in tokens_]
        third = control.retry(service, of, actor="bea").id
        with service.database.write() as connection:
            assert transfers.begin_plan(connection, third, AT, "worker", "worker-1") is not None
        add_ended_batch(service, third, ["e"])
        finish(service, third)
        whole = page(tokens_[0])

    assert (waiting["state"], waiting["retrying"], waiting["retries"], waiting["arrived"]) == ("waiting", True, 1, 3)
    assert waiting["waits_for"] == {"kind": "turn", "name": None, "ahead": 0}
    assert [(one["state"], one["objects"], one["arrived"], one["missing"]) for one in ended] == [
        ("incomplete", 5, 4, 1)
    ] * 2
    assert ended[0]["key"] != ended[1]["key"]
    assert (whole["state"], whole["arrived"], whole["verified"], whole["missing"]) == ("complete", 5, 5, 0)
    assert (whole["share"], whole["retries"], len(whole["receipts"])) == (1.0, 2, 3)


@pytest.mark.every_database
def test_a_label_shows_its_transfers_and_no_other(service: Service) -> None:
    with_failures(service, 1, "Run 1", project="X")
    named(service, 2, "Run 2", project="X")
    secret = with_failures(service, 3, "Secret 3", project="Y")
    named(service, 4, "Secret 4")
    blocked = service.submit_or_resume(
        spec_number(3), actor="ada", new=True, description=Description("Run 3b", {"project": "X"})
    ).id
    other = named(service, 5, "Secret 5")
    waits = service.submit_or_resume(
        spec_number(5), actor="eve", new=True, description=Description("Run 5b", {"project": "X"})
    ).id
    with http_of(service) as client:
        made = shared(client, label="project=X")
        with holder(client, made["token"]) as guest:
            page = guest.get("/api/v1/delivery").json()

    assert (page["title"], page["label"]) == ("Project X", "project=X")
    assert {one["name"] for one in page["deliveries"]} == {"Run 1", "Run 2", "Run 3b", "Run 5b"}
    [waiting] = [one["waits_for"] for one in page["deliveries"] if one["name"] == "Run 5b"]
    assert waiting == {"kind": "delivery", "name": None, "ahead": None}  # for a secret one
    text = json.dumps(page)
    assert not [one for one in ("Secret", "eve@", secret, blocked, other, waits, *SECRETS) if one in text]


def test_a_label_is_not_owned_as_the_documentation_says(service: Service) -> None:
    with_failures(service, 1, "Run 42", project="X")
    other = named(service, 2, "Other", actor="http lab from 10.0.0.1", project="Y")
    lab = bearer(tokens.add(service, "lab", "submit"))
    with http_of(service) as client:
        made = shared(client, label="project=X")
        changed = client.patch(f"/api/v1/transfers/{other}", json={"labels": {"project": "X"}}, headers=lab)
        assert changed.status_code == 200, changed.text
        with holder(client, made["token"]) as guest:
            page = guest.get("/api/v1/delivery").json()

    assert {one["name"] for one in page["deliveries"]} == {"Run 42", "Other"}
    assert [one["started_by"] for one in page["deliveries"] if one["name"] == "Other"] == ["lab"]
    text = " ".join((ROOT / "docs/operate/security.md").read_text().split())
    assert "**A label is not owned.** Every token with the role `submit`" in text
    assert f"Only the {deliveries.MOST_DELIVERIES} newest transfers of a label are shown" in text


def test_expired_revoked_forged_and_missing_links_have_one_plain_answer(service: Service) -> None:
    of = with_failures(service, 1, "Run 42")
    with http_of(service) as client:
        good, revoked, expired = (shared(client, transfer=of) for _ in range(3))
        assert client.delete(f"/api/v1/share-links/{revoked['id']}").status_code == 204
        assert client.delete(f"/api/v1/share-links/{revoked['id']}").status_code == 204
        with service.database.write() as connection:
            past = sa.update(share_link).where(share_link.c.id == expired["id"])
            connection.execute(past.values(expires_at=time.time() - 1))
        token = good["token"]
        forged = [
            None,
            "x",
            revoked["token"],
            expired["token"],
            token[:-1],
            f"{token}x",
            token[:12] + revoked["token"][12:],
            "0" * 12 + token[12:],
            token.upper(),
            client.headers["Authorization"].partition(" ")[2],  # of the owner: no link
            f"{token}' or '1'='1",
            "x" * 4000,
        ]
        answers = set[tuple[int, str]]()
        for one in forged:
            with holder(client, one) as guest:
                for method, path in (
                    ("GET", "/api/v1/delivery"),
                    ("GET", "/api/v1/delivery/events"),
                    ("POST", "/api/v1/delivery/report-ticket?key=0123456789abcdef"),
                ):
                    answer = guest.request(method, path)
                    answers.add((answer.status_code, answer.json()["detail"]))
        with holder(client, token) as guest:
            assert guest.get("/api/v1/delivery").status_code == 200
            twice = [("Authorization", f"Bearer {token}"), ("Authorization", f"Bearer {token}")]
            assert httpx.get(f"{client.base_url}/api/v1/delivery", headers=twice, trust_env=False).status_code == 404

    assert answers == {(404, "This link is not valid, or not any more. Ask for a new one where you got it.")}


def test_the_token_of_a_link_opens_nothing_else(service: Service) -> None:
    of = with_failures(service, 1, "Run 42")
    with http_of(service) as client:
        made = shared(client, transfer=of)
        with holder(client, made["token"]) as guest:
            for path in ("/api/v1/transfers", f"/api/v1/transfers/{of}", f"/api/v1/transfers/{of}/report", "/metrics"):
                assert guest.get(path).status_code == 401, path
            for path in ("/api/v1/transfers", "/api/v1/share-links", f"/api/v1/transfers/{of}/report-ticket"):
                assert guest.post(path).status_code == 401, path
            assert guest.delete(f"/api/v1/share-links/{made['id']}").status_code == 401
            assert guest.post("/api/v1/delivery").status_code == 405
            assert guest.post("/api/v1/delivery/report-ticket", json={}).status_code == 401  # no body is read


def test_a_receipt_is_downloaded_once_and_only_of_what_the_link_shows(service: Service) -> None:
    of, other = with_failures(service, 1, "Run 42"), with_failures(service, 2, "Secret")
    with http_of(service) as client:
        made, foreign = shared(client, transfer=of), shared(client, transfer=other)
        with holder(client, foreign["token"]) as guest:
            their_key = guest.get("/api/v1/delivery").json()["deliveries"][0]["receipts"][0]["key"]
        with holder(client, made["token"]) as guest:
            key = guest.get("/api/v1/delivery").json()["deliveries"][0]["receipts"][0]["key"]
            ticket = guest.post("/api/v1/delivery/report-ticket", params={"key": key, "format": "json"}).json()
            refused = guest.post("/api/v1/delivery/report-ticket", params={"key": their_key})
        first = httpx.get(f"{client.base_url}/{ticket['path']}", trust_env=False)
        again = httpx.get(f"{client.base_url}/{ticket['path']}", trust_env=False)
        guessed = httpx.get(f"{client.base_url}/api/v1/tickets/{'x' * 32}", trust_env=False)

    assert first.status_code == 200
    assert first.json()["facts"]["id"] == of
    assert other not in first.text
    assert (refused.status_code, again.status_code, guessed.status_code) == (404, 404, 404)


def test_the_holder_of_a_link_takes_no_downloads_from_others(service: Service) -> None:
    of = with_failures(service, 1, "Run 42")
    with http_of(service) as client:
        mine, theirs = shared(client, transfer=of), shared(client, transfer=of)

        def tickets(link: dict[str, Any], times: int) -> list[int]:
            with holder(client, link["token"]) as guest:
                key = guest.get("/api/v1/delivery").json()["deliveries"][0]["receipts"][0]["key"]
                path = "/api/v1/delivery/report-ticket"
                return [guest.post(path, params={"key": key}).status_code for _ in range(times)]

        assert tickets(mine, MAX_PER_LINK + 1) == [201] * MAX_PER_LINK + [503]
        assert tickets(theirs, 1) == [201]
        assert client.post(f"/api/v1/transfers/{of}/report-ticket").status_code == 201


def test_a_reader_gets_a_ticket_for_a_report(service: Service) -> None:
    of = with_failures(service, 1, "Run 42")
    reader = tokens.add(service, "lab", "read")
    with http_of(service) as client, holder(client, reader) as guest:
        made = guest.post(f"/api/v1/transfers/{of}/report-ticket", params={"format": "csv"})
        assert made.status_code == 201
        report = httpx.get(f"{client.base_url}/{made.json()['path']}", trust_env=False)
        direct = guest.get(f"/api/v1/transfers/{of}/report", params={"format": "csv"})
        unknown = guest.post(f"/api/v1/transfers/{'0' * 8}/report-ticket")

    assert (report.status_code, report.text) == (200, direct.text)
    assert report.headers["Cache-Control"] == "no-store"
    assert unknown.status_code == 404


def test_who_may_share_and_revoke(service: Service) -> None:
    lab, other = (tokens.add(service, name, "submit") for name in ("lab", "eve"))
    reader = tokens.add(service, "r", "read")
    own = named(service, 1, "Run 1", actor="http lab from 10.0.0.1")
    with http_of(service) as client:

        def ask(token: str, body: dict[str, Any]) -> httpx.Response:
            with holder(client, token) as guest:
                return guest.post("/api/v1/share-links", json=body)

        made = ask(lab, {"transfer": own})
        assert made.status_code == 201
        assert [ask(one, {"transfer": own}).status_code for one in (other, reader)] == [403, 403]
        assert ask(lab, {"label": "project=X"}).status_code == 403
        with holder(client, other) as guest:
            assert guest.delete(f"/api/v1/share-links/{made.json()['id']}").status_code == 403
        with holder(client, lab) as guest:
            assert guest.delete(f"/api/v1/share-links/{made.json()['id']}").status_code == 204
        [listed] = client.get("/api/v1/share-links", params={"transfer": own}).json()["links"]

    assert (listed["state"], listed["created_by"].split(" from ")[0]) == ("revoked", "http lab")
    assert listed["revoked_by"].startswith("http lab from ")
    assert "token" not in listed
    assert "url" not in listed


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"transfer": "0" * 8, "label": "project=X"}, 400),
        ({"transfer": "0b8c"}, 404),
        ({"transfer": "ffffffff-0000-4000-8000-000000000000"}, 404),
        ({"label": "Project=X"}, 400),
        ({"label": "project=a\nb"}, 400),
        ({"label": ""}, 400),
        ({"label": "project=X", "expires": "366d"}, 400),
        ({"label": "project=X", "expires": "0d"}, 422),
        ({"label": "project=X", "expires": "14 days"}, 422),
        ({"label": "project=X", "role": "admin"}, 422),
    ],
)
def test_what_cannot_be_shared_is_refused(service: Service, body: dict[str, Any], status: int) -> None:
    with http_of(service) as client:
        answer = client.post("/api/v1/share-links", json=body)
        left = client.get("/api/v1/share-links").json()["links"]

    assert (answer.status_code, left) == (status, [])


def test_no_link_is_made_where_no_address_of_the_page_is_known(service: Service) -> None:
    object.__setattr__(service, "settings", replace(service.settings, public_url=None))
    of = with_failures(service, 1, "Run 42")
    with http_of(service) as client:
        answer = client.post("/api/v1/share-links", json={"transfer": of})

    assert answer.status_code == 400
    assert "public_url" in answer.json()["detail"]
    assert share_links.list_links(service) == []


def test_a_stream_tells_of_changes_and_ends_with_the_link(service: Service) -> None:
    of = begin(service)
    with http_of(service) as client:
        made = shared(client, transfer=of)
        with holder(client, made["token"]) as guest, guest.stream("GET", "/api/v1/delivery/events") as stream:
            lines = stream.iter_lines()

            def following(event: str) -> dict[str, Any]:
                while next(lines) != f"event: {event}":
                    pass
                return json.loads(next(lines).removeprefix("data: "))

            first = following("delivery")
            add_ended_batch(service, of, ["a", "b"])
            second = following("delivery")
            share_links.revoke(service, made["id"], actor="ada")
            gone = following("gone")
            rest = [line for line in lines if line]

    assert first["deliveries"][0]["arrived"] == 0
    assert second["deliveries"][0]["arrived"] == 2
    assert (gone, rest) == ({}, [])


def test_links_are_on_record_and_changes_to_them_are_found(service: Service) -> None:
    of = with_failures(service, 1, "Run 42")
    link, token = share_links.create(service, actor="ada", transfer_id=of)
    label, _ = share_links.create(service, actor="ada", label="project=X")
    share_links.revoke(service, label.id, actor="bea")
    assert list(service.audit().findings) == []
    assert [one.kind for one in service.events(of)][-1] == "shared"
    assert token not in json.dumps([one.data for one in service.events(of)])
    with service.database.read() as connection:
        stored = [str(row) for table in (share_link, share_link_event) for row in connection.execute(sa.select(table))]
    assert not [row for row in stored if token[12:] in row]

    def findings(change: sa.Update | sa.Delete | sa.Insert) -> list[str]:
        with service.database.engine.connect() as connection, connection.begin() as transaction:
            connection.execute(change)
            found = [one.kind for one in _faults(connection)]
            transaction.rollback()
        return found

    def _faults(connection: sa.Connection) -> Any:
        from seqferry.db import share_link_rows

        return share_link_rows.find_faults(connection)[0]

    longer = sa.update(share_link).where(share_link.c.id == link.id).values(expires_at=link.expires_at + 1)
    revived = sa.update(share_link).where(share_link.c.id == label.id).values(revoked_at=None, revoked_by=None)
    added = sa.insert(share_link).values(id="0" * 12, digest="0", created_at=1, created_by="eve", expires_at=2e9)
    event = sa.update(share_link_event).where(share_link_event.c.number == 2).values(actor="eve")
    assert findings(longer) == ["share_link_changed"]
    assert findings(revived) == ["share_link_changed"]
    assert findings(sa.delete(share_link).where(share_link.c.id == link.id)) == ["share_link_removed"]
    assert findings(added) == ["share_link_added"]
    assert findings(event) == ["share_link_changed"]
    assert findings(sa.update(share_link).values(label="project=Y")) == ["share_link_changed"] * 2


@pytest.mark.every_database
def test_links_of_one_transfer_and_in_all_are_bounded_revoked_ones_too(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = named(service, 1, "Run 1"), named(service, 2, "Run 2")
    monkeypatch.setattr(share_links, "MAX_PER_SUBJECT", 2)
    monkeypatch.setattr(share_links, "MAX_LINKS", 4)
    with http_of(service) as client:

        def make(**body: str) -> tuple[int, str]:
            made = client.post("/api/v1/share-links", json=body)
            if made.status_code == 201:
                client.delete(f"/api/v1/share-links/{made.json()['id']}")
            return made.status_code, made.json().get("detail", "")

        assert [make(transfer=one, expires="1m")[0] for _ in range(2)] == [201, 201]
        code, detail = make(transfer=one)
        assert (code, f"2 share links of transfer {one}" in detail) == (409, True), detail
        assert [make(label="project=X")[0] for _ in range(3)] == [201, 201, 409]
        code, detail = make(transfer=other)
        assert (code, "4 share links are valid or were made" in detail) == (409, True), detail
    with service.database.write() as connection:
        connection.execute(sa.update(share_link).values(created_at=share_link.c.created_at - 86400))
    assert share_links.create(service, actor="ada", transfer_id=one)  # revoked ones of yesterday take no room


def test_a_check_of_links_reads_some_at_a_time_and_finds_all(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    from seqferry.db import share_link_rows

    monkeypatch.setattr(share_link_rows, "_LINKS_PER_CHECK", 2)
    made = sorted(share_links.create(service, actor="ada", label=f"run={number}")[0].id for number in range(7))
    with service.database.write() as connection:
        connection.execute(sa.update(share_link).where(share_link.c.id == made[0]).values(label="run=x"))
        connection.execute(sa.delete(share_link).where(share_link.c.id.in_(made[3:5])))
        connection.execute(sa.delete(share_link_event).where(share_link_event.c.share_link_id == made[6]))
        found: list[tuple[str, str]] = []
        after: str | None = ""
        while after is not None:
            page, after = share_link_rows.find_faults(connection, after)
            assert len(page) <= 2
            found += [(one.link_id, one.kind) for one in page]

    assert found == [
        (made[0], "share_link_changed"),
        (made[3], "share_link_removed"),
        (made[4], "share_link_removed"),
        (made[6], "share_link_added"),
    ]


def test_a_stream_sends_a_page_that_stays_the_same_once(service: Service) -> None:
    of = with_failures(service, 1, "Run 42")
    with http_of(service) as client:
        made = shared(client, transfer=of)
        with holder(client, made["token"]) as guest, guest.stream("GET", "/api/v1/delivery/events") as stream:
            lines = stream.iter_lines()
            while not next(lines).startswith("data: "):
                pass
            share_links.revoke(service, made["id"], actor="ada")
            events = [line for line in lines if line.startswith("event: ")]

    assert events == ["event: gone"]
