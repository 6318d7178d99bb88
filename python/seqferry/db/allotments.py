"""Shares of limits that hold over all workers: who may use how much of each. Postgres only; SQLite has one worker.

The sum of what is held of a limit never exceeds it. A worker that comes gets what is left, perhaps nothing;
the others take less when they renew theirs, and it gets an equal share when it asks again. The share of a worker that
is silent lapses after ``HELD_SECONDS``: by then it writes nothing any more (``workflows.lease``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

import sqlalchemy as sa

from seqferry.db.advisory import AdvisoryLock, take
from seqferry.db.database import clock
from seqferry.db.tables import allotment

HELD_SECONDS: Final = 10.0
"""Time for which a share is held after it was asked for: as long as a worker is not yet taken for dead."""


def claim(
    connection: sa.Connection,
    worker_id: str,
    limits: Mapping[str, int],
    in_use: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, int]:
    """Renew a worker's shares of these limits, by name, and give up all others that it has.

    Args:
        in_use: what the worker uses now and cannot take back: others do not get it, though its share be less.

    Returns:
        The share of each limit, from now on; 0 while others hold all of it.
    """
    take(connection, AdvisoryLock.ALLOTMENTS)
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


def give_up(connection: sa.Connection, worker_ids: Collection[str]) -> None:
    """These workers use none of their shares any more: they leave, or are dead."""
    connection.execute(allotment.delete().where(allotment.c.worker_id.in_(worker_ids)))
