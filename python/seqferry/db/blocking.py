"""Transfers that wait for others, since both write to the same keys."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from seqferry.db.tables import transfer
from seqferry.db.transfers import UNFINISHED, row_of
from seqferry.model.models import TransferSpec
from seqferry.spec import keyspace, stored

_LAST_CHARACTER: Final = "\U0010ffff"


def blocker_of(connection: sa.Connection, spec: TransferSpec, turn: int) -> str | None:
    """The first of the unfinished transfers before ``turn`` that write to the same keys."""
    mine = keyspace.target_prefix(spec)
    above = [mine[:size] for size in range(len(mine) + 1)]
    rows = connection.execute(
        sa.select(transfer.c.id, transfer.c.spec)
        .where(
            UNFINISHED,
            transfer.c.target_place == keyspace.target_store(spec),
            transfer.c.turn < turn,
            sa.or_(
                transfer.c.target_prefix.in_(above),
                sa.and_(transfer.c.target_prefix >= mine, transfer.c.target_prefix <= mine + 4 * _LAST_CHARACTER),
            ),
        )
        .order_by(transfer.c.turn)
    )
    return next((row.id for row in rows if _overlaps(spec, row.spec)), None)


def _overlaps(spec: TransferSpec, written: str) -> bool:
    other, unsupported = stored.read_legible(written)
    # The target of an unsupported spec is unknown.
    return unsupported is not None or keyspace.may_overlap(spec, other)


def find_ready(connection: sa.Connection) -> list[str]:
    """Ids of transfers that wait for one that has ended."""
    other = transfer.alias("other")
    query = (
        sa.select(transfer.c.id)
        .join(other, other.c.id == transfer.c.blocked_by)
        .where(UNFINISHED, other.c.ended_at.is_not(None))
        .order_by(transfer.c.turn)
    )
    return list(connection.execute(query).scalars())


def unblock(connection: sa.Connection, transfer_id: str) -> sa.Row[Any] | None:
    """Block a transfer by the next one that writes to its keys; returns its row if there is none, so that it may begin.

    The caller holds the lock of submissions.

    Raises:
        UnsupportedError: this version does not know all of its spec.
    """
    row = row_of(connection, transfer_id, lock=True)
    if row is None or row.blocked_by is None or row.ended_at is not None:
        return None
    blocked_by = blocker_of(connection, stored.read(row.spec), row.turn)
    connection.execute(transfer.update().where(transfer.c.id == transfer_id).values(blocked_by=blocked_by))
    return row if blocked_by is None else None
