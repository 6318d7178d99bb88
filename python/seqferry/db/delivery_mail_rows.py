"""Mails that holders of share links have requested, in the caller's transaction.

A row lives until its mail is sent or abandoned, its link is revoked or its transfer is pruned: addresses are not kept.
The notice that sends it names the row, and no address.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from seqferry.db import notice_rows
from seqferry.db.notice_rows import Subject
from seqferry.db.tables import delivery_mail, notice, share_link

KIND: Final = "finished"
"""Kind of the notices of these mails."""


def insert(
    connection: sa.Connection,
    *,
    mail_id: str,
    link_id: str,
    transfer_id: str,
    address: str,
    channel: str,
    at: float,
) -> None:
    """Add a mail, unless the link has one to this address for this transfer. The rows of both are locked."""
    same = sa.func.lower(delivery_mail.c.address) == address.lower()
    of = (delivery_mail.c.share_link_id == link_id, delivery_mail.c.transfer_id == transfer_id)
    if connection.execute(sa.select(delivery_mail.c.id).where(*of, same).limit(1)).first() is None:
        values = {"share_link_id": link_id, "transfer_id": transfer_id, "address": address, "channel": channel}
        connection.execute(delivery_mail.insert().values(id=mail_id, created_at=at, **values))


def counts(connection: sa.Connection, link_id: str, transfer_id: str) -> tuple[int, int]:
    """Number of mails of a link, and of a transfer."""
    of_link, of_transfer = delivery_mail.c.share_link_id == link_id, delivery_mail.c.transfer_id == transfer_id
    count = sa.select(sa.func.count()).select_from(delivery_mail)
    return connection.execute(count.where(of_link)).scalar_one(), connection.execute(
        count.where(of_transfer)
    ).scalar_one()


def by_id(connection: sa.Connection, mail_id: str) -> sa.Row[Any] | None:
    return connection.execute(sa.select(delivery_mail).where(delivery_mail.c.id == mail_id)).one_or_none()


def record_notices(connection: sa.Connection, transfer_id: str, at: float) -> None:
    """Record the notices of the mails of an ended transfer, one for each address; delete mails of expired links."""
    addresses, left = set[str](), list[str]()
    for row in connection.execute(_MAILS_OF_TRANSFER, {"of": transfer_id}).all():
        is_open = row.expires_at is not None and row.revoked_at is None and row.expires_at > at
        if not is_open or row.address.lower() in addresses:
            left.append(row.id)
            continue
        addresses.add(row.address.lower())
        notice_rows.record(connection, Subject("mail", row.id), KIND, [row.channel], at)
    if left:
        connection.execute(delivery_mail.delete().where(delivery_mail.c.id.in_(left)))


_MAILS_OF_TRANSFER: Final = (
    sa.select(delivery_mail, share_link.c.expires_at, share_link.c.revoked_at)
    .join(share_link, share_link.c.id == delivery_mail.c.share_link_id, isouter=True)
    .where(delivery_mail.c.transfer_id == sa.bindparam("of"))
    .order_by(delivery_mail.c.created_at, delivery_mail.c.id)
)


def delete(connection: sa.Connection, mail_id: str) -> None:
    """Delete a mail that was sent or abandoned."""
    connection.execute(delivery_mail.delete().where(delivery_mail.c.id == mail_id))


def delete_for_link(connection: sa.Connection, link_id: str) -> None:
    """Delete the unsent mails of a revoked link, with their notices."""
    _forget(connection, delivery_mail.c.share_link_id == link_id)


def delete_for_transfer(connection: sa.Connection, transfer_id: str) -> None:
    """Delete the mails of a pruned transfer, with their notices."""
    _forget(connection, delivery_mail.c.transfer_id == transfer_id)


def _forget(connection: sa.Connection, where: sa.ColumnElement[bool]) -> None:
    unsent = (notice.c.subject_kind == "mail", notice.c.state == notice_rows.PENDING)
    ids = sa.select(delivery_mail.c.id).where(where)
    connection.execute(notice.delete().where(*unsent, notice.c.subject_id.in_(ids)))
    connection.execute(delivery_mail.delete().where(where))
