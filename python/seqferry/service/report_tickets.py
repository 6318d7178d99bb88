"""Tickets: addresses that work once, for downloads that a browser streams to a file.

A link of a page carries no header, so it carries a ticket, which was requested with the token. They are in the
database, so that behind a proxy any server redeems what another one gave out. Of a ticket a digest is kept alone.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import asdict
from typing import Final

from seqferry.db import report_ticket_rows
from seqferry.model.errors import NotFoundError, OverloadError
from seqferry.model.frozen import frozen
from seqferry.proof.report import Format
from seqferry.service.service import Service

LIFETIME_SECONDS: Final = 60.0
"""Life of a ticket: the click follows within a second."""

MAX_TICKETS: Final = 1000
"""Tickets that wait to be used, of clients with tokens; as many again of holders of share links."""

MAX_PER_LINK: Final = 20
"""Of one share link: its holder takes no room from the others."""

_BYTES: Final = 24
_FORM: Final = re.compile(r"[A-Za-z0-9_-]{32}")


@frozen
class ReportTicket:
    """A report that may be had once: of a transfer, by its whole id."""

    transfer_id: str
    format: Format
    price: str | None
    page: int


def issue(service: Service, wanted: ReportTicket, *, link: str | None = None) -> tuple[str, float]:
    """Issue a ticket; returns it, and its expiry in seconds since the epoch.

    Args:
        link: id of the share link whose holder asks; None for a client with a token.

    Raises:
        OverloadError: too many wait to be used.
    """
    text = secrets.token_urlsafe(_BYTES)
    with service.database.write(durable=False) as connection:
        now = service.database.now(connection)
        report_ticket_rows.lock_tickets(connection, now)
        alike, own = report_ticket_rows.count(connection, link)
        if alike >= MAX_TICKETS or (link is not None and own >= MAX_PER_LINK):
            raise OverloadError("Too many downloads wait to begin; try again in a minute.")
        report_ticket_rows.add(connection, _digest(text), now + LIFETIME_SECONDS, link, asdict(wanted))
    return text, now + LIFETIME_SECONDS


def redeem(service: Service, text: str) -> ReportTicket:
    """Use up a ticket; returns the report that it is for.

    Raises:
        NotFoundError: there is no such ticket, it was used, or its time is over.
    """
    row = None
    if _FORM.fullmatch(text) is not None:
        digest = _digest(text)
        # Read first: a client that guesses, without a token, keeps no writer waiting.
        with service.database.read() as connection:
            is_there = report_ticket_rows.exists(connection, digest, service.database.now(connection))
        if is_there:
            # On the disk before the download begins: a ticket that was used is not there again after a power cut.
            with service.database.write() as connection:
                row = report_ticket_rows.redeem(connection, digest, service.database.now(connection))
    if row is None:
        raise NotFoundError("This download link was used, or is older than a minute. Go back and click again.")
    return ReportTicket(**row)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
