"""Lanes of transfers, the order within a lane, and the transfers that no worker can run."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import sqlalchemy as sa

from seqferry.db.database import Database, clock
from seqferry.db.tables import transfer, worker_live
from seqferry.db.transfers import UNFINISHED
from seqferry.model.frozen import frozen

LIVE_SECONDS: Final = 5.0
"""Reports of workers are written each second; an older one comes from a dead worker."""

_MAX_MARKED: Final = 500


@frozen
class Lane:
    """Unfinished transfers that need the same capabilities of a worker."""

    name: str
    needs: str


def count_ahead(connection: sa.Connection, ids: Collection[str]) -> dict[str, int]:
    """Number of transfers that workers run before each of these, if it waits only in the queue.

    Lanes do not wait for each other. One pass over the queue.
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


def find_lanes(connection: sa.Connection) -> set[Lane | None]:
    """Lanes of the unfinished transfers; None stands for transfers that any worker can run."""
    rows = connection.execute(sa.select(transfer.c.lane, transfer.c.needs).where(UNFINISHED).distinct())
    return {None if row.lane is None else Lane(row.lane, row.needs) for row in rows}


def find_runnable(connection: sa.Connection, lanes: Iterable[str], limit: int) -> set[str]:
    """Ids of unfinished transfers that a worker with these lanes can run now."""
    query = sa.select(transfer.c.id).where(
        UNFINISHED,
        transfer.c.state != "paused",
        transfer.c.blocked_by.is_(None),
        sa.or_(transfer.c.lane.is_(None), transfer.c.lane.in_(sorted(lanes))),
    )
    return set(connection.execute(query.limit(limit)).scalars())


def find_skipped(connection: sa.Connection, database: Database, lane: Lane, reason: str) -> list[str]:
    """Ids of transfers of the lane that no worker runs, and that are not marked with ``reason`` yet."""
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
    return list(connection.execute(query.limit(_MAX_MARKED)).scalars())


def record_skipped(connection: sa.Connection, transfer_ids: Iterable[str], reason: str) -> None:
    """Record why a worker does not run these transfers."""
    connection.execute(
        transfer.update().where(transfer.c.id.in_(list(transfer_ids)), UNFINISHED).values(waits_for=reason)
    )
