"""Copying objects between buckets of AWS once: requests, traffic between regions, and what others ask for the same."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from seqferry.cost import requests
from seqferry.cost.lines import Comparison, Line, Offer, Pricer, decimal, money, number
from seqferry.cost.workload import Workload, parse_size
from seqferry.model.errors import UsageError
from seqferry.model.formatting import size
from seqferry.model.frozen import frozen
from seqferry.model.prices import GB, HOME

WAYS: Final = ("datasync-enhanced", "datasync-basic", "s3mirror")
_PARTS: Final = "parts:"
_MIB: Final = 2**20
_S3MIRROR_PART: Final = 16 * _MIB
"""Part size of S3Mirror."""
_S3MIRROR_CPU_MS: Final = Decimal(2_000_000)
_S3MIRROR_BYTES: Final = Decimal("11.88") * 2**40
"""CPU time of S3Mirror for so many bytes, as its authors measured it."""
_LEAST_PART: Final = 5 * _MIB
_MOST_PART: Final = 5 * GB
_MOST_OFFERS: Final = 8


@frozen
class MirrorRequest:
    """A mirror, and other ways to make it.

    Attributes:
        to_region: region of the target; None: that of the source.
        machine: a machine of EC2 that asks for the copies, for ``machine_hours``. None: no machine counts, of no way.
        cpu_ms: CPU time of S3Mirror, whose machine it is.
    """

    workload: Workload
    against: Sequence[str] = WAYS
    part_size: int | None = None
    to_region: str | None = None
    machine: str | None = None
    machine_hours: float = 1.0
    cpu_ms: float | None = None


def compare(request: MirrorRequest, pricer: Pricer) -> Comparison:
    """The copy by Seqferry, side by side with the other ways.

    Raises:
        UsageError: the request is not valid.
    """
    if len(request.against) >= _MOST_OFFERS:
        raise UsageError(
            f"--against was given {len(request.against)} times; at most {_MOST_OFFERS - 1} fit side by side."
        )
    _check_part(request.part_size, "--part-size")
    if request.cpu_ms is not None and request.machine is None:
        raise UsageError("--cpu-ms counts the machine of s3mirror: give --machine for that of Seqferry as well.")
    offers = [Offer("seqferry", _copy_lines(request, pricer, request.part_size))]
    offers += [_other(way, request, pricer) for way in request.against]
    where = pricer.prices.region
    return Comparison(
        kind="mirror",
        title=f"Copying {request.workload} from bucket to bucket, "
        f"{where if request.to_region in (None, where) else f'{where} to {request.to_region}'}",
        region=where,
        offers=offers,
        notes=_notes(request, pricer),
        left_out=_list_omissions(request, pricer),
    )


def _copy_lines(
    request: MirrorRequest, pricer: Pricer, part_size: int | None, threshold: int | None = None
) -> list[Line]:
    """Requests and traffic of copies inside S3, and the machine that asks for them."""
    workload = request.workload
    parts = requests.count_parts(workload.mean, inside=True, part_size=part_size, threshold=threshold)
    each = requests.upload_requests(parts, inside=True)
    shown = size(part_size or requests.COPY_PART)
    lines: list[Line] = []
    if parts > 1:
        lines += pricer.lines(f"copies of parts of {shown}", "s3-write", each.pop("UploadPartCopy") * workload.objects)
    writes = sum(count for name, count in each.items() if name in requests.WRITES) * workload.objects
    lines += pricer.lines("begin and end of uploads" if parts > 1 else "copies", "s3-write", writes)
    lines += pricer.lines("listing", "s3-write", -(-workload.objects // requests.PAGE) + 1)
    lines += pricer.lines("looks at objects", "s3-read", each["HeadObject"] * workload.objects)
    lines += _between(request, pricer)
    if request.machine is not None:
        hours = decimal(request.machine_hours, "--machine-hours", most=10_000)
        lines += pricer.lines(f"machine {request.machine}", f"ec2-{request.machine}", hours)
    return lines


def _between(request: MirrorRequest, pricer: Pricer) -> list[Line]:
    where, to = pricer.prices.region, request.to_region
    if to is None or to == where:
        return []
    name = "between-us-east" if {where, to} == {HOME, "us-east-2"} else "between-regions"
    return pricer.lines("traffic between regions", name, request.workload.size)


def _other(way: str, request: MirrorRequest, pricer: Pricer) -> Offer:
    workload = request.workload
    if way.startswith(_PARTS):
        part_size = _part_of(way)
        return Offer(way, _copy_lines(request, pricer, part_size, threshold=part_size))
    if way == "datasync-enhanced":
        lines = pricer.lines("DataSync, Enhanced mode", way, workload.size)
        return Offer(way, [*lines, *pricer.lines("its task", "datasync-enhanced-task", 1), *_between(request, pricer)])
    if way == "datasync-basic":
        lines = pricer.lines("DataSync, Basic mode", way, workload.size)
        return Offer(way, [*lines, *_between(request, pricer)])
    if way == "s3mirror":
        lines = [] if request.machine is None else _machine_of_s3mirror(request, pricer)
        asked = MirrorRequest(workload, part_size=_S3MIRROR_PART, to_region=request.to_region)
        return Offer(way, [*lines, *_copy_lines(asked, pricer, _S3MIRROR_PART, threshold=_S3MIRROR_PART)])
    ways = ", ".join(WAYS)
    raise UsageError(f"--against {way!r} is no way to copy; choose one of {ways}, parts:SIZE, as parts:16MiB.")


def _machine_of_s3mirror(request: MirrorRequest, pricer: Pricer) -> list[Line]:
    return [
        *pricer.lines("CPU of DBOS Cloud", "dbos-cpu", _cpu_ms(request)),
        *pricer.lines("a month of DBOS Cloud Pro", "dbos-month", 1),
    ]


def _cpu_ms(request: MirrorRequest) -> Decimal:
    if request.cpu_ms is not None:
        return decimal(request.cpu_ms, "--cpu-ms")
    return _S3MIRROR_CPU_MS * request.workload.size / _S3MIRROR_BYTES


def _part_of(way: str) -> int:
    part_size = parse_size(way.removeprefix(_PARTS), f"--against {way}")
    _check_part(part_size, f"--against {way}")
    return part_size


def _check_part(part_size: int | None, named: str) -> None:
    if part_size is not None and not _LEAST_PART <= part_size <= _MOST_PART:
        raise UsageError(f"{named}: parts of S3 have 5 MiB to 5 GiB, not {size(part_size)}.")


def _notes(request: MirrorRequest, pricer: Pricer) -> list[str]:
    binary = Decimal(request.workload.size) / GB
    notes = [f"A GB is counted as 2^30 bytes: {number(binary)} GB."]
    ways = [way for way in request.against if way.startswith("datasync-")]
    for way in ways:
        price = pricer.prices.get(way)
        task = sum((line.dollars for line in pricer.lines("", f"{way}-task", 1)), Decimal(0)) if way == WAYS[0] else 0
        off = 1 - pricer.discount / 100
        counted = Decimal(request.workload.size) / 10**9
        dollars = money(price.dollars * counted * off + task)
        notes.append(f"{way} counting 10^9 bytes as a GB: {number(counted)} GB, ${dollars}.")
    if "s3mirror" in request.against and request.cpu_ms is None and request.machine is not None:
        notes.append("s3mirror: 2 million CPU ms for 11.88 TiB, as its authors measured, in proportion to the bytes.")
    return notes


def _list_omissions(request: MirrorRequest, pricer: Pricer) -> list[str]:
    parts = requests.count_parts(request.workload.mean, inside=True, part_size=request.part_size)
    read = sum((line.dollars for line in pricer.lines("", "s3-read", parts * request.workload.objects)), Decimal(0))
    found = ["storage of the copies (seqferry cost store), retries, support and tax"]
    if request.machine is None:
        machine = "the machine that asks for the copies, which no byte passes through (--machine)"
        if "s3mirror" in request.against:
            dollars = sum((line.dollars for line in _machine_of_s3mirror(request, pricer)), Decimal(0))
            machine += f", and that of s3mirror with its subscription: ${money(dollars)}"
        found.insert(0, machine)
    if any(way.startswith("datasync-") for way in request.against):
        found.append("requests that DataSync itself asks of S3")
    found.append(
        f"reads of the source by copies, of which no page says whether they are billed: seqferry ${money(read)}"
    )
    return found
