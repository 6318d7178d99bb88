"""Notices to a real mail server and a receiver of webhooks: what arrives, how often, and what is never shown."""

from __future__ import annotations

import email
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from control import spec_number
from ferry import Ferry
from standardwebhooks.webhooks import Webhook

from seqferry.db import worker_rows
from seqferry.db.notice_rows import Subject
from seqferry.db.tables import notice
from seqferry.model.workers import WAITING, Activity, Process
from seqferry.proof import auditing
from seqferry.service import control, notices
from seqferry.service.service import Service
from seqferry.settings.channels import Channel, Notices, parse
from seqferry.settings.config import Settings
from seqferry.settings.tables import TableError
from seqferry.workflows import liveness
from seqferry.workflows.notifier import Notifier
from seqferry.workflows.worker import Worker
from support.mail_server import Mails, mail_server
from support.proxy import Proxy, access_denied
from support.servers import S3Server
from support.waiting import eventually

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="


class Receiver:
    """Takes webhooks, and answers with each of ``answers`` before it answers 204."""

    def __init__(self, answers: list[int]) -> None:
        self.answers = answers
        self.taken: list[tuple[dict[str, str], bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.taken.append(({key.lower(): value for key, value in self.headers.items()}, body))
                self.send_response(receiver.answers.pop(0) if receiver.answers else 204)
                self.send_header("location", "/elsewhere")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook/s3cr3t-path?key=hunter22"

    @contextmanager
    def running(self) -> Iterator[Receiver]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def channel(self, **changes: Any) -> Channel:
        return parse({"lims": {"webhook": self.url, "secret": SECRET, **changes}}).channels[0]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver([]).running() as running:
        yield running


@pytest.fixture
def mails() -> Iterator[tuple[Mails, Channel]]:
    """A mail server, and the channel to it."""
    with mail_server() as running:
        yield running


def states(service: Service) -> dict[str, tuple[str, int]]:
    with service.database.read() as connection:
        return {row.channel: (row.state, row.attempts) for row in connection.execute(sa.select(notice))}


def ends_sent(service: Service, kind: str = "finished") -> set[str]:
    """The channels that took the notices of the end of a transfer, or of this kind, at the first try."""
    with service.database.read() as connection:
        sent = sa.select(notice.c.channel).where(
            notice.c.kind == kind, notice.c.state == "sent", notice.c.attempts == 1
        )
        return set(connection.scalars(sent))


def make_due(service: Service) -> None:
    with service.database.write() as connection:
        connection.execute(notice.update().values(next_at=0.0))


def test_the_end_of_a_transfer_is_told_by_mail_and_by_a_signed_webhook(
    settings: Settings,
    s3server: S3Server,
    proxy: Proxy,
    make_bucket: Callable[..., str],
    rng: random.Random,
    receiver: Receiver,
    mails: tuple[Mails, Channel],
) -> None:
    mail, channel = mails
    object.__setattr__(settings, "notices", Notices((channel, receiver.channel())))
    with Service.open(settings) as service, Worker.start(settings, service) as worker:
        ferry = Ferry(
            service, s3server, proxy.server, make_bucket(s3server), make_bucket(s3server), rng, lambda _: worker
        )
        ferry.fill({"run/a": 1, "run/b\n250 forged": 1} if s3server.kind == "seaweedfs" else {"run/a": 1, "run/b": 1})
        proxy.rule("CopyObject", access_denied(), key="in/b*")
        transfer_id, status = ferry.carry()
        assert status.totals.failed == 1
        # A failure that needs a person may be told first: the end is waited for by its name.
        eventually(lambda: ends_sent(service) == {"lims", "mail"}, what="the notices of the end")
        digest, head = service.status(transfer_id).receipt_digest, auditing.head(service.database)

    # Where the worker looks at it before its end, the denied object needs a person, and that is told as well.
    [sent] = [
        one for one in (Webhook(SECRET).verify(body, headers) for headers, body in receiver.taken)
        if one["type"] == "transfer.finished"
    ]  # fmt: skip
    data = sent["data"]
    assert (data["id"], data["objects_failed"], data["receipt_digest"]) == (transfer_id, 1, digest)
    assert (data["causes"][0]["error_code"], data["causes"][0]["count"]) == ("AccessDenied", 1)
    assert data["next"] == f"seqferry retry {transfer_id}"
    assert data["subject"] == {"kind": "transfer", "id": transfer_id}
    assert (data["ledger_head"], data["ledger_count"]) == (str(head), head.count)
    [message] = [
        one for one in mail.taken
        if "1 of 2 objects failed" in str(email.header.make_header(email.header.decode_header(one["subject"])))
    ]  # fmt: skip
    text = message.as_string() if not message.is_multipart() else str(message)
    assert message["to"] is not None
    parts = [one.get_payload(decode=True) for one in message.walk() if one.get_content_type() == "text/plain"]
    assert str(head).encode() in b"".join(one for one in parts if isinstance(one, bytes)).replace(b"=\r\n", b"")
    assert "forged" not in {line.strip() for line in text.splitlines()}


def test_a_notice_that_is_refused_is_sent_again_with_the_same_id_and_fails_no_transfer(
    service: Service, receiver: Receiver
) -> None:
    receiver.answers = [500, 302]
    transfer_id = service.submit(spec_number(1), actor="ada")
    wanted = Notices((receiver.channel(),))
    notifier = Notifier(service, wanted)
    notifier._record(Subject("transfer", transfer_id), "finished", 0)
    notifier._record(Subject("transfer", transfer_id), "finished", 0)

    notifier.deliver()
    assert states(service) == {"lims": ("pending", 1)}
    notifier.deliver()
    assert len(receiver.taken) == 1, "it was not due yet"
    make_due(service)
    Notifier(service, wanted).deliver()  # as another process
    make_due(service)
    notifier.deliver()
    make_due(service)
    notifier.deliver()

    assert states(service) == {"lims": ("sent", 3)}
    assert len(receiver.taken) == 3, "a redirect was followed, or the notice was sent again"
    assert len({headers["webhook-id"] for headers, _ in receiver.taken}) == 1
    for headers, body in receiver.taken:
        Webhook(SECRET).verify(body, headers)
    assert service.status(transfer_id).state == "queued"


def test_a_receiver_that_is_gone_for_good_is_given_up(service: Service, receiver: Receiver) -> None:
    receiver.answers = [410]
    notifier = Notifier(service, Notices((receiver.channel(),)))
    notifier._record(Subject("transfer", service.submit(spec_number(1), actor="ada")), "finished", 0)

    notifier.deliver()

    assert states(service) == {"lims": ("given_up", 1)}


@pytest.mark.every_database
def test_a_worker_that_has_vanished_with_work_is_told_of_once(
    settings: Settings, receiver: Receiver, mails: tuple[Mails, Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness, "DEAD_AFTER_SECONDS", 5.0)
    mail, channel = mails
    object.__setattr__(settings, "notices", Notices((channel, receiver.channel())))
    busy = Activity(lanes=(None,), limits=None, resident=None, transfers=2, in_flight=7)
    with Service.open(settings) as service:
        with service.database.write() as connection:
            for name, own_work, activity in (
                ("lab1-7-dead", False, busy),
                ("lab1-8-idle", False, replace(busy, transfers=0)),
                ("lab1-9-command", True, busy),
            ):
                process = Process(name, "worker", "lab1\nforged", 7, "0.1", "0016", "1")
                worker_rows.beat(connection, process)
                worker_rows.describe(connection, name, replace(activity, facts={"own_work": own_work}))
        with Worker.start(settings, service):
            eventually(lambda: ends_sent(service, "vanished") == {"mail", "lims"}, what="the notices")
            alive = eventually(
                lambda: {one.process.id for one in service.workers() if one.alive}, what="the worker of the test"
            )
        with Worker.start(settings, service):  # finds nothing new
            pass
        assert states(service) == {"mail": ("sent", 1), "lims": ("sent", 1)}
    assert not [name for name in alive if name.endswith(("dead", "idle", "command"))]

    [(headers, body)] = receiver.taken
    assert headers["webhook-id"] == "worker.lab1-7-dead.vanished.1.lims"
    payload = json.loads(body)
    assert payload["type"] == "worker.vanished"
    data = payload["data"]
    assert data["subject"] == {"kind": "worker", "id": "lab1-7-dead"}
    assert (data["kind"], data["pid"], data["transfers"], data["next"]) == ("worker", 7, 2, "seqferry workers")
    [message] = mail.taken
    assert "lab1-7-dead" in str(
        message.get_payload()[0].get_payload(decode=True) if message.is_multipart() else message
    )


@pytest.mark.every_database
def test_a_transfer_without_progress_has_stalled_once_and_a_paused_one_has_not(
    service: Service, receiver: Receiver
) -> None:
    ids = [service.submit(spec_number(number), actor="ada") for number in range(2)]
    control.pause(service, ids[1], actor="ada")
    notifier = Notifier(service, Notices((receiver.channel(),), stalled_after=0.0))

    for _ in range(3):
        notifier.record_problems()
        notifier.deliver()

    assert [json.loads(body)["data"]["id"] for _, body in receiver.taken] == [ids[0]]
    assert json.loads(receiver.taken[0][1])["type"] == "transfer.stalled"


@pytest.mark.every_database
def test_a_share_whose_files_wait_for_long_is_told_of_once_a_day(service: Service, receiver: Receiver) -> None:
    waits = {"dirty_files": 3, "dirty_bytes": 5000, "failing_files": 1, "conflicts": 0, "window_is_open": True}
    shares = {
        "runs": {**waits, "oldest_dirty_seconds": 7200.0},
        "short": {**waits, "oldest_dirty_seconds": 3599.0},
        "night": {**waits, "oldest_dirty_seconds": 7200.0, "window_is_open": False},
    }
    process = Process("lab1-7-gateway", "gateway", "lab1", 7, "0.1", "0027", "1")
    facts = {"shares": list(shares), WAITING: shares}
    with service.database.write() as connection:
        worker_rows.beat(connection, process, facts)
    notifier = Notifier(service, Notices((receiver.channel(),), files_wait_after=3600.0))
    now = 1000.0
    notifier.record_waiting_shares(now)
    notifier.deliver()
    assert receiver.taken == [], "nobody knows yet for how long its window has been open"

    for _ in range(3):
        now += 3600.0
        notifier.record_waiting_shares(now)
        notifier.deliver()

    [(headers, body)] = receiver.taken
    assert headers["webhook-id"].startswith("share.lab1-7-gateway/runs.stalled.")
    payload = json.loads(body)
    data = payload["data"]
    assert payload["type"] == "share.stalled"
    assert data["title"] == "Seqferry: a file of the share runs on lab1 has waited for 2 h 00 min"
    assert (data["files"], data["bytes"], data["failing"], data["oldest_seconds"]) == (3, 5000, 1, 7200.0)
    assert data["subject"] == {"kind": "share", "id": "lab1-7-gateway/runs"}


def test_no_secret_of_a_channel_is_shown(receiver: Receiver) -> None:
    hook = receiver.channel()
    slack = Channel("slack", "slack://TokenAAAA1/TokenBBBB2/TokenCCCC3cccccccccccccccc/#lab")
    mail = Channel("mail", "mailtos://ada:hunter22@127.0.0.1:9/?to=bob@example.org")
    for channel in (hook, slack, mail):
        for secret in ("hunter22", "s3cr3t", "Token", SECRET):
            assert secret not in channel.shown + repr(channel)
        assert (
            "hunter22" not in notices.scrub(channel, f"cannot connect to {channel.url} as hunter22") or channel is slack
        )
        assert "TokenBBBB2" not in notices.scrub(slack, f"no such place: {slack.url}, TokenBBBB2")
    delivery = notices.send(mail, notices.test_notice("1"))
    assert delivery.error is not None
    assert "hunter22" not in delivery.error


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ([], "notices"),
        ({"stalled_after": "soon"}, "stalled_after"),
        ({"a": 1}, "a"),
        ({"a b": {"url": "json://x"}}, "a b"),
        ({"a": {}}, "a"),
        ({"a": {"url": "json://x", "webhook": "https://x", "secret": SECRET}}, "a"),
        ({"a": {"url": "x"}}, "url"),
        ({"a": {"url": "json://hunter22", "secret": "x"}}, "secret"),
        ({"a": {"webhook": "ftp://hunter22", "secret": SECRET}}, "webhook"),
        ({"a": {"webhook": "https://x", "secret": "hunter22"}}, "secret"),
        ({"a": {"webhook": "https://x"}}, "secret"),
        ({"a": {"url": "json://x", "events": ["often"]}}, "events"),
        ({"a": {"url": "json://x", "color": "red"}}, "color"),
    ],
)
def test_what_is_wrong_in_the_table_is_said_without_its_values(table: object, key: str) -> None:
    with pytest.raises(TableError) as raised:
        parse(table)

    assert raised.value.key == key
    assert "hunter22" not in str(raised.value)


def test_the_configuration_file_names_channels(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        f'[notices]\nstalled_after = "90s"\n\n[notices.lims]\nwebhook = "https://x.org/h"\nsecret = "{SECRET}"\n'
    )
    found = Settings.load({"SEQFERRY_CONFIG": str(file)}).notices
    assert (found.stalled_after, [one.name for one in found.channels]) == (90.0, ["lims"])
    file.write_text('[notices.lims]\nwebhook = "https://x.org/h"\nsecret = "hunter22"\n')

    with pytest.raises(Exception, match="line 3") as raised:
        Settings.load({"SEQFERRY_CONFIG": str(file)})
    assert "hunter22" not in str(raised.value)


def test_config_check_names_channels_that_cannot_work_without_their_secrets(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[notices.lab]\nurl = "nosuchservice://hunter22"\n[notices.good]\nurl = "json://localhost"\n')
    file.chmod(0o644)
    words = [sys.executable, "-m", "seqferry", "config", "check", "--state-dir", str(tmp_path / "state")]
    environment = os.environ | {"SEQFERRY_CONFIG": str(file)}

    def checked() -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60, env=environment)

    ran = checked()
    assert ran.returncode == 1
    assert "[notices.lab]" in ran.stderr
    assert f"chmod 600 {file}" in ran.stderr
    assert "hunter22" not in ran.stderr + ran.stdout
    assert "notices.good" not in ran.stderr
    file.chmod(0o600)
    file.write_text('[notices.good]\nurl = "json://localhost"\n')
    assert checked().returncode == 0
