"""Mails that report the end of a delivery to holders of its share link who requested one.

What must stay true: an address is in its row and in its mail alone, and goes with both; no log, list, receipt or answer
shows it. A mail says no more than its link shows.
"""

from __future__ import annotations

import secrets
import time
from typing import Final

from seqferry.db import delivery_mail_rows, share_link_rows, transfers
from seqferry.model.errors import ConflictError, NotFoundError
from seqferry.model.formatting import count
from seqferry.model.models import ENDED_TRANSFER_STATES
from seqferry.service import share_links
from seqferry.service.deliveries import Deliveries, Delivery
from seqferry.service.notices import Notice, printable
from seqferry.service.service import Service
from seqferry.service.share_links import ShareLink

MAX_PER_LINK: Final = 20
"""Addresses that wait with one link: the people of a group. A link is no mailing list."""

MAX_PER_TRANSFER: Final = 200
"""The same with all links of a transfer."""

LONGEST_ADDRESS: Final = 254
"""Characters, as SMTP has it (RFC 5321)."""

_LABEL: Final = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
ADDRESS: Final = rf"^[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~.-]{{1,64}}@{_LABEL}(?:\.{_LABEL})+$"
"""One address as HTML has it: no name, no quotes, no list, and nothing that ends a header."""

_ID_BYTES: Final = 8


def request_mail(service: Service, pages: Deliveries, link: ShareLink, key: str, address: str) -> None:
    """Record that an address gets a mail at the end of a delivery; the same address again changes nothing.

    Raises:
        NotFoundError: the link shows no such delivery, or was revoked.
        ConflictError: this server sends no mail, the delivery has ended, or too many addresses wait for it.
    """
    channel = service.settings.notices.mail
    if channel is None:
        raise ConflictError("This server sends no mail.")
    latest = pages.find_latest(link, key)
    if latest is None:
        raise NotFoundError("This link shows no such delivery.")
    now = time.time()
    with service.database.write() as connection:
        # The end of the transfer waits for this lock, and then finds the row.
        of_link = share_link_rows.by_id(connection, link.id, lock=True)
        row = transfers.row_of(connection, latest.id, lock=True)
        if of_link is None or of_link.revoked_at is not None or row is None:
            raise NotFoundError("This link shows no such delivery.")
        if row.state in ENDED_TRANSFER_STATES:
            raise ConflictError("The delivery has already ended: its result is shown above.")
        # Before the search for the same address, so that the response does not reveal whether it is there.
        with_link, with_transfer = delivery_mail_rows.counts(connection, link.id, latest.id)
        if with_link >= MAX_PER_LINK or with_transfer >= MAX_PER_TRANSFER:
            raise ConflictError("The limit of mails for this delivery or link is reached.")
        delivery_mail_rows.insert(
            connection,
            mail_id=secrets.token_hex(_ID_BYTES),
            link_id=link.id,
            transfer_id=latest.id,
            address=address,
            channel=channel.name,
            at=now,
        )


def build_notice(service: Service, mail_id: str, notice_id: str) -> Notice:
    """The mail as it is sent now.

    Raises:
        NotFoundError: it is not on record any more, or its link is not valid any more.
    """
    with service.database.read() as connection:
        row = delivery_mail_rows.by_id(connection, mail_id)
    link = None if row is None else share_links.find_link(service, row.share_link_id)
    if row is None or link is None or link.state != "active":
        raise NotFoundError("The mail is not requested any more.")
    delivery = Deliveries(service).find_ended(link, row.transfer_id)
    if delivery is None:
        raise NotFoundError("The delivery is not on record any more.")
    name = printable([delivery.name or "your delivery"])
    word = "complete" if delivery.state == "complete" else "not complete"
    lines = [*_lines(delivery), "", "The link that you were sent shows more, and the receipt."]
    lines += ["You requested this mail on that page. There will be no other."]
    return Notice(notice_id, delivery_mail_rows.KIND, f"{name}: {word}", printable(lines), {}, row.address)


def _lines(delivery: Delivery) -> list[str]:
    causes = [
        f"{count(one.count, 'file')} {'is' if one.count == 1 else 'are'} missing: {one.text}."
        for one in delivery.causes
    ]
    again = ["What is missing is tried again."] if delivery.retrying else []
    return [delivery.text, *again, *causes]
