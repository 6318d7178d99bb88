"""The limits that hold for a process now: those it was started with, and its shares of those over all workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from seqferry.db.transfers import WorkLimits
from seqferry.model.models import Adjustment
from seqferry.settings.config import Settings
from seqferry.settings.sizes import Bandwidth

if TYPE_CHECKING:
    from seqferry.settings.place_limits import PlaceLimit

_REQUESTS: Final = "requests"
_BANDWIDTH: Final = "bandwidth"
_STARTS: Final = "starts"


class BudgetLimits(NamedTuple):
    """Requests in flight, bytes per second, and requests started per second (None: no limit)."""

    requests: int
    bandwidth: int | None
    starts: int | None = None

    def least(self, other: BudgetLimits) -> BudgetLimits:
        """The lower one of each limit."""
        return BudgetLimits(
            min(self.requests, other.requests),
            _least((self.bandwidth, other.bandwidth)),
            _least((self.starts, other.starts)),
        )


def limits_of(settings: Settings, work: Iterable[Adjustment], *, own_work: bool) -> BudgetLimits:
    """The lowest of all limits that apply, since all transfers of a process share one budget.

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
    return BudgetLimits(
        requests=min(one or settings.max_requests for one in requests),
        bandwidth=_least((own if one is None else one).now() for one in rates),
        starts=_least(starts),
    )


def limits_over_all(work: Mapping[str, WorkLimits], places: Iterable[PlaceLimit]) -> dict[str, int]:
    """Limits over all workers for these transfers, by name: of the transfers, and of their locations."""
    found: dict[str, int | None] = {}
    for transfer_id, one in work.items():
        rate = one.adjustment.max_bandwidth
        found[f"{transfer_id} {_REQUESTS}"] = one.adjustment.max_requests
        found[f"{transfer_id} {_BANDWIDTH}"] = None if rate is None else Bandwidth.parse(rate).now()
        found[f"{transfer_id} {_STARTS}"] = one.adjustment.tpslimit
    for limit in places:
        if any(
            limit.covers(uri, endpoint)
            for one in work.values()
            for uri, endpoint in zip((one.source_uri, one.target_uri), one.endpoints, strict=True)
        ):
            found[f"{limit.name} {_REQUESTS}"] = limit.max_requests
            found[f"{limit.name} {_BANDWIDTH}"] = None if limit.max_bandwidth is None else limit.max_bandwidth.now()
            found[f"{limit.name} {_STARTS}"] = limit.tpslimit
    return {name: limit for name, limit in found.items() if limit is not None}


def requests_in_use(limits: Mapping[str, int], in_flight: int) -> dict[str, int]:
    """Amounts of these limits in use by a process with so many requests in flight."""
    return {name: min(limit, in_flight) for name, limit in limits.items() if name.endswith(f" {_REQUESTS}")}


def limits_with_shares(
    settings: Settings, work: Mapping[str, WorkLimits], shares: Mapping[str, int], *, own_work: bool
) -> BudgetLimits:
    """``limits_of``, with this worker's shares of ``limits_over_all`` in place of the limits.

    A worker whose share is 0 continues with one request at a time, one per second, and one byte per second: it need not
    leave its running work to wait for a share.
    """
    at_least = {name: max(share, 1) for name, share in shares.items()}
    adjusted = [_with_shares(transfer_id, one.adjustment, at_least) for transfer_id, one in work.items()]
    limits = limits_of(settings, adjusted, own_work=own_work)
    for name, share in at_least.items():
        place, _, resource = name.rpartition(" ")
        if place not in work:
            limits = limits.least(
                BudgetLimits(
                    share if resource == _REQUESTS else limits.requests,
                    share if resource == _BANDWIDTH else None,
                    share if resource == _STARTS else None,
                )
            )
    return limits


def _with_shares(transfer_id: str, adjustment: Adjustment, shares: Mapping[str, int]) -> Adjustment:
    rate = shares.get(f"{transfer_id} {_BANDWIDTH}")
    return replace(
        adjustment,
        max_requests=shares.get(f"{transfer_id} {_REQUESTS}", adjustment.max_requests),
        max_bandwidth=adjustment.max_bandwidth if rate is None else f"{rate}B",
        tpslimit=shares.get(f"{transfer_id} {_STARTS}", adjustment.tpslimit),
    )


def _least(limits: Iterable[int | None]) -> int | None:
    return min((one for one in limits if one is not None), default=None)
