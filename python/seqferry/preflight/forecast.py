"""The forecast of a transfer: totals, and an estimate of its requests, its time and what the requests cost.

The estimate follows the engine's rules for parts (``crates/transfer/src/limits.rs``) and what a copy asks of the
storage. It counts no retries and no looks at what changes meanwhile. Prices are list prices of AWS; other services have
none here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from seqferry.model import prices
from seqferry.model.models import LocalFolder, Location, PlannedCopy, S3Location, Status, TransferSpec
from seqferry.places import endpoints
from seqferry.spec.build import data_path

_MIB: Final = 1024 * 1024
_COPY_THRESHOLD: Final = 128 * _MIB
_COPY_PART: Final = 128 * _MIB
_STREAM_THRESHOLD: Final = 16 * _MIB
_STREAM_PART: Final = 8 * _MIB
_MOST_PARTS: Final = 10_000
_PAGE: Final = 1000
"""Keys of a page of a listing."""

_WRITES_PER_SECOND: Final = 3500
"""Writes per second that S3 allows for a prefix."""
_PART_COPY_RATE: Final = 75 * _MIB
"""Bytes per second of one copy inside S3, which runs at 57-90 MiB/s."""
_STREAM_RATE: Final = 10**10 // 8
"""Bytes per second through one machine, where nothing is known of it: a network of 10 Gb/s."""
_EARLIER_AT_MOST: Final = 5
_EARLIER_BYTES: Final = 64 * _MIB
"""Least bytes of an earlier transfer that counts: smaller ones say nothing about a rate."""

_WRITES: Final = frozenset(
    {"ListObjectsV2", "CopyObject", "PutObject", "CreateMultipartUpload", "UploadPart", "UploadPartCopy"}
    | {"CompleteMultipartUpload"}
)
"""Billed as writes; deletions are free, and all else is a read."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimate of a whole transfer.

    Attributes:
        requests: by operation of S3.
        seconds: how long it takes; ``based_on`` says what that rests on.
        request_dollars: None where the storage is not AWS.
        egress_dollars: highest price of the bytes that leave AWS, when the machine is outside its region.
    """

    requests: dict[str, int]
    seconds: float
    based_on: str
    request_dollars: float | None
    egress_dollars: float | None

    @property
    def total_requests(self) -> int:
        return sum(self.requests.values())


@dataclass(slots=True)
class Forecast:
    """Adds up what a dry run shows, object by object, in constant memory."""

    spec: TransferSpec
    objects: int = 0
    """Objects that would be copied, or compared first."""
    bytes: int = 0
    compared: int = 0
    skipped: int = 0
    refused: int = 0
    left_out: int = 0
    removed: int = 0
    by_reason: Counter[str] = field(default_factory=Counter[str])
    _requests: Counter[str] = field(default_factory=Counter[str])
    _parallel: int = 0
    """Copies and parts that can be under way side by side."""

    @property
    def met(self) -> int:
        """Objects of the source, whatever becomes of them."""
        return self.objects + self.skipped + self.refused + self.left_out

    def add(self, planned: PlannedCopy) -> None:
        if planned.refusal is not None:
            self.refused += not planned.left_out
            self.left_out += planned.left_out
            return
        self.by_reason[planned.because] += 1
        if planned.action == "skip":
            self.skipped += 1
            return
        self.objects += 1
        self.bytes += planned.size
        if planned.action == "compare":
            self.compared += 1
            self._look(self.spec.source)
            self._look(self.spec.target)
        self._copy(planned.size)

    def totals(self) -> dict[str, Any]:
        """Totals for the JSON form."""
        return {
            "objects": self.objects,
            "compared": self.compared,
            "skipped": self.skipped,
            "refused": self.refused,
            "left_out": self.left_out,
            "bytes": self.bytes,
            "removed": self.removed,
            "by_reason": dict(self.by_reason),
        }

    def estimate(self, earlier: Iterable[Status] = (), max_bandwidth: int | None = None) -> Estimate:
        """Args: ``earlier`` are transfers that were done, newest first; ``max_bandwidth`` is in bytes per second."""
        requests = self._requests + self._around()
        seconds, based_on = self._duration(requests, earlier, max_bandwidth)
        is_aws = all(_is_aws(place) for place in (self.spec.source, self.spec.target))
        dollars = sum(_price(name, count) for name, count in requests.items())
        source = self.spec.source
        leaves = isinstance(source, S3Location) and _is_aws(source) and data_path(self.spec) == "stream"
        egress = prices.cost("egress", self.bytes) if leaves else None
        return Estimate(dict(sorted(requests.items())), seconds, based_on, dollars if is_aws else None, egress)

    def _around(self) -> Counter[str]:
        """Requests for the transfer as a whole: both places are looked at and listed."""
        found = Counter[str]()
        for place in (self.spec.source, self.spec.target):
            if isinstance(place, S3Location):
                found["HeadBucket"] += 1
        pages = max(1, -(-self.met // _PAGE))
        if self.spec.keys is not None:
            found["HeadObject"] += len(self.spec.keys) if isinstance(self.spec.source, S3Location) else 0
        elif isinstance(self.spec.source, S3Location) and self.spec.inventory is None:
            found["ListObjectsV2"] += pages
        if isinstance(self.spec.target, S3Location):
            found["ListObjectsV2"] += 1 + (pages if self.skipped or self.compared else 0)
            if self.removed:
                found["ListObjectsV2"] += pages
                found["DeleteObject"] += self.removed
        return found

    def _look(self, place: Location) -> None:
        if isinstance(place, S3Location):
            self._requests["HeadObject"] += 1

    def _copy(self, size: int) -> None:
        inside = data_path(self.spec) == "copy"
        threshold = self.spec.copy_threshold
        if threshold is None:
            threshold = _COPY_THRESHOLD if inside else _STREAM_THRESHOLD
        parts = 1
        if size > threshold:
            part = self.spec.part_size or (_COPY_PART if inside else _STREAM_PART)
            parts = -(-size // max(part, -(-size // _MOST_PARTS)))
        self._parallel += parts
        from_s3, to_s3 = isinstance(self.spec.source, S3Location), isinstance(self.spec.target, S3Location)
        if from_s3 and not inside:
            self._requests["GetObject"] += parts
        if not to_s3:
            return
        if parts == 1:
            self._requests["CopyObject" if inside else "PutObject"] += 1
            return
        self._requests["CreateMultipartUpload"] += 1
        self._requests["UploadPartCopy" if inside else "UploadPart"] += parts
        self._requests["CompleteMultipartUpload"] += 1
        self._requests["HeadObject"] += 1 + inside

    def _duration(
        self, requests: Counter[str], earlier: Iterable[Status], max_bandwidth: int | None
    ) -> tuple[float, str]:
        rates = _earlier_rates(self.spec, earlier)
        inside = data_path(self.spec) == "copy"
        if rates:
            rate, based_on = sum(rates) / len(rates), f"the rate of {len(rates)} earlier between the same places"
        elif inside:
            rate = _PART_COPY_RATE * max(1, min(self._parallel, _WRITES_PER_SECOND))
            based_on = "75 MiB/s for each copy inside S3, and 3,500 writes per second"
        else:
            rate, based_on = float(_STREAM_RATE), "10 Gb/s through this machine, and 3,500 writes per second"
        if max_bandwidth and not inside and max_bandwidth < rate:
            rate, based_on = float(max_bandwidth), "--max-bandwidth"
        writes = sum(count for name, count in requests.items() if name in _WRITES)
        return max(self.bytes / rate, writes / _WRITES_PER_SECOND), based_on


def _price(operation: str, requests: int) -> float:
    if operation == "DeleteObject":
        return 0.0
    return prices.cost("s3-write" if operation in _WRITES else "s3-read", requests)


def _is_aws(place: Location) -> bool:
    return isinstance(place, LocalFolder) or endpoints.of(place) is None


def _earlier_rates(spec: TransferSpec, earlier: Iterable[Status]) -> list[float]:
    """Bytes per second of transfers between the same containers, the newest few."""
    found: list[float] = []
    places = spec.source.container, spec.target.container
    for status in earlier:
        if status.unsupported is not None or (status.spec.source.container, status.spec.target.container) != places:
            continue
        if status.started_at is None or status.ended_at is None or status.totals.skipped:
            continue
        seconds = status.ended_at - status.started_at
        if status.totals.bytes_done >= _EARLIER_BYTES and seconds > 0:
            found.append(status.totals.bytes_done / seconds)
    return found[:_EARLIER_AT_MOST]
