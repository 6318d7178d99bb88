"""Share links and the record of what people did to them, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final, Literal, NamedTuple

import sqlalchemy as sa

from seqferry.db.record import events, signing
from seqferry.db.record.adoption import ADOPTED
from seqferry.db.tables import share_link, share_link_event

MADE: Final = "made"
REVOKED: Final = "revoked"

_TOLD: Final = ("digest", "transfer_id", "label", "expires_at")
"""Columns that the first event of a link tells; the others follow from the events themselves."""


def insert(
    connection: sa.Connection,
    *,
    link_id: str,
    digest: str,
    transfer_id: str | None,
    label: str | None,
    expires_at: float,
    at: float,
    actor: str,
) -> None:
    """Add a link, and the event that tells of it.

    Raises:
        ConfigError: the record in this database is kept with an audit key that this process has not.
    """
    told = {"digest": digest, "transfer_id": transfer_id, "label": label, "expires_at": expires_at}
    connection.execute(share_link.insert().values(id=link_id, created_at=at, created_by=actor, **told))
    _record(connection, link_id, at, MADE, actor, told)


def revoke(connection: sa.Connection, link_id: str, at: float, actor: str) -> None:
    """End a link, whose row is locked.

    Raises:
        ConfigError: as ``insert``.
    """
    values = {"revoked_at": at, "revoked_by": actor}
    connection.execute(share_link.update().where(share_link.c.id == link_id).values(values))
    _record(connection, link_id, at, REVOKED, actor, {})


def adopt(connection: sa.Connection, link_id: str, at: float, actor: str) -> None:
    """Seal the record of a link, whose row is locked, as it is now: it is older than the key."""
    _record(connection, link_id, at, ADOPTED, actor, {})


def _record(connection: sa.Connection, link_id: str, at: float, kind: str, actor: str, data: dict[str, Any]) -> None:
    owner = share_link_event.c.share_link_id
    events.append_to_chain(connection, share_link_event, owner, link_id, at, kind, actor, data)


def by_id(connection: sa.Connection, link_id: str, *, lock: bool = False) -> sa.Row[Any] | None:
    query = sa.select(share_link).where(share_link.c.id == link_id)
    return connection.execute(query.with_for_update() if lock else query).one_or_none()


def newest(connection: sa.Connection, transfer_id: str | None, limit: int) -> list[sa.Row[Any]]:
    """The newest links, newest first; with a transfer those of it alone."""
    query = sa.select(share_link).order_by(share_link.c.created_at.desc(), share_link.c.id).limit(limit)
    if transfer_id is not None:
        query = query.where(share_link.c.transfer_id == transfer_id)
    return list(connection.execute(query))


def count_valid(connection: sa.Connection, now: float) -> int:
    """Number of links that open something."""
    valid = (share_link.c.expires_at > now, share_link.c.revoked_at.is_(None))
    return connection.execute(sa.select(sa.func.count()).where(*valid)).scalar_one()


# --- the record -------------------------------------------------------------------------------------------------------


class ShareLinkFault(NamedTuple):
    """Fault in the record of a link, or of a link against its record.

    Attributes:
        kind: that of a finding.
        number: of the event; 0: the link itself is not as its events tell.
        column: the value of the link that differs.
    """

    link_id: str
    kind: Literal["share_link_changed", "share_link_added", "share_link_removed", "not_keyed", "not_adopted"]
    number: int = 0
    column: str = ""


def faults(connection: sa.Connection) -> list[ShareLinkFault]:
    """The first fault of each link and its record.

    Raises:
        ConfigError: an event was written with an audit key that this process has not.
    """
    there = {row.id: row for row in connection.execute(sa.select(share_link))}
    query = sa.select(share_link_event).order_by(share_link_event.c.share_link_id, share_link_event.c.number)
    found: list[ShareLinkFault] = []
    for link_id, chain in groupby(connection.execute(query), key=lambda row: row.share_link_id):
        fault = next(_chain_faults(connection, link_id, list(chain), there.pop(link_id, None)), None)
        found += [] if fault is None else [fault]
    return found + [ShareLinkFault(link_id, "share_link_added") for link_id in there]


def _chain_faults(
    connection: sa.Connection, link_id: str, chain: list[sa.Row[Any]], link: sa.Row[Any] | None
) -> Iterator[ShareLinkFault]:
    ring = signing.ring(connection)
    since = ring.since()
    previous, is_keyed, unkeyed = events.FIRST, False, 0
    for number, row in enumerate(chain, 1):
        key = signing.key_of(ring, row)
        own = events.event_hash(link_id, row.number, row.at, row.kind, row.actor, row.data, row.previous, key)
        if (row.number, row.previous, row.hash) != (number, previous, own):
            yield ShareLinkFault(link_id, "share_link_changed", number)
        if key is None and (is_keyed or (since is not None and row.at >= since)):
            yield ShareLinkFault(link_id, "not_keyed", number)
        if key is None:
            unkeyed = unkeyed or number
        elif row.kind == ADOPTED:
            unkeyed = 0
        previous, is_keyed = row.hash, is_keyed or key is not None
    if unkeyed and since is not None:
        yield ShareLinkFault(link_id, "not_adopted", unkeyed)
    if link is None:
        yield ShareLinkFault(link_id, "share_link_removed")
        return
    for column, value in _told(chain).items():
        if getattr(link, column) != value:
            yield ShareLinkFault(link_id, "share_link_changed", column=column)


def _told(chain: list[sa.Row[Any]]) -> dict[str, Any]:
    """The values of a link as its events tell them."""
    made, revoked = chain[0], next((row for row in chain if row.kind == REVOKED), None)
    data = events.told(made.data)
    return {
        **{name: data.get(name) for name in _TOLD},
        "created_at": made.at,
        "created_by": made.actor,
        "revoked_at": None if revoked is None else revoked.at,
        "revoked_by": None if revoked is None else revoked.actor,
    }
