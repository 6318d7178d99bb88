"""The cost of one transfer on AWS, by its requests and its bytes, and what DataSync would ask for the same bytes."""

from __future__ import annotations

from collections.abc import Mapping

from seqferry.cost import requests
from seqferry.cost.classes import CLASSES
from seqferry.model import prices
from seqferry.model.frozen import frozen
from seqferry.model.prices import HOME, PriceList

_STANDARD = CLASSES["STANDARD"]


@frozen
class TransferCost:
    """Costs in US dollars.

    Attributes:
        region: whose prices hold.
        egress: of the bytes that leave AWS to the internet; None where none does.
        month: of the storage of all bytes for a month; None where they do not arrive there.
        datasync_basic, datasync_enhanced: asked by DataSync for the bytes, without its requests to S3.
    """

    region: str
    requests: float
    egress: float | None
    month: float | None
    datasync_basic: float
    datasync_enhanced: float


def region_of(*regions: str | None) -> str:
    """The first of these regions that the list has prices of; else us-east-1."""
    known = prices.read_shipped(HOME).regions
    return next((region for region in regions if region in known), HOME)


def price(
    region: str,
    counted: Mapping[str, int],
    moved: int,
    *,
    storage_class: str | None = None,
    leaving: int = 0,
    arrives: bool = True,
) -> TransferCost | None:
    """The cost of requests by operation and of bytes that move once.

    Args:
        storage_class: of the target, which prices its writes and its storage.
        leaving: bytes of them that leave AWS.
        arrives: they are stored in S3.

    Returns:
        None where the list has no price of this class in this region.

    Raises:
        UsageError: the list has no prices of this region.
    """
    table = prices.read_shipped(region)
    kind = CLASSES.get(storage_class or _STANDARD.name)
    if kind is None or not {f"{kind.prefix}-write", f"{kind.prefix}-month"} <= table.rows.keys():
        return None
    return TransferCost(
        region=region,
        requests=sum(_request(table, kind.prefix, name, count) for name, count in counted.items()),
        egress=_price_in_steps(table, "egress", leaving) if leaving else None,
        month=_price_in_steps(table, f"{kind.prefix}-month", moved) if arrives else None,
        datasync_basic=prices.cost("datasync-basic", moved),
        datasync_enhanced=prices.cost("datasync-enhanced", moved) + prices.cost("datasync-enhanced-task", 1),
    )


def _request(table: PriceList, prefix: str, operation: str, count: int) -> float:
    """Listings cost the same in all classes, and reads are those of Standard: the classes of sources vary."""
    name = requests.price_name(operation)
    if name is None:
        return 0.0
    return table.get(f"{prefix}-write" if name == "s3-write" and operation != "ListObjectsV2" else name).of(count)


def _price_in_steps(table: PriceList, name: str, count: int) -> float:
    return float(sum(each.exactly(units) for each, units in table.steps(name, count)))
