"""What most tests of transfers begin with: two buckets on a server, a service, and a worker when it is wanted."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from control import spec_on, until_ended
from mirror import digests, fill, open_uploads

from seqferry.model.models import Status, TransferSpec
from seqferry.service.service import Service
from seqferry.workflows.worker import Worker
from support.servers import S3Server


@dataclass(frozen=True)
class Ferry:
    """Copies from ``run/`` in the source bucket, unless told otherwise.

    Attributes:
        server: on which objects are put and looked at.
        reached: the same as the service reaches it; a fault proxy may be in between.
        start_worker: starts one that ends with the test.
    """

    service: Service
    server: S3Server
    reached: S3Server
    source: str
    target: str
    rng: random.Random
    start_worker: Callable[[Service], Worker]

    def fill(self, sizes: Mapping[str, int]) -> None:
        """Objects of random content in the source bucket."""
        fill(self.server, self.source, sizes, self.rng)

    def spec(self, source: str = "run/", target: str = "in/", **options: Any) -> TransferSpec:
        return spec_on(self.reached, f"s3://{self.source}/{source}", f"s3://{self.target}/{target}", **options)

    def work(self) -> None:
        """Start a worker in this process."""
        self.start_worker(self.service)

    def submit(self, source: str = "run/", target: str = "in/", **options: Any) -> str:
        return self.service.submit(self.spec(source, target, **options), actor="ada")

    def until_ended(self, transfer_id: str) -> Status:
        return until_ended(self.service, transfer_id)

    def carry(self, source: str = "run/", target: str = "in/", **options: Any) -> tuple[str, Status]:
        """Submit to the worker that is there; the id, and the status once the transfer has ended."""
        transfer_id = self.submit(source, target, **options)
        return transfer_id, self.until_ended(transfer_id)

    def sent(self, prefix: str = "run/") -> dict[str, str]:
        """Digests in the source bucket by what follows ``prefix``."""
        return digests(self.server, self.source, prefix)

    def arrived(self, prefix: str = "in/") -> dict[str, str]:
        """Digests in the target bucket by what follows ``prefix``."""
        return digests(self.server, self.target, prefix)

    def open_uploads(self) -> list[str]:
        """Keys in the target bucket."""
        return open_uploads(self.server, self.target)


FerryFactory = Callable[..., Ferry]
