"""A Storage Gateway on a machine of EC2 for a month: hours of the machine, its disks, and data written through it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from seqferry.cost import disks
from seqferry.cost.disks import Disk
from seqferry.cost.lines import Comparison, Line, Offer, Pricer, decimal, number
from seqferry.model.errors import UsageError
from seqferry.model.frozen import frozen
from seqferry.model.prices import GB

MONTH_HOURS: Final = 730.0
"""Hours of a month in AWS's Pricing Calculator; its Simple Monthly Calculator had 732."""
_MOST_HOURS: Final = 744
_FREE_WRITTEN: Final = 100 * GB
_CAP: Final = Decimal(125)
"""Dollars that a gateway asks for at most in a month, for what is written through it."""
_MOST_OFFERS: Final = 8


@frozen
class GatewayRequest:
    """A gateway, and disks that it could have instead.

    Attributes:
        sizes: of the root disk and of the cache disk, in GB of AWS.
        written: bytes that are written through it in a month.
    """

    machine: str = "c5.4xlarge"
    disks: str = "io1:4000,io1:1500"
    against: Sequence[str] = ("gp2",)
    sizes: tuple[int, int] = (80, 512)
    hours: float = MONTH_HOURS
    written: int = 0


def compare(request: GatewayRequest, pricer: Pricer) -> Comparison:
    """The gateway with its disks, side by side with the other ones.

    Raises:
        UsageError: the request is not valid.
    """
    hours = decimal(request.hours, "--hours", most=_MOST_HOURS)
    if len(request.against) >= _MOST_OFFERS:
        raise UsageError(
            f"--against was given {len(request.against)} times; at most {_MOST_OFFERS - 1} fit side by side."
        )
    machine = f"ec2-{request.machine}"
    if machine not in pricer.prices.rows:
        known = ", ".join(pricer.prices.with_prefix("ec2-"))
        raise UsageError(
            f"--machine: {pricer.prices.named} has no price of {request.machine} in {pricer.prices.region}; it has "
            f"{known or 'none'}. Add yours to a file, and give it with --prices."
        )
    chosen = disks.parse(request.disks, "--disks", request.sizes)
    sizes = tuple(disk.size for disk in chosen)
    offers = [_offer(request.disks, chosen, request, hours, pricer)]
    offers += [
        _offer(other, disks.parse(other, "--against", sizes), request, hours, pricer) for other in request.against
    ]
    return Comparison(
        kind="gateway",
        title=f"Storage Gateway on {request.machine}, a month of {number(hours)} hours",
        region=pricer.prices.region,
        offers=offers,
        notes=[_sizes(sizes)],
        left_out=_list_omissions(request),
    )


def _sizes(sizes: Sequence[int]) -> str:
    total = sum(sizes)
    return (
        f"{total:,} GB of disks are counted as AWS sells them, in GiB; {total:,} x 10^9 bytes would be "
        f"{number(Decimal(total) * 10**9 / GB)} of these."
    )


def _offer(written: str, chosen: Sequence[Disk], request: GatewayRequest, hours: Decimal, pricer: Pricer) -> Offer:
    lines = pricer.lines(f"machine {request.machine}", f"ec2-{request.machine}", hours)
    for disk in chosen:
        lines += disk.lines(pricer)
    return Offer(written.replace(" ", ""), [*lines, *_through(request.written, pricer)])


def _through(written: int, pricer: Pricer) -> list[Line]:
    """The line of what is written through the gateway, with its cap."""
    if written <= _FREE_WRITTEN:
        return []
    [line] = pricer.lines("written through it, over 100 GB", "gateway-written", written - _FREE_WRITTEN)
    over = max(line.price.exactly(line.quantity) - _CAP, Decimal(0))
    item = f"{line.item}, at most ${_CAP}" if over else line.item
    return [Line(item, line.quantity, line.price, line.discount, over)]


def _list_omissions(request: GatewayRequest) -> list[str]:
    found = ["storage and requests of the bucket (seqferry cost store)", "traffic, snapshots of disks, support and tax"]
    if not request.written:
        found.insert(0, "what the gateway asks for data written through it (--written)")
    return found
