"""Transfers that wait for others, since both write to the same keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import sqlalchemy as sa

from seqferry.db.tables import transfer
from seqferry.db.transfers import UNFINISHED, row_of
from seqferry.model.models import TransferSpec
from seqferry.spec import keyspace, stored

_LAST_CHARACTER: Final = "\U0010ffff"


def find_near(connection: sa.Connection, spec: TransferSpec) -> Sequence[sa.Row[Any]]:
    """Rows of unfinished transfers that may write to the same keys, or be the same, in their order."""
    mine = keyspace.target_prefix(spec)
    above = [mine[:size] for size in range(len(mine) + 1)]
    values = {"place": keyspace.target_store(spec), "above": above, "mine": mine, "last": mine + 4 * _LAST_CHARACTER}
    return connection.execute(_NEAR, values).all()


_NEAR: Final = (
    sa.select(transfer)
    .where(
        UNFINISHED,
        transfer.c.target_place == sa.bindparam("place"),
        sa.or_(
            transfer.c.target_prefix.in_(sa.bindparam("above", expanding=True)),
            sa.and_(transfer.c.target_prefix >= sa.bindparam("mine"), transfer.c.target_prefix <= sa.bindparam("last")),
        ),
    )
    .order_by(transfer.c.turn)
)


def blocker_of(spec: TransferSpec, near: Iterable[sa.Row[Any]]) -> str | None:
    """The first of these transfers that writes to the same keys."""
    return next((row.id for row in near if _overlaps(spec, row.spec)), None)


def _overlaps(spec: TransferSpec, written: str) -> bool:
    other, unsupported = stored.read_legible(written)
    # The target of an unsupported spec is unknown.
    return unsupported is not None or keyspace.may_overlap(spec, other)


def find_ready(connection: sa.Connection) -> list[tuple[str, str, str]]:
    """Transfers that wait for one that has ended: their ids, places and prefixes (``submissions.lock``)."""
    other = transfer.alias("other")
    query = (
        sa.select(transfer.c.id, transfer.c.target_place, transfer.c.target_prefix)
        .join(other, other.c.id == transfer.c.blocked_by)
        .where(UNFINISHED, other.c.ended_at.is_not(None))
        .order_by(transfer.c.turn)
    )
    return [(row.id, row.target_place, row.target_prefix) for row in connection.execute(query)]


def unblock(connection: sa.Connection, transfer_id: str) -> sa.Row[Any] | None:
    """Block a transfer by the next one that writes to its keys; returns its row if there is none, so that it may begin.

    The caller holds the lock of its keys (``submissions.lock``).

    Raises:
        UnsupportedError: this version does not know all of its spec.
    """
    row = row_of(connection, transfer_id, lock=True)
    if row is None or row.blocked_by is None or row.ended_at is not None:
        return None
    spec = stored.read(row.spec)
    blocked_by = blocker_of(spec, [near for near in find_near(connection, spec) if near.turn < row.turn])
    connection.execute(transfer.update().where(transfer.c.id == transfer_id).values(blocked_by=blocked_by))
    return row if blocked_by is None else None
