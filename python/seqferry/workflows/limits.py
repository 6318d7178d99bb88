"""The limits that hold for a process now: those it was started with, and those of the transfers that it works at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from seqferry.model.models import Adjustment
from seqferry.settings.config import Settings
from seqferry.settings.sizes import Bandwidth


class BudgetLimits(NamedTuple):
    """Requests in flight, bytes per second, and requests started per second (None: no limit)."""

    requests: int
    bandwidth: int | None
    starts: int | None = None


def limits_of(settings: Settings, work: Iterable[Adjustment], *, own_work: bool) -> BudgetLimits:
    """The least of all limits that hold, since the work of a process shares one budget.

    Args:
        work: adjustments of each transfer that the process works at.
        own_work: the process was started for its transfer, whose limits then replace those it was started with. Else
            they were set by an operator, and a transfer can only lower them.
    """
    found = list(work)
    requests = [one.max_requests for one in found]
    rates = [None if one.max_bandwidth is None else Bandwidth.parse(one.max_bandwidth) for one in found]
    starts = [settings.tpslimit if one.tpslimit is None else one.tpslimit for one in found]
    if not own_work or not found:
        starts.append(settings.tpslimit)
        requests.append(settings.max_requests)
        rates.append(settings.max_bandwidth)
    own = settings.max_bandwidth
    now = [rate for one in rates if (rate := (own if one is None else one).now()) is not None]
    return BudgetLimits(
        requests=min(one or settings.max_requests for one in requests),
        bandwidth=min(now, default=None),
        starts=min((one for one in starts if one is not None), default=None),
    )
