"""A mail server on loopback, and the channel to it."""

from __future__ import annotations

import asyncio
import email
import email.policy
import socket
from collections.abc import Generator
from contextlib import contextmanager
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP

from seqferry.settings.channels import Channel


class Mails:
    """Takes mails, after it has refused as many as ``refusals`` says."""

    def __init__(self) -> None:
        self.taken: list[EmailMessage] = []
        self.receivers: list[list[str]] = []
        """Of each mail that was taken, as the envelope has them."""
        self.refusals = 0

    async def handle_DATA(self, server: object, session: object, envelope: Any) -> str:  # noqa: N802
        if self.refusals:
            self.refusals -= 1
            return f"550 no mailbox {envelope.rcpt_tos[0]}"
        self.taken.append(email.message_from_bytes(envelope.content, EmailMessage, policy=email.policy.default))
        self.receivers.append(list(envelope.rcpt_tos))
        return "250 OK"

    def text(self, number: int = 0) -> str:
        """Subject and text of a mail."""
        mail = self.taken[number]
        body = mail.get_body(("plain",))
        assert body is not None
        return f"{mail['subject']}\n{body.get_content()}"


class _Controller(Controller):
    """Closes the connections that are open at its end as well: a client may be killed, and say nothing."""

    def __init__(self, handler: Mails, port: int) -> None:
        super().__init__(handler, hostname="127.0.0.1", port=port)  # pyright: ignore[reportUnknownMemberType]
        self._protocols: list[SMTP] = []

    def factory(self) -> SMTP:
        self._protocols.append(super().factory())
        return self._protocols[-1]

    async def close(self) -> None:
        for protocol in self._protocols:
            if protocol.transport is not None:
                protocol.transport.close()
        await asyncio.sleep(0)  # the loop closes their sockets


@contextmanager
def mail_server(more: str = "") -> Generator[tuple[Mails, Channel]]:
    """A mail server, and a channel to it; ``more`` is added to the query of its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    handler = Mails()
    controller = _Controller(handler, port)
    controller.start()
    url = f"mailto://127.0.0.1:{port}/?from=seqferry@example.org&to=ada@example.org&mode=insecure{more}"
    try:
        yield handler, Channel("mail", url)
    finally:
        asyncio.run_coroutine_threadsafe(controller.close(), controller.loop).result(timeout=10)
        controller.stop()
