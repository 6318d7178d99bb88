"""Keeping objects in S3 for some months: uploads, storage by class with its least sizes and times, reads."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from seqferry.cost import classes, requests
from seqferry.cost.classes import StorageClass
from seqferry.cost.lines import Comparison, Line, Offer, Pricer, decimal, number
from seqferry.cost.workload import Workload
from seqferry.model.errors import UsageError
from seqferry.model.formatting import size
from seqferry.model.frozen import frozen

_MOST_MONTHS: Final = 1200
_DAYS: Final = Decimal(30)
"""Days of a month, for the least times of classes."""
_MOST_OFFERS: Final = 8


@frozen
class StoreRequest:
    """Objects in a class, and other classes.

    Attributes:
        read: bytes that are read of them in all, in as many objects as they have on average.
        outside: the reads leave AWS.
        archives: the same bytes in so many tars, as one more offer; None for none.
    """

    workload: Workload
    months: float = 1.0
    storage_class: str = "STANDARD"
    against: Sequence[str] = ()
    read: int = 0
    outside: bool = False
    archives: int | None = None


def compare(request: StoreRequest, pricer: Pricer) -> Comparison:
    """The class side by side with the other ones.

    Raises:
        UsageError: the request is not valid.
    """
    months = decimal(request.months, "--months", most=_MOST_MONTHS)
    if len(request.against) >= _MOST_OFFERS - 1:
        raise UsageError(
            f"--against was given {len(request.against)} times; at most {_MOST_OFFERS - 2} fit side by side."
        )
    kinds = [classes.find_class(request.storage_class, "--storage-class")]
    kinds += [classes.find_class(each, "--against") for each in request.against]
    offers = [_offer(kind.name, kind, request.workload, request, months, pricer) for kind in kinds]
    if request.archives is not None:
        packed = Workload(request.workload.size, request.archives)
        named = f"{kinds[0].name}, {request.archives:,} tar" + ("" if request.archives == 1 else "s")
        offers.append(_offer(named, kinds[0], packed, request, months, pricer))
    return Comparison(
        kind="store",
        title=f"Keeping {request.workload} in S3 for {number(months)} " + ("month" if months == 1 else "months"),
        region=pricer.prices.region,
        offers=offers,
        notes=["A GB is counted as 2^30 bytes, as S3 does; objects are priced as if they had the mean size."],
        left_out=[
            "versions, replication, unfinished uploads, changes of class by lifecycle rules, support and tax",
            *([] if request.read else ["reads (--read)"]),
        ],
    )


def _offer(
    name: str, kind: StorageClass, workload: Workload, request: StoreRequest, months: Decimal, pricer: Pricer
) -> Offer:
    parts = requests.count_parts(workload.mean, inside=False)
    each = requests.upload_requests(parts, inside=False)
    writes = sum(count for operation, count in each.items() if operation in requests.WRITES)
    lines = pricer.lines("uploads", f"{kind.prefix}-write", writes * workload.objects)
    if kind.upload is not None:
        lines += pricer.lines("bytes written", f"{kind.prefix}-{kind.upload}", workload.size)
    stored, notes = _storage_lines(kind, workload, months, pricer)
    return Offer(name, [*lines, *stored, *_reads(kind, workload, request, pricer)], notes)


def _storage_lines(
    kind: StorageClass, workload: Workload, months: Decimal, pricer: Pricer
) -> tuple[list[Line], list[str]]:
    """Lines of the storage, and notes on what is paid though it is not there."""
    notes: list[str] = []
    paid = max(months, Decimal(kind.least_days) / _DAYS)
    if paid > months:
        notes.append(f"{kind.name}: {kind.least_days} days are paid at least")
    each = max(workload.mean, kind.least_bytes)
    total = workload.size if each == workload.mean else each * workload.objects
    if total > workload.size:
        notes.append(f"{kind.name}: {size(kind.least_bytes)} are paid at least for an object")
    lines = _months(f"storage, {number(paid)} months", f"{kind.prefix}-month", total, paid, pricer)
    if kind.overhead:
        over, standard = kind.overhead * workload.objects, kind.overhead_standard * workload.objects
        lines += _months("index of the objects", f"{kind.prefix}-month", over, paid, pricer)
        lines += _months("names of the objects", "s3-month", standard, paid, pricer)
        notes.append(f"{kind.name}: {size(kind.overhead + kind.overhead_standard)} are paid beside each object")
        notes.append(f"{kind.name}: all requests of an upload at its own price; AWS may bill its parts as Standard's")
    if kind.monitored and workload.mean > classes.MONITORED_ABOVE:
        lines += pricer.lines("monitoring", f"{kind.prefix}-monitoring", workload.objects * paid)
        notes.append(f"{kind.name}: as if all were read each month; what rests for 30 days costs less")
    return lines, notes


def _months(item: str, name: str, stored: int, months: Decimal, pricer: Pricer) -> list[Line]:
    """Lines of bytes for some months: steps of the price are those of one month."""
    return [
        Line(line.item, line.quantity * months, line.price, line.discount, line.less)
        for line in pricer.lines(item, name, stored)
    ]


def _reads(kind: StorageClass, workload: Workload, request: StoreRequest, pricer: Pricer) -> list[Line]:
    if not request.read:
        return []
    objects = max(1, -(-request.read // max(workload.mean, 1)))
    parts = requests.count_parts(workload.mean, inside=False)
    lines = pricer.lines("reads", f"{kind.prefix}-read", objects * parts)
    if kind.read is not None:
        lines += pricer.lines("bytes read", f"{kind.prefix}-{kind.read}", request.read)
    if kind.restore is not None:
        lines += pricer.lines("restores", f"{kind.prefix}-{kind.restore}", objects)
    return lines + (pricer.lines("traffic to the internet", "egress", request.read) if request.outside else [])
