"""Input data of tasks, brought from S3 to each of them: file by file, as one tar, or read in place by a mount."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from seqferry.cost import classes, requests
from seqferry.cost.classes import StorageClass
from seqferry.cost.lines import Comparison, Line, Offer, Pricer, decimal, number
from seqferry.cost.workload import Workload
from seqferry.model.errors import UsageError
from seqferry.model.formatting import count
from seqferry.model.frozen import frozen
from seqferry.model.prices import GB

_MONTH_HOURS: Final = Decimal(730)
_MOST_TASKS: Final = 10**9
_MOUNT_READ: Final = 8 * 2**20
"""Bytes of a request of a mount that reads on, about: windows grow from 1 MiB to 64 MiB and are divided."""
_DISKS: Final = ("gp2", "gp3", "st1")
"""Disks without IOPS to buy."""


@frozen
class StageRequest:
    """Tasks that each read the same amount of data.

    Attributes:
        fraction: percent of the files that a task reads.
        hours: how long a task lasts, which keeps its machine and its disk.
        outside: the tasks run outside of AWS.
        nat: their traffic passes a NAT gateway, for lack of an endpoint of S3.
    """

    workload: Workload
    tasks: int = 1
    fraction: float = 100.0
    storage_class: str = "STANDARD"
    machine: str | None = None
    disk: str | None = None
    hours: float = 1.0
    outside: bool = False
    nat: bool = False


def compare(request: StageRequest, pricer: Pricer) -> Comparison:
    """The three ways side by side.

    Raises:
        UsageError: the request is not valid.
    """
    if not 1 <= request.tasks <= _MOST_TASKS:
        raise UsageError(f"--tasks {request.tasks:,} is not valid: choose 1 to {_MOST_TASKS:,}.")
    fraction = decimal(request.fraction, "--fraction", most=100) / 100
    hours = decimal(request.hours, "--hours", most=10_000)
    if request.disk is not None and request.disk not in _DISKS:
        raise UsageError(f"--disk: a disk of tasks is one of {', '.join(_DISKS)}, not {request.disk!r}.")
    kind = classes.find_class(request.storage_class, "--storage-class")
    if kind.restore is not None:
        raise UsageError(f"--storage-class: objects in {kind.name} are not read before they are restored.")
    whole = request.workload
    some = Workload(max(1, round(whole.size * fraction)) if whole.size else 0, max(1, round(whole.objects * fraction)))
    one = Workload(whole.size, 1)
    offers = [
        Offer("files", _way(request, kind, pricer, whole, _gets(whole), hours, disk=whole.size)),
        Offer("tar", _way(request, kind, pricer, one, _gets(one), hours, disk=whole.size)),
        Offer("mount", _way(request, kind, pricer, some, _in_place(some), hours, disk=0)),
    ]
    return Comparison(
        kind="stage",
        title=f"Bringing {whole} to each of {count(request.tasks, 'task')}, {number(fraction * 100)} % of it read",
        region=pricer.prices.region,
        offers=offers,
        notes=[
            "files: all are downloaded; tar: they are one object, unpacked while it is read; mount: what is read.",
            "A GB is counted as 2^30 bytes; objects are priced as if they had the mean size.",
        ],
        left_out=_list_omissions(request),
    )


def _gets(workload: Workload) -> int:
    return requests.count_parts(workload.mean, inside=False) * workload.objects


def _in_place(workload: Workload) -> int:
    return max(1, -(-workload.mean // _MOUNT_READ)) * workload.objects


def _way(
    request: StageRequest,
    kind: StorageClass,
    pricer: Pricer,
    read: Workload,
    gets: int,
    hours: Decimal,
    *,
    disk: int,
) -> list[Line]:
    tasks, moved = request.tasks, read.size * request.tasks
    lines = pricer.lines("reads", f"{kind.prefix}-read", gets * tasks)
    lines += pricer.lines("listings", "s3-write", -(-read.objects // requests.PAGE) * tasks)
    if kind.read is not None:
        lines += pricer.lines("bytes read", f"{kind.prefix}-{kind.read}", moved)
    if request.outside:
        lines += pricer.lines("traffic to the internet", "egress", moved)
    if request.nat:
        lines += pricer.lines("through a NAT gateway", "nat-gb", moved)
    if request.disk is not None and disk:
        # Disks of EBS have whole GB.
        held = -(-disk // GB) * GB * tasks
        lines += pricer.lines(f"disks, {request.disk}", f"ebs-{request.disk}-gb", held * hours / _MONTH_HOURS)
    if request.machine is not None:
        lines += pricer.lines(f"machines {request.machine}", f"ec2-{request.machine}", hours * tasks)
    return lines


def _list_omissions(request: StageRequest) -> list[str]:
    found = ["storage of the data (seqferry cost store), results, retries, support and tax"]
    if request.machine is None:
        found.append("machines (--machine, --hours)")
    if request.disk is None:
        found.append("disks of the tasks (--disk, --hours)")
    if not request.outside:
        found.append("traffic out of AWS, which tasks within the region do not have (--outside)")
    return found
