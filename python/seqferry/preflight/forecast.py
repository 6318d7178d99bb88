"""The forecast of a transfer: totals, and an estimate of its requests, its time and what the requests cost.

The estimate follows the engine's rules for parts (``crates/transfer/src/limits.rs``) and what a copy asks of the
storage. It counts no retries and no requests for changes made meanwhile. Prices are list prices of AWS; for other
services they are those of an AWS region that the user names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from seqferry.cost import requests as rules
from seqferry.model.frozen import frozen
from seqferry.model.locations import Location, S3Location
from seqferry.model.models import PlannedCopy, ResolvedSpec, Status
from seqferry.preflight import report
from seqferry.preflight.report import PredictedFailure, PreflightReport
from seqferry.spec import pricing
from seqferry.spec.validation import data_path

_MIB: Final = 1024 * 1024
_WRITES_PER_SECOND: Final = 3500
"""Writes per second that S3 allows for a prefix."""
_PART_COPY_RATE: Final = 75 * _MIB
"""Bytes per second of one copy inside S3, which runs at 57-90 MiB/s."""
_STREAM_RATE: Final = 10**10 // 8
"""Bytes per second through one machine, where nothing is known of it: a network of 10 Gb/s."""
_KEYS: Final = 20
"""Keys that are named for each cause."""
_EARLIER_AT_MOST: Final = 5
_EARLIER_BYTES: Final = 64 * _MIB
"""Least bytes of an earlier transfer that counts: smaller ones say nothing about a rate."""


@frozen
class Estimate:
    """Estimate of a whole transfer.

    Attributes:
        requests: by operation of S3.
        seconds: how long it takes; ``based_on`` says what that rests on.
        request_dollars: None where the storage is not AWS and no region was requested.
        egress_dollars: highest price of the bytes that leave AWS, when the machine is outside its region.
        month_dollars: price of a month's storage of the copies; None where they are not in AWS.
        price_region: region whose prices apply; None without prices.
        datasync_basic_dollars, datasync_enhanced_dollars: price of the same bytes by DataSync.
    """

    requests: dict[str, int]
    seconds: float
    based_on: str
    request_dollars: float | None
    egress_dollars: float | None
    month_dollars: float | None = None
    price_region: str | None = None
    datasync_basic_dollars: float | None = None
    datasync_enhanced_dollars: float | None = None

    @property
    def total_requests(self) -> int:
        return sum(self.requests.values())


@dataclass(slots=True)
class Forecast:
    """Adds up what a dry run shows, object by object, in constant memory."""

    spec: ResolvedSpec
    objects: int = 0
    """Objects that would be copied, or compared first."""
    bytes: int = 0
    compared: int = 0
    skipped: int = 0
    refused: int = 0
    left_out: int = 0
    removed: int = 0
    by_reason: Counter[str] = field(default_factory=Counter[str])
    findings: PreflightReport = field(default_factory=PreflightReport)
    """Failures that the objects would have, by cause."""
    _requests: Counter[str] = field(default_factory=Counter[str])
    _parallel: int = 0
    """Copies and parts that can be under way side by side."""
    _streamed: int = 0
    """Bytes that pass through the machine that does the work."""
    _assembled: int = 0
    """Bytes of archives in parts that are assembled from members."""
    _shared: int = 0
    """Bytes of members of an archive that share reads with their neighbours."""
    _archives: int = 0
    _archive: str = ""
    """Key of the archive that the last object would be packed into."""

    @property
    def source_objects(self) -> int:
        """Number of objects of the source, whatever their action."""
        return self.objects + self.skipped + self.refused + self.left_out

    def add(self, planned: PlannedCopy) -> None:
        if planned.refusal is not None:
            self.refused += not planned.left_out
            self.left_out += planned.left_out
            if not planned.left_out:
                failure = PredictedFailure(planned.code or "Refused", planned.operation, planned.refusal)
                self.findings.add(failure, planned.source_key, planned.size)
            return
        self.by_reason[planned.because] += 1
        if planned.action == "skip":
            self.skipped += 1
            return
        self.objects += 1
        self.bytes += planned.size
        if planned.action == "compare":
            self.compared += 1
            self._count_head(self.spec.source)
            self._count_head(self.spec.target)
        if self.spec.kind.packs:
            self._pack(planned)
        elif self.spec.kind.unpacks:
            self._unpack(planned.size)
        else:
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

    def check_data(self) -> dict[str, Any]:
        """Number of objects that were read and causes of failures, for the JSON form.

        ``looked_up``: objects of which a byte was read, of those that would be copied; ``sampled``: not all of them.
        """
        found = report.event_data(self.findings, keys=_KEYS)
        return {
            "looked_up": self.findings.tried,
            "sampled": found["looked_up"] is not None,
            "causes": found["causes"],
        }

    def estimate(
        self, earlier: Iterable[Status] = (), max_bandwidth: int | None = None, price: str | None = None
    ) -> Estimate:
        """Estimate of all objects so far.

        Args:
            earlier: transfers that were done, newest first.
            max_bandwidth: bytes per second.
            price: region of AWS whose prices hold, whatever the storage is.

        Raises:
            UsageError: there are no prices of that region.
        """
        requests = self._requests + self._fixed_requests()
        seconds, based_on = self._duration(requests, earlier, max_bandwidth)
        found = Estimate(dict(sorted(requests.items())), seconds, based_on, None, None)
        cost = pricing.cost(self.spec, requests, self.bytes, price, streamed=self._streamed)
        if cost is None:
            return found
        is_priced = pricing.has_prices(self.spec, price)
        return replace(
            found,
            request_dollars=cost.requests if is_priced else None,
            egress_dollars=cost.egress,
            month_dollars=cost.month if is_priced else None,
            price_region=cost.region,
            datasync_basic_dollars=cost.datasync_basic if is_priced else None,
            datasync_enhanced_dollars=cost.datasync_enhanced if is_priced else None,
        )

    def _fixed_requests(self) -> Counter[str]:
        """Requests for the transfer as a whole: HEAD and listings of source and target."""
        found = Counter[str]()
        for place in (self.spec.source, self.spec.target):
            if isinstance(place, S3Location):
                found["HeadBucket"] += 1
        if self.spec.kind.unpacks and isinstance(self.spec.source, S3Location):
            found["GetObject"] += rules.ARCHIVE_LOOKS + -(-self._shared // rules.SHARED_READ)
        pages = max(1, -(-self.source_objects // rules.PAGE))
        if self.spec.keys is not None:
            found["HeadObject"] += len(self.spec.keys) if isinstance(self.spec.source, S3Location) else 0
        elif isinstance(self.spec.source, S3Location) and self.spec.inventory is None:
            found["ListObjectsV2"] += pages
        if isinstance(self.spec.target, S3Location):
            if self.spec.kind.packs:
                found += self._uploads_of_archives()
            found["ListObjectsV2"] += 1 + (pages if self.skipped or self.compared else 0)
            if self.removed:
                found["ListObjectsV2"] += pages
                found["DeleteObject"] += self.removed
        return found

    def _count_head(self, place: Location) -> None:
        if isinstance(place, S3Location):
            self._requests["HeadObject"] += 1

    def _copy(self, size: int) -> None:
        inside = data_path(self.spec) == "copy"
        of = self.spec.parts
        parts = rules.count_parts(size, inside=inside, part_size=of.part_size, threshold=of.copy_threshold)
        self._parallel += parts
        if not inside:
            self._stream(size, parts)
        if isinstance(self.spec.target, S3Location):
            self._requests += rules.upload_requests(parts, inside=inside)

    def _pack(self, planned: PlannedCopy) -> None:
        """A member of an archive. The storage copies large ones by itself, but for the bytes that begin a part."""
        size, of = planned.size, self.spec.parts
        if planned.target_key != self._archive:
            self._archive, self._archives = planned.target_key, self._archives + 1
        if data_path(self.spec) == "copy" and size >= rules.STREAM_THRESHOLD:
            parts = -(-size // (of.part_size or rules.ARCHIVE_COPY_PART))
            self._requests["UploadPartCopy"] += parts
            self._requests["HeadObject"] += 1  # for the checksum that proves the copy
            size = rules.LEAST_PART
        else:
            parts = rules.count_parts(size, inside=False, part_size=of.part_size)
        self._parallel += parts
        self._assembled += size
        self._stream(size, 1 if size <= rules.LEAST_PART else parts)

    def _uploads_of_archives(self) -> Counter[str]:
        """Uploads of archives, whose members are counted already, each with its index."""
        part = self.spec.parts.part_size or rules.ARCHIVE_PART
        found = Counter[str]()
        for name, count in rules.multipart_requests(1, inside=False).items():
            found[name] = count * self._archives
        found["UploadPart"] = max(self._archives, -(-self._assembled // part))
        found["PutObject"] = self._archives
        return found if self._archives else Counter()

    def _unpack(self, size: int) -> None:
        """A member that becomes an object or a file. The storage copies large ones by itself, out of the archive."""
        of = self.spec.parts
        least = rules.STREAM_PART if of.copy_threshold is None else of.copy_threshold
        if data_path(self.spec) == "copy" and size > least:
            copies = rules.count_parts(size, inside=True, part_size=of.part_size, threshold=0)
            self._requests += rules.multipart_requests(copies, inside=True)
            self._parallel += copies
            return
        parts = rules.count_parts(size, inside=False, part_size=of.part_size)
        self._parallel += parts
        if size <= rules.SHARED_MEMBER:
            self._shared += size
            self._streamed += size
        else:
            self._stream(size, parts)
        if isinstance(self.spec.target, S3Location):
            self._requests += rules.upload_requests(parts, inside=False)

    def _stream(self, size: int, reads: int) -> None:
        self._streamed += size
        if isinstance(self.spec.source, S3Location):
            self._requests["GetObject"] += reads

    def _duration(
        self, requests: Counter[str], earlier: Iterable[Status], max_bandwidth: int | None
    ) -> tuple[float, str]:
        writes = sum(count for name, count in requests.items() if name in rules.WRITES) / _WRITES_PER_SECOND
        if rates := _earlier_rates(self.spec, earlier):
            rate, based_on = sum(rates) / len(rates), f"the rate of {len(rates)} earlier between the same places"
            if max_bandwidth and data_path(self.spec) != "copy" and max_bandwidth < rate:
                rate, based_on = float(max_bandwidth), "--max-bandwidth"
            return max(self.bytes / rate, writes), based_on
        inside = (self.bytes - self._streamed) / (_PART_COPY_RATE * max(1, min(self._parallel, _WRITES_PER_SECOND)))
        is_limited = bool(max_bandwidth) and max_bandwidth < _STREAM_RATE
        through = self._streamed / (max_bandwidth if max_bandwidth and is_limited else _STREAM_RATE)
        if data_path(self.spec) == "copy" and inside >= through:
            based_on = "75 MiB/s for each copy inside S3, and 3,500 writes per second"
        else:
            based_on = "--max-bandwidth" if is_limited else "10 Gb/s through this machine, and 3,500 writes per second"
        return max(inside, through, writes), based_on


def _earlier_rates(spec: ResolvedSpec, earlier: Iterable[Status]) -> list[float]:
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
