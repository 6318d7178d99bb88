"""The price of a bench on AWS, by the list prices of ``seqferry.model.prices``: a rough figure before the start."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from seqferry.bench.workload import Workload
from seqferry.model.frozen import frozen
from seqferry.model.prices import cost

_PART: Final = 8 * 1024 * 1024
"""Part size of the estimate: the smallest default of the methods, so that the figure is rather too high."""


_COPY_PART: Final = 16 * 1024 * 1024
"""The same of copies: S3Mirror's."""


@frozen
class Traffic:
    """Bytes and requests of some runs, preparing and verifying included."""

    bytes_up: int = 0
    bytes_down: int = 0
    writes: int = 0
    reads: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.bytes_up + other.bytes_up,
            self.bytes_down + other.bytes_down,
            self.writes + other.writes,
            self.reads + other.reads,
        )

    @property
    def request_dollars(self) -> float:
        return cost("s3-write", self.writes) + cost("s3-read", self.reads)

    @property
    def egress_dollars(self) -> float:
        """Price of the bytes that come down, when the machine is not in the bucket's region."""
        return cost("egress", self.bytes_down)


def upload(workload: Workload) -> Traffic:
    """Traffic of one upload of all files."""
    parts = -(-workload.size // _PART)
    return Traffic(bytes_up=workload.total, writes=workload.files * (1 if parts == 1 else parts + 2))


def download(workload: Workload) -> Traffic:
    """Traffic of one download of all files, with their listing."""
    parts = -(-workload.size // _PART)
    return Traffic(bytes_down=workload.total, reads=workload.files * parts, writes=-(-workload.files // 1000))


def copy(workload: Workload) -> Traffic:
    """Traffic of one copy of all objects within S3: no byte goes through the client."""
    parts = -(-workload.size // _COPY_PART)
    writes = workload.files * (1 if parts == 1 else parts + 2) + -(-workload.files // 1000)
    return Traffic(writes=writes, reads=workload.files)


def total(parts: Iterable[Traffic]) -> Traffic:
    return sum(parts, Traffic())
