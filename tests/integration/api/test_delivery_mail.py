"""Mails that holders of share links ask for: to a real mail server, once, and no address anywhere else."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from control import spec_number
from ended import AT, add_ended_batch, finish
from http_client import bearer, http_of

from seqferry.api import link_rate
from seqferry.db import transfers
from seqferry.db.tables import delivery_mail, notice, share_link
from seqferry.model.labels import Description
from seqferry.service import delivery_mails, share_links
from seqferry.service.service import Service
from seqferry.settings.channels import Channel, Notices
from seqferry.workflows.notifier import Notifier
from support.mail_server import Mails, mail_server

BOB = "bob.holder@example.net"
DENIED = {"state": "failed", "verified": None, "error_class": "person", "error_code": "AccessDenied"}


@pytest.fixture
def mails() -> Iterator[tuple[Mails, Channel]]:
    """A mail server, and a channel that has receivers of its own."""
    with mail_server("&cc=eve@example.org&bcc=kim@example.org") as running:
        yield running


class Shared:
    """A transfer of this service that runs, and its link."""

    def __init__(self, service: Service, channel: Channel | None, number: int = 1) -> None:
        channels = () if channel is None else (channel,)
        object.__setattr__(service, "settings", replace(service.settings, notices=Notices(channels)))
        self.service = service
        name = Description("Run 42", {"project": "X"})
        self.id = service.submit_or_resume(spec_number(number), actor="ada", queued=False, description=name).id
        with service.database.write() as connection:
            assert transfers.begin_plan(connection, self.id, AT, "worker", "worker-1") is not None
        self.link, self.token = share_links.create(service, actor="ada", transfer_id=self.id)

    def notifier(self) -> Notifier:
        return Notifier(self.service, self.service.settings.notices)

    def page(self, client: httpx.Client) -> dict[str, Any]:
        return client.get("/api/v1/delivery", headers=bearer(self.token)).json()

    def ask(self, client: httpx.Client, address: str = BOB, token: str | None = None) -> httpx.Response:
        headers = bearer(token or self.token)
        [one] = client.get("/api/v1/delivery", headers=headers).json()["deliveries"]
        return client.post("/api/v1/delivery/mail", json={"key": one["key"], "address": address}, headers=headers)

    def rows(self) -> int:
        with self.service.database.read() as connection:
            return connection.execute(sa.select(sa.func.count()).select_from(delivery_mail)).scalar_one()

    def states(self) -> list[tuple[str, int]]:
        with self.service.database.read() as connection:
            query = sa.select(notice.c.state, notice.c.attempts).where(notice.c.subject_kind == "mail")
            return [(row.state, row.attempts) for row in connection.execute(query)]


def logged(caplog: pytest.LogCaptureFixture) -> str:
    """All lines of the log, but those of the mail server."""
    return "\n".join(one.getMessage() for one in caplog.records if one.name != "mail.log")


def _done(one: Shared) -> None:
    add_ended_batch(one.service, one.id, ["a", "b"])
    finish(one.service, one.id)


def _with_failures(one: Shared) -> None:
    add_ended_batch(one.service, one.id, ["a"])
    add_ended_batch(one.service, one.id, ["b"], error_operation="GetObject", **DENIED)
    finish(one.service, one.id)


def _failed(one: Shared) -> None:
    with one.service.database.write() as connection:
        transfers.request_stop(connection, one.id, AT, "worker", "NoSuchBucket", "s3://vendor is not there")
    finish(one.service, one.id)


def _cancelled(one: Shared) -> None:
    one.service.cancel(one.id, actor="ada")
    with one.service.database.write() as connection:
        transfers.finish(connection, one.id, AT + 4, "worker")


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (_done, ("Run 42: complete", "Complete. 2 files, all verified.")),
        (
            _with_failures,
            ("Run 42: not complete", "1 of 2 files have arrived; 1 file is missing.", "missing: "),
        ),
        (_failed, ("Run 42: not complete", "The delivery has stopped: ")),
        (_cancelled, ("Run 42: not complete", "The delivery was cancelled. ")),
    ],
)
def test_each_end_is_mailed_once_to_who_asked_and_to_no_one_else(
    service: Service,
    mails: tuple[Mails, Channel],
    end: Callable[[Shared], None],
    said: tuple[str, ...],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    mail, channel = mails
    one = Shared(service, channel)
    other = share_links.create(service, actor="ada", transfer_id=one.id)[1]
    with http_of(service) as client:
        assert one.page(client)["mail"] is True
        answers = [
            one.ask(client),
            one.ask(client, BOB.upper()),
            one.ask(client, token=other),
            one.ask(client, "cy@example.net"),
        ]
        assert [(each.status_code, each.content) for each in answers] == [(204, b"")] * 4
        one.notifier().deliver()
        assert mail.taken == [], "it has not ended"
        end(one)
        for _ in range(2):
            one.notifier().deliver()
        shown = json.dumps([one.page(client), client.get("/api/v1/notices").json()])
        shown += client.get(f"/api/v1/transfers/{one.id}/report").text

    assert sorted(mail.receivers) == [[BOB], ["cy@example.net"]]
    text = mail.text()
    assert [part for part in said if part not in text] == []
    assert [secret for secret in (one.id, "s3://", "vendor", "ours", "127.0.0.1", other) if secret in text] == []
    assert one.rows() == 0, "the addresses are forgotten"
    assert one.states() == [("sent", 1)] * 2
    assert [where for where in (shown, logged(caplog)) if "example.net" in where.lower()] == []


def test_a_mail_that_is_refused_is_tried_again_and_its_error_names_no_address(
    service: Service, mails: tuple[Mails, Channel], caplog: pytest.LogCaptureFixture
) -> None:
    mail, channel = mails
    mail.refusals = 1
    one = Shared(service, channel)
    with http_of(service) as client:
        assert one.ask(client).status_code == 204
        _done(one)
        one.notifier().deliver()
        [found] = client.get("/api/v1/notices").json()["notices"]
        assert (found["subject_kind"], found["state"], one.rows()) == ("mail", "pending", 1)
        assert found["error"]
        assert not [part for part in ("bob.holder", "example.net") if part in json.dumps(found) + logged(caplog)]
        with service.database.write() as connection:
            connection.execute(notice.update().values(next_at=0.0))
        one.notifier().deliver()

    assert (mail.receivers, one.states(), one.rows()) == ([[BOB]], [("sent", 2)], 0)


NO_ADDRESSES = [
    "", "bob", "bob@", "@example.net", "bob@localhost", "bob@example.net, eve@example.net", "Bob <bob@example.net>",
    "bob@example.net\nBcc: eve@example.net", "bob@example.net\r\n", "bob@example.net?cc=eve@example.net",
    "bob@-example.net", "bob@exa mple.net", "bö@example.net", "b" * 65 + "@example.net",
    "bob@" + "a." * 150 + "net", "bob@example.net;eve@example.net", None, ["bob@example.net"],
]  # fmt: skip


def test_what_is_no_address_is_refused(service: Service, mails: tuple[Mails, Channel]) -> None:
    one = Shared(service, mails[1])
    with http_of(service) as client:
        for address in NO_ADDRESSES:
            assert one.ask(client, address).status_code == 422, address
    assert one.rows() == 0


def test_a_body_without_a_token_is_short_and_taken_there_alone(service: Service, mails: tuple[Mails, Channel]) -> None:
    one = Shared(service, mails[1])
    with http_of(service) as client:
        assert one.ask(client, "b" * 2000).status_code == 413
        for method, path in (("POST", "/report-ticket"), ("PUT", "/mail"), ("GET", "")):
            answer = client.request(method, f"/api/v1/delivery{path}", json={"a": 1}, headers=bearer(one.token))
            assert answer.status_code == 401, (method, path)


def test_addresses_are_bounded_and_the_answer_does_not_tell_which_are_there(
    service: Service, mails: tuple[Mails, Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Shared(service, mails[1])
    monkeypatch.setattr(delivery_mails, "MAX_PER_TRANSFER", 25)
    with http_of(service) as client:
        for number in range(delivery_mails.MAX_PER_LINK):
            assert one.ask(client, f"b{number}@example.net").status_code == 204
        there, new = (one.ask(client, address) for address in ("b3@example.net", BOB))
        assert (there.status_code, there.json()) == (409, new.json())
        second = share_links.create(service, actor="ada", transfer_id=one.id)[1]
        answers = [one.ask(client, f"c{number}@example.net", second).status_code for number in range(6)]
    assert answers == [204] * 5 + [409]
    assert one.rows() == 25


def test_no_mail_is_sent_for_a_link_that_is_not_valid_any_more_or_a_transfer_that_is_pruned(
    service: Service, mails: tuple[Mails, Channel]
) -> None:
    mail, channel = mails
    revoked, late, expired, pruned = (Shared(service, channel, number) for number in range(4))
    with http_of(service) as client:
        for one in (revoked, late, expired, pruned):
            assert one.ask(client).status_code == 204
    share_links.revoke(service, revoked.link.id, actor="ada")
    assert revoked.rows() == 3
    with service.database.write() as connection:
        connection.execute(share_link.update().where(share_link.c.id == expired.link.id).values(expires_at=AT))
    for one in (revoked, late, expired, pruned):
        _done(one)
    assert pruned.rows() == 2
    share_links.revoke(service, late.link.id, actor="ada")
    assert len(list(service.prune(older_than=0.0, actor="ada"))) == 4
    pruned.notifier().deliver()

    assert (mail.taken, pruned.rows(), pruned.states()) == ([], 0, [])


def test_it_is_offered_only_with_a_channel_for_mail_and_before_the_end(
    service: Service, mails: tuple[Mails, Channel]
) -> None:
    one = Shared(service, Channel("lims", "https://lims.example.org/hook", b"x" * 24))
    with http_of(service) as client:
        assert one.page(client)["mail"] is False
        assert one.ask(client).status_code == 409
        forged = {"json": {"key": "0" * 16, "address": BOB}, "headers": bearer(one.token)}
        object.__setattr__(service, "settings", replace(service.settings, notices=Notices((mails[1],))))
        assert client.post("/api/v1/delivery/mail", **forged).status_code == 404
        assert client.post("/api/v1/delivery/mail", json=forged["json"], headers=bearer("x")).status_code == 404
        _done(one)
        assert one.ask(client).status_code == 409
    assert one.rows() == 0


@pytest.mark.every_database
def test_a_sender_killed_between_the_mail_and_its_record_sends_it_again_and_then_forgets_the_address(
    service: Service, mails: tuple[Mails, Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    mail, channel = mails
    one = Shared(service, channel)
    with http_of(service) as client:
        assert one.ask(client).status_code == 204
    _done(one)
    with monkeypatch.context() as killed:
        killed.setattr(Notifier, "_settle", _killed)
        with pytest.raises(KeyboardInterrupt):
            one.notifier().deliver()
    assert (mail.receivers, one.rows(), one.states()) == ([[BOB]], 1, [("pending", 1)])
    one.notifier().deliver()
    assert len(mail.receivers) == 1, "another sender waits for the one that has taken it"
    with service.database.write() as connection:
        connection.execute(notice.update().values(next_at=0.0))
    one.notifier().deliver()
    assert (mail.receivers, one.rows(), one.states()) == ([[BOB], [BOB]], 0, [("sent", 2)])


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_link_that_asks_too_often_is_told_when_to_ask_again(service: Service, mails: tuple[Mails, Channel]) -> None:
    one = Shared(service, mails[1])
    with http_of(service) as client:
        [shown] = one.page(client)["deliveries"]
        body, headers = {"key": shown["key"], "address": BOB}, bearer(one.token)
        answers = [
            client.post("/api/v1/delivery/mail", json=body, headers=headers) for _ in range(link_rate.MAX_REQUESTS + 1)
        ]
        other = share_links.create(service, actor="ada", transfer_id=one.id)[1]
        assert one.ask(client, token=other).status_code == 204
    assert [answer.status_code for answer in answers] == [204] * link_rate.MAX_REQUESTS + [429]
    assert answers[-1].json()["code"] == "too_many_requests"
    assert 0 < int(answers[-1].headers["retry-after"]) <= link_rate.WINDOW_SECONDS
    assert one.rows() == 2
