"""Tickets for one download of a report, in the caller's transaction. Times are those of the database's clock."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from seqferry.db.advisory import AdvisoryLock, acquire
from seqferry.db.tables import report_ticket


def lock_tickets(connection: sa.Connection, now: float) -> None:
    """Lock the table against other additions until the transaction ends, and delete expired tickets."""
    acquire(connection, AdvisoryLock.TICKETS)
    connection.execute(report_ticket.delete().where(report_ticket.c.ends_at <= now))


def count(connection: sa.Connection, link_id: str | None) -> tuple[int, int]:
    """Number of tickets of all share links, and of this link; None: of clients with tokens, twice."""
    link = report_ticket.c.share_link_id
    alike = link.is_(None) if link_id is None else link.is_not(None)
    own = sa.func.count() if link_id is None else sa.func.count().filter(link == link_id)
    row = connection.execute(sa.select(sa.func.count(), own).select_from(report_ticket).where(alike)).one()
    return row[0], row[1]


def add(connection: sa.Connection, digest: str, ends_at: float, link_id: str | None, wanted: dict[str, Any]) -> None:
    values = {"digest": digest, "ends_at": ends_at, "share_link_id": link_id, **wanted}
    connection.execute(report_ticket.insert().values(values))


def exists(connection: sa.Connection, digest: str, now: float) -> bool:
    query = sa.select(report_ticket.c.digest).where(report_ticket.c.digest == digest, report_ticket.c.ends_at > now)
    return connection.execute(query).first() is not None


def redeem(connection: sa.Connection, digest: str, now: float) -> sa.RowMapping | None:
    """Remove a valid ticket and return the report that it is for; None if it was redeemed before, or never existed."""
    gone = report_ticket.delete().where(report_ticket.c.digest == digest, report_ticket.c.ends_at > now)
    columns = (report_ticket.c.transfer_id, report_ticket.c.format, report_ticket.c.price, report_ticket.c.page)
    return connection.execute(gone.returning(*columns)).mappings().one_or_none()


def delete_for_link(connection: sa.Connection, link_id: str) -> None:
    """Remove the tickets of a share link."""
    connection.execute(report_ticket.delete().where(report_ticket.c.share_link_id == link_id))
