"""Share links and the record of what people did to them, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

import sqlalchemy as sa

from seqferry.db.record import events, signing
from seqferry.db.tables import share_link, share_link_event

CREATED: Final = "made"
REVOKED: Final = "revoked"

_DAY: Final = 86400.0

_LINKS_PER_CHECK: Final = 500
"""Links with their events that a check holds in memory."""

_FIRST_COLUMNS: Final = ("digest", "transfer_id", "label", "expires_at")
"""Columns that the first event of a link holds; the others follow from the events themselves."""


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
    values = {"digest": digest, "transfer_id": transfer_id, "label": label, "expires_at": expires_at}
    connection.execute(share_link.insert().values(id=link_id, created_at=at, created_by=actor, **values))
    _record(connection, link_id, at, CREATED, actor, values)


def revoke(connection: sa.Connection, link_id: str, at: float, actor: str) -> None:
    """End a link, whose row is locked.

    Raises:
        ConfigError: as ``insert``.
    """
    values = {"revoked_at": at, "revoked_by": actor}
    connection.execute(share_link.update().where(share_link.c.id == link_id).values(values))
    _record(connection, link_id, at, REVOKED, actor, {})


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


def count(connection: sa.Connection, now: float, transfer_id: str | None = None, label: str | None = None) -> int:
    """Number of links that open something or were made within a day: of a transfer, of a label, or (neither) in all."""
    counted = sa.or_(
        sa.and_(share_link.c.expires_at > now, share_link.c.revoked_at.is_(None)),
        share_link.c.created_at > now - _DAY,
    )
    query = sa.select(sa.func.count()).where(counted)
    if transfer_id is not None:
        query = query.where(share_link.c.transfer_id == transfer_id)
    if label is not None:
        query = query.where(share_link.c.label == label)
    return connection.execute(query).scalar_one()


# --- the record -------------------------------------------------------------------------------------------------------


class ShareLinkFault(NamedTuple):
    """Fault in the record of a link, or of a link against its record.

    Attributes:
        kind: that of a finding.
        number: of the event; 0: the link itself is not as its events tell.
        column: the value of the link that differs.
    """

    link_id: str
    kind: Literal["share_link_changed", "share_link_added", "share_link_removed", "not_keyed"]
    number: int = 0
    column: str = ""


def find_faults(connection: sa.Connection, after: str = "") -> tuple[list[ShareLinkFault], str | None]:
    """The first fault of each of the next links and its record; and the last id, None at the end.

    Raises:
        ConfigError: an event was written with an audit key that this process has not.
    """
    ids = _following(connection, after)
    return list(_faults_of(connection, ids)), ids[-1] if ids else None


def _following(connection: sa.Connection, after: str) -> list[str]:
    """The next ids of links, or of events whose link is missing."""
    found: set[str] = set()
    for column in (share_link.c.id, share_link_event.c.share_link_id):
        query = sa.select(column).where(column > after).order_by(column).distinct().limit(_LINKS_PER_CHECK)
        found.update(connection.execute(query).scalars())
    return sorted(found)[:_LINKS_PER_CHECK]


def _faults_of(connection: sa.Connection, ids: Sequence[str]) -> Iterator[ShareLinkFault]:
    there = {row.id: row for row in connection.execute(sa.select(share_link).where(share_link.c.id.in_(ids)))}
    query = sa.select(share_link_event).where(share_link_event.c.share_link_id.in_(ids))
    chains: dict[str, list[sa.Row[Any]]] = {}
    for row in connection.execute(query.order_by(share_link_event.c.share_link_id, share_link_event.c.number)):
        chains.setdefault(row.share_link_id, []).append(row)
    for link_id in ids:
        if (chain := chains.get(link_id)) is None:
            if link_id in there:
                yield ShareLinkFault(link_id, "share_link_added")
        elif (found := next(_chain_faults(connection, link_id, chain, there.get(link_id)), None)) is not None:
            yield found


def _chain_faults(
    connection: sa.Connection, link_id: str, chain: list[sa.Row[Any]], link: sa.Row[Any] | None
) -> Iterator[ShareLinkFault]:
    ring = signing.key_ring(connection)
    previous = events.FIRST
    for number, row in enumerate(chain, 1):
        key = signing.key_of(ring, row)
        own = events.event_hash(link_id, row.number, row.at, row.kind, row.actor, row.data, row.previous, key)
        if (row.number, row.previous, row.hash) != (number, previous, own):
            yield ShareLinkFault(link_id, "share_link_changed", number)
        if key is None and ring.all():
            yield ShareLinkFault(link_id, "not_keyed", number)
        previous = row.hash
    if link is None:
        yield ShareLinkFault(link_id, "share_link_removed")
        return
    for column, value in _data_of(chain).items():
        if getattr(link, column) != value:
            yield ShareLinkFault(link_id, "share_link_changed", column=column)


def _data_of(chain: list[sa.Row[Any]]) -> dict[str, Any]:
    """The values of a link as its events tell them."""
    made, revoked = chain[0], next((row for row in chain if row.kind == REVOKED), None)
    data = events.read_data(made.data)
    return {
        **{name: data.get(name) for name in _FIRST_COLUMNS},
        "created_at": made.at,
        "created_by": made.actor,
        "revoked_at": None if revoked is None else revoked.at,
        "revoked_by": None if revoked is None else revoked.actor,
    }
