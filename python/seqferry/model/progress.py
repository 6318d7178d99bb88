"""Progress of transfers, the same for every interface: the time until the end, and the totals of a chain of retries."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from seqferry.model.models import Status, Totals

_AFTER_SECONDS: Final = 20.0
_AFTER_SHARE: Final = 0.05
"""No end is foretold before so much time or so large a share of the bytes: the first seconds say little of the rate."""


def eta(status: Status, now: float | None = None) -> float | None:
    """Seconds until the end; None while the listing runs, nothing moves, or too little has moved to tell.

    The present rate counts, or the mean since the start where that is higher: a rate falls when the last objects end.
    """
    totals, live = status.totals, status.live
    if not status.planned or live.bytes_per_second <= 0:
        return None
    passed = 0.0 if status.started_at is None else max((time.time() if now is None else now) - status.started_at, 0.0)
    if passed < _AFTER_SECONDS and totals.bytes_done < _AFTER_SHARE * totals.bytes:
        return None
    mean = totals.bytes_done / passed if passed else 0.0
    return max(totals.bytes - totals.bytes_done, 0) / max(live.bytes_per_second, mean)


def chain_totals(chain: Sequence[Status]) -> Totals:
    """Totals of a chain of retries as of one transfer: what arrived with any of them, and what the latest one left."""
    return Totals(
        objects=chain[0].totals.objects,
        bytes=chain[0].totals.bytes,
        done=sum(one.totals.done for one in chain),
        skipped=sum(one.totals.skipped for one in chain),
        failed=chain[-1].totals.failed,
        cancelled=chain[-1].totals.cancelled,
        bytes_done=sum(one.totals.bytes_done for one in chain),
    )
