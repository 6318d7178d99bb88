"""The cost of a transfer on AWS, by its places and its storage class: before it from an estimate, after it counted."""

from __future__ import annotations

from collections.abc import Mapping

from seqferry.cost import transfer as costs
from seqferry.cost.transfer import TransferCost
from seqferry.model.locations import LocalFolder, Location, S3Location
from seqferry.model.models import TransferSpec
from seqferry.places import endpoints
from seqferry.spec.validation import data_path


def is_on_aws(place: Location) -> bool:
    """True for a local place as well, which has no price of its own."""
    return isinstance(place, LocalFolder) or endpoints.resolve(place) is None


def has_prices(spec: TransferSpec, region: str | None = None) -> bool:
    """True when all requests of the transfer have a price: all places are on AWS, or a region was requested."""
    return region is not None or all(is_on_aws(place) for place in (spec.source, spec.target))


def cost(
    spec: TransferSpec,
    requests: Mapping[str, int],
    moved: int,
    region: str | None = None,
    *,
    streamed: int | None = None,
) -> TransferCost | None:
    """The cost of requests by operation, and of so many bytes.

    Args:
        streamed: bytes of them that pass through the machine that does the work; None: all of them, at most.
        region: of AWS, whose prices hold whatever the storage is; None: that of the places, where one is on AWS.

    Returns:
        None where no place is on AWS, and where the list has no price of the storage class.

    Raises:
        UsageError: the list has no prices of the region.
    """
    source, target = spec.source, spec.target
    on_aws = [place for place in (target, source) if isinstance(place, S3Location) and is_on_aws(place)]
    if region is None and not on_aws:
        return None
    leaves = isinstance(source, S3Location) and (region is not None or source in on_aws)
    return costs.price(
        region or costs.region_of(*(place.region for place in on_aws)),
        requests,
        moved,
        storage_class=spec.storage.storage_class,
        leaving=0 if not leaves else moved if streamed is None else streamed,
        arrives=isinstance(target, S3Location) and (region is not None or target in on_aws),
    )


def max_cost(spec: TransferSpec, requests: int, moved: int, region: str | None = None) -> TransferCost | None:
    """The cost of a transfer that has ended, at most: only downloads make no requests at the price of writes.

    Args:
        requests: counted, of all kinds.

    Returns:
        None where not all requests have a price.

    Raises:
        UsageError: the list has no prices of the region.
    """
    if not has_prices(spec, region):
        return None
    operation = "GetObject" if isinstance(spec.target, LocalFolder) else "PutObject"
    # A storage copies the large members of an archive by itself, and the small ones pass through a machine.
    inside = data_path(spec) == "copy" and not (spec.kind.packs or spec.kind.unpacks)
    return cost(spec, {operation: requests}, moved, region, streamed=0 if inside else None)
