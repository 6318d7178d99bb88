"""Turns of transfers: which of them workers take, in which lanes, and what is left alone by all."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from seqferry.db.database import Database, clock
from seqferry.db.tables import transfer, worker_live
from seqferry.db.transfers import UNFINISHED

LIVE_SECONDS: Final = 5.0
"""Reports of workers are written each second; one that is older than this comes from a worker that is gone."""

_MARKED_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Lane:
    """Unfinished transfers that need the same of a worker."""

    name: str
    needs: str


def ahead(connection: sa.Connection, ids: Collection[str]) -> dict[str, int]:
    """Number of transfers that workers take before each of these, of those that wait for nothing but their turn.

    Transfers that need other workers are in lanes of their own, and not in each other's way. One pass over the queue.
    """
    if not ids:
        return {}
    order = (transfer.c.priority.desc(), transfer.c.turn)
    place = sa.func.rank().over(partition_by=sa.func.coalesce(transfer.c.lane, ""), order_by=order)
    queue = sa.select(transfer.c.id, place.label("place")).where(
        UNFINISHED, transfer.c.state == "queued", transfer.c.blocked_by.is_(None)
    )
    queue = queue.subquery("queue")
    rows = connection.execute(sa.select(queue.c.id, queue.c.place).where(queue.c.id.in_(ids)))
    return {row.id: row.place - 1 for row in rows}


def lanes(connection: sa.Connection) -> set[Lane | None]:
    """Lanes of the unfinished transfers; None stands for a transfer that any worker may do."""
    rows = connection.execute(sa.select(transfer.c.lane, transfer.c.needs).where(UNFINISHED).distinct())
    return {None if row.lane is None else Lane(row.lane, row.needs) for row in rows}


def workable(connection: sa.Connection, lanes: Iterable[str], limit: int) -> set[str]:
    """Ids of unfinished transfers that a worker with these lanes can do now."""
    query = sa.select(transfer.c.id).where(
        UNFINISHED,
        transfer.c.state != "paused",
        transfer.c.blocked_by.is_(None),
        sa.or_(transfer.c.lane.is_(None), transfer.c.lane.in_(sorted(lanes))),
    )
    return set(connection.execute(query.limit(limit)).scalars())


def find_unattended(connection: sa.Connection, database: Database, lane: Lane, reason: str) -> list[str]:
    """Ids of transfers of the lane that no worker is at, and of which ``reason`` is not on record."""
    fresh = sa.select(worker_live.c.transfer_id).where(
        worker_live.c.transfer_id == transfer.c.id,
        worker_live.c.at > clock(is_sqlite=database.is_sqlite) - LIVE_SECONDS,
    )
    query = sa.select(transfer.c.id).where(
        UNFINISHED,
        transfer.c.lane == lane.name,
        transfer.c.needs == lane.needs,
        sa.func.coalesce(transfer.c.waits_for, "") != reason,
        sa.not_(fresh.exists()),
    )
    return list(connection.execute(query.limit(_MARKED_AT_ONCE)).scalars())


def leave_alone(connection: sa.Connection, transfer_ids: Iterable[str], reason: str) -> None:
    """Record why a worker does not take these transfers."""
    connection.execute(
        transfer.update().where(transfer.c.id.in_(list(transfer_ids)), UNFINISHED).values(waits_for=reason)
    )
