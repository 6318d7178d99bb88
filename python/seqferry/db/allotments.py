"""Shares of the limits that hold over all workers. PostgreSQL only; SQLite has one worker.

The sum of the shares of a limit never exceeds it. A new worker gets what is left, which may be nothing. The others
get less when they renew their shares, and the new worker gets an equal share at its next claim. The share of a silent
worker expires after ``HELD_SECONDS``: by then the worker writes nothing any more (``workflows.lease``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

import sqlalchemy as sa

from seqferry.db.advisory import AdvisoryLock, acquire
from seqferry.db.database import clock
from seqferry.db.tables import allotment

HELD_SECONDS: Final = 10.0
"""Lifetime of a share after its claim: the silence after which a worker counts as dead."""


def claim(
    connection: sa.Connection,
    worker_id: str,
    limits: Mapping[str, int],
    in_use: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, int]:
    """Renew a worker's shares of these limits, by name, and release its other shares.

    Args:
        in_use: amounts that the worker uses now and cannot return. Others do not get them even if its share is less.

    Returns:
        The share of each limit, from now on; 0 while others hold all of it.
    """
    acquire(connection, AdvisoryLock.ALLOTMENTS)
    now = clock(is_sqlite=connection.dialect.name == "sqlite")
    mine = allotment.c.worker_id == worker_id
    connection.execute(
        allotment.delete().where(sa.or_(allotment.c.until <= now, sa.and_(mine, allotment.c.name.not_in(list(limits)))))
    )
    others = {
        row.name: (row.workers, row.amount)
        for row in connection.execute(
            sa.select(
                allotment.c.name,
                sa.func.count().label("workers"),
                sa.func.sum(allotment.c.amount).label("amount"),
            )
            .where(allotment.c.name.in_(list(limits)), sa.not_(mine))
            .group_by(allotment.c.name)
        )
    }
    shares: dict[str, int] = {}
    for name, limit in limits.items():
        workers, amount = others.get(name, (0, 0))
        shares[name] = max(0, min(limit // (workers + 1), limit - int(amount)))
    connection.execute(allotment.delete().where(mine))
    if shares:
        rows = [
            {"name": name, "worker_id": worker_id, "amount": max(share, in_use.get(name, 0))}
            for name, share in shares.items()
        ]
        connection.execute(allotment.insert().values(until=now + HELD_SECONDS), rows)
    return shares


def release(connection: sa.Connection, worker_ids: Collection[str]) -> None:
    """Release all shares of workers that stop or are dead."""
    connection.execute(allotment.delete().where(allotment.c.worker_id.in_(worker_ids)))
