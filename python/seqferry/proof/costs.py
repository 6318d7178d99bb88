"""The cost of a transfer that has ended, by the requests that were counted while it worked."""

from __future__ import annotations

import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seqferry.db import batches
from seqferry.db.tables import object_
from seqferry.model.frozen import frozen

if TYPE_CHECKING:
    from seqferry.cost.transfer import TransferCost
    from seqferry.model.models import TransferSpec

_KEPT: Final = 1000
"""Transfers whose skipped bytes are kept: more than a page shows."""


@frozen
class CountedCost:
    """Requests that were counted, and their cost at most."""

    requests: int
    cost: TransferCost

    def facts(self) -> dict[str, Any]:
        """Values for JSON, the same for every interface."""
        return {"requests_counted": self.requests, **asdict(self.cost)}


def transfer_cost(
    connection: sa.Connection,
    transfer_id: str,
    spec: TransferSpec,
    *,
    skipped: int,
    bytes_done: int,
    region: str | None,
) -> CountedCost | None:
    """The cost of a transfer that has ended; None where its requests have no price.

    Args:
        skipped, bytes_done: of its totals.
        region: of AWS, whose prices hold whatever the storage is; None: that of its places.

    Raises:
        UsageError: the list has no prices of the region.
    """
    from seqferry.spec import pricing  # a server that starts need not wait for it

    if not pricing.has_prices(spec, region):
        return None
    requests = batches.requests(connection, transfer_id)
    moved = bytes_done - (_SKIPPED.read(connection, transfer_id) if skipped else 0)
    cost = pricing.max_cost(spec, requests, moved, region)
    return None if cost is None else CountedCost(requests, cost)


class SkippedBytes:
    """Bytes that the target of transfers which have ended had before, kept: their rows do not change any more.

    Safe to use from many threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, int] = {}

    def read(self, connection: sa.Connection, transfer_id: str) -> int:
        """Bytes that one transfer skipped: reads all its rows the first time; 0 where they were pruned."""
        with self._lock:
            kept = self._kept.get(transfer_id)
        if kept is not None:
            return kept
        total = sa.select(sa.func.coalesce(sa.func.sum(object_.c.size), 0)).where(
            object_.c.transfer_id == transfer_id, object_.c.state == "skipped"
        )
        found = int(connection.execute(total).scalar_one())
        with self._lock:
            self._kept[transfer_id] = found
            while len(self._kept) > _KEPT:
                del self._kept[next(iter(self._kept))]
        return found


_SKIPPED: Final = SkippedBytes()
"""Of this process, whatever its databases: ids of transfers are never used again."""
