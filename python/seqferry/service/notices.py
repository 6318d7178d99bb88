"""Notices: what they say, and one try to send one. A try never raises, and never shows a secret.

Webhooks are signed as Standard Webhooks has it: the receiver checks ``webhook-signature``, the HMAC of id, time and
body, and takes an id that it knows for the same notice.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import logging
import re
import ssl
import time
from dataclasses import field
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from seqferry.db.notice_rows import Subject
from seqferry.model.errors import NotFoundError
from seqferry.model.formatting import count, duration, size
from seqferry.model.frozen import frozen
from seqferry.model.messages import steps
from seqferry.model.models import WITH_FAILURES, FailureGroup, Status
from seqferry.model.workers import WAITING
from seqferry.proof import auditing
from seqferry.service.service import Service
from seqferry.settings.channels import Channel, NoticeKind

TIMEOUT_SECONDS: Final = 15.0
_CAUSES: Final = 10
_KEYS: Final = 5
_SHORTEST_SECRET: Final = 4
_GONE: Final = 410


@frozen
class Notice:
    """A notice as it is sent. ``id`` is the same in each attempt."""

    id: str
    kind: str
    title: str
    body: str
    payload: dict[str, Any]
    address: str | None = field(default=None, repr=False)
    """Of a mail that goes to this one alone, in place of those of the channel."""


@frozen
class SendResult:
    """Result of one attempt to send a notice. ``final``: another attempt cannot succeed."""

    error: str | None = None
    final: bool = False


def build_notice(service: Service, subject: Subject, kind: NoticeKind, notice_id: str) -> Notice:
    """The notice about the state of its subject now.

    Raises:
        NotFoundError: the subject is not on record any more.
    """
    assert subject.kind != "mail", "those are made by delivery_mails"
    of = {"transfer": _of_transfer, "worker": _of_worker, "share": _of_share}[subject.kind]
    head = auditing.head(service.database)
    notice = of(service, subject.id, kind, notice_id, head)
    more = {"subject": subject._asdict(), "ledger_head": str(head), "ledger_count": head.count}
    notice.payload["data"] |= more
    return notice


def _of_worker(service: Service, worker_id: str, kind: NoticeKind, notice_id: str, head: auditing.Head) -> Notice:
    status = service.worker(worker_id)
    process, transfers = status.process, count(status.activity.transfers, "transfer")
    title = f"Seqferry: a worker has vanished from {process.host}, with {transfers}"
    command = "seqferry workers"
    lines = [
        f"worker    {process.name} ({process.kind}), version {process.version}",
        f"host      {process.host}, process {process.pid}",
        f"started   {_time(status.since)}",
        f"last sign {_time(status.seen_at)}, at {transfers}",
        f"ledger    {head}",
        "Its work goes on in other workers, or in the next one.",
        "",
        f"Next: {command}",
    ]
    data = {
        "id": process.id,
        "name": process.name,
        "title": title,
        "kind": process.kind,
        "host": process.host,
        "pid": process.pid,
        "version": process.version,
        "since": _time(status.since),
        "seen_at": _time(status.seen_at),
        "transfers": status.activity.transfers,
        "next": command,
    }
    payload = {"type": f"worker.{kind}", "timestamp": _time(time.time()), "data": data}
    return Notice(notice_id, kind, title, printable(lines), payload)


def _of_share(service: Service, share_id: str, kind: NoticeKind, notice_id: str, head: auditing.Head) -> Notice:
    worker_id, _, share = share_id.partition("/")
    status = service.worker(worker_id)
    process, waiting = status.process, status.activity.facts.get(WAITING, {})
    if share not in waiting:
        raise NotFoundError(f"The gateway {process.name} has no share {share} any more.")
    facts: dict[str, Any] = waiting[share]
    files, oldest = facts["dirty_files"], facts["oldest_dirty_seconds"] or 0.0
    title = f"Seqferry: a file of the share {share} on {process.host} has waited for {duration(oldest)}"
    command = "seqferry gateway status"
    lines = [
        f"share     {share}",
        f"gateway   {process.name}, on {process.host}, process {process.pid}",
        f"waiting   {count(files, 'file')}, {size(facts['dirty_bytes'])}",
        f"oldest    {duration(oldest)}",
        f"failing   {count(facts['failing_files'], 'file')}",
        f"ledger    {head}",
        "What was acknowledged is on the disk of that machine, and goes to S3 when it can.",
        "",
        f"Next, on that machine: {command}",
    ]
    data = {
        "id": share_id,
        "name": share,
        "title": title,
        "host": process.host,
        "pid": process.pid,
        "files": files,
        "bytes": facts["dirty_bytes"],
        "failing": facts["failing_files"],
        "oldest_seconds": oldest,
        "next": command,
    }
    payload = {"type": f"share.{kind}", "timestamp": _time(time.time()), "data": data}
    return Notice(notice_id, kind, title, printable(lines), payload)


def _of_transfer(service: Service, transfer_id: str, kind: NoticeKind, notice_id: str, head: auditing.Head) -> Notice:
    status = service.status(transfer_id)
    causes = service.failures(transfer_id, keys=_KEYS)[:_CAUSES] if status.totals.failed else []
    title, command = _title(status, kind), _command(status, kind)
    body, payload = _body(status, causes, command, head), _payload(status, kind, title, causes, command)
    return Notice(notice_id, kind, title, body, payload)


def test_notice(notice_id: str) -> Notice:
    """A notice that only shows that the channel works."""
    title = "Seqferry: a test of this channel"
    payload = {"type": "test", "timestamp": _time(time.time()), "data": {"title": title}}
    return Notice(notice_id, "test", title, "Notices of transfers will arrive here.", payload)


def _title(status: Status, kind: NoticeKind) -> str:
    totals, what = status.totals, f"{status.spec.source.uri} to {status.spec.target.uri}"
    if status.description.name is not None:
        what = f"{status.description.name} ({what})"
    if kind == "stalled":
        return f"Seqferry: stalled at {totals.ended:,} of {totals.objects:,} objects: {what}"
    if kind == "person":
        need = "needs" if totals.failed == 1 else "need"
        return f"Seqferry: {count(totals.failed, 'object')} {need} a person: {what}"
    if status.state == WITH_FAILURES:
        return f"Seqferry: {totals.failed:,} of {totals.objects:,} objects failed: {what}"
    words = {"done": "done", "failed": "stopped by an error", "cancelled": "cancelled"}
    return f"Seqferry: {words.get(status.state, status.state)}, {count(totals.objects, 'object')}: {what}"


def _command(status: Status, kind: NoticeKind) -> str | None:
    if kind == "stalled":
        return f"seqferry status {status.id}"
    if status.totals.failed or status.state in ("failed", "cancelled"):
        return f"seqferry retry {status.id}" if status.ended else f"seqferry status {status.id} --failed"
    return None


def _body(status: Status, causes: list[FailureGroup], command: str | None, head: auditing.Head) -> str:
    totals = status.totals
    counts = (
        f"{totals.done:,} copied, {totals.skipped:,} already there, {totals.failed:,} failed, "
        f"{totals.cancelled:,} cancelled, of {totals.objects:,}; {size(totals.bytes_done)} of {size(totals.bytes)}"
    )
    described = status.description
    lines = [
        f"transfer  {status.id} ({status.state}), started by {status.created_by}",
        *([] if described.name is None else [f"name      {described.name}"]),
        *(f"label     {key}={value}" for key, value in described.labels.items()),
        f"from      {status.spec.source.uri}",
        f"to        {status.spec.target.uri}",
        f"objects   {counts}",
    ]
    if status.error_message:
        lines.append(f"why       {status.error_message}")
    if status.waits_for is not None:
        lines.append(f"It waits for {status.waits_for}.")
    if status.receipt_digest is not None:
        lines.append(f"receipt   {status.receipt_digest}")
    lines.append(f"ledger    {head}")
    for cause in causes:
        lines += ["", f"{count(cause.count, 'object')}: {cause.error_code or cause.error_class} ({cause.operation})"]
        why, _ = steps.split_next_step(cause.message)
        lines += [f"  {why}", f"  Next: {_step(status, cause, command)}", *(f"  {key}" for key in cause.keys)]
    if command is not None and not (causes and status.ended):
        lines += ["", f"Next: {command}"]
    return printable(lines)


def _step(status: Status, cause: FailureGroup, command: str | None) -> str:
    """The next step for a cause; ``command`` takes up what has failed of a transfer that has ended."""
    return steps.command_step(steps.step_code(cause), status.spec.kind, command if status.ended else None)


def printable(lines: list[str]) -> str:
    """A body of these lines. Keys are data: no control character of theirs forges a line."""
    return "\n".join("".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in line) for line in lines)


def _payload(
    status: Status, kind: NoticeKind, title: str, causes: list[FailureGroup], command: str | None
) -> dict[str, Any]:
    totals = status.totals
    return {
        "type": f"transfer.{kind}",
        "timestamp": _time(time.time()),
        "data": {
            "id": status.id,
            "name": status.description.name,
            "labels": dict(status.description.labels),
            "state": status.state,
            "title": title,
            "source": status.spec.source.uri,
            "target": status.spec.target.uri,
            "created_by": status.created_by,
            "created_at": _time(status.created_at),
            "started_at": _time(status.started_at),
            "ended_at": _time(status.ended_at),
            **totals.facts(),
            "error_code": status.error_code,
            "error_message": status.error_message,
            "waits_for": status.waits_for,
            "receipt_digest": status.receipt_digest,
            "causes": [
                {
                    "count": one.count,
                    "error_class": one.error_class,
                    "error_code": one.error_code,
                    "operation": one.operation,
                    "message": one.message,
                    "next_step": _step(status, one, command),
                    "keys": list(one.keys),
                }
                for one in causes
            ],
            "next": command,
        },
    }


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


# --- sending ----------------------------------------------------------------------------------------------------------


def send(channel: Channel, notice: Notice) -> SendResult:
    """Make one attempt to send a notice."""
    try:
        return _post(channel, notice) if channel.secret is not None else _notify(channel, notice)
    except Exception as why:  # noqa: BLE001 - whatever it is, the notice is tried again
        return SendResult(f"{type(why).__name__}: {_scrub_answer(channel, notice, str(why))}")


def _post(channel: Channel, notice: Notice) -> SendResult:
    assert channel.secret is not None
    body = json.dumps(notice.payload, ensure_ascii=True, separators=(",", ":")).encode()
    parts = urlsplit(channel.url)
    at = str(int(time.time()))
    headers = {
        "content-type": "application/json",
        "user-agent": "seqferry",
        "webhook-id": notice.id,
        "webhook-timestamp": at,
        "webhook-signature": signature(channel.secret, notice.id, at, body),
    }
    assert parts.hostname is not None
    # Redirects are not followed: the signed body goes where the operator has said, and nowhere else.
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(parts.hostname, parts.port, timeout=TIMEOUT_SECONDS, context=context)
    else:
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_SECONDS)
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        answer.read(1024)
    finally:
        connection.close()
    if 200 <= answer.status < 300:
        return SendResult()
    return SendResult(f"the receiver answered {answer.status}", final=answer.status == _GONE)


def signature(key: bytes, notice_id: str, at: str, body: bytes) -> str:
    """``v1,`` and the HMAC of a webhook, as Standard Webhooks has it."""
    digest = hmac.new(key, f"{notice_id}.{at}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def find_url_fault(channel: Channel) -> str | None:
    """A fault in the URL of this channel that prevents sending; None when it has none. Sends nothing."""
    return None if channel.is_webhook or _sender(channel) is not None else _not_read(channel)


def _not_read(channel: Channel) -> str:
    return f"Apprise cannot read the URL of the channel {channel.name} ({channel.shown})"


def _sender(channel: Channel) -> Any:
    """An Apprise for this channel; None when it cannot read the URL."""
    # Imported here: it takes half a second. Its debug log shows URLs.
    logging.getLogger("apprise").setLevel(logging.CRITICAL)
    import apprise

    # A new one each time: an instance that has sent mail waits for seconds before the next.
    sender: Any = apprise.Apprise()
    return sender if sender.add(channel.url) else None


def _notify(channel: Channel, notice: Notice) -> SendResult:
    sender = _sender(channel)
    if sender is None:
        return SendResult(_not_read(channel), final=True)
    if notice.address is not None:
        _send_to(sender, notice.address)
    result: Any = sender.notify(title=notice.title, body=notice.body, body_format="text", timeout=TIMEOUT_SECONDS)
    if result:
        return SendResult()
    reasons = [_scrub_answer(channel, notice, str(getattr(one, "message", one))) for one in _reasons(result)]
    return SendResult("; ".join(reasons[-2:]) or "the service has refused it")


def _send_to(sender: Any, address: str) -> None:
    """Have a mail go to this address alone: neither the receivers of the channel nor its copies get it."""
    for mail in sender:
        mail.targets = [(False, address)]
        mail.cc, mail.bcc = set[str](), set[str]()


def _reasons(result: Any) -> list[Any]:
    logs: Any = getattr(result, "logs", None)
    found: Any = logs() if callable(logs) else logs
    return list(found) if found else []


def _scrub_answer(channel: Channel, notice: Notice, text: str) -> str:
    """``scrub``, and without the address of the notice, which servers repeat in their refusals."""
    if notice.address is not None:
        local, _, domain = notice.address.partition("@")
        for part in (notice.address, *(one for one in (local, domain) if len(one) >= _SHORTEST_SECRET)):
            text = re.sub(re.escape(part), "***", text, flags=re.IGNORECASE)
    return scrub(channel, text)


def scrub(channel: Channel, text: str) -> str:
    """A text without any part of the channel's URL that may be a secret."""
    parts = urlsplit(channel.url)
    found = {parts.username or "", parts.password or "", *parts.path.split("/"), parts.netloc.rpartition("@")[0]}
    found |= {value for pair in parts.query.split("&") for value in (pair.partition("=")[2],)}
    if channel.shown.endswith("..."):
        found.add(parts.hostname or "")
    text = text.replace(channel.url, channel.shown)
    for secret in sorted({*found, *map(unquote, found)}, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = re.sub(re.escape(secret), "***", text, flags=re.IGNORECASE)
    return " ".join(text.split())[:500]
