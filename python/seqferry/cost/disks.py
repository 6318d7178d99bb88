"""Disks of a machine on EC2 (EBS), as people write them: ``io1:4000``, ``gp3:6000:250``, ``gp2@200``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from seqferry.cost.lines import Line, Pricer
from seqferry.model.errors import UsageError
from seqferry.model.frozen import frozen
from seqferry.model.prices import GB

_WRITTEN: Final = re.compile(
    r"(?P<type>[a-z][a-z0-9]*)(?::(?P<iops>\d{1,9}))?(?::(?P<throughput>\d{1,9}))?(?:@(?P<size>\d{1,9}))?"
)
_LARGEST: Final = 65_536
"""GB of the largest disk of EBS."""
_NAMES: Final = ("root", "cache")


@frozen
class _Type:
    """A type of disk.

    Attributes:
        iops: provisioned ones: "must", "may" (over those that are free), or "none".
        free_iops: IOPS that are in the price of the bytes.
        per_gb: most IOPS of each GB.
    """

    iops: str
    free_iops: int = 0
    free_throughput: int = 0
    per_gb: int = 0
    least: int = 1


_TYPES: Final = {
    "gp2": _Type("none"),
    "gp3": _Type("may", free_iops=3000, free_throughput=125, per_gb=500),
    "io1": _Type("must", per_gb=50, least=4),
    "io2": _Type("must", per_gb=1000, least=4),
    "st1": _Type("none", least=125),
}
"""By the documentation of EBS: https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html."""


@frozen
class Disk:
    """One disk. Its size is in GB of AWS, of 2^30 bytes."""

    name: str
    type: str
    size: int
    iops: int = 0
    throughput: int = 0

    def lines(self, pricer: Pricer) -> list[Line]:
        """The lines of this disk for a month."""
        kind, of = _TYPES[self.type], f"ebs-{self.type}"
        found = pricer.lines(f"{self.name} disk, {self.type}", f"{of}-gb", Decimal(self.size * GB))
        found += pricer.lines(f"{self.name} disk, IOPS", f"{of}-iops", max(self.iops - kind.free_iops, 0))
        over = max(self.throughput - kind.free_throughput, 0)
        return found + pricer.lines(f"{self.name} disk, throughput", f"{of}-throughput", over)


def parse(written: str, named: str, sizes: Sequence[int]) -> list[Disk]:
    """Disks written ``TYPE[:IOPS[:MB/s]][@GB]``, divided by commas, for a machine with disks of these sizes.

    A single one holds for all disks.

    Raises:
        UsageError: it is not valid; the message has an example.
    """
    items = [item.strip() for item in written.split(",")]
    if len(items) == 1 and "@" not in items[0]:
        items *= len(sizes)
    return [_disk(item, place, sizes, named) for place, item in enumerate(items)]


def _disk(item: str, place: int, sizes: Sequence[int], named: str) -> Disk:
    match = _WRITTEN.fullmatch(item)
    if match is None:
        raise UsageError(
            f"{named}: {item!r} is no disk. Write TYPE[:IOPS[:MB/s]][@GB], as io1:4000 or gp3:6000:250@200."
        )
    kind = _TYPES.get(match["type"])
    if kind is None:
        raise UsageError(f"{named}: there is no disk of type {match['type']!r}; choose one of {', '.join(_TYPES)}.")
    if match["size"] is None and place >= len(sizes):
        raise UsageError(f"{named}: {item!r} is disk {place + 1} of the machine. Write its size, as {item}@200.")
    size = int(match["size"]) if match["size"] is not None else sizes[place]
    if not kind.least <= size <= _LARGEST:
        raise UsageError(f"{named}: a disk of type {match['type']} has {kind.least} to {_LARGEST:,} GB, not {size:,}.")
    name = _NAMES[place] if place < len(_NAMES) else f"disk {place + 1}:"
    iops = int(match["iops"] or 0)
    _check_iops(item, match["type"], kind, size, iops, named)
    throughput = int(match["throughput"] or 0)
    if throughput and not kind.free_throughput:
        raise UsageError(f"{named}: a disk of type {match['type']} has no throughput to buy, as in {item!r}.")
    return Disk(name, match["type"], size, iops, throughput)


def _check_iops(item: str, of_type: str, kind: _Type, size: int, iops: int, named: str) -> None:
    if kind.iops == "none" and iops:
        raise UsageError(f"{named}: a disk of type {of_type} has no IOPS to buy, as in {item!r}. Write {of_type}.")
    if kind.iops == "must" and not iops:
        raise UsageError(f"{named}: a disk of type {of_type} needs its IOPS, as {of_type}:4000.")
    if iops and iops > max(kind.per_gb * size, kind.free_iops):
        most = max(kind.per_gb * size, kind.free_iops)
        raise UsageError(
            f"{named}: {of_type} gives {size:,} GB at most {most:,} IOPS ({kind.per_gb} a GB), not {iops:,}."
        )
